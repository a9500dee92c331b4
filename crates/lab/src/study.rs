//! Studies (a bench, a ladder, a reproduction): options, progress, and the rows as they are collected.
//!
//! A [`Study`] measures groups of sides, turns samples into rows, and ends as a [`Report`]. A side that could not be
//! measured becomes a row with the reason; the others go on.

use crate::alarm;
use crate::env::Environment;
use crate::measuring::Measuring;
use crate::result::{Beside, Change, Figure, Peer, Report, Row};
use crate::run;
use crate::sample::{Ratio, Sample, Summary};
use crate::side::Side;
use crate::timer;
use crate::verdict::NoiseFloor;
use std::path::PathBuf;

/// The options of a study.
#[derive(Debug, Clone, Default)]
pub struct Options {
    /// Few rounds: for trying the command out, not for quoting.
    pub quick: bool,
    /// Rounds, which are builds of each side; `None`: what the study needs.
    pub rounds: Option<u32>,
    /// The core to stay on; `None`: the last one.
    pub core: Option<usize>,
    /// The source tree of the rungs that need another build; `None`: the one that the current directory lies in.
    pub source: Option<PathBuf>,
}

impl Options {
    /// The runner's options of a study that needs `rounds`.
    pub(crate) fn run(&self, rounds: u32) -> run::Options {
        let keep = match (self.rounds, self.quick) {
            (Some(rounds), _) => rounds.max(1),
            (None, true) => rounds.min(10),
            (None, false) => rounds,
        };
        let trials = if self.quick { 3 } else { 5 };
        let seed = u64::from(std::process::id());
        run::Options {
            keep,
            trials,
            cpu: Some(self.core()),
            max_seconds: Some(60.0),
            replacements: keep * trials,
            seed,
            ..run::Options::default()
        }
    }

    /// The core in force.
    pub fn core(&self) -> usize {
        self.core.unwrap_or_else(dispatch::last_core)
    }
}

/// How far a study is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Progress {
    /// Parts done.
    pub done: usize,
    /// Parts in all.
    pub total: usize,
    /// The part that begins.
    pub what: String,
}

/// The unit of a row, and how ticks per operation become it.
#[derive(Clone, Copy)]
pub struct Unit {
    /// The unit's name.
    pub name: &'static str,
    /// From ticks per operation.
    pub of: fn(f64) -> f64,
}

impl Unit {
    /// Ticks per operation.
    pub const TICKS: Unit = Unit { name: "ticks/op", of: |ticks| ticks };
    /// Millions of operations a second of this machine's tick rate.
    pub const MILLIONS: Unit = Unit { name: "M/s", of: |ticks| timer::rate().hz as f64 / ticks / 1e6 };
}

impl std::fmt::Debug for Unit {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(self.name)
    }
}

/// Samples taken in the same rounds, and the noise floor of these rounds.
#[derive(Debug, Clone)]
pub struct Group {
    /// One sample a side, in the order of the sides.
    pub samples: Vec<Sample>,
    /// The first side against its twin; [`NoiseFloor::NONE`] where nothing is compared.
    pub floor: NoiseFloor,
}

impl Group {
    /// The sample of side `id`: an empty, failed one if there is no such side.
    pub fn sample(&self, id: &str) -> Sample {
        let found = self.samples.iter().find(|sample| sample.id == id).cloned();
        found.unwrap_or_else(|| Sample { failed: Some("was not measured".to_owned()), ..Sample::new(id) })
    }

    /// The group, if every side has a figure.
    ///
    /// # Errors
    /// The reason of the first side that has none.
    pub fn whole(self) -> anyhow::Result<Group> {
        match self.samples.iter().find_map(|sample| sample.failed.as_ref()) {
            Some(why) => anyhow::bail!("{why}"),
            None => Ok(self),
        }
    }

    /// The row of side `id`: its figure, or why there is none.
    pub fn row(&self, id: &str, title: &str, unit: Unit) -> Row {
        row_of(&self.sample(id), title, unit)
    }

