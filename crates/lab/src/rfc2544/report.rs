//! Output of RFC 2544 results: the RFC's tables, a chart, and notes on weak figures.

use super::search::{Bound, Tried};
use super::{Results, SizeResult, frames};
use crate::env::Environment;
use crate::plot::{Axis, Chart, Line, Panel, Whose};
use crate::result::{Cell, Sheet};
use crate::table;
use serde::Serialize;

/// Rows of a table.
type Rows = Vec<Vec<Cell>>;

/// Results with the machine they were measured on.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Report {
    /// The machine, kernel and build.
    pub env: Environment,
    /// Warnings about this machine.
    pub warnings: Vec<String>,
    /// The results, flattened into this object in JSON.
    #[serde(flatten)]
    pub results: Results,
}

impl Report {
    /// Returns the report of `results`, measured on `env`.
    pub fn of(env: Environment, results: Results) -> Report {
        Report { warnings: env.warnings(), env, results }
    }
}

/// Formats the report as text: tables, then notes.
pub fn render(report: &Report) -> String {
    let Report { env, results, .. } = report;
    let Results { dut, ports: [a, b], ways, .. } = results;
    let ways = if *ways == 2 { "both directions at once; rates are per direction" } else { "from A to B" };
    let mut text = format!("rfc2544\n\n{env}\ndevice: {dut}\nports: A {a}, B {b}; {ways}\n");
    text += &sheets(results).iter().map(table::sheet).collect::<String>();
    text.push('\n');
    text += &notes(results).iter().map(|note| format!("note: {note}\n")).collect::<String>();
    text += &results.cut.iter().map(|cut| format!("cut short: {cut}\n")).collect::<String>();
    text
}

/// Returns the tables that have rows.
pub fn sheets(results: &Results) -> Vec<Sheet> {
    let max = if results.max_is_the_testers { "% of tester's max" } else { "% of max" };
    let tables: [(&str, Vec<&str>, Rows); 4] = [
        (
            "throughput (26.1): the highest rate without loss",
            vec!["bytes", "frames/s", max, "Mbit/s", "trials", "warning"],
            rows(results, throughput_row),
        ),
        (
            "latency (26.2) at the rate of the throughput test, in ns",
            vec!["bytes", "frames/s", "min", "median", "p99", "max", "frames", "lost"],
            rows(results, latency_row),
        ),
        (
            "frame loss rate (26.3)",
            vec!["bytes", "% of max", "frames/s", "sent/s", "frames sent", "lost", "% lost"],
            results.sizes.iter().flat_map(loss_rows).collect(),
        ),
        (
            "back-to-back frames (26.4)",
            vec!["bytes", "frames/s", "frames", "least", "most", "times", "warning"],
            rows(results, burst_row),
        ),
    ];
    let tables = tables.into_iter().filter(|(_, _, rows)| !rows.is_empty());
    tables.map(|(title, head, rows)| sheet(title, &head, rows)).collect()
}

fn sheet(title: &str, head: &[&str], rows: Rows) -> Sheet {
    Sheet { title: title.to_owned(), head: head.iter().map(|&word| word.to_owned()).collect(), rows }
}

fn rows(results: &Results, row: fn(&SizeResult) -> Option<Vec<Cell>>) -> Rows {
    results.sizes.iter().filter_map(row).collect()
}

/// Returns the rate in Mbit/s, counting frames with FCS, without preamble and gap (RFC 2544 26.1).
fn mbits(size: usize, rate: u64) -> f64 {
    rate as f64 * size as f64 * 8.0 / 1e6
}

fn throughput_row(result: &SizeResult) -> Option<Vec<Cell>> {
    let found = result.throughput.as_ref()?;
    let warning = match found.bound {
        Bound::Found if result.contradiction.is_some() => "trials disagree",
        Bound::Found => "",
        Bound::Line => "the highest rate",
        Bound::AtLeast => "lower bound: the tester sends no faster",
        Bound::Never => "frames were lost at every rate tried",
    };
    let percent = found.rate as f64 * 100.0 / found.max.max(1) as f64;
    let (size, trials) = (result.size as u64, found.trials.len() as u64);
    let mbits = mbits(result.size, found.rate);
    Some(vec![size.into(), found.rate.into(), percent.into(), mbits.into(), trials.into(), warning.into()])
}

fn latency_row(result: &SizeResult) -> Option<Vec<Cell>> {
    let taken = result.latency.as_ref()?;
    let [min, median, p99, max] = [taken.min_ns, taken.median_ns, taken.p99_ns, taken.max_ns];
    let figures = [result.size as u64, taken.rate, min, median, p99, max, taken.frames, taken.lost];
    Some(figures.map(Cell::from).into())
}

