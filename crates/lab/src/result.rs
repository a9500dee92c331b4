//! The result file of a run: one JSON object, and a second file with every trial as a JSON line.
//!
//! ```json
//! {"version": 2, "name": "udp", "env": {},
//!  "noise_floor": {"ratio": 1.0, "lo": 0.998, "hi": 1.003, "n": 30},
//!  "rows": [{"id": "udp.send", "title": "UDP send, 22 bytes",
//!            "then": {"median": 2357.0, "unit": "ticks/op"},
//!            "now": {"median": 57.2, "lo": 57.0, "hi": 57.9, "n": 30, "unit": "ticks/op"},
//!            "vs_previous": {"ratio": 1.04, "lo": 1.03, "hi": 1.05, "n": 30,
//!                            "floor_pct": 1.1, "verdict": "faster"}}],
//!  "peers": [{"id": "lwip.udp.send", "row": "udp.send", "now": {},
//!             "ratio": {"median": 2.1, "lo": 2.0, "hi": 2.2}}],
//!  "notes": []}
//! ```
//! `then` is the figure of the published report that the row reproduces; `now` is this run's
//! figure. Each of them is null if there is none. A ratio above 1 means that `now` is better than
//! the row it is compared with, or that our row is better than the peer.

use std::io::{self, Write};

use serde::{Deserialize, Serialize};

use crate::env::Environment;
use crate::sample::{Ratio, Sample, StatError, Summary, Trial, rank};
use crate::table;
use crate::verdict::{self, NoiseFloor, Verdict};

/// Version of the file format. In version 1 every side was built once, so its intervals and
/// verdicts are not valid.
pub const VERSION: u32 = 2;

/// Results of one run.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Report {
    /// [`VERSION`]; files without this field are of version 1.
    #[serde(default = "first_version")]
    pub version: u32,
    /// Name of the run, which is also the name of its file.
    pub name: String,
    /// The machine, kernel and build.
    pub env: Environment,
    /// The largest noise floor of the run's groups: the measured ratio of two sides with equal
    /// settings, built separately.
    pub noise_floor: NoiseFloor,
    /// Figures of this project.
    pub rows: Vec<Row>,
    /// Figures of other programs, for comparison.
    pub peers: Vec<Peer>,
    /// Conventions of the figures: frame sizes, offloads, locks, the meaning of one operation.
    pub notes: Vec<String>,
    /// Rows with disturbed trials, outliers, failures, or fewer rounds than requested: one sentence
    /// each.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub disturbed: Vec<String>,
    /// Tables and texts in addition to the rows.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub beside: Option<Beside>,
    /// All trials of the run; not in the file of the report ([`write_trials`]).
    #[serde(skip)]
    pub samples: Vec<Sample>,
}

fn first_version() -> u32 {
    1
}

/// Tables and texts of a report, in addition to its rows.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Beside {
    /// Baseline row of every `vs_previous`; `None` if each row is compared with the row before it.
    pub baseline: Option<String>,
    /// Tables printed after the rows.
    pub sheets: Vec<Sheet>,
    /// Texts printed unchanged, line by line.
    pub texts: Vec<Vec<String>>,
}

/// An additional table, with its own columns.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Sheet {
    /// Title, printed above the table.
    pub title: String,
    /// Headings of the columns.
    pub head: Vec<String>,
    /// Rows, each with as many cells as there are headings.
    pub rows: Vec<Vec<Cell>>,
}

/// A cell of a [`Sheet`].
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(untagged)]
pub enum Cell {
    /// An integer, which is printed with all digits.
    Count(u64),
    /// A number, which is rounded for printing.
    Number(f64),
    /// Text, which is printed unchanged.
    Text(String),
}

impl From<u64> for Cell {
    fn from(count: u64) -> Cell {
        Cell::Count(count)
    }
}

impl From<f64> for Cell {
    fn from(number: f64) -> Cell {
        Cell::Number(number)
    }
}

