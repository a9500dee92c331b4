//! The paired, interleaved runner: measures sides and returns aligned samples.
//!
//! ```text
//! round 1   build A, build B    trials A B  B A  A B    free both
//! round 2   build B, build A    trials B A  A B  B A    free both
//! round 3   ...                 with more than two sides: a random order, then its reverse
//! ```
//!
//! Each round builds every side anew, at other addresses ([`crate::side::Scatter`]). It runs
//! warm-up trials, which are discarded, and the trials that are kept, interleaved, so that drift
//! over the run affects all sides alike.
//!
//! A trial is *disturbed* if the hypervisor took the processor for 1 % of it, if the thread had the
//! processor for less than 97 % of the time, if the tick counter and the wall clock disagree, or if
//! the core was slower than usual at the end of a short trial. (Before each trial the runner waits
//! until the core has its usual speed, 0.1 s at most.) A disturbed trial is moved to
//! [`Sample::dropped`] and repeated, until the side's allowance is used up; then
//! disturbed trials are kept and the sample is marked noisy. A trial is never dropped for its
//! result. A side that fails is built again in a new round; after three failures it is left out,
//! with the reason, and the others continue.
//!
//! Time and disturbances come from a [`Host`], so tests run on a simulated machine.

use std::time::Duration;

use anyhow::{Context, bail};

use crate::sample::{Disturbance, Sample, Trial};
use crate::side::{Scatter, Side, at_depth};
use crate::subject::{Reading, Subject};
use crate::{alarm, timer};
use clock::Random;

mod host;
mod speed;

pub use host::{Host, Machine};

/// Tolerance in the check of the CPU share, in nanoseconds. It allows for the time of the clock
/// readings, which matters in very short trials.
const SHARE_SLACK_NS: f64 = 5_000.0;
/// Tolerance of the comparison of tick counter and wall clock: a factor, and nanoseconds that are
/// added.
const CLOCK_SLACK: (f64, f64) = (1.1, 20_000.0);
/// Maximum duration of a short trial, in nanoseconds. Only after a short trial does the core's
/// current speed show whether the core was slow during the trial.
const SHORT_NS: u64 = 50_000_000;
/// Steal time that disturbs a trial: (nanoseconds per tick of steal time, divisor of the trial's
/// duration). With a divisor of 100, the limit is 1 % of the trial, since a long trial always
/// contains some steal time.
const STEAL: (u64, u64) = (10_000_000, 100);
/// Number of failures after which a side is left out.
const MOST_FAILURES: usize = 3;

/// Options of a run.
#[derive(Debug, Clone, PartialEq)]
pub struct Options {
    /// Number of complete rounds, which is the number of builds of each side.
    pub keep: u32,
    /// Number of warm-up trials of each build, which are discarded.
    pub warmup: u32,
    /// Number of trials kept of each build; the build's value is their median.
    pub trials: u32,
    /// Time limit in seconds. After it, no new round begins, and samples have fewer rounds than
    /// requested.
    pub max_seconds: Option<f64>,
    /// Processor that the measuring thread is pinned to.
    pub cpu: Option<usize>,
    /// Minimum share of a trial's time in which the thread must run on its processor; `None` for
    /// subjects that block.
    pub min_cpu_share: Option<f64>,
    /// Maximum number of disturbed trials replaced per side.
    pub replacements: u32,
    /// Lifetime of the sides of a round: all together, or one after the other.
    pub alive: Alive,
    /// Seed of the addresses and orders of the rounds.
    pub seed: u64,
    /// Time limit of a build or a trial ([`alarm`]); `None` for a user's commands, which have no
    /// limit.
    pub patience: Option<Duration>,
}

