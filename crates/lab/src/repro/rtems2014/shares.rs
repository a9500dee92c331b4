//! Shares of a row's time, from consecutive FTP sessions under our own sampling profiler.

use super::Variant;
use crate::env::Environment;
use crate::os;
use crate::profile::report::Report;
use crate::profile::{self, Bucket, Profile};
use crate::rigs::{FtpFacts, FtpSubject, Way, ftp_rig, warm_up};
use crate::study::Options;
use crate::subject::Subject;
use anyhow::{Context, ensure};
use std::time::{Duration, Instant};

/// Samples per second: twice the usual rate, because each row is sampled only briefly. A prime.
const RATE_HZ: u32 = 1999;
/// Processor time for which a row is sampled.
const LONG: Duration = Duration::from_millis(700);
/// Processor time for which configuration A is sampled, since its whole table is printed.
const LONGER: Duration = Duration::from_millis(2000);
/// Processor time for which a row is sampled in quick runs, whose figures are too imprecise to
/// publish.
const QUICK: Duration = Duration::from_millis(100);

/// Maximum wall time as a multiple of the processor time, since other threads use the core, too.
const PATIENCE: u32 = 5;
/// Minimum number of samples of a profile whose shares are reported: with 200 samples, a share of 5
/// % is uncertain by 3 percentage points.
const FEWEST: u64 = 200;
/// Minimum number of samples in quick runs, whose figures are too imprecise to publish.
const FEWEST_QUICK: u64 = 30;

/// Observations of a row. A failed observation is absent, and a note states the reason.
#[derive(Default)]
pub(super) struct Taken {
    /// Number of locks of the serving host.
    pub(super) locks: Option<usize>,
    /// Lock acquisitions for each KiB carried.
    pub(super) per_kib: Option<f64>,
    /// Configuration that the serving host uses.
    pub(super) facts: Option<FtpFacts>,
    profile: Option<Profile>,
    /// Reasons for absent observations.
    pub(super) notes: Vec<String>,
}

/// Observes downloads in the row's configuration.
pub(super) fn take(variant: &Variant, bytes: u64, options: &Options) -> Taken {
    let rig = || ftp_rig(&format!("shares.{}", variant.id), variant.setup, Way::Down, bytes);
    let mut taken = Taken::default();
    if let Err(why) = rig().and_then(|rig| take_from(rig, &mut taken, variant, bytes, options)) {
        taken.notes.push(format!("{}: no shares of time: {why:#}", variant.id));
    }
    taken
}

fn take_from(
    mut rig: Box<dyn FtpSubject>,
    taken: &mut Taken,
    variant: &Variant,
    bytes: u64,
    options: &Options,
) -> anyhow::Result<()> {
    rig.trial()?; // warm-up: some costs occur in the first session only
    let before = rig.locks().1;
    let carried = rig.trial()?.ops + warm_up(bytes);
    let (locks, after) = rig.locks();
    taken.locks = Some(locks);
    // Opening and closing the session is included: negligible compared with megabytes.
    taken.per_kib = Some((after - before) as f64 * 1024.0 / carried as f64);
    taken.facts = Some(rig.facts());
    let (long, fewest) = match (options.quick, variant.id) {
        (true, _) => (QUICK, FEWEST_QUICK),
        (false, "a") => (LONGER, FEWEST),
        (false, _) => (LONG, FEWEST),
    };
    let profile = profiled(&mut *rig, long, options.core())?;
    let samples: u64 = profile.stacks.iter().map(|stack| stack.samples).sum();
    ensure!(samples >= fewest, "{samples} samples in {:.1} s, fewer than {fewest}", profile.seconds);
    taken.profile = Some(profile);
    Ok(())
}

fn profiled(rig: &mut dyn Subject, long: Duration, core: usize) -> anyhow::Result<Profile> {
    let running = profile::start(profile::Options { rate_hz: RATE_HZ, ..profile::Options::default() })?;
    // Pinned only after the collector's thread is created. That thread would otherwise inherit the
    // pinning, share this core and empty the ring too late.
    let _pinned = dispatch::pinned_to_core(core).context("cannot pin to a core")?;
    let (begun, used) = (Instant::now(), os::thread_cpu_ns());
    let enough = || Duration::from_nanos(os::thread_cpu_ns() - used) >= long || begun.elapsed() >= long * PATIENCE;
    let mut done = Ok(());
    while !enough() && done.is_ok() {
        done = rig.trial().map(|_| ());
    }
    let profile = running.stop()?;
    done.map(|()| profile)
}

impl Taken {
    /// Returns a bucket's share of the time, in per cent.
    pub(super) fn share(&self, bucket: Bucket) -> Option<f64> {
        let profile = self.profile.as_ref()?;
        let all = profile.sampled_ns().max(1);
        let of = profile.stacks.iter().filter(|stack| stack.bucket == bucket).map(|stack| stack.ns).sum::<u64>();
        Some(of as f64 * 100.0 / all as f64)
    }

    /// Returns the table in the report's format.
    pub(super) fn text(&self, env: &Environment) -> Option<Vec<String>> {
        let profile = self.profile.as_ref()?;
        let mut report = Report::of(profile, "FTP downloads in configuration A, both hosts", env.clone());
        // already printed above
        report.warnings.retain(|warning| !env.warnings().contains(warning));
        Some(report.text().trim_end().lines().map(str::to_owned).collect())
    }
}
