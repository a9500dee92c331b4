//! Studies (a bench, a ladder, a reproduction): options, progress, and collection of rows.
//!
//! A [`Study`] measures groups of sides, turns samples into rows, and produces a [`Report`]. A side
//! that could not be measured becomes a row with the reason; the others continue.

use crate::alarm;
use crate::measuring::Measuring;
use crate::result::{Beside, Change, Figure, Peer, Report, Row};
use crate::run;
use crate::sample::{Ratio, Sample, Summary};
use crate::side::Side;
use crate::timer;
use crate::verdict::NoiseFloor;
use std::path::PathBuf;
use std::time::Duration;

/// The options of a study.
#[derive(Debug, Clone, Default)]
pub struct Options {
    /// Set to run few rounds, for trying the command; the figures are too imprecise to publish.
    pub quick: bool,
    /// Number of rounds, which is the number of builds per side; `None` for the study's default.
    pub rounds: Option<u32>,
    /// Core to pin to; `None` for the last one.
    pub core: Option<usize>,
    /// Source tree from which a ladder builds the rungs that need other build options; `None` for
    /// the tree that contains the current directory.
    pub source: Option<PathBuf>,
    /// Time limit of a build or a trial; `None` for [`alarm::PATIENCE`], or for no limit of a
    /// command line.
    pub limit: Option<Duration>,
}

impl Options {
    /// Returns the runner's options for a study with `rounds` rounds by default.
    pub(crate) fn run(&self, rounds: u32) -> run::Options {
        let keep = match (self.rounds, self.quick) {
            (Some(rounds), _) => rounds.max(1),
            (None, true) => rounds.min(10),
            (None, false) => rounds,
        };
        // A quick run of one round shows that a command works. It has no interval, so more
        // trials, or repeating disturbed ones, would add nothing.
        let (trials, replaced) = match (self.quick, keep) {
            (true, 1) => (1, 0),
            (true, _) => (3, keep * 3),
            (false, _) => (5, keep * 5),
        };
        let seed = u64::from(std::process::id());
        run::Options {
            keep,
            trials,
            cpu: Some(self.core()),
            max_seconds: Some(60.0),
            replacements: replaced,
            seed,
            patience: self.limit.or(Some(alarm::PATIENCE)),
            ..run::Options::default()
        }
    }

    /// Returns the core to pin to.
    pub fn core(&self) -> usize {
        self.core.unwrap_or_else(dispatch::last_core)
    }
}

/// Progress of a study.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Progress {
    /// Number of parts done.
    pub done: usize,
    /// Total number of parts.
    pub total: usize,
    /// Name of the part that begins.
    pub what: String,
}

/// Unit of a row, with its conversion from ticks per operation.
#[derive(Clone, Copy)]
pub struct Unit {
    /// Name of the unit.
    pub name: &'static str,
    /// Converts ticks per operation to this unit.
    pub of: fn(f64) -> f64,
}

impl Unit {
    /// Ticks per operation, unconverted.
    pub const TICKS: Unit = Unit { name: "ticks/op", of: |ticks| ticks };
    /// Millions of operations per second, from this machine's tick rate.
    pub const MILLIONS: Unit = Unit { name: "M/s", of: |ticks| timer::rate().hz as f64 / ticks / 1e6 };
}

impl std::fmt::Debug for Unit {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(self.name)
    }
}

/// A row before it is measured: its side, and the sides of its peers.
pub(crate) struct Entry {
    id: String,
    title: String,
    unit: Unit,
    sides: Vec<Side>,
    base: Option<String>,
}

impl Entry {
    /// Returns a row in ticks per operation, without peers. The side's identifier is the row's.
    pub(crate) fn new(side: Side, title: impl Into<String>) -> Entry {
        let (id, title) = (side.id().to_owned(), title.into());
        Entry { id, title, unit: Unit::TICKS, sides: vec![side], base: None }
    }

    /// Returns the row's own side.
    pub(crate) fn side(&self) -> Side {
        self.sides[0].clone()
    }

    /// Sets the unit of the row and its peers.
    pub(crate) fn unit(self, unit: Unit) -> Entry {
        Entry { unit, ..self }
    }

    /// Compares the row with the side `base`, which is measured in the same rounds.
    pub(crate) fn against(self, base: &str) -> Entry {
        Entry { base: Some(base.to_owned()), ..self }
    }

    /// Adds sides named `<peer>.<id>`, or other sides that are measured in the same rounds.
    pub(crate) fn with_sides(mut self, sides: impl IntoIterator<Item = Side>) -> Entry {
        self.sides.extend(sides);
        self
    }
}

