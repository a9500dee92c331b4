//! The paired, interleaved runner: subjects in, aligned samples out.
//!
//! One round asks every subject for one trial, A B in even rounds and B A in odd ones, so that what drifts over the run
//! falls on both alike. The first rounds warm up and are thrown away. A trial during which the hypervisor ran somebody
//! else, or in which the thread had the processor for less than 97 % of the time, is *disturbed*: it is put aside in
//! [`Sample::dropped`] and made again at once, until the subject's allowance is used up; then disturbed trials are kept
//! and the sample is marked noisy. A trial is never dropped for its result.
//!
//! Time and disturbances come from a [`Host`], so tests run on a made-up machine.

use std::time::Duration;

use anyhow::Context;

use crate::sample::{Disturbance, Sample, Trial};
use crate::subject::{Reading, Subject};

mod host;

pub use host::{Host, Machine};

/// A blocked thread's clock reading, in nanoseconds, that the CPU share does not count: tiny trials are mostly that.
const SHARE_SLACK_NS: f64 = 5_000.0;

/// How a run is made.
#[derive(Debug, Clone, PartialEq)]
pub struct Options {
    /// Rounds made first and thrown away.
    pub warmup: u32,
    /// Rounds kept.
    pub keep: u32,
    /// No new round begins after this many seconds; the samples are then shorter.
    pub max_seconds: Option<f64>,
    /// The processor to stay on.
    pub cpu: Option<usize>,
    /// The least share of the time that the thread must have had the processor; `None` for subjects that wait.
    pub min_cpu_share: Option<f64>,
    /// How many disturbed trials of one subject may be replaced.
    pub replacements: u32,
}

impl Default for Options {
    fn default() -> Options {
        Options { warmup: 3, keep: 30, max_seconds: None, cpu: None, min_cpu_share: Some(0.97), replacements: 30 }
    }
}

/// What a run tells while it goes on: once for each round.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Progress {
    /// Rounds finished, warm-up included.
    pub done: u32,
    /// Rounds to be made, warm-up included.
    pub of: u32,
    /// Trials dropped so far, of all subjects together.
    pub dropped: u32,
}

/// Runs `subjects` against each other on this machine and returns their samples in the same order.
///
/// # Errors
/// If the thread cannot be pinned, or if a trial fails.
pub fn interleave(
    subjects: &mut [Box<dyn Subject>],
    options: &Options,
    progress: &mut dyn FnMut(Progress),
) -> anyhow::Result<Vec<Sample>> {
    let _pinned = pin(options)?;
    let ids: Vec<String> = subjects.iter().map(|subject| subject.id().to_owned()).collect();
    rounds(&ids, &mut |lane| subjects[lane].trial(), options, &mut Machine::new(options.cpu), progress)
}

/// Runs one subject against itself, A against A: the noise floor of everything measured like this.
///
/// # Errors
/// As [`interleave`].
pub fn against_itself(
    subject: &mut dyn Subject,
    options: &Options,
    progress: &mut dyn FnMut(Progress),
) -> anyhow::Result<[Sample; 2]> {
    let _pinned = pin(options)?;
    let ids = [subject.id().to_owned(), format!("{} again", subject.id())];
    let samples = rounds(&ids, &mut |_| subject.trial(), options, &mut Machine::new(options.cpu), progress)?;
    samples.try_into().map_err(|_| anyhow::anyhow!("two lanes give two samples"))
}

fn pin(options: &Options) -> anyhow::Result<Option<dispatch::Pinned>> {
    let pinned =
        options.cpu.map(|cpu| dispatch::pinned_to_core(cpu).with_context(|| format!("cannot stay on core {cpu}")));
    pinned.transpose()
}

/// The run itself, on any [`Host`]: `trial(i)` makes a trial of the subject called `ids[i]`.
///
/// # Errors
/// Whatever a trial fails with, after the subject's name.
pub fn rounds(
    ids: &[String],
    trial: &mut dyn FnMut(usize) -> anyhow::Result<Reading>,
    options: &Options,
    host: &mut dyn Host,
    progress: &mut dyn FnMut(Progress),
) -> anyhow::Result<Vec<Sample>> {
    let empty = |id: &String| Sample { id: id.clone(), trials: Vec::new(), dropped: Vec::new(), noisy: false };
    let mut samples: Vec<Sample> = ids.iter().map(empty).collect();
    let of = options.warmup.saturating_add(options.keep);
    for round in 0..of {
        if options.max_seconds.is_some_and(|limit| host.elapsed() >= seconds(limit)) {
            break;
        }
        for lane in order(round, ids.len()) {
            let mut make = || trial(lane).with_context(|| format!("trial of {}", ids[lane]));
            if round < options.warmup {
                make()?;
            } else {
                settle(&mut samples[lane], round - options.warmup, &mut make, options, host)?;
            }
        }
        let dropped = samples.iter().map(|sample| sample.dropped.len() as u32).sum();
        progress(Progress { done: round + 1, of, dropped });
    }
    Ok(samples)
}

/// A limit that is no time at all (negative, not a number) stops at once; one past the clock's end never does.
fn seconds(limit: f64) -> Duration {
    if limit > 0.0 { Duration::try_from_secs_f64(limit).unwrap_or(Duration::MAX) } else { Duration::ZERO }
}

/// A B, B A, A B ...
fn order(round: u32, lanes: usize) -> Box<dyn Iterator<Item = usize>> {
    if round.is_multiple_of(2) { Box::new(0..lanes) } else { Box::new((0..lanes).rev()) }
}

/// Makes trials until one is undisturbed or the allowance is used up, and keeps the last.
fn settle(
    sample: &mut Sample,
    round: u32,
    make: &mut dyn FnMut() -> anyhow::Result<Reading>,
    options: &Options,
    host: &mut dyn Host,
) -> anyhow::Result<()> {
    loop {
        let steal = host.steal();
        let reading = make()?;
        let disturbed = disturbance(&reading, host.steal() > steal, options);
        let trial = Trial { round, reading, disturbed };
        if disturbed.is_some() && (sample.dropped.len() as u32) < options.replacements {
            sample.dropped.push(trial);
            continue;
        }
        sample.noisy |= disturbed.is_some();
        sample.trials.push(trial);
        return Ok(());
    }
}

fn disturbance(reading: &Reading, stolen: bool, options: &Options) -> Option<Disturbance> {
    let short = |share: f64| reading.cpu_ns as f64 + SHARE_SLACK_NS < share * reading.wall_ns as f64;
    if stolen {
        Some(Disturbance::Steal)
    } else {
        options.min_cpu_share.is_some_and(short).then_some(Disturbance::CpuShare)
    }
}

#[cfg(test)]
mod tests;