/// Lifetime of the sides of a round.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Alive {
    /// All sides: their trials are interleaved.
    #[default]
    Together,
    /// One after the other: for sides that together need too much memory or evict each other from
    /// the cache.
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
    /// Sets one trial per build and no warm-up, for subjects that create in each trial all that
    /// they need, or have long trials.
    #[must_use]
    pub fn one_trial(self) -> Options {
        Options { warmup: 0, trials: 1, ..self }
    }

    /// Turns off the check of the CPU share, for subjects that block, or work on other threads
    /// while the measuring thread sleeps.
    #[must_use]
    pub fn waiting(self) -> Options {
        Options { min_cpu_share: None, ..self }
    }

    /// Limits the run to `rounds` rounds.
    #[must_use]
    pub fn at_most(self, rounds: u32) -> Options {
        Options { keep: self.keep.min(rounds), ..self }
    }
}

/// Measures `sides` on this machine and returns their samples in the same order.
///
/// # Errors
/// The thread cannot be pinned. A failed side is not an error: see [`Sample::failed`].
pub fn interleave(sides: &[Side], options: &Options) -> anyhow::Result<Vec<Sample>> {
    let _pinned = pin(options)?;
    Ok(rounds(sides, options, &mut Machine::new(options.cpu)))
}

fn pin(options: &Options) -> anyhow::Result<Option<dispatch::Pinned>> {
    let pinned =
        options.cpu.map(|cpu| dispatch::pinned_to_core(cpu).with_context(|| format!("cannot pin to core {cpu}")));
    pinned.transpose()
}

/// Measures `sides` on any [`Host`].
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
        alarm::under_way(&run.samples);
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
    /// Returns the reason to end before the next round, if any.
    fn end(&self, host: &mut dyn Host) -> Option<String> {
        if dispatch::stop_requested() {
            return Some("interrupted".to_owned());
        }
        if let Some(limit) = self.options.max_seconds.filter(|limit| host.elapsed() >= seconds(*limit)) {
            return Some(format!("time limit of {limit} s"));
        }
        host.place().err()
    }

    /// Marks all samples as shorter than requested.
    fn cut(&mut self, why: &str) {
        for sample in self.samples.iter_mut().filter(|sample| sample.failed.is_none()) {
            sample.cut = Some(why.to_owned());
            if sample.trials.is_empty() {
                sample.failed = Some(format!("{why}, before the first round was complete"));
            }
        }
    }

    /// Runs a round, and returns whether it is complete.
    fn round(&mut self, round: u32, host: &mut dyn Host) -> bool {
        self.reorder(round);
        let mut made: Vec<Made> = self.sides.iter().map(|_| Made::default()).collect();
        match self.trials(round, &mut made, host) {
            Ok(true) => {
                for (sample, made) in self.samples.iter_mut().zip(made) {
                    sample.noisy |= made.kept.iter().any(|trial| trial.disturbed.is_some());
                    sample.trials.extend(made.kept);
                    sample.dropped.extend(made.dropped);
                }
                true
            }
            incomplete => {
                // The pairs of this round are incomplete, so all its trials are dropped.
                for (sample, made) in self.samples.iter_mut().zip(made) {
                    let spoilt =
                        made.kept.into_iter().map(|trial| Trial { disturbed: Some(Disturbance::Round), ..trial });
                    sample.dropped.extend(made.dropped.into_iter().chain(spoilt));
                }
                // Ctrl-C reaches a trial's child processes too, so their failure is not recorded
                // then.
                if let Err((lane, why)) = incomplete
                    && !dispatch::stop_requested()
                {
                    let sample = &mut self.samples[lane];
                    sample.failures.push(format!("{why:#}"));
                    if sample.failures.len() == MOST_FAILURES {
                        sample.failed = sample.failures.last().cloned();
                    }
                }
                false
            }
        }
    }

    /// Sets the order of the sides: random in even rounds, and the reverse of that order in the
    /// following odd round.
    fn reorder(&mut self, round: u32) {
        if round.is_multiple_of(2) {
            self.random.shuffle(&mut self.order);
        } else {
            self.order.reverse();
        }
    }

    /// Builds all sides and runs their trials. Returns whether the round is complete; it is
    /// incomplete after Ctrl-C. If a build or a trial fails, the error contains the index of the
    /// side.
    fn trials(&mut self, round: u32, made: &mut [Made], host: &mut dyn Host) -> Result<bool, (usize, anyhow::Error)> {
        let lanes: Vec<usize> =
            self.order.iter().copied().filter(|lane| self.samples[*lane].failed.is_none()).collect();
        match self.options.alive {
            Alive::Together => self.trials_of(&lanes, round, made, host),
            Alive::OneByOne => {
                for lane in lanes {
                    if !self.trials_of(&[lane], round, made, host)? {
                        return Ok(false);
                    }
                }
                Ok(true)
            }
        }
    }

    fn trials_of(
        &mut self,
        lanes: &[usize],
        round: u32,
        made: &mut [Made],
        host: &mut dyn Host,
    ) -> Result<bool, (usize, anyhow::Error)> {
        let mut scatter = Scatter::new(self.random.bits());
        let mut built: Vec<(usize, usize, Box<dyn Subject>)> = Vec::new();
        for lane in lanes.iter().copied() {
            if dispatch::stop_requested() {
                return Ok(false);
            }
            scatter.spread();
            let side = &self.sides[lane];
            alarm::doing(side.id(), self.options.patience);
            let subject =
                side.build().with_context(|| format!("build of {} failed", side.id())).map_err(|why| (lane, why))?;
            built.push((lane, scatter.depth(), subject));
        }
        for turn in 0..self.options.warmup + self.options.trials {
            built.reverse();
            for (lane, depth, subject) in &mut built {
                if dispatch::stop_requested() {
                    return Ok(false);
                }
                let id = self.sides[*lane].id();
                let mut one = || {
                    alarm::doing(id, self.options.patience);
                    at_depth(*depth, &mut || subject.trial())
                };
                let outcome = if turn < self.options.warmup {
                    one().map(|_| ())
                } else {
                    let allowed = self.samples[*lane].dropped.len() + made[*lane].dropped.len();
                    let allowance = (self.options.replacements as usize).saturating_sub(allowed);
                    keep(&mut made[*lane], round, &mut one, allowance, self.options, host)
                };
                outcome.with_context(|| format!("trial of {id} failed")).map_err(|why| (*lane, why))?;
            }
        }
        Ok(true)
    }
}

