//! The paired, interleaved runner: sides in, aligned samples out.
//!
//! ```text
//! round 1   build A, build B    trials A B  B A  A B    free both
//! round 2   build B, build A    trials B A  A B  B A    free both
//! round 3   ...                 with more than two sides: a random order, then its reverse
//! ```
//!
//! Each round builds every side anew, at other addresses ([`crate::side::Scatter`]), asks each for warm-up trials that are
//! thrown away and for the trials that are kept, in turns, so that what drifts over the run falls on all sides alike. A trial during
//! which the hypervisor took the processor, or in which the thread had it for less than 97 % of the time, or in which the
//! tick counter and the wall clock disagree, is *disturbed*: it is put aside in [`Sample::dropped`] and made again, until
//! the side's allowance is used up; then disturbed trials are kept and the sample is marked noisy. A trial is never dropped
//! for its result. A side that fails is built again in a new round; one that fails three times is left out, with its
//! reason, and the others go on.
//!
//! Time and disturbances come from a [`Host`], so tests run on a made-up machine.

use std::time::Duration;

use anyhow::{Context, bail};

use crate::random::Random;
use crate::sample::{Disturbance, Sample, Trial};
use crate::side::{Scatter, Side, at_depth};
use crate::subject::{Reading, Subject};
use crate::{alarm, timer};

mod host;

pub use host::{Host, Machine};

/// A blocked thread's clock reading, in nanoseconds, that the CPU share does not count: tiny trials are mostly that.
const SHARE_SLACK_NS: f64 = 5_000.0;
/// The tick counter may run ahead of the wall clock by this share, and by this many nanoseconds.
const CLOCK_SLACK: (f64, f64) = (1.1, 20_000.0);
/// A side that has failed so often is left out.
const MOST_FAILURES: usize = 3;

/// How a run is made.
#[derive(Debug, Clone, PartialEq)]
pub struct Options {
    /// Rounds kept: builds of each side.
    pub keep: u32,
    /// Trials of each build made first and thrown away.
    pub warmup: u32,
    /// Trials of each build kept; the build's value is their median.
    pub trials: u32,
    /// No new round begins after this many seconds; the samples are then shorter.
    pub max_seconds: Option<f64>,
    /// The processor to stay on.
    pub cpu: Option<usize>,
    /// The least share of the time that the thread must have had the processor; `None` for subjects that wait.
    pub min_cpu_share: Option<f64>,
    /// How many disturbed trials of one side may be replaced.
    pub replacements: u32,
    /// Whether all sides of a round are alive at once.
    pub alive: Alive,
    /// Where the addresses and orders of the rounds come from.
    pub seed: u64,
    /// A build or a trial that lasts longer hangs ([`alarm`]); `None` for commands of a user's, which last as long as they do.
    pub patience: Option<Duration>,
}

/// Which sides of a round are alive at once.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Alive {
    /// All: their trials are made in turns.
    #[default]
    Together,
    /// One after the other: for sides whose memory all together is too much, or would take the cache from each other.
    OneByOne,
}

impl Default for Options {
    fn default() -> Options {
        Options {
            keep: 30,
            warmup: 1,
            trials: 5,
            max_seconds: None,
            cpu: None,
            min_cpu_share: Some(0.97),
            replacements: 150,
            alive: Alive::Together,
            seed: 0,
            patience: Some(alarm::PATIENCE),
        }
    }
}

impl Options {
    /// For subjects whose trial builds all it needs, or takes so long that one is enough: one trial a build, no warm-up.
    #[must_use]
    pub fn one_trial(self) -> Options {
        Options { warmup: 0, trials: 1, ..self }
    }

    /// For subjects that wait, or whose threads work while the measuring thread sleeps: the CPU share is not judged.
    #[must_use]
    pub fn waiting(self) -> Options {
        Options { min_cpu_share: None, ..self }
    }