fn loss_rows(result: &SizeResult) -> Rows {
    let row = |tried: &Tried| {
        let percent = (tried.requested as f64 * 100.0 / result.max.max(1) as f64).round() as u64;
        let counts = [result.size as u64, percent, tried.requested, tried.reached, tried.sent, tried.lost];
        counts.map(Cell::from).into_iter().chain([Cell::from(tried.loss_percent())]).collect()
    };
    result.loss.iter().flatten().map(row).collect()
}

fn burst_row(result: &SizeResult) -> Option<Vec<Cell>> {
    let found = result.back_to_back.as_ref()?;
    let (least, most) = (*found.bursts.iter().min()?, *found.bursts.iter().max()?);
    let warning = match (found.at_rate, least >= found.most) {
        (false, _) => "the tester missed the rate: indication only",
        (true, true) => "lower bound: the longest burst tried",
        (true, false) => "",
    };
    let (size, times) = (result.size as u64, found.bursts.len() as u64);
    let average = found.average().round() as u64;
    Some(vec![size.into(), found.rate.into(), average.into(), least.into(), most.into(), times.into(), warning.into()])
}

/// Returns the notes and warnings on the results.
pub fn notes(results: &Results) -> Vec<String> {
    let mut notes = vec![format!(
        "sizes include the FCS ({} bytes), which is not sent through ports; Mbit/s exclude preamble and gap; \
         trials of {} s, {} s for late frames, resolution {:.3} %",
        frames::FCS,
        results.duration_s,
        results.drain_s,
        results.resolution * 100.0
    )];
    if results.max_is_the_testers {
        notes.push("the highest rate is that of this tester without pacing; --max-rate sets the rate of a line".into());
    }
    let odds = &results.odds;
    if odds.bursts > 0 {
        let mean = odds.sent as f64 / odds.bursts as f64;
        let longest = odds.longest_burst;
        notes.push(format!(
            "spacing: frames due at the same time were sent in bursts, {mean:.1} on average, {longest} at most"
        ));
    }
    let seen = [
        (odds.reordered, "test frames arrived out of order"),
        (odds.duplicates, "test frames arrived more than once, or too late to check for duplicates"),
        (odds.others, "frames received were not test frames of their trial; they were not counted"),
        (odds.refused, "frames did not fit into the ring of the device, and are counted as lost"),
        (odds.starved, "times the tester had no buffer for a frame"),
    ];
    notes.extend(seen.iter().filter(|(count, _)| *count > 0).map(|(count, what)| format!("{count} {what}")));
    let short = |result: &&SizeResult| {
        let tried = result.loss.iter().flatten().any(|tried| tried.is_short(results.resolution));
        tried || result.throughput.as_ref().is_some_and(|found| found.bound == Bound::AtLeast)
    };
    if results.sizes.iter().any(|result| short(&result)) {
        notes.push("WARNING: the tester did not reach every rate; such figures are lower bounds for the device".into());
    }
    for result in &results.sizes {
        let Some(odd) = &result.contradiction else { continue };
        notes.push(format!(
            "WARNING: {} bytes: trials contradict each other: {} of {} frames lost at {} per second, none at {}: something \
             disturbs the device or the tester, and the rate found is not reliable",
            result.size, odd.slower.lost, odd.slower.sent, odd.slower.reached, odd.faster.reached
        ));
    }
    notes
}

/// Returns the chart: throughput by size, and latency from the minimum to the 99th percentile.
pub fn chart(results: &Results) -> Chart {
    let line = |size: usize, [lo, median, hi]: [f64; 3]| Line {
        label: format!("{size} bytes"),
        whose: Whose::Ours,
        median,
        lo,
        hi,
        then: None,
        value: table::number(median),
    };
    let rates = results.sizes.iter().filter_map(|result| {
        let rate = result.throughput.as_ref()?.rate as f64;
        Some(line(result.size, [rate; 3]))
    });
    let times = results.sizes.iter().filter_map(|result| {
        let taken = result.latency.as_ref()?;
        Some(line(result.size, [taken.min_ns, taken.median_ns, taken.p99_ns].map(|ns| ns as f64)))
    });
    let panels = [("frames/s without loss", rates.collect::<Vec<_>>()), ("ns", times.collect())];
    let panels = panels.into_iter().filter(|(_, lines)| !lines.is_empty()).map(|(unit, lines)| {
        let mut panel = Panel { unit: unit.to_owned(), axis: Axis::Linear, lines };
        panel.axis = crate::plot::scale::fitting(&panel.values());
        panel
    });
    let foot = "latency: dot median, stroke from the shortest to p99; sizes include the FCS".to_owned();
    Chart { title: format!("rfc2544: {}", results.dut), panels: panels.collect(), curves: Vec::new(), foot }
}
