//! A router with netisr: the cost of a frame without netisr, with direct dispatch, and with a queue
//! that the same thread or another thread empties.

use super::route::router;
use crate::subject::{Reading, Subject, measure};
use anyhow::{anyhow, ensure};
use dispatch::netisr::Mode;
use lock::{Light, Locks, Up};
use node::Host;
use node::config::HostConfig;
use std::cell::Cell;
use std::hint::spin_loop;
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread::JoinHandle;

/// Number of frames of a trial: a multiple of the burst size, 32.
const FRAMES: u64 = 20_480;
const ROUTES: usize = 1_000;
/// Maximum number of times that a trial checks whether the last frames have been sent, before it
/// fails. This many checks take seconds.
const MOST_LOOKS: u32 = 100_000_000;
/// Maximum number of frames that wait in netisr's queue; above it, the receiving thread waits.
const WAITING: u64 = 2_048;

/// Creates a router with few routes, so that dispatching is a large part of a frame's cost.
fn made<L: Locks>(isr: Option<Mode>) -> anyhow::Result<(Host<L>, Arc<port::PortCounts>)> {
    let (mut host, _) = router::<L>(&HostConfig::default(), ROUTES)?;
    if let Some(mode) = isr {
        let mut config = HostConfig { locks: L::NAME.to_owned(), ..HostConfig::default() };
        config.isr.workstreams = 1;
        config.sysctl.insert("net.isr.dispatch".to_owned(), i64::from(mode.number()));
        config.sysctl.insert("net.isr.defaultqlimit".to_owned(), 2 * WAITING as i64);
        host.set_isr(&config)?;
    }
    let out = host.ports().get(1).map(|port| port.counts.clone()).ok_or_else(|| anyhow!("no second port"))?;
    Ok((host, out))
}

/// Receives [`FRAMES`] frames and waits until all have been sent; fails if one was dropped. Also
/// returns the ticks spent waiting for another thread.
fn pass<L: Locks>(id: &str, host: &Host<L>, out: &port::PortCounts) -> anyhow::Result<(Reading, u64)> {
    let before = out.tx.frames.get();
    let mut waited = 0;
    let reading = measure(FRAMES, || {
        let (mut taken, mut steps) = (0, 0);
        while taken < FRAMES {
            taken += host.step().frames as u64;
            steps += 1;
            if steps % 16 == 0 && host.isr_held() > WAITING {
                let since = clock::tsc::ticks();
                while host.isr_held() > WAITING {
                    spin_loop();
                }
                waited += clock::tsc::ticks() - since;
            }
        }
        // A lost frame is detected below.
        let (mut looks, since) = (0u32, clock::tsc::ticks());
        while out.tx.frames.get() - before < FRAMES && looks < MOST_LOOKS {
            looks += 1;
            spin_loop();
        }
        waited += clock::tsc::ticks() - since;
    });
    let left = out.tx.frames.get() - before;
    ensure!(left == FRAMES, "{id}: {left} of {FRAMES} frames forwarded");
    Ok((reading, waited))
}

/// Rig of a router on one thread.
pub struct IsrRig {
    id: String,
    host: Host<Up>,
    out: Arc<port::PortCounts>,
}

impl IsrRig {
    /// Creates a rig with netisr in mode `isr`, or without netisr.
    ///
    /// # Errors
    /// Memory cannot be allocated.
    pub fn new(id: &str, isr: Option<Mode>) -> anyhow::Result<IsrRig> {
        let (host, out) = made(isr)?;
        Ok(IsrRig { id: id.to_owned(), host, out })
    }
}

impl Subject for IsrRig {
    fn id(&self) -> &str {
        &self.id
    }

    fn trial(&mut self) -> anyhow::Result<Reading> {
        Ok(pass(&self.id, &self.host, &self.out)?.0)
    }
}

/// Rig in which netisr queues all frames and a thread on another core processes them. It measures
/// ticks of wall-clock time.
pub struct IsrThreadRig {
    id: String,
    host: Arc<Host<Light>>,
    out: Arc<port::PortCounts>,
    worker: Option<JoinHandle<()>>,
    waited: Rc<Cell<(u64, u64)>>,
}

/// Baseline of [`IsrThreadRig`]: light locks, no netisr, one thread.
pub struct LightRig(IsrThreadRig);

impl LightRig {
    /// Creates the baseline rig.
    ///
    /// # Errors
    /// Memory cannot be allocated.
    pub fn new(id: &str) -> anyhow::Result<LightRig> {
        let (host, out) = made::<Light>(None)?;
        Ok(LightRig(IsrThreadRig { id: id.to_owned(), host: Arc::new(host), out, worker: None, waited: Rc::default() }))
    }
}

impl Subject for LightRig {
    fn id(&self) -> &str {
        &self.0.id
    }

    fn trial(&mut self) -> anyhow::Result<Reading> {
        self.0.trial()
    }
}

impl IsrThreadRig {
    /// Creates a rig with its worker pinned to `core`.
    ///
    /// # Errors
    /// Memory cannot be allocated, or the thread cannot be started.
    pub fn new(id: &str, core: usize) -> anyhow::Result<IsrThreadRig> {
        let (host, out) = made::<Light>(Some(Mode::Deferred))?;
        let host = Arc::new(host);
        let begun = Arc::new(AtomicUsize::new(0));
        let worker = {
            let (host, begun) = (host.clone(), begun.clone());
            dispatch::spawn_worker("isr", Some(core), move |_| {
                begun.store(1, Ordering::Release);
                drop(host.run_isr(0));
            })?
        };
        while begun.load(Ordering::Acquire) == 0 {
            std::thread::yield_now();
        }
        Ok(IsrThreadRig { id: id.to_owned(), host, out, worker: Some(worker), waited: Rc::default() })
    }
}

impl IsrThreadRig {
    /// Returns two sums over the trials so far: the ticks that the receiving thread waited for the
    /// worker, and all ticks.
    pub fn waited(&self) -> Rc<Cell<(u64, u64)>> {
        Rc::clone(&self.waited)
    }
}

impl Drop for IsrThreadRig {
    fn drop(&mut self) {
        self.host.finish_isr();
        if let Some(worker) = self.worker.take() {
            drop(worker.join());
        }
    }
}

impl Subject for IsrThreadRig {
    fn id(&self) -> &str {
        &self.id
    }

    fn trial(&mut self) -> anyhow::Result<Reading> {
        let (reading, waited) = pass(&self.id, &self.host, &self.out)?;
        let (waits, all) = self.waited.get();
        self.waited.set((waits + waited, all + reading.ticks));
        Ok(reading)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn frames_leave_in_every_dispatch_mode() {
        for isr in [None, Some(Mode::Direct), Some(Mode::Deferred), Some(Mode::Hybrid)] {
            let mut rig = IsrRig::new("x", isr).unwrap();
            assert_eq!(rig.trial().unwrap().ops, FRAMES);
            let seen = rig.host.isr_seen();
            let queued: u64 = seen.iter().flat_map(|seen| &seen.work).map(|row| row.queued).sum();
            assert_eq!(queued, if isr == Some(Mode::Deferred) { FRAMES } else { 0 }, "{isr:?}");
        }
        let mut rig = IsrThreadRig::new("t", 0).unwrap();
        for _ in 0..2 {
            assert_eq!(rig.trial().unwrap().ops, FRAMES);
        }
        let (waited, all) = rig.waited().get();
        assert!(waited > 0 && waited <= all, "{waited} of {all}");
    }
}