    /// The row of side `id`, compared with side `base`.
    pub fn against(&self, id: &str, title: &str, unit: Unit, base: &str) -> Row {
        Row { vs_previous: self.change(base, id), ..self.row(id, title, unit) }
    }

    /// How many times better side `now` is than side `before`; `None` where one of them has no figure.
    pub fn change(&self, before: &str, now: &str) -> Option<Change> {
        Change::paired(&self.sample(before), &self.sample(now), &self.floor).ok()
    }

    /// How many times as much as side `under` side `over` costs.
    ///
    /// # Errors
    /// One of them has no figure: its reason.
    pub fn ratio(&self, over: &str, under: &str) -> anyhow::Result<Ratio> {
        let (over, under) = (self.sample(over), self.sample(under));
        if let Some(why) = over.failed.as_ref().or(under.failed.as_ref()) {
            anyhow::bail!("{why}");
        }
        Ok(Ratio::paired(&over.values(), &under.values())?)
    }

    /// The peers of row `id`: the sides called `<peer>.<id>`.
    pub fn peers(&self, id: &str) -> Vec<Peer> {
        let ours = self.sample(id);
        let of = |theirs: &Sample| {
            let (peer, row) = theirs.id.split_once('.')?;
            (row == id).then(|| Peer::new(peer, theirs, &ours).ok())?
        };
        self.samples.iter().filter_map(of).collect()
    }
}

/// The row of a sample: its figure, or why there is none.
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

/// A study under way.
pub(crate) struct Study<'a> {
    /// The report as far as it has come.
    pub(crate) report: Report,
    options: run::Options,
    progress: Progress,
    show: &'a mut dyn FnMut(Progress),
    _measuring: Measuring,
}

impl<'a> Study<'a> {
    /// A study called `name` of `parts` parts, with the runner's options for its usual groups.
    pub(crate) fn new(name: &str, options: run::Options, parts: usize, show: &'a mut dyn FnMut(Progress)) -> Study<'a> {
        let env = Environment::detect(); // before the trials, whose load is ours
        let mut report = Report::empty(name, env);
        let (measuring, warning) = Measuring::begin();
        report.notes.extend(warning);
        alarm::so_far(Some(report.clone()));
        let progress = Progress { done: 0, total: parts, what: String::new() };
        Study { report, options, progress, show, _measuring: measuring }
    }

    /// The runner's options for usual groups.
    pub(crate) fn options(&self) -> run::Options {
        self.options.clone()
    }

    /// A part begins.
    pub(crate) fn part(&mut self, what: &str) {
        what.clone_into(&mut self.progress.what);
        (self.show)(self.progress.clone());
        self.progress.done = (self.progress.done + 1).min(self.progress.total);
    }

    /// Measures `sides` in the same rounds, the first one's twin among them: the noise floor of the group.
    pub(crate) fn compare(&mut self, sides: Vec<Side>) -> Group {
        self.compare_with(sides, self.options())
    }

    /// The same with other options of the runner.
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

    /// Measures sides that are not compared with each other: without a twin.
    pub(crate) fn measure(&mut self, sides: Vec<Side>) -> Group {
        self.measure_with(sides, self.options())
    }

    /// The same with other options of the runner.
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

    /// Adds rows.
    pub(crate) fn rows(&mut self, rows: impl IntoIterator<Item = Row>) {
        self.report.rows.extend(rows);
        alarm::so_far(Some(self.report.clone()));
    }

    /// Adds a note.
    pub(crate) fn note(&mut self, note: impl Into<String>) {
        self.report.notes.push(note.into());
    }

    /// The tables beside the rows.
    pub(crate) fn beside(&mut self) -> &mut Beside {
        self.report.beside.get_or_insert_default()
    }

    /// The report.
    pub(crate) fn finish(self) -> Report {
        alarm::so_far(None);
        self.report
    }
}
