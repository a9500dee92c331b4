//! Rows of a sweep as curves: the throughput of the reproduction of the report ethpipe2013 against
//! dd's block size, with one chart for each frame size.
//!
//! A row called `read.64.4K` is a point of the curve `read` in the chart of 64-byte frames, at
//! x = 4096 bytes.

use super::Axis;
use super::lines::{Curve, LineChart};
use crate::result::{Report, Row};

/// Name of the report whose rows are drawn as curves.
const REPORT: &str = "repro ethpipe2013";
/// Frame sizes as written in row identifiers; one chart each.
const SETS: [&str; 2] = ["64", "1518"];
/// Curves of a chart: prefix of the row identifiers, and name.
const CURVES: [(&str, &str); 6] = [
    ("read", "read"),
    ("write", "write"),
    ("forward", "forward"),
    ("fuse.read", "read, FUSE"),
    ("fuse.write", "write, FUSE"),
    ("fuse.forward", "forward, FUSE"),
];
const UNIT: &str = "GB/s";

/// Returns the charts of a report's sweeps.
pub fn of(report: &Report) -> Vec<LineChart> {
    if report.name != REPORT {
        return Vec::new();
    }
    let charts = SETS.map(|set| chart(report, set));
    charts.into_iter().filter(|chart| !chart.curves.is_empty()).collect()
}

/// Returns whether a row is a point of a chart.
pub(super) fn is_point(report: &Report, row: &Row) -> bool {
    report.name == REPORT && SETS.iter().any(|set| CURVES.iter().any(|(curve, _)| point(row, curve, set).is_some()))
}

/// Returns a row's point (bytes, GB/s), if the row belongs to `curve` in the chart of frame size
/// `set`.
fn point(row: &Row, curve: &str, set: &str) -> Option<(f64, f64)> {
    let block = row.id.strip_prefix(curve)?.strip_prefix('.')?.strip_prefix(set)?.strip_prefix('.')?;
    let now = row.now.as_ref().filter(|now| now.unit == UNIT)?;
    Some((bytes(block)?, now.median))
}

/// Parses a block size such as `64`, `4K` or `1M` into bytes.
fn bytes(block: &str) -> Option<f64> {
    let (digits, unit) = match block.strip_suffix('K') {
        Some(digits) => (digits, 1024.0),
        None => block.strip_suffix('M').map_or((block, 1.0), |digits| (digits, 1024.0 * 1024.0)),
    };
    digits.parse::<u32>().ok().map(|number| f64::from(number) * unit)
}

fn chart(report: &Report, set: &str) -> LineChart {
    let curve = |(id, label): (&str, &str)| {
        let points: Vec<(f64, f64)> = report.rows.iter().filter_map(|row| point(row, id, set)).collect();
        (!points.is_empty()).then(|| Curve { label: label.to_owned(), points })
    };
    let named = |row: &Row| {
        let (across, _) = CURVES.iter().find_map(|(curve, _)| point(row, curve, set))?;
        Some((across, row.id.rsplit('.').next()?.to_owned()))
    };
    let mut marks: Vec<(f64, String)> = report.rows.iter().filter_map(named).collect();
    marks.sort_by(|a, b| a.0.total_cmp(&b.0));
    marks.dedup();
    LineChart {
        title: format!("Throughput by dd's block size, {set}-byte frames"),
        across: "dd block size, bytes".to_owned(),
        up: "GB/s of text".to_owned(),
        axis: Axis::Log,
        marks,
        curves: CURVES.into_iter().filter_map(curve).collect(),
        foot: vec!["dots: medians; their intervals are in the table".to_owned()],
    }
}

#[cfg(test)]
mod tests;