/// Samples of sides measured in the same rounds, and the noise floor of these rounds.
#[derive(Debug, Clone)]
pub struct Group {
    /// One sample per side, in the order of the sides.
    pub samples: Vec<Sample>,
    /// Noise floor: the first side against its twin; [`NoiseFloor::NONE`] without a comparison.
    pub floor: NoiseFloor,
}

impl Group {
    /// Returns the sample of side `id`; an empty, failed sample if there is no such side.
    pub fn sample(&self, id: &str) -> Sample {
        let found = self.samples.iter().find(|sample| sample.id == id).cloned();
        found.unwrap_or_else(|| Sample { failed: Some("was not measured".to_owned()), ..Sample::new(id) })
    }

    /// Returns the group, if every side has a figure.
    ///
    /// # Errors
    /// The reason of the first side without a figure.
    pub fn whole(self) -> anyhow::Result<Group> {
        match self.samples.iter().find_map(|sample| sample.failed.as_ref()) {
            Some(why) => anyhow::bail!("{why}"),
            None => Ok(self),
        }
    }

    /// Returns the row of side `id`, with its figure or the reason for a missing one.
    pub fn row(&self, id: &str, title: &str, unit: Unit) -> Row {
        row_of(&self.sample(id), title, unit)
    }

    /// Returns the row of side `id`, compared with side `base`.
    pub fn against(&self, id: &str, title: &str, unit: Unit, base: &str) -> Row {
        Row { vs_previous: self.change(base, id), ..self.row(id, title, unit) }
    }

    /// Compares side `now` with side `before`; `None` if one of them has no figure.
    pub fn change(&self, before: &str, now: &str) -> Option<Change> {
        Change::paired(&self.sample(before), &self.sample(now), &self.floor).ok()
    }

    /// Returns the ratio of the costs of side `over` to those of side `under`.
    ///
    /// # Errors
    /// One of them has no figure, with the reason.
    pub fn ratio(&self, over: &str, under: &str) -> anyhow::Result<Ratio> {
        let (over, under) = (self.sample(over), self.sample(under));
        if let Some(why) = over.failed.as_ref().or(under.failed.as_ref()) {
            anyhow::bail!("{why}");
        }
        Ok(Ratio::paired(&over.values(), &under.values())?)
    }

    /// Returns the peers of row `id`, with their figures in `unit`: the sides named `<peer>.<id>`.
    pub fn peers(&self, id: &str, unit: Unit) -> Vec<Peer> {
        let ours = self.sample(id);
        let of = |theirs: &Sample| {
            let (peer, row) = theirs.id.split_once('.')?;
            let peer = (row == id).then(|| Peer::new(peer, theirs, &ours).ok())??;
            Some(Peer { now: row_of(theirs, "", unit).now?, ..peer })
        };
        self.samples.iter().filter_map(of).collect()
    }
}

/// Returns the row of a sample, with its figure or the reason for a missing one.
pub(crate) fn row_of(sample: &Sample, title: &str, unit: Unit) -> Row {
    if let Some(why) = &sample.failed {
        return Row::missing(&sample.id, title, why);
    }
    let values: Vec<f64> = sample.values().into_iter().map(unit.of).collect();
    match Summary::of(&values) {
        Ok(summary) => Row::new(&sample.id, title, Figure::new(&summary, unit.name)),
        Err(why) => Row::missing(&sample.id, title, &why.to_string()),
    }
}

/// Returns all sides of `entries`, in order.
pub(crate) fn sides_of(entries: &[Entry]) -> Vec<Side> {
    entries.iter().flat_map(|entry| entry.sides.iter().cloned()).collect()
}

pub(crate) struct Study<'a> {
    pub(crate) report: Report,
    options: run::Options,
    progress: Progress,
    show: &'a mut dyn FnMut(Progress),
    _measuring: Measuring,
}

