//! `linerate gate`: compares a run with a baseline and sets an exit code, for use in CI.
//!
//! The change of a row is a ratio; above 1 is better. The limit is `1 / (1 + tolerance)`. A row is
//! `slower` if in every run the whole interval of its change lies below the limit. It `holds` if in
//! at least one run the whole interval lies above the limit. Otherwise it is `unclear`, and more
//! trials are needed. Figures of two runs share no rounds ([`Change::between_runs`]), so a slower
//! row must be confirmed by a second run before it is reported as a regression.
//!
//! Rows are not judged on a different or busy machine, in a different kind of build, or if the
//! noise floor exceeds the tolerance. Other differences from the baseline, such as the revision,
//! are notes.

use crate::result::{Better, Change, Figure, Report, Times};
use crate::table;
use crate::verdict::NoiseFloor;
use serde::Serialize;
use std::fmt::Write;

/// Result of comparing a run with its baseline; the discriminant is the exit code.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Outcome {
    /// No row of the baseline is slower by more than the tolerance.
    Fine = 0,
    /// A row is slower in each of two or more runs.
    Regression = 1,
    /// A row is unclear or gone, slower in a single run, or there are no rows.
    Inconclusive = 2,
    /// The machine cannot be compared with this baseline: different, busy or too noisy.
    Unfit = 3,
}

/// Verdict on a row.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Says {
    /// Not slower than the baseline by more than the tolerance.
    Holds,
    /// Slower than the baseline by more than the tolerance.
    Slower,
    /// The interval contains the limit, or the runs disagree.
    Unclear,
    /// No figure in this run, or a figure in another unit than the baseline's.
    Gone,
    /// The baseline has no figure for this row.
    New,
}

/// A row of the baseline compared with the same row of the last run.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Finding {
    /// Identifier of the row.
    pub id: String,
    /// Figure of the row in the baseline; `None` if it has none.
    pub before: Option<Figure>,
    /// Figure of the row in the last run; `None` if it has none.
    pub now: Option<Figure>,
    /// Ratio of the last run to the baseline; above 1 is better.
    pub change: Option<Times>,
    /// Verdict on this row.
    pub says: Says,
}

/// Comparison of one or more runs with a baseline.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Gate {
    /// Overall result of all rows.
    pub outcome: Outcome,
    /// Tolerated slowdown, in per cent.
    pub tolerance: f64,
    /// Reasons why the machine is unfit; empty if it is fit.
    pub unfit: Vec<String>,
    /// Differences from the baseline that do not prevent the comparison, and warnings of the
    /// baseline.
    pub notes: Vec<String>,
    /// Findings for the rows of the baseline, then for the rows that only the runs have.
    pub rows: Vec<Finding>,
}

/// Returns which direction is better in a unit: less for costs and times, more for rates.
pub fn better(unit: &str) -> Better {
    let rate = unit.ends_with("/s") || unit.starts_with("times") || unit == "x";
    if rate { Better::More } else { Better::Less }
}

/// Compares `runs` of the same measurement with `baseline`, tolerating a slowdown of `tolerance`
/// per cent. Without runs every row is [`Says::Gone`].
pub fn judge(baseline: &Report, runs: &[Report], tolerance: f64) -> Gate {
    let unfit: Vec<String> = runs.iter().flat_map(|run| unfit(baseline, run, tolerance)).collect();
    let of = |row: &crate::result::Row| finding(&row.id, row.now.as_ref(), runs, tolerance);
    let mut rows: Vec<Finding> = baseline.rows.iter().map(of).collect();
    let last = runs.last().map(|run| run.rows.as_slice()).unwrap_or_default();
    rows.extend(last.iter().filter(|row| baseline.row(&row.id).is_none()).map(of_new));
    let any = |says: Says| rows.iter().any(|row| row.says == says);
    let outcome = match () {
        () if !unfit.is_empty() => Outcome::Unfit,
        // One run is not enough: another process may have used the machine.
        () if any(Says::Slower) && runs.len() > 1 => Outcome::Regression,
        () if any(Says::Slower) || any(Says::Unclear) || any(Says::Gone) || rows.is_empty() => Outcome::Inconclusive,
        () => Outcome::Fine,
    };
    let mut notes: Vec<String> = Vec::new();
    for note in runs.iter().flat_map(|run| notes_of(baseline, run)) {
        if !notes.contains(&note) {
            notes.push(note);
        }
    }
    Gate { outcome, tolerance, unfit, notes, rows }
}