/// Converts a limit: negative or NaN becomes zero, one beyond [`Duration`] becomes the maximum.
fn seconds(limit: f64) -> Duration {
    if limit > 0.0 { Duration::try_from_secs_f64(limit).unwrap_or(Duration::MAX) } else { Duration::ZERO }
}

/// Runs trials until one is undisturbed, or until the side may replace no more disturbed trials.
/// Keeps the last trial.
fn keep(
    made: &mut Made,
    round: u32,
    one: &mut dyn FnMut() -> anyhow::Result<Reading>,
    mut allowance: usize,
    options: &Options,
    host: &mut dyn Host,
) -> anyhow::Result<()> {
    loop {
        host.warm_up();
        let steal = host.steal();
        let reading = one()?;
        if reading.ops == 0 {
            bail!("no operation completed");
        }
        let slow = reading.wall_ns < SHORT_NS && host.is_slow();
        let stolen_ns = host.steal().saturating_sub(steal) * STEAL.0;
        let stolen = stolen_ns > 0 && stolen_ns >= reading.wall_ns / STEAL.1;
        let disturbed = disturbance(&reading, stolen, options).or(slow.then_some(Disturbance::Slow));
        let trial = Trial { round, reading, disturbed };
        if disturbed.is_some() && allowance > 0 && !dispatch::stop_requested() {
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
    } else if ticks_ns > CLOCK_SLACK.0 * wall_ns + CLOCK_SLACK.1 || reading.ticks == 0 && wall_ns > CLOCK_SLACK.1 {
        Some(Disturbance::Clock)
    } else {
        options.min_cpu_share.is_some_and(short).then_some(Disturbance::CpuShare)
    }
}

#[cfg(test)]
mod tests;