impl<'a> Study<'a> {
    /// Returns a study named `name` that reports `parts` steps of progress to `show`; `options` are
    /// the runner's defaults for its groups.
    pub(crate) fn new(name: &str, options: run::Options, parts: usize, show: &'a mut dyn FnMut(Progress)) -> Study<'a> {
        let (measuring, env) = Measuring::begin();
        let report = Report::empty(name, env);
        alarm::so_far(Some(report.clone()));
        let progress = Progress { done: 0, total: parts, what: String::new() };
        Study { report, options, progress, show, _measuring: measuring }
    }

    /// Returns the runner's default options.
    pub(crate) fn options(&self) -> run::Options {
        self.options.clone()
    }

    /// Reports the start of the part `what` as progress.
    pub(crate) fn part(&mut self, what: &str) {
        what.clone_into(&mut self.progress.what);
        (self.show)(self.progress.clone());
        self.progress.done = (self.progress.done + 1).min(self.progress.total);
    }

    /// Measures `sides` in the same rounds, with a twin of the first side for the noise floor.
    pub(crate) fn compare(&mut self, sides: Vec<Side>) -> Group {
        self.compare_with(sides, self.options())
    }

    /// Measures as [`Study::compare`], with the given options of the runner.
    pub(crate) fn compare_with(&mut self, mut sides: Vec<Side>, options: run::Options) -> Group {
        sides.extend(sides.first().map(Side::twin));
        let mut group = self.measure_with(sides, options);
        let twin = group.samples.pop();
        let floor = group.samples.first().zip(twin.as_ref()).map(|(side, twin)| NoiseFloor::of(side, twin));
        if let Some(Ok(floor)) = floor {
            group.floor = floor;
            if floor.percent() > self.report.noise_floor.percent() || self.report.noise_floor.n == 0 {
                self.report.noise_floor = floor;
            }
        }
        group
    }

    /// Measures sides that are not compared with each other, without a twin.
    pub(crate) fn measure(&mut self, sides: Vec<Side>) -> Group {
        self.measure_with(sides, self.options())
    }

    /// Measures as [`Study::measure`], with the given options of the runner.
    pub(crate) fn measure_with(&mut self, sides: Vec<Side>, options: run::Options) -> Group {
        let samples = match run::interleave(&sides, &options) {
            Ok(samples) => samples,
            Err(why) => {
                let failed = |side: &Side| Sample { failed: Some(format!("{why:#}")), ..Sample::new(side.id()) };
                sides.iter().map(failed).collect()
            }
        };
        self.report.samples.extend(samples.iter().cloned());
        alarm::so_far(Some(self.report.clone()));
        Group { samples, floor: NoiseFloor::NONE }
    }

    /// Measures `entries` in the same rounds, with a twin of the first side for the noise floor,
    /// and adds their rows and peers to the report.
    pub(crate) fn compare_entries(&mut self, entries: Vec<Entry>) -> Group {
        let sides = sides_of(&entries);
        let group = self.compare(sides);
        self.add(&entries, &group);
        group
    }

    /// Measures `entry` and the side `base` in the same rounds with the given options, and adds the
    /// row of `entry`, compared with `base`.
    pub(crate) fn compare_with_base(&mut self, base: Side, entry: Entry, options: run::Options) {
        let entry = Entry { base: Some(base.id().to_owned()), ..entry };
        let mut sides = vec![base];
        sides.extend(entry.sides.iter().cloned());
        let group = self.compare_with(sides, options);
        self.add(&[entry], &group);
    }

    /// Measures `entries` in the same rounds with the given options, without a twin, and adds their
    /// rows and peers to the report.
    pub(crate) fn measure_entries(&mut self, entries: Vec<Entry>, options: run::Options) -> Group {
        let sides = sides_of(&entries);
        let group = self.measure_with(sides, options);
        self.add(&entries, &group);
        group
    }

    fn add(&mut self, entries: &[Entry], group: &Group) {
        for Entry { id, title, unit, base, .. } in entries {
            self.report.peers.extend(group.peers(id, *unit));
            self.rows([match base {
                Some(base) => group.against(id, title, *unit, base),
                None => group.row(id, title, *unit),
            }]);
        }
    }

    /// Adds the row of side `id` of `group`, and its peers.
    pub(crate) fn row(&mut self, group: &Group, id: &str, title: &str, unit: Unit) {
        self.report.peers.extend(group.peers(id, unit));
        self.rows([group.row(id, title, unit)]);
    }

    /// Adds rows to the report.
    pub(crate) fn rows(&mut self, rows: impl IntoIterator<Item = Row>) {
        self.report.rows.extend(rows);
        alarm::so_far(Some(self.report.clone()));
    }

    /// Adds a note to the report.
    pub(crate) fn note(&mut self, note: impl Into<String>) {
        self.report.notes.push(note.into());
    }

    /// Returns the additional tables and texts.
    pub(crate) fn beside(&mut self) -> &mut Beside {
        self.report.beside.get_or_insert_default()
    }

    /// Ends the study and returns the report.
    pub(crate) fn finish(mut self) -> Report {
        alarm::so_far(None);
        self.report.note_disturbances();
        self.report
    }
}
