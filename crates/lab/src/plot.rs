//! A report as a chart: one line for each row and peer, a dot at the median, a stroke over the 95 %
//! interval.
//!
//! Figures of one unit share a panel and its axis; a peer is drawn under its row. The value of the
//! original report (`then`) is a hollow diamond if it has the same unit, and text otherwise. Labels
//! are on the left and values on the right, so that texts never overlap. [`Chart::of`] selects what
//! is drawn, [`scale`] computes positions, and [`svg`] writes the output; rows of a [`sweep`] are
//! drawn as curves. Lengths are in SVG user units.

use crate::result::{Figure, Peer, Report, Row};
use crate::table;
use lines::LineChart;

pub mod lines;
pub mod scale;
pub mod svg;
pub mod sweep;

pub use scale::Axis;

/// The content of a chart.
#[derive(Debug, Clone, PartialEq)]
pub struct Chart {
    /// Title, at the top.
    pub title: String,
    /// One panel for each unit, in the order of the rows.
    pub panels: Vec<Panel>,
    /// Curves under the panels, which replace the lines of their rows.
    pub curves: Vec<LineChart>,
    /// Footer, at the bottom.
    pub foot: String,
}

/// All figures of one unit.
#[derive(Debug, Clone, PartialEq)]
pub struct Panel {
    /// Unit that all figures of the panel have.
    pub unit: String,
    /// Horizontal axis of the panel.
    pub axis: Axis,
    /// The lines from top to bottom.
    pub lines: Vec<Line>,
}

/// Program that a line's figure was measured on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Whose {
    /// The figure was measured on this project's code.
    Ours,
    /// The figure was measured on another program (a peer).
    Peers,
}

/// One figure of a panel.
#[derive(Debug, Clone, PartialEq)]
pub struct Line {
    /// Label on the left.
    pub label: String,
    /// Program that the figure was measured on.
    pub whose: Whose,
    /// Median, at which the dot is drawn.
    pub median: f64,
    /// Lower end of the interval: the left end of the stroke.
    pub lo: f64,
    /// Upper end of the interval: the right end of the stroke.
    pub hi: f64,
    /// Position of the diamond: the value of the original report, if it has the same unit.
    pub then: Option<f64>,
    /// Text on the right.
    pub value: String,
}

impl Chart {
    /// Returns the chart of a report. Without `axis`, a panel is logarithmic if its values differ
    /// by more than a factor of 20.
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
    /// Returns all values that the axis must cover.
    pub fn values(&self) -> Vec<f64> {
        self.lines
            .iter()
            .flat_map(|line| [Some(line.lo), Some(line.median), Some(line.hi), line.then])
            .flatten()
            .collect()
    }
}

/// Returns the legend of the marks in use.
fn key(panels: &[Panel]) -> String {
    let any = |is_there: fn(&Line) -> bool| panels.iter().flat_map(|panel| &panel.lines).any(is_there);
    let marks = [
        ("dot: median; stroke: 95 % interval", any(|_| true)),
        ("diamond: report (then)", any(|line| line.then.is_some())),
    ];
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
    // A value in another unit is not on this axis and is printed with its unit.
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
