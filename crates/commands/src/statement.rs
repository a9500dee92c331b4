//! Cost ledgers (CPU ticks by processing stage) as text and as JSON, for hosts and switches.

use serde_json::{Value, json};
use stats::{Costs, Probe, Row, Statement};

/// Returns the statement of `costs` for the time during which accounting was enabled. Measures the
/// cost of one reading of the tick counter, so that the statement can show the cost of the
/// accounting.
pub(crate) fn of(costs: &Costs) -> Statement {
    costs.statement(Probe::measure(clock::tsc::ticks), costs.on_for)
}

fn per(ticks: u64, units: u64) -> f64 {
    ticks as f64 / units.max(1) as f64
}

/// Returns the stages of a statement as JSON objects. The ticks of a stage are divided by `frames`
/// or, if it is `None`, by the stage's own number of units.
pub(crate) fn rows(statement: &Statement, frames: Option<u64>) -> Vec<Value> {
    let key = if frames.is_some() { "ticks_per_frame" } else { "ticks_per_unit" };
    let row = |row: &Row| {
        json!({ "stage": row.stage.word(), "ticks": row.ticks, "units": row.units, "probes": row.probes,
                key: per(row.ticks, frames.unwrap_or(row.units)) })
    };
    statement.rows.iter().map(row).collect()
}

/// Returns the stages, the cost of the counter readings, the unexplained rest, and the total as
/// JSON.
pub(crate) fn json(statement: &Statement, frames: Option<u64>) -> Value {
    let mut value = json!({
        "stages": rows(statement, frames), "ticks": statement.explained(), "readings": statement.readings,
        "probes": statement.probes, "unexplained": statement.unexplained, "total": statement.total,
    });
    if let (Some(object), Some(frames)) = (value.as_object_mut(), frames) {
        object.insert("frames".to_owned(), frames.into());
    }
    value
}

/// Returns a line of the table: name, ticks, units, ticks per unit or frame, share of the total.
fn line(name: &str, ticks: i64, units: Option<u64>, frames: Option<u64>, total: u64) -> String {
    let share = 100.0 * ticks as f64 / total.max(1) as f64;
    let each = units.map(|units| format!("{:.1}", ticks as f64 / frames.unwrap_or(units).max(1) as f64));
    let units = units.map(|units| units.to_string());
    format!("{name:<26} {ticks:>14} {:>12} {:>12} {share:>6.1}%\n", units.unwrap_or_default(), each.unwrap_or_default())
}

/// Returns the lines of stages that are parts of other stages.
pub(crate) fn parts(statement: &Statement, frames: Option<u64>, total: u64) -> String {
    let of = |row: &Row| line(&format!("  {}", row.stage.word()), row.ticks as i64, Some(row.units), frames, total);
    statement.rows.iter().map(of).collect()
}

/// Returns the table: the stages, the cost of the counter readings, the unexplained rest, and the
/// total.
pub(crate) fn text(statement: &Statement, frames: Option<u64>) -> String {
    let Statement { rows, readings, probes, total, unexplained } = statement;
    let each = if frames.is_some() { "ticks/frame" } else { "ticks/unit" };
    let mut out = format!("{:<26} {:>14} {:>12} {each:>12} {:>7}\n", "stage", "ticks", "units", "share");
    for row in rows {
        out += &line(row.stage.word(), row.ticks as i64, Some(row.units), frames, *total);
    }
    out += &line("readings of the counter", *probes as i64, Some(*readings), frames, *total);
    out += &line("unexplained", *unexplained, None, frames, *total);
    out + &line("total", *total as i64, None, frames, *total)
}