    /// With at most `rounds` rounds.
    #[must_use]
    pub fn at_most(self, rounds: u32) -> Options {
        Options { keep: self.keep.min(rounds), ..self }
    }
}

/// Runs `sides` against each other on this machine and returns their samples in the same order.
///
/// # Errors
/// If the thread cannot be pinned. A side that fails is no error: see [`Sample::failed`].
pub fn interleave(sides: &[Side], options: &Options) -> anyhow::Result<Vec<Sample>> {
    let _pinned = pin(options)?;
    Ok(rounds(sides, options, &mut Machine::new(options.cpu)))
}

fn pin(options: &Options) -> anyhow::Result<Option<dispatch::Pinned>> {
    let pinned =
        options.cpu.map(|cpu| dispatch::pinned_to_core(cpu).with_context(|| format!("cannot stay on core {cpu}")));
    pinned.transpose()
}

/// The run itself, on any [`Host`].
pub fn rounds(sides: &[Side], options: &Options, host: &mut dyn Host) -> Vec<Sample> {
    let mut run = Run {
        sides,
        options,
        random: Random::new(options.seed),
        samples: sides.iter().map(|side| Sample::new(side.id())).collect(),
        order: (0..sides.len()).collect(),
    };
    let mut round = 0;
    while round < options.keep {
        if let Some(why) = run.end(host) {
            run.cut(&why);
            break;
        }
        round += u32::from(run.round(round, host));
        if run.samples.iter().all(|sample| sample.failed.is_some()) {
            break;
        }
    }
    run.samples
}

struct Run<'a> {
    sides: &'a [Side],
    options: &'a Options,
    random: Random,
    samples: Vec<Sample>,
    order: Vec<usize>,
}

/// The trials of one side in one round.
#[derive(Default)]
struct Made {
    kept: Vec<Trial>,
    dropped: Vec<Trial>,
}

