//! Where a row's time goes: sessions one after the other under our own sampling profiler.

use super::Variant;
use crate::env::Environment;
use crate::profile::report::Report;
use crate::profile::{self, Bucket, Profile};
use crate::rigs::{FTP_WARM, Way, ftp_rig};
use crate::study::Options;
use crate::subject::Subject;
use anyhow::Context;
use std::time::{Duration, Instant};

/// Samples a second: twice the usual rate, because each row has but a moment. A prime.
const RATE_HZ: u32 = 1999;
/// How long a row is sampled.
const LONG: Duration = Duration::from_millis(700);
/// And the configuration whose whole table is printed.
const LONGER: Duration = Duration::from_millis(2000);
/// Where figures are not to be quoted.
const QUICK: Duration = Duration::from_millis(100);

/// What was seen of a row.
pub(super) struct Taken {
    /// Locks of the serving host.
    pub(super) locks: usize,
    /// How often one was taken for each KiB carried.
    pub(super) per_kib: f64,
    profile: Option<Profile>,
    /// Why there is no profile.
    pub(super) note: Option<String>,
}

/// Downloads in the row's configuration for a while.
pub(super) fn take(variant: &Variant, bytes: u64, options: &Options) -> anyhow::Result<Taken> {
    let mut rig = ftp_rig(&format!("shares.{}", variant.id), variant.setup, Way::Down, bytes)?;
    rig.trial()?; // what the first session alone brings in
    let taken_before = rig.locks().1;
    let carried = rig.trial()?.ops + FTP_WARM;
    let (locks, taken) = rig.locks();
    let long = match (options.quick, variant.id) {
        (true, _) => QUICK,
        (false, "a") => LONGER,
        (false, _) => LONG,
    };
    let (profile, note) = match profiled(&mut *rig, long, options.core()) {
        Ok(profile) => (Some(profile), None),
        Err(why) => (None, Some(format!("{}: no shares of time: {why:#}", variant.id))),
    };
    // What opens and closes the session is in it: nothing beside megabytes.
    let per_kib = (taken - taken_before) as f64 * 1024.0 / carried as f64;
    Ok(Taken { locks, per_kib, profile, note })
}

fn profiled(rig: &mut dyn Subject, long: Duration, core: usize) -> anyhow::Result<Profile> {
    let running = profile::start(profile::Options { rate_hz: RATE_HZ, ..profile::Options::default() })?;
    // After the collector's thread was made, which would stay on that core too and find no time to empty the ring.
    let _pinned = dispatch::pinned_to_core(core).context("cannot stay on a core")?;
    let begun = Instant::now();
    let mut done = Ok(());
    while begun.elapsed() < long && done.is_ok() {
        done = rig.trial().map(|_| ());
    }
    let profile = running.stop()?;
    done.map(|()| profile)
}

impl Taken {
    /// A bucket's share of the time, in per cent.
    pub(super) fn share(&self, bucket: Bucket) -> Option<f64> {
        let profile = self.profile.as_ref()?;
        let all = profile.sampled_ns().max(1);
        let of = profile.stacks.iter().filter(|stack| stack.bucket == bucket).map(|stack| stack.ns).sum::<u64>();
        Some(of as f64 * 100.0 / all as f64)
    }

    /// The table in the report's format.
    pub(super) fn text(&self, env: &Environment) -> Option<Vec<String>> {
        let profile = self.profile.as_ref()?;
        let mut report = Report::of(profile, "FTP downloads in configuration A, both hosts", env.clone());
        report.warnings.retain(|warning| !env.warnings().contains(warning)); // they stand above already
        Some(report.text().trim_end().lines().map(str::to_owned).collect())
    }
}
