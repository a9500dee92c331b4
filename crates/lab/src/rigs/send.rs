//! Sending: one host, linked in or loaded.

use super::PAYLOAD;
use crate::dylib::{self, LoadedRig};
use crate::subject::{Reading, Subject, measure};
use anyhow::{anyhow, ensure};
use rung::{AnyRig, Settings};

/// Calls in a trial: about a millisecond's worth.
const CALLS: u64 = 20_000;

/// A host linked into this program.
pub struct SendRig {
    id: String,
    rig: AnyRig,
    bursts: bool,
}

impl SendRig {
    /// A host as the settings line says; `bursts`: 32 datagrams a call.
    ///
    /// # Errors
    /// A wrong line, or no memory.
    pub fn new(id: &str, settings: &str, bursts: bool) -> anyhow::Result<SendRig> {
        let settings: Settings = settings.parse()?;
        Ok(SendRig { id: id.to_owned(), rig: AnyRig::new(&settings).map_err(|why| anyhow!(why))?, bursts })
    }

    /// Ticks per call with the counter read before and after each, the reading's cost subtracted: the report's way.
    pub fn ticks_each_call(&mut self) -> f64 {
        let per_read = crate::timer::cost() as f64 / 2.0; // a region's cost is two reads; one of them lies inside
        let mut trials: Vec<f64> =
            (0..11).map(|_| self.rig.send_timed(CALLS, &PAYLOAD) as f64 / CALLS as f64 - per_read).collect();
        trials.sort_by(f64::total_cmp);
        trials[trials.len() / 2].max(0.0)
    }

    /// Lock acquisitions per call.
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
        ensure!(sent == CALLS && arrived == CALLS, "{}: {sent} of {CALLS} sent, {arrived} arrived", self.id);
        ensure!(self.rig.imbalance() == 0, "{}: frames unaccounted for: {}", self.id, self.rig.imbalance());
        Ok(reading)
    }
}

/// A host in a dynamic library.
pub struct LoadedSend {
    id: String,
    rig: LoadedRig,
}

impl LoadedSend {
    /// The host of library `variant` (`baseline`, `native`) as the settings line says.
    ///
    /// # Errors
    /// The library is missing or of another version.
    pub fn new(id: &str, variant: &str, settings: &str) -> anyhow::Result<LoadedSend> {
        Ok(LoadedSend { id: id.to_owned(), rig: LoadedRig::new(&dylib::library(variant)?, settings)? })
    }
}

impl Subject for LoadedSend {
    fn id(&self) -> &str {
        &self.id
    }

    fn trial(&mut self) -> anyhow::Result<Reading> {
        let before = self.rig.sunk();
        let mut sent = 0;
        let reading = measure(CALLS, || sent = self.rig.send(CALLS, &PAYLOAD));
        let arrived = self.rig.sunk() - before;
        ensure!(sent == CALLS && arrived == CALLS, "{}: {sent} of {CALLS} sent, {arrived} arrived", self.id);
        Ok(reading)
    }
}
