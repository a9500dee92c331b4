//! Is it as fast as it was? A run against an earlier one, for who decides about a change without looking: `linerate gate`.
//!
//! A row has got slower if, in each run that is judged, the whole interval of its change lies below what is borne; it holds if the whole
//! interval lies above. Else nobody knows, and more trials would. Figures of two runs share no rounds
//! ([`Change::between_runs`]): so who finds a row slower runs again before he says so.
//!
//! Before any of that: a machine that is another one, is busy, or whose noise floor is wider than what is borne, shows nothing.

use crate::result::{Better, Change, Figure, Report, Times};
use crate::table;
use crate::verdict::NoiseFloor;
use serde::Serialize;
use std::fmt::Write;

/// What it came to, and the exit code for it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Outcome {
    /// Every row holds.
    Fine = 0,
    /// A row has got slower, in every run, of two at least.
    Regression = 1,
    /// Of some row nobody knows.
    Inconclusive = 2,
    /// The machine shows nothing.
    Unfit = 3,
}

/// What is known of a row.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Says {
    /// It is not slower than what is borne.
    Holds,
    /// It is slower than what is borne.
    Slower,
    /// The interval reaches to both sides of what is borne, or its runs differ.
    Unclear,
    /// There is no figure now, or none in that unit.
    Gone,
    /// There was none before: nothing to hold it against.
    New,
}

/// A row, before and now.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Finding {
    /// The row.
    pub id: String,
    /// Before.
    pub before: Option<Figure>,
    /// In the last run.
    pub now: Option<Figure>,
    /// How many times better, in the last run.
    pub change: Option<Times>,
    /// In a word.
    pub says: Says,
}

/// A run against a baseline.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Gate {
    /// What it came to.
    pub outcome: Outcome,
    /// How much slower is borne, in per cent.
    pub tolerance: f64,
    /// Why the machine shows nothing; empty: it does.
    pub unfit: Vec<String>,
    /// Row by row: the baseline's, then new ones.
    pub rows: Vec<Finding>,
}

/// Which way of a unit is better: costs and times are, where less of them is there; what goes by in a second, where more.
pub fn better(unit: &str) -> Better {
    let rate = unit.ends_with("/s") || unit.starts_with("times") || unit == "x";
    if rate { Better::More } else { Better::Less }
}

/// Judges `runs`, of one thing, against `baseline`; up to `tolerance` per cent slower are borne. Without a run everything is gone.
pub fn judge(baseline: &Report, runs: &[Report], tolerance: f64) -> Gate {
    let unfit: Vec<String> = runs.iter().flat_map(|run| unfit(baseline, run, tolerance)).collect();
    let of = |row: &crate::result::Row| finding(&row.id, row.now.as_ref(), runs, tolerance);
    let mut rows: Vec<Finding> = baseline.rows.iter().map(of).collect();
    let last = runs.last().map(|run| run.rows.as_slice()).unwrap_or_default();
    rows.extend(last.iter().filter(|row| baseline.row(&row.id).is_none()).map(of_new));
    let any = |says: Says| rows.iter().any(|row| row.says == says);
    let outcome = match () {
        () if !unfit.is_empty() => Outcome::Unfit,
        // One run alone confirms nothing: a neighbor may have had the machine.
        () if any(Says::Slower) && runs.len() > 1 => Outcome::Regression,
        () if any(Says::Slower) || any(Says::Unclear) || any(Says::Gone) || rows.is_empty() => Outcome::Inconclusive,
        () => Outcome::Fine,
    };
    Gate { outcome, tolerance, unfit, rows }
}

fn of_new(row: &crate::result::Row) -> Finding {
    Finding { id: row.id.clone(), before: None, now: row.now.clone(), change: None, says: Says::New }
}

/// Why a run shows nothing against the baseline.
fn unfit(baseline: &Report, run: &Report, tolerance: f64) -> Vec<String> {
    let (before, now) = (&baseline.env, &run.env);
    let floor = run.noise_floor.percent();
    let ticks = before.tsc_hz.abs_diff(now.tsc_hz) as f64 / before.tsc_hz.max(1) as f64;
    let checks = [
        (before.cpu != now.cpu, format!("another machine: {}, the baseline is of {}", now.cpu, before.cpu)),
        (before.cores != now.cores, format!("{} processors, the baseline had {}", now.cores, before.cores)),
        (ticks > 0.01, format!("{} ticks a second, the baseline had {}", now.tsc_hz, before.tsc_hz)),
        (
            floor > tolerance,
            format!(
                "the noise floor is {floor:.1} %, wider than the {tolerance} % that are borne: a quieter minute, or a larger --tolerance"
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
        // One run that shows it as fast as before is enough: what is slow in the code is slow in every run.
        Says::Holds
    } else {
        Says::Unclear
    }
}

/// Of figures around nought, which have no ratio (what a thing costs more than another): worse if the intervals do not touch.
fn apart(before: &Figure, figures: &[Figure]) -> Says {
    let worse = |now: &Figure| match better(&before.unit) {
        Better::Less => now.lo > before.hi,
        Better::More => now.hi < before.lo,
    };
    if figures.iter().all(worse) { Says::Slower } else { Says::Holds }
}

impl Gate {
    /// Is a row slower, or unclear: would another run say more?
    pub fn wants_another_run(&self) -> bool {
        matches!(self.outcome, Outcome::Regression | Outcome::Inconclusive)
            && self.rows.iter().any(|row| matches!(row.says, Says::Slower | Says::Unclear))
    }

    /// One JSON object.
    ///
    /// # Errors
    /// None that can occur.
    pub fn to_json(&self) -> serde_json::Result<String> {
        serde_json::to_string_pretty(self).map(|text| text + "\n")
    }

    /// For people: a line for each row, what it came to, why.
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
                let parts = [("slower, in one run alone", ids(Says::Slower)), ("unclear", unclear), ("gone", gone)];
                let parts: Vec<String> = parts
                    .into_iter()
                    .filter(|(_, of)| !of.is_empty())
                    .map(|(word, of)| format!("{word}: {of}"))
                    .collect();
                format!("inconclusive: {}; more trials (--rounds), or one more run, would say more", parts.join("; "))
            }
            Outcome::Unfit => "unfit: this machine, now, shows nothing against this baseline".to_owned(),
        }
    }
}

#[cfg(test)]
mod tests;