impl From<&str> for Cell {
    fn from(text: &str) -> Cell {
        Cell::Text(text.to_owned())
    }
}

impl From<String> for Cell {
    fn from(text: String) -> Cell {
        Cell::Text(text)
    }
}

/// One measured quantity, with its figures and comparison.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Row {
    /// Identifier of the subject.
    pub id: String,
    /// Description of the subject.
    pub title: String,
    /// Figure of the published report that the row reproduces; `None` if the report has none.
    pub then: Option<Quoted>,
    /// Figure of this run; null if it could not be measured, with the reason in `missing`.
    pub now: Option<Figure>,
    /// Comparison with the previous row or the baseline, if any.
    pub vs_previous: Option<Change>,
    /// Reason for a missing figure.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub missing: Option<String>,
}

/// A measured figure: the median over builds (separate constructions of the measured subject), and
/// its 95 % interval with at least 6 builds; with fewer builds the range of the values.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Figure {
    /// Median of the values.
    pub median: f64,
    /// Lower end of the median's interval.
    pub lo: f64,
    /// Upper end of the median's interval.
    pub hi: f64,
    /// Number of builds that were measured.
    pub n: u32,
    /// Unit of the figure: `ticks/op`, `GB/s` and others.
    pub unit: String,
    /// The least and the greatest value of a build; absent if the figure is not a summary of
    /// builds.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub range: Option<[f64; 2]>,
}

/// A figure quoted from another report, with as much of its spread as was published.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Quoted {
    /// Published median, or the only value that was published.
    pub median: f64,
    /// Lower end of the median's interval; `None` if it was not published.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub lo: Option<f64>,
    /// Upper end of the median's interval; `None` if it was not published.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub hi: Option<f64>,
    /// Number of trials; `None` if it was not published.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub n: Option<u32>,
    /// Unit, written as in [`Figure::unit`].
    pub unit: String,
}

/// Ratio to an earlier figure.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Change {
    /// Estimate of the ratio; above 1 means that the later figure is better.
    pub ratio: f64,
    /// Lower end of the ratio's interval.
    pub lo: f64,
    /// Upper end of the ratio's interval.
    pub hi: f64,
    /// Number of pairs of builds.
    pub n: u32,
    /// The noise floor of the same rounds, in per cent.
    pub floor_pct: f64,
    /// Verdict on the difference.
    pub verdict: Verdict,
}

/// Another program that does the same work in the same run.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Peer {
    /// Identifier of the peer: `<peer>.<row id>`.
    pub id: String,
    /// Identifier of the row that the peer is compared with.
    pub row: String,
    /// The peer's figure in this run.
    pub now: Figure,
    /// Ratio of our row to the peer; above 1 if our row is better. It is null for a peer with two
    /// states, which has no meaningful median.
    pub ratio: Option<Times>,
}

/// A peer has two states, and so no meaningful median, if its greatest value exceeds this multiple
/// of its least.
const TWO_STATES: f64 = 5.0;

/// A ratio and its 95 % interval with at least 6 pairs; with fewer pairs the range of the ratios.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct Times {
    /// Estimate of the ratio.
    pub median: f64,
    /// Lower end of the ratio's interval.
    pub lo: f64,
    /// Upper end of the ratio's interval.
    pub hi: f64,
    /// Number of pairs of builds.
    pub n: u32,
}

impl From<Ratio> for Times {
    fn from(ratio: Ratio) -> Times {
        Times { median: ratio.median, lo: ratio.lo, hi: ratio.hi, n: ratio.n }
    }
}

/// Direction in which figures of a unit are better.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Better {
    /// Less is better: ticks, nanoseconds, bytes used.
    Less,
    /// More is better: operations or bytes per second.
    More,
}

impl Figure {
    /// Returns the figure of a summary in `unit`.
    pub fn new(summary: &Summary, unit: &str) -> Figure {
        let Summary { median, lo, hi, n, range, .. } = *summary;
        Figure { median, lo, hi, n, unit: unit.to_owned(), range: Some(range) }
    }

