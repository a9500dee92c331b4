//! A report as text: the rows in aligned columns, each with a spark line of its builds and its
//! verdict, followed by the additional tables and texts.
//!
//! Widths are counted in characters; wide East Asian ones would shift a column. There is no colour.

use crate::result::{Cell, Figure, Peer, Report, Row, Sheet};
use crate::sample::Sample;

const SPARKS: [char; 8] = ['▁', '▂', '▃', '▄', '▅', '▆', '▇', '█'];
/// Maximum width of a spark line. More values share characters, which show the greatest of each
/// group.
const SPARK_WIDTH: usize = 20;

/// Formats the whole report: machine, rows, peers, noise floor, dropped trials, notes.
/// A row without trials in [`Report::samples`] (a report from a file) has no spark line.
pub fn render(report: &Report) -> String {
    let samples = report.samples.as_slice();
    let mut text = format!("{}\n\n{}\n", report.name, report.env);
    let rows = report.rows.iter().map(|row| row_cells(row, samples));
    let mut head = ROW_HEAD.map(String::from).to_vec();
    if let Some(baseline) = report.beside.as_ref().and_then(|beside| beside.baseline.as_ref()) {
        head.pop();
        head.push(format!("against {baseline}"));
    }
    text += &aligned(&[head].into_iter().chain(rows).collect::<Vec<_>>(), &ROW_ALIGN);
    if !report.peers.is_empty() {
        let peers = report.peers.iter().map(|peer| peer_cells(peer, samples));
        text.push('\n');
        text +=
            &aligned(&[PEER_HEAD.map(String::from).to_vec()].into_iter().chain(peers).collect::<Vec<_>>(), &PEER_ALIGN);
    }
    let floor = &report.noise_floor;
    if floor.n > 0 {
        text += &format!(
            "\nnoise floor (equal sides, built separately; the largest of this run): {}, n {}: {:.1} %{}\n",
            spread([floor.ratio, floor.lo, floor.hi], floor.n, times),
            floor.n,
            floor.percent(),
            if floor.is_unfit() { ": too large to show a difference" } else { "" }
        );
    }
    text += &report.disturbed.iter().map(|line| format!("{line}\n")).collect::<String>();
    if let Some(beside) = &report.beside {
        text += &beside.sheets.iter().map(sheet).collect::<String>();
        text += &beside.texts.iter().map(|lines| format!("\n{}\n", lines.join("\n"))).collect::<String>();
        text.push('\n');
    }
    text += &report.notes.iter().map(|note| format!("note: {note}\n")).collect::<String>();
    text
}

const ROW_HEAD: [&str; 9] = ["row", "what", "then", "now", "95 %", "unit", "n", "builds", "against the row before"];
const ROW_ALIGN: [Align; 9] = {
    use Align::{Left, Right};
    [Left, Left, Right, Right, Left, Left, Right, Left, Left]
};
const PEER_HEAD: [&str; 8] = ["peer", "now", "95 %", "range", "unit", "n", "builds", "ours is better by"];
const PEER_ALIGN: [Align; 8] = {
    use Align::{Left, Right};
    [Left, Right, Left, Left, Left, Right, Left, Left]
};

fn row_cells(row: &Row, samples: &[Sample]) -> Vec<String> {
    let then = row.then.as_ref().map_or("-".into(), |then| number(then.median));
    let change = row.vs_previous.as_ref().map_or("-".into(), |change| {
        format!("{} {}", spread([change.ratio, change.lo, change.hi], change.n, times), change.verdict)
    });
    let Some(now) = &row.now else {
        let why = row.missing.clone().unwrap_or_default();
        let blank = String::new;
        return vec![row.id.clone(), row.title.clone(), then, "-".into(), blank(), blank(), blank(), blank(), why];
    };
    let [now, interval, unit, n] = figure_cells(now);
    vec![row.id.clone(), row.title.clone(), then, now, interval, unit, n, spark_of(&row.id, samples), change]
}

/// Formats an additional table, which has its own columns: figures right-aligned, text
/// left-aligned.
pub(crate) fn sheet(sheet: &Sheet) -> String {
    let is_figure =
        |column: usize| sheet.rows.iter().all(|row| matches!(row.get(column), Some(Cell::Count(_) | Cell::Number(_))));
    let align = (0..sheet.head.len()).map(|column| if is_figure(column) { Align::Right } else { Align::Left });
    let cell = |cell: &Cell| match cell {
        Cell::Count(count) => count.to_string(),
        Cell::Number(figure) => number(*figure),
        Cell::Text(text) => text.clone(),
    };
    let rows = sheet.rows.iter().map(|row| row.iter().map(cell).collect());
    let lines: Vec<Vec<String>> = std::iter::once(sheet.head.clone()).chain(rows).collect();
    format!("\n{}\n{}", sheet.title, aligned(&lines, &align.collect::<Vec<_>>()))
}

fn peer_cells(peer: &Peer, samples: &[Sample]) -> Vec<String> {
    let [now, interval, unit, n] = figure_cells(&peer.now);
    vec![peer.id.clone(), now, interval, range(&peer.now), unit, n, spark_of(&peer.id, samples), better_by(peer)]
}

/// Formats the least and the greatest value of a build.
pub(crate) fn range(figure: &Figure) -> String {
    figure.range.map_or("-".to_owned(), |[least, most]| format!("{} to {}", number(least), number(most)))
}

