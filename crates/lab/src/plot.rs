//! A report as a picture: one line for each row and peer, a dot at the median, a stroke over the 95 % interval.
//!
//! Figures of one unit share a panel and its axis; a peer stands under its row. The value of the original report (`then`) is
//! a hollow diamond where it is of the same unit, and words where it is not. Every text has a place of its own: labels left, values right, so none can overlap, whatever the
//! figures are. [`Chart::of`] chooses what is drawn, [`scale`] where, [`svg`] writes it; rows of a [`sweep`] are curves. Lengths are in SVG user units.

use crate::result::{Figure, Peer, Report, Row};
use crate::table;
use lines::LineChart;

pub mod lines;
pub mod scale;
pub mod svg;
pub mod sweep;

pub use scale::Axis;

/// What is drawn.
#[derive(Debug, Clone, PartialEq)]
pub struct Chart {
    /// Above everything.
    pub title: String,
    /// One for each unit, in the order of the rows.
    pub panels: Vec<Panel>,
    /// Curves under the panels, in place of the rows that they are made of.
    pub curves: Vec<LineChart>,
    /// Below everything.
    pub foot: String,
}

/// All figures of one unit.
#[derive(Debug, Clone, PartialEq)]
pub struct Panel {
    /// The unit.
    pub unit: String,
    /// Its axis.
    pub axis: Axis,
    /// The lines from top to bottom.
    pub lines: Vec<Line>,
}

/// Who a line is about.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Whose {
    /// A row of ours.
    Ours,
    /// Somebody else's.
    Peers,
}

/// One figure.
#[derive(Debug, Clone, PartialEq)]
pub struct Line {
    /// On the left.
    pub label: String,
    /// Ours or a peer's.
    pub whose: Whose,
    /// Where the dot stands.
    pub median: f64,
    /// Where the stroke begins.
    pub lo: f64,
    /// Where it ends.
    pub hi: f64,
    /// Where the diamond stands.
    pub then: Option<f64>,
    /// On the right.
    pub value: String,
}

impl Chart {
    /// The chart of a report, on a logarithmic axis where a panel's values differ by more than 20 times, unless `axis` says.
    pub fn of(report: &Report, axis: Option<Axis>) -> Chart {
        let mut panels: Vec<Panel> = Vec::new();
        for row in report.rows.iter().filter(|row| !sweep::is_point(report, row)) {
            if let Some(now) = &row.now {
                panel(&mut panels, &now.unit).lines.push(row_line(row, now));
            }
            for peer in report.peers.iter().filter(|peer| peer.row == row.id) {
                panel(&mut panels, &peer.now.unit).lines.push(peer_line(peer));
            }
        }
        for peer in report.peers.iter().filter(|peer| report.row(&peer.row).is_none()) {
            panel(&mut panels, &peer.now.unit).lines.push(peer_line(peer));
        }
        for panel in &mut panels {
            panel.axis = axis.unwrap_or_else(|| scale::fitting(&panel.values()));
        }
        let foot = format!("{}{}, {}", key(&panels), report.env.cpu, report.env.build.git_rev);
        Chart { title: report.name.clone(), panels, curves: sweep::of(report), foot }
    }
}

impl Panel {
    /// Everything that must find a place on the axis.
    pub fn values(&self) -> Vec<f64> {
        self.lines
            .iter()
            .flat_map(|line| [Some(line.lo), Some(line.median), Some(line.hi), line.then])
            .flatten()
            .collect()
    }
}

/// What the marks mean: those that are there.
fn key(panels: &[Panel]) -> String {
    let any = |is_there: fn(&Line) -> bool| panels.iter().flat_map(|panel| &panel.lines).any(is_there);
    let marks =
        [("dot: median; stroke: 95 % interval", any(|_| true)), ("diamond: then", any(|line| line.then.is_some()))];
    let marks: Vec<&str> = marks.into_iter().filter(|(_, there)| *there).map(|(mark, _)| mark).collect();
    if marks.is_empty() { String::new() } else { format!("{}.  ", marks.join("; ")) }
}

fn panel<'a>(panels: &'a mut Vec<Panel>, unit: &str) -> &'a mut Panel {
    let place = panels.iter().position(|panel| panel.unit == unit).unwrap_or_else(|| {
        panels.push(Panel { unit: unit.to_owned(), axis: Axis::Linear, lines: Vec::new() });
        panels.len() - 1
    });
    &mut panels[place]
}

fn row_line(row: &Row, now: &Figure) -> Line {
    let then = row.then.as_ref().filter(|then| then.unit == now.unit).map(|then| then.median);
    // In another unit it has no place on this axis: the figure says its own.
    let beside = row.then.as_ref().map_or(String::new(), |report| {
        let unit = if then.is_some() { String::new() } else { format!(" {}", report.unit) };
        format!("  then {}{unit}", table::number(report.median))
    });
    let label = if row.title.is_empty() { row.id.clone() } else { row.title.clone() };
    line(label, Whose::Ours, now, then, beside)
}

fn peer_line(peer: &Peer) -> Line {
    let name = peer.id.strip_suffix(&format!(".{}", peer.row)).unwrap_or(&peer.id);
    let beside = match peer.ratio.map(|ratio| ratio.median) {
        Some(better) if better < 1.0 => format!("  ours {} worse", table::times(better.recip())),
        Some(better) => format!("  ours {} better", table::times(better)),
        None => format!("  {}", table::TWO_STATES),
    };
    line(format!("  {name}"), Whose::Peers, &peer.now, None, beside)
}

fn line(label: String, whose: Whose, figure: &Figure, then: Option<f64>, beside: String) -> Line {
    let value = format!("{}{beside}", table::number(figure.median));
    Line { label, whose, median: figure.median, lo: figure.lo, hi: figure.hi, then, value }
}

#[cfg(test)]
mod tests;