/// Returns the differences between a run and the baseline in kernel, build and revision, rows whose
/// title changed, and the baseline's warnings.
fn notes_of(baseline: &Report, run: &Report) -> Vec<String> {
    let origins = run.env.origin().into_iter().zip(baseline.env.origin());
    let origins = origins.filter(|((name, now), (_, before))| *name != "machine" && now != before);
    let origins = origins.map(|((name, now), (_, before))| format!("{name} differs: {now}; baseline: {before}"));
    let title = |row: &crate::result::Row| {
        let before = baseline.row(&row.id).filter(|before| before.title != row.title)?;
        Some(format!("row {}: title '{}', in the baseline '{}'", row.id, row.title, before.title))
    };
    let weak = baseline.env.warnings().into_iter();
    let weak = weak.filter_map(|text| Some(format!("baseline: {}", text.strip_prefix("WARNING: ")?)));
    origins.chain(run.rows.iter().filter_map(title)).chain(weak).collect()
}

fn of_new(row: &crate::result::Row) -> Finding {
    Finding { id: row.id.clone(), before: None, now: row.now.clone(), change: None, says: Says::New }
}

/// Returns the reasons why a run cannot be compared with the baseline.
fn unfit(baseline: &Report, run: &Report, tolerance: f64) -> Vec<String> {
    let (before, now) = (&baseline.env, &run.env);
    let floor = run.noise_floor.percent();
    let ticks = before.tsc_hz.abs_diff(now.tsc_hz) as f64 / before.tsc_hz.max(1) as f64;
    let checks = [
        (before.cpu != now.cpu, format!("cpu differs: {}; baseline: {}", now.cpu, before.cpu)),
        (before.cores != now.cores, format!("processors differ: {}; baseline: {}", now.cores, before.cores)),
        (
            (&before.build.opt_level, before.build.debug_assertions)
                != (&now.build.opt_level, now.build.debug_assertions),
            "opt-level or debug assertions of the build differ from the baseline".to_owned(),
        ),
        (ticks > 0.01, format!("TSC rate differs: {} Hz; baseline: {} Hz", now.tsc_hz, before.tsc_hz)),
        (
            floor > tolerance,
            format!(
                "the noise floor of {floor:.1} % exceeds the tolerance of {tolerance} %: repeat on an idle machine, or raise --tolerance"
            ),
        ),
    ];
    let differs = checks.into_iter().filter_map(|(is_so, why)| is_so.then_some(why));
    let weak = now.warnings().into_iter().filter_map(|text| text.strip_prefix("WARNING: ").map(str::to_owned));
    differs.chain(weak).collect()
}

fn finding(id: &str, before: Option<&Figure>, runs: &[Report], tolerance: f64) -> Finding {
    let now = |run: &Report| run.row(id).and_then(|row| row.now.clone());
    let last = runs.last().and_then(now);
    let Some(before) = before else {
        let says = if last.is_some() { Says::New } else { Says::Holds };
        return Finding { id: id.to_owned(), before: None, now: last, change: None, says };
    };
    let figures: Option<Vec<Figure>> = runs.iter().map(|run| now(run).filter(|now| now.unit == before.unit)).collect();
    let changes: Option<Vec<Times>> = runs.iter().map(|run| change(before, &now(run)?, &run.noise_floor)).collect();
    let says = match (&figures, &changes) {
        (Some(figures), _) if figures.is_empty() => Says::Gone,
        (None, _) => Says::Gone,
        (_, Some(changes)) => says(changes, tolerance),
        (Some(figures), None) => apart(before, figures),
    };
    let change = changes.and_then(|changes| changes.last().copied());
    Finding { id: id.to_owned(), before: Some(before.clone()), now: last, change, says }
}

