//! Sending: a host linked into this program, or a host built with other build options that runs in
//! a process of its own.

use super::PAYLOAD;
use crate::child::{self, Child, numbers};
use crate::dylib;
use crate::subject::{Reading, Subject, measure};
use crate::{timer, tsc};
use anyhow::{anyhow, ensure};
use rung::{AnyRig, Settings};
use std::path::Path;
use std::process::Command;

/// Number of calls in a trial, which take about a millisecond. Figures of an unoptimized build are
/// for tests only.
pub(crate) const CALLS: u64 = if cfg!(debug_assertions) { 1_000 } else { 20_000 };

/// A host linked into this program.
pub struct SendRig {
    id: String,
    rig: AnyRig,
    bursts: bool,
}

impl SendRig {
    /// Creates a host from the settings line. With `bursts`, each call sends 32 datagrams.
    ///
    /// # Errors
    /// The settings line is invalid, or memory cannot be allocated.
    pub fn new(id: &str, settings: &str, bursts: bool) -> anyhow::Result<SendRig> {
        let settings: Settings = settings.parse()?;
        Ok(SendRig { id: id.to_owned(), rig: AnyRig::new(&settings).map_err(|why| anyhow!(why))?, bursts })
    }

    /// Measures ticks per call with the counter read before and after each call, as in the report
    /// rump2014. The readings are fenced, and the ticks of an empty fenced pair are subtracted.
    pub fn ticks_each_call(&mut self) -> f64 {
        let empty = timer::cost() as f64;
        let mut trials: Vec<f64> =
            (0..11).map(|_| self.rig.send_timed(CALLS, &PAYLOAD, tsc::now) as f64 / CALLS as f64 - empty).collect();
        trials.sort_by(f64::total_cmp);
        trials[trials.len() / 2].max(0.0)
    }

    /// Calls `sendto` 64 times. Returns how often the stack's time changed, how often the port's
    /// transmit function was called, and the state of the rig.
    #[cfg(test)]
    pub(crate) fn counted(&mut self) -> ([u64; 2], rung::Facts) {
        let before = self.rig.facts();
        let (mut now, mut readings) = (before.now, 0);
        for _ in 0..64 {
            self.rig.sendto(&PAYLOAD).unwrap();
            let then = std::mem::replace(&mut now, self.rig.facts().now);
            readings += u64::from(now != then);
        }
        let after = self.rig.facts();
        ([readings, after.doorbells - before.doorbells], after)
    }

    /// Returns the lock acquisitions per call.
    pub fn acquisitions_per_call(&mut self) -> f64 {
        let before = self.rig.acquisitions();
        self.rig.send(1000, &PAYLOAD);
        (self.rig.acquisitions() - before) as f64 / 1000.0
    }
}

impl Subject for SendRig {
    fn id(&self) -> &str {
        &self.id
    }

    fn trial(&mut self) -> anyhow::Result<Reading> {
        let (before, _) = self.rig.sunk();
        let mut sent = 0;
        let reading = measure(CALLS, || {
            sent = if self.bursts { self.rig.send_bursts(CALLS, &PAYLOAD) } else { self.rig.send(CALLS, &PAYLOAD) };
        });
        let arrived = self.rig.sunk().0 - before;
        ensure!(sent == CALLS && arrived == CALLS, "{}: {sent} of {CALLS} datagrams sent, {arrived} arrived", self.id);
        ensure!(self.rig.imbalance() == 0, "{}: frames unaccounted for: {}", self.id, self.rig.imbalance());
        Ok(reading)
    }
}

/// A host built with other build options, in a process of its own.
pub struct BuiltSend {
    id: String,
    child: Child,
}

impl BuiltSend {
    /// Starts the host of the dynamic library at `path`, which another process of this program
    /// loads.
    ///
    /// # Errors
    /// The library is missing, or its interface has another version.
    pub fn library(id: &str, path: &Path, settings: &str) -> anyhow::Result<BuiltSend> {
        let command = child::again(dylib::KIND, &format!("{}\t{settings}", path.display()))?;
        Ok(BuiltSend { id: id.to_owned(), child: Child::start(command)? })
    }

    /// Starts the host of the program at `path`.
    ///
    /// # Errors
    /// The program does not start.
    pub fn program(id: &str, path: &Path, settings: &str) -> anyhow::Result<BuiltSend> {
        let mut command = Command::new(path);
        command.arg(settings);
        Ok(BuiltSend { id: id.to_owned(), child: Child::start(command)? })
    }
}

impl Subject for BuiltSend {
    fn id(&self) -> &str {
        &self.id
    }

    fn trial(&mut self) -> anyhow::Result<Reading> {
        let [sent, arrived, ticks, wall_ns, cpu_ns] = numbers(&self.child.ask(&format!("trial {CALLS}"))?)?;
        ensure!(sent == CALLS && arrived == CALLS, "{}: {sent} of {CALLS} datagrams sent, {arrived} arrived", self.id);
        Ok(Reading { ops: CALLS, ticks, wall_ns, cpu_ns })
    }
}