    /// Returns a figure of a single value, without a spread.
    pub fn single(value: f64, unit: &str) -> Figure {
        Figure { median: value, lo: value, hi: value, n: 1, unit: unit.to_owned(), range: None }
    }

    /// Returns a paired ratio as a figure.
    pub fn ratio(ratio: &Ratio, unit: &str) -> Figure {
        let Ratio { median, lo, hi, n, .. } = *ratio;
        Figure { median, lo, hi, n, unit: unit.to_owned(), range: None }
    }

    /// Returns the sample's ticks per operation.
    ///
    /// # Errors
    /// As [`Sample::summary`].
    pub fn ticks(sample: &Sample) -> Result<Figure, StatError> {
        Ok(Figure::new(&sample.summary()?, "ticks/op"))
    }
}

impl Row {
    /// Returns a row of this run without a comparison.
    pub fn new(id: &str, title: &str, now: Figure) -> Row {
        Row { id: id.to_owned(), title: title.to_owned(), then: None, now: Some(now), vs_previous: None, missing: None }
    }

    /// Returns a row that could not be measured, with the reason.
    pub fn missing(id: &str, title: &str, why: &str) -> Row {
        let (id, title) = (id.to_owned(), title.to_owned());
        Row { id, title, then: None, now: None, vs_previous: None, missing: Some(why.to_owned()) }
    }

    /// Adds the figure of the published report that the row reproduces.
    #[must_use]
    pub fn then(mut self, median: f64, unit: &str) -> Row {
        self.then = Some(Quoted { median, lo: None, hi: None, n: None, unit: unit.to_owned() });
        self
    }
}

impl Peer {
    /// Compares the peer named `peer` with our row, both in ticks per operation and paired by
    /// round.
    ///
    /// # Errors
    /// Any [`StatError`].
    pub fn new(peer: &str, theirs: &Sample, ours: &Sample) -> Result<Peer, StatError> {
        let ratio = Ratio::paired(&theirs.values(), &ours.values())?;
        let (id, row) = (format!("{peer}.{}", ours.id), ours.id.clone());
        let now = Figure::ticks(theirs)?;
        let two_states = now.range.is_some_and(|[least, most]| most > TWO_STATES * least);
        Ok(Peer { id, row, now, ratio: (!two_states).then(|| ratio.into()) })
    }
}

impl Change {
    /// Compares two samples of one run, paired by round: `before` is A, `now` is B.
    ///
    /// # Errors
    /// Any [`StatError`].
    pub fn paired(before: &Sample, now: &Sample, floor: &NoiseFloor) -> Result<Change, StatError> {
        Ok(Change::judged(&Ratio::paired(&before.values(), &now.values())?, floor))
    }

    /// Compares figures of two runs, which share no rounds. The interval combines the two
    /// intervals' distances on the logarithmic scale (MOVER: Donner and Zou, Stat. Methods Med.
    /// Res. 21(4), 2012). Valid on one machine only, and weaker than [`Change::paired`], since it
    /// includes everything that changed between the runs. `None` if the units differ or a figure is
    /// not positive.
    pub fn between_runs(before: &Figure, now: &Figure, better: Better, floor: &NoiseFloor) -> Option<Change> {
        let (over, under) = match better {
            Better::Less => (before, now),
            Better::More => (now, before),
        };
        let positive =
            [over.lo, over.median, over.hi, under.lo, under.median, under.hi].iter().all(|value| *value > 0.0);
        if before.unit != now.unit || !positive {
            return None;
        }
        let distance = |a: f64, b: f64| (a / b).ln();
        let down = distance(over.median, over.lo).hypot(distance(under.hi, under.median));
        let up = distance(over.hi, over.median).hypot(distance(under.median, under.lo));
        let median = over.median / under.median;
        let ends = |scale: f64| (median * (-down * scale).exp(), median * (up * scale).exp());
        let ((lo, hi), n) = (ends(1.0), before.n.min(now.n));
        let firm = (n >= 8).then(|| ends(rank::ONE_PER_CENT.z() / rank::FIVE_PER_CENT.z()));
        Some(Change::judged(&Ratio { median, lo, hi, coverage: 0.95, firm, n }, floor))
    }