fn change(before: &Figure, now: &Figure, floor: &NoiseFloor) -> Option<Times> {
    let change = Change::between_runs(before, now, better(&before.unit), floor)?;
    Some(Times { median: change.ratio, lo: change.lo, hi: change.hi, n: change.n })
}

fn says(changes: &[Times], tolerance: f64) -> Says {
    let least = 1.0 / (1.0 + tolerance / 100.0);
    if changes.iter().all(|change| change.hi < least) {
        Says::Slower
    } else if changes.iter().any(|change| change.lo >= least) {
        // One run that is as fast as the baseline is enough, since slower code is slower in every
        // run.
        Says::Holds
    } else {
        Says::Unclear
    }
}

/// Compares figures around zero, which have no ratio (such as the extra cost of one variant over
/// another): slower if the intervals do not overlap.
fn apart(before: &Figure, figures: &[Figure]) -> Says {
    let worse = |now: &Figure| match better(&before.unit) {
        Better::Less => now.lo > before.hi,
        Better::More => now.hi < before.lo,
    };
    if figures.iter().all(worse) { Says::Slower } else { Says::Holds }
}

impl Gate {
    /// Returns whether another run could settle a row that is slower or unclear.
    pub fn wants_another_run(&self) -> bool {
        matches!(self.outcome, Outcome::Regression | Outcome::Inconclusive)
            && self.rows.iter().any(|row| matches!(row.says, Says::Slower | Says::Unclear))
    }

    /// Formats the result as one JSON object.
    ///
    /// # Errors
    /// None in practice: the structure always serializes.
    pub fn to_json(&self) -> serde_json::Result<String> {
        serde_json::to_string_pretty(self).map(|text| text + "\n")
    }

    /// Formats the result as text: a line for each row, the reasons, and the outcome.
    pub fn text(&self) -> String {
        let figure = |figure: &Option<Figure>| {
            figure.as_ref().map_or("-".to_owned(), |of| table::spread([of.median, of.lo, of.hi], of.n, table::number))
        };
        let mut lines = vec![["row", "before", "now", "unit", "change", ""].map(str::to_owned).to_vec()];
        for row in &self.rows {
            let change =
                row.change.map_or("-".to_owned(), |of| table::spread([of.median, of.lo, of.hi], of.n, table::times));
            let unit = row.before.as_ref().or(row.now.as_ref()).map(|of| of.unit.clone()).unwrap_or_default();
            let says = format!("{:?}", row.says).to_lowercase();
            lines.push(vec![row.id.clone(), figure(&row.before), figure(&row.now), unit, change, says]);
        }
        let mut text = table::columns(&lines);
        for note in &self.notes {
            let _ = writeln!(text, "note: {note}");
        }
        for why in &self.unfit {
            let _ = writeln!(text, "unfit: {why}");
        }
        let _ = writeln!(text, "{}", self.sentence());
        text
    }

    fn sentence(&self) -> String {
        let ids = |says: Says| {
            let of: Vec<&str> = self.rows.iter().filter(|row| row.says == says).map(|row| row.id.as_str()).collect();
            of.join(", ")
        };
        let borne = self.tolerance;
        match self.outcome {
            Outcome::Fine => format!("fine: no row is more than {borne} % slower"),
            Outcome::Regression => format!("regression: more than {borne} % slower: {}", ids(Says::Slower)),
            Outcome::Inconclusive => {
                let (unclear, gone) = (ids(Says::Unclear), ids(Says::Gone));
                let parts = [("slower, in one run only", ids(Says::Slower)), ("unclear", unclear), ("gone", gone)];
                let parts: Vec<String> = parts
                    .into_iter()
                    .filter(|(_, of)| !of.is_empty())
                    .map(|(word, of)| format!("{word}: {of}"))
                    .collect();
                format!("inconclusive: {}; repeat with more trials (--rounds), or add a run", parts.join("; "))
            }
            Outcome::Unfit => "unfit: this machine cannot be compared with the baseline now".to_owned(),
        }
    }
}

#[cfg(test)]
mod tests;
