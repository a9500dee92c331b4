//! What a study (a bench, a ladder, a reproduction) is asked, and how it says how far it is.

use crate::run;
use crate::subject::Subject;
use crate::verdict::NoiseFloor;

/// What is asked of a study.
#[derive(Debug, Clone, Default)]
pub struct Options {
    /// Few trials: for trying the command out, not for quoting.
    pub quick: bool,
    /// Trials kept of each subject; `None`: what the study needs.
    pub rounds: Option<u32>,
    /// The core to stay on; `None`: the last one.
    pub core: Option<usize>,
}

impl Options {
    pub(crate) fn run(&self, trials: u32) -> run::Options {
        let keep = match (self.rounds, self.quick) {
            (Some(rounds), _) => rounds.max(1),
            (None, true) => 10,
            (None, false) => trials,
        };
        let usual = run::Options::default();
        // Few trials are to take little time on a machine that others disturb, too.
        let (warmup, replacements) = (usual.warmup.min(keep), usual.replacements.min(keep));
        run::Options { warmup, keep, cpu: Some(self.core()), max_seconds: Some(60.0), replacements, ..usual }
    }

    /// The core in force.
    pub fn core(&self) -> usize {
        self.core.unwrap_or_else(|| dispatch::cores().saturating_sub(1))
    }
}

/// How far a study is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Progress {
    /// Parts done.
    pub done: usize,
    /// Parts in all.
    pub total: usize,
    /// What is being done.
    pub what: String,
}

/// Says how far a study is, part by part.
pub(crate) struct Steps<'a> {
    done: usize,
    total: usize,
    tell: &'a mut dyn FnMut(Progress),
}

impl<'a> Steps<'a> {
    pub(crate) fn new(total: usize, tell: &'a mut dyn FnMut(Progress)) -> Steps<'a> {
        Steps { done: 0, total, tell }
    }

    /// The next part begins.
    pub(crate) fn next(&mut self, what: &str) {
        (self.tell)(Progress { done: self.done.min(self.total), total: self.total, what: what.to_owned() });
        self.done += 1;
    }
}

/// The noise floor as `subject` shows it.
pub(crate) fn floor(subject: &mut dyn Subject, options: &run::Options) -> anyhow::Result<NoiseFloor> {
    let [a, again] = run::against_itself(subject, options, &mut |_| ())?;
    Ok(NoiseFloor::of(&a, &again)?)
}