    /// Formats the ratio and its interval with `digits` decimals, as [`Ratio::show`].
    pub fn show(&self, digits: usize) -> String {
        table::spread([self.ratio, self.lo, self.hi], self.n, |value| format!("{value:.digits$}"))
    }

    fn judged(ratio: &Ratio, floor: &NoiseFloor) -> Change {
        let Ratio { median, lo, hi, n, .. } = *ratio;
        Change { ratio: median, lo, hi, n, floor_pct: floor.percent(), verdict: verdict::judge(ratio, floor) }
    }
}

impl Report {
    /// Returns a report without rows.
    pub fn empty(name: &str, env: Environment) -> Report {
        Report {
            version: VERSION,
            name: name.to_owned(),
            env,
            noise_floor: NoiseFloor::NONE,
            rows: Vec::new(),
            peers: Vec::new(),
            notes: Vec::new(),
            beside: None,
            disturbed: Vec::new(),
            samples: Vec::new(),
        }
    }

    /// Fills [`Report::disturbed`] from the trials.
    pub(crate) fn note_disturbances(&mut self) {
        self.disturbed = self.samples.iter().filter_map(table::disturbances).collect();
    }

    /// Returns the row with identifier `id`.
    pub fn row(&self, id: &str) -> Option<&Row> {
        self.rows.iter().find(|row| row.id == id)
    }

    /// Returns the text of the file, indented, with a newline at the end.
    ///
    /// # Errors
    /// None in practice: a report always serializes.
    pub fn to_json(&self) -> serde_json::Result<String> {
        serde_json::to_string_pretty(self).map(|text| text + "\n")
    }

    /// Parses the text of [`Report::to_json`].
    ///
    /// # Errors
    /// The text is not JSON, lacks a field, or has another version.
    pub fn from_json(text: &str) -> serde_json::Result<Report> {
        use serde::de::Error;
        let any: serde_json::Value = serde_json::from_str(text)?;
        let version = any.get("version").map_or(Some(1), serde_json::Value::as_u64);
        match version {
            Some(version) if version == u64::from(VERSION) => serde_json::from_value(any),
            _ if any.get("rows").is_none() => Err(serde_json::Error::custom("not a report: no 'rows'")),
            _ => Err(serde_json::Error::custom(format!(
                "report has version {}, this program reads version {VERSION}: measure again",
                version.map_or_else(|| "unknown".to_owned(), |version| version.to_string())
            ))),
        }
    }
}

/// Returns whether `json` is a report of any version, complete or not: it has a name and rows.
pub fn is_report(json: &serde_json::Value) -> bool {
    ["name", "rows"].iter().all(|key| json.get(key).is_some())
}

#[derive(Serialize)]
struct TrialLine<'a> {
    name: &'a str,
    id: &'a str,
    kept: bool,
    #[serde(flatten)]
    trial: &'a Trial,
}

/// Writes every trial of a run as a line of JSON, including dropped ones (`"kept": false`):
/// `{"name", "id", "kept", "round", "reading": {"ops", "ticks", "wall_ns", "cpu_ns"},
/// "disturbed"}`.
///
/// # Errors
/// An error of writing to `out`.
pub fn write_trials(out: &mut dyn Write, name: &str, samples: &[Sample]) -> io::Result<()> {
    for sample in samples {
        let kept = sample.trials.iter().map(|trial| (true, trial));
        let dropped = sample.dropped.iter().map(|trial| (false, trial));
        for (kept, trial) in kept.chain(dropped) {
            serde_json::to_writer(&mut *out, &TrialLine { name, id: &sample.id, kept, trial })?;
            out.write_all(b"\n")?;
        }
    }
    Ok(())
}

#[cfg(test)]
pub(crate) mod tests;