impl Run<'_> {
    /// The reason to end before the next round.
    fn end(&self, host: &mut dyn Host) -> Option<String> {
        if dispatch::stop_requested() {
            return Some("interrupted".to_owned());
        }
        if let Some(limit) = self.options.max_seconds.filter(|limit| host.elapsed() >= seconds(*limit)) {
            return Some(format!("time limit of {limit} s"));
        }
        host.place().err()
    }

    /// All sides have fewer rounds than asked for.
    fn cut(&mut self, why: &str) {
        for sample in self.samples.iter_mut().filter(|sample| sample.failed.is_none()) {
            sample.cut = Some(why.to_owned());
            if sample.trials.is_empty() {
                sample.failed = Some(format!("{why}, before the first round was complete"));
            }
        }
    }

    /// Makes a round, and returns whether it is complete.
    fn round(&mut self, round: u32, host: &mut dyn Host) -> bool {
        self.reorder(round);
        let mut made: Vec<Made> = self.sides.iter().map(|_| Made::default()).collect();
        match self.trials(round, &mut made, host) {
            Ok(()) => {
                for (sample, made) in self.samples.iter_mut().zip(made) {
                    sample.noisy |= made.kept.iter().any(|trial| trial.disturbed.is_some());
                    sample.trials.extend(made.kept);
                    sample.dropped.extend(made.dropped);
                }
                true
            }
            Err((lane, why)) => {
                // The pairs of this round are incomplete: none of it counts.
                for (sample, made) in self.samples.iter_mut().zip(made) {
                    let spoilt =
                        made.kept.into_iter().map(|trial| Trial { disturbed: Some(Disturbance::Round), ..trial });
                    sample.dropped.extend(made.dropped.into_iter().chain(spoilt));
                }
                let sample = &mut self.samples[lane];
                sample.failures.push(format!("{why:#}"));
                if sample.failures.len() == MOST_FAILURES || dispatch::stop_requested() {
                    sample.failed = sample.failures.last().cloned();
                }
                false
            }
        }
    }

    /// A random order in even rounds, and its reverse in odd ones.
    fn reorder(&mut self, round: u32) {
        if round.is_multiple_of(2) {
            self.random.shuffle(&mut self.order);
        } else {
            self.order.reverse();
        }
    }

    /// Builds all sides and makes their trials; the error names the side that failed.
    fn trials(&mut self, round: u32, made: &mut [Made], host: &mut dyn Host) -> Result<(), (usize, anyhow::Error)> {
        let lanes: Vec<usize> =
            self.order.iter().copied().filter(|lane| self.samples[*lane].failed.is_none()).collect();
        match self.options.alive {
            Alive::Together => self.trials_of(&lanes, round, made, host),
            Alive::OneByOne => lanes.iter().try_for_each(|lane| self.trials_of(&[*lane], round, made, host)),
        }
    }

    fn trials_of(
        &mut self,
        lanes: &[usize],
        round: u32,
        made: &mut [Made],
        host: &mut dyn Host,
    ) -> Result<(), (usize, anyhow::Error)> {
        let mut scatter = Scatter::new(self.random.bits());
        let mut built: Vec<(usize, usize, Box<dyn Subject>)> = Vec::new();
        for lane in lanes.iter().copied() {
            scatter.spread();
            let side = &self.sides[lane];
            alarm::doing(side.id(), self.options.patience);
            let subject = side.build().with_context(|| format!("build of {}", side.id())).map_err(|why| (lane, why))?;
            built.push((lane, scatter.depth(), subject));
        }
        for turn in 0..self.options.warmup + self.options.trials {
            built.reverse();
            for (lane, depth, subject) in &mut built {
                let id = self.sides[*lane].id();
                alarm::doing(id, self.options.patience);
                let mut one = || at_depth(*depth, &mut || subject.trial());
                let outcome = if turn < self.options.warmup {
                    one().map(|_| ())
                } else {
                    let allowed = self.samples[*lane].dropped.len() + made[*lane].dropped.len();
                    let allowance = (self.options.replacements as usize).saturating_sub(allowed);
                    keep(&mut made[*lane], round, &mut one, allowance, self.options, host)
                };
                outcome.with_context(|| format!("trial of {id}")).map_err(|why| (*lane, why))?;
            }
        }
        Ok(())
    }
}

/// A limit that is no time at all (negative, not a number) ends at once; one past the clock's end never does.
fn seconds(limit: f64) -> Duration {
    if limit > 0.0 { Duration::try_from_secs_f64(limit).unwrap_or(Duration::MAX) } else { Duration::ZERO }
}

/// Makes trials until one is undisturbed or the allowance is used up, and keeps the last.
fn keep(
    made: &mut Made,
    round: u32,
    one: &mut dyn FnMut() -> anyhow::Result<Reading>,
    mut allowance: usize,
    options: &Options,
    host: &mut dyn Host,
) -> anyhow::Result<()> {
    loop {
        let steal = host.steal();
        let reading = one()?;
        if reading.ops == 0 {
            bail!("no operation was done");
        }
        let disturbed = disturbance(&reading, host.steal() > steal, options);
        let trial = Trial { round, reading, disturbed };
        if disturbed.is_some() && allowance > 0 {
            allowance -= 1;
            made.dropped.push(trial);
            continue;
        }
        made.kept.push(trial);
        return Ok(());
    }
}

fn disturbance(reading: &Reading, stolen: bool, options: &Options) -> Option<Disturbance> {
    let (ticks_ns, wall_ns) = (timer::rate().ns(reading.ticks as f64), reading.wall_ns as f64);
    let short = |share: f64| reading.cpu_ns as f64 + SHARE_SLACK_NS < share * wall_ns;
    if stolen {
        Some(Disturbance::Steal)
    } else if ticks_ns > CLOCK_SLACK.0 * wall_ns + CLOCK_SLACK.1 {
        Some(Disturbance::Clock)
    } else {
        options.min_cpu_share.is_some_and(short).then_some(Disturbance::CpuShare)
    }
}

#[cfg(test)]
mod tests;