/// Formats the ratio of our row to the peer; above 1 if our row is better.
pub(crate) fn better_by(peer: &Peer) -> String {
    peer.ratio.map_or(TWO_STATES.to_owned(), |of| spread([of.median, of.lo, of.hi], of.n, times))
}

/// Text that replaces the ratio to a peer whose builds fall into two groups of values, so that the
/// peer's median has no meaning.
pub(crate) const TWO_STATES: &str = "no ratio: its builds have two states";

fn figure_cells(figure: &Figure) -> [String; 4] {
    let interval = interval(number(figure.lo), number(figure.hi), figure.n);
    [number(figure.median), interval, figure.unit.clone(), figure.n.to_string()]
}

/// Formats a median with its interval from `n` values.
pub(crate) fn spread([middle, lo, hi]: [f64; 3], n: u32, show: impl Fn(f64) -> String) -> String {
    format!("{} {}", show(middle), interval(show(lo), show(hi), n)).trim_end().to_owned()
}

/// Formats a 95 % interval; with fewer than 6 values, the range of the values as `lo..hi`.
pub(crate) fn interval(lo: String, hi: String, n: u32) -> String {
    match n {
        0 | 1 => String::new(),
        2..6 => format!("{lo}..{hi}"),
        _ => format!("[{lo}, {hi}]"),
    }
}

fn spark_of(id: &str, samples: &[Sample]) -> String {
    samples.iter().find(|sample| sample.id == id).map_or(String::new(), |sample| sparkline(&sample.values()))
}

/// Returns a sentence about a sample that was disturbed, failed, was cut short or has outliers.
pub(crate) fn disturbances(sample: &Sample) -> Option<String> {
    let outliers = sample.summary().map_or(0, |summary| summary.outliers);
    let noisy = if sample.noisy { ", NOISY: disturbed trials were kept" } else { "" };
    let cut = sample.cut.as_ref().map_or(String::new(), |why| format!(", fewer rounds than requested: {why}"));
    let failures = match sample.failures.as_slice() {
        [] => String::new(),
        [.., last] => format!(", {} rounds lost by failures (the last: {last})", sample.failures.len()),
    };
    let quiet = sample.dropped.is_empty() && outliers == 0 && !sample.noisy && cut.is_empty() && failures.is_empty();
    let counts = format!("{} trials dropped and replaced, {outliers} outliers kept", sample.dropped.len());
    (!quiet).then(|| format!("{}: {counts}{noisy}{failures}{cut}", sample.id))
}

/// Formats a number with four significant digits, or with all digits before the point if there are
/// more; tiny values in scientific notation.
pub fn number(value: f64) -> String {
    match value.abs() {
        0.0 => "0".into(),
        size if size >= 1000.0 => format!("{value:.0}"),
        size if size >= 100.0 => format!("{value:.1}"),
        size if size >= 10.0 => format!("{value:.2}"),
        size if size >= 0.01 => format!("{value:.3}"),
        _ => format!("{value:.2e}"),
    }
}

/// Formats a ratio: `1.0400x`, `1.25x`, `20.6x`.
pub fn times(ratio: f64) -> String {
    match ratio {
        ratio if ratio >= 10.0 => format!("{ratio:.1}x"),
        ratio if (0.9..1.1).contains(&ratio) => format!("{ratio:.4}x"),
        ratio => format!("{ratio:.2}x"),
    }
}

/// Returns a spark line from the least value (▁) to the greatest (█): all ▁ if they are equal, a
/// space for a value that is not finite.
pub fn sparkline(values: &[f64]) -> String {
    let group = values.len().div_ceil(SPARK_WIDTH).max(1);
    let shown: Vec<f64> = values.chunks(group).map(|chunk| chunk.iter().copied().fold(f64::NAN, f64::max)).collect();
    let (least, most) = shown.iter().fold((f64::INFINITY, f64::NEG_INFINITY), |(lo, hi), v| (lo.min(*v), hi.max(*v)));
    let level = |value: f64| if most > least { (value - least) / (most - least) * 7.0 } else { 0.0 };
    shown.iter().map(|value| if value.is_finite() { SPARKS[level(*value).round() as usize & 7] } else { ' ' }).collect()
}

#[derive(Clone, Copy)]
enum Align {
    Left,
    Right,
}

/// Formats left-aligned columns, two spaces apart, without trailing blanks.
pub(crate) fn columns(rows: &[Vec<String>]) -> String {
    let most = rows.iter().map(Vec::len).max().unwrap_or(0);
    aligned(rows, &vec![Align::Left; most])
}

fn aligned(rows: &[Vec<String>], align: &[Align]) -> String {
    let width = |column: usize| rows.iter().filter_map(|row| row.get(column)).map(|cell| cell.chars().count()).max();
    let widths: Vec<usize> = (0..align.len()).map(|column| width(column).unwrap_or(0)).collect();
    let line = |row: &Vec<String>| {
        // Padded by hand, since a width in a format string is at most 65,535.
        let cells = row.iter().zip(&widths).zip(align).map(|((cell, width), align)| {
            let blanks = " ".repeat(width.saturating_sub(cell.chars().count()));
            match align {
                Align::Left => cell.clone() + &blanks,
                Align::Right => blanks + cell,
            }
        });
        cells.collect::<Vec<_>>().join("  ").trim_end().to_owned() + "\n"
    };
    rows.iter().map(line).collect()
}

#[cfg(test)]
mod tests;
