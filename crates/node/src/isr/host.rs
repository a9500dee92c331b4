//! Netisr of a host: creation, threads, accounting of queued frames, shutdown.

use super::check::create;
use super::died::{Hand, RESTARTS_MAX};
use super::error::IsrError;
use super::feed::take_through;
use super::protocols::Received;
use super::state::Isr;
use crate::Host;
use crate::config::HostConfig;
use dispatch::netisr::{Items, ProtoId, Snapshot};
use inet::counters::AuditReport;
use lock::Locks;
use stats::{DropReason, Entry};
use std::panic::{AssertUnwindSafe, catch_unwind};

impl<L: Locks> Host<L> {
    /// Creates netisr as configured by `config`. Without workstreams, nothing changes: the
    /// receiving thread processes all frames.
    ///
    /// # Errors
    /// Returns an [`IsrError`], and changes nothing.
    pub fn set_isr(&mut self, config: &HostConfig) -> Result<(), IsrError> {
        let Some((isr, feed)) = create::<L>(config)? else { return Ok(()) };
        self.divide(1);
        self.inputs.first.lock(self.cx()).feed = Some(feed);
        self.isr = Some(isr);
        Ok(())
    }

    /// Returns the number of threads that netisr can use in addition to the host's own, one per
    /// workstream. If the caller starts no threads, the host's own loop runs the workstreams.
    pub fn isr_threads(&self) -> usize {
        if L::SHARED { self.isr.as_ref().map_or(0, |isr| isr.netisr.workstreams()) } else { 0 }
    }

    /// Runs the worker of workstream `at` on the calling thread until [`Host::finish_isr`] is
    /// called. After a panic, the worker is restarted with the rest of its queue. The frames of its
    /// current chunk are lost and counted. This requires that panics unwind; the shipped program
    /// aborts instead (docs/decisions/0019).
    ///
    /// # Errors
    /// Returns [`IsrError::Netisr`] if there is no such workstream or another thread runs it, and
    /// [`IsrError::Died`] after too many panics.
    pub fn run_isr(&self, at: usize) -> Result<(), IsrError> {
        let Some(isr) = self.isr.as_ref().filter(|isr| isr.shard.is_none()) else { return Ok(()) };
        self.release_isr(at);
        loop {
            let (hand, ended) = (Hand::default(), buf::unwound());
            // The panic leaves the state guarded by the stack's locks unchanged. Each lock is
            // released, and later users continue with that state.
            let life = catch_unwind(AssertUnwindSafe(|| self.work_isr(isr, at, &hand)));
            if let Ok(done) = life {
                return done;
            }
            isr.died.note(&hand, self.stack.received_here(self.cx()), buf::unwound() - ended);
            if isr.netisr.note_restart(at) > RESTARTS_MAX {
                return Err(IsrError::Died(at));
            }
        }
    }

    /// Runs a worker until its end or a panic.
    fn work_isr(&self, isr: &Isr, at: usize, hand: &Hand) -> Result<(), IsrError> {
        let mut worker = isr.netisr.worker(at)?;
        // Set while the stack's own queues may contain frames, either queued by this thread or left
        // by a previous worker. No other thread checks these queues before the loop's next tick.
        let mut waits = true;
        loop {
            let worked = worker.turn(&mut |_: ProtoId, items: &mut Items<'_, Received>| {
                let cx = self.cx();
                hand.take(items.len(), self.stack.received_here(cx));
                take_through(&self.stack, cx, items);
                hand.empty();
            });
            if worked > 0 || waits {
                if worked == 0 {
                    // Another thread may be processing the queue, and may leave the remaining
                    // frames to this thread.
                    std::thread::yield_now();
                }
                waits = self.stack.poll_soon(self.cx());
            } else if !worker.sleep() {
                return Ok(());
            }
        }
    }

    /// Removes the worker of workstream `at` from the host's own loop.
    pub(crate) fn release_isr(&self, at: usize) {
        if let Some(feed) = &mut self.inputs.first.lock(self.cx()).feed {
            feed.release(at);
        }
    }

    /// Ends netisr's threads once their queues are empty. No more frames may be received after this
    /// call.
    pub fn finish_isr(&self) {
        if let Some(isr) = &self.isr {
            isr.netisr.finish();
        }
    }

    /// Returns the settings and counters of netisr; `None` if the host has no workstreams.
    pub fn isr_seen(&self) -> Option<Snapshot> {
        self.isr.as_ref().map(|isr| isr.netisr.snapshot())
    }

    /// Sets a sysctl of netisr, which [`sysctl::check`](super::sysctl::check) has accepted.
    ///
    /// # Errors
    /// Returns an [`IsrError`] if the host has no netisr, or if the mode, policy or limit is not
    /// available.
    pub fn set_isr_sysctl(&self, name: &str, value: i64) -> Result<(), IsrError> {
        super::sysctl::set(self.isr.as_ref().map(|isr| isr.netisr.as_ref()), name, value)
    }

    /// Returns the counters of the dispatcher; `None` if the host is not split.
    pub fn dispatch_counters(&self) -> Option<Vec<Entry>> {
        let shard = self.isr.as_ref()?.shard.as_ref()?;
        Some(crate::split::entries(&shard.dispatched, &shard.strays))
    }

    /// Returns the number of frames in netisr's queues.
    pub fn isr_held(&self) -> u64 {
        self.own_isr().map_or(0, |isr| isr.netisr.held())
    }

    /// Returns the host's netisr, unless it is shared with other stacks of a split host.
    fn own_isr(&self) -> Option<&Isr> {
        self.isr.as_ref().filter(|isr| isr.shard.is_none())
    }

    /// Returns the audit of the stack, including the frames in netisr's queues and the frames lost
    /// in panics of workers.
    pub fn audit(&self) -> AuditReport {
        let (waiting, (unseen, lost)) = (self.isr_held(), self.isr_lost());
        let mut report = self.stack.audit(self.cx());
        report.received += waiting + unseen;
        report.held += waiting;
        report.dropped += lost;
        if lost > 0 {
            let sentence = "Frames lost when a netisr worker panicked.";
            report.reasons.push(Entry { name: "net.isr.lost".to_owned(), sentence, value: lost });
        }
        report
    }

    /// Returns the numbers of frames lost in panics of workers, as (frames that the stack had not
    /// counted as received, all lost frames).
    pub(crate) fn isr_lost(&self) -> (u64, u64) {
        self.own_isr().map_or((0, 0), |isr| isr.died.balance(isr.netisr.audit().lost))
    }

    /// Drops all queued frames, as the last step of the shutdown. After it, the audit balances
    /// without held frames.
    pub fn discard(&self) {
        if let Some(isr) = self.own_isr() {
            isr.netisr.stop();
            let mut waiting = Vec::new();
            isr.netisr.drain(|_, received| waiting.push(received.frame));
            self.stack.refuse(self.cx(), waiting, DropReason::Shutdown);
        }
        self.stack.shutdown(self.cx());
    }
}
