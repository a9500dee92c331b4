//! What a host does about its netisr: gets it, lends its threads to it, counts what waits in it, ends it.

use super::died::Hand;
use super::{Isr, IsrError, RESTARTS_MAX, Received, take_through};
use crate::Host;
use crate::config::HostConfig;
use dispatch::netisr::{Items, ProtoId, Snapshot};
use inet::counters::AuditReport;
use lock::Locks;
use stats::{DropReason, Entry};
use std::panic::{AssertUnwindSafe, catch_unwind};

impl<L: Locks> Host<L> {
    /// Gives the host netisr, as `config` says; without workstreams it stays as it is: who took frames takes them through the stack.
    ///
    /// # Errors
    /// [`IsrError`]; nothing has changed then.
    pub fn set_isr(&mut self, config: &HostConfig) -> Result<(), IsrError> {
        let Some((isr, feed)) = Isr::new::<L>(config)? else { return Ok(()) };
        self.divide(1);
        self.inputs.first.lock(self.cx()).feed = Some(feed);
        self.isr = Some(isr);
        Ok(())
    }

    /// Threads that netisr can use beside the host's own: a workstream each. Without them the host's own loop does their work.
    pub fn isr_threads(&self) -> usize {
        if L::SHARED { self.isr.as_ref().map_or(0, |isr| isr.netisr.workstreams()) } else { 0 }
    }

    /// Does the work of workstream `at` on the calling thread, until [`Host::finish_isr`]. Work that ends in a panic is begun again, with the
    /// rest of its queue; what it had in hand is lost, and counted (where panics unwind: the shipped program aborts, decision 19).
    ///
    /// # Errors
    /// [`IsrError::Netisr`]: there is no such workstream, or another thread does its work; [`IsrError::Died`], too often.
    pub fn run_isr(&self, at: usize) -> Result<(), IsrError> {
        let Some(isr) = self.isr.as_ref().filter(|isr| isr.seat.is_none()) else { return Ok(()) };
        self.release_isr(at);
        loop {
            let (hand, ended) = (Hand::default(), buf::unwound());
            // What the stack's locks guard is left as the panic found it: each is let go of, and who comes next goes on.
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

    /// One life of a worker.
    fn work_isr(&self, isr: &Isr, at: usize, hand: &Hand) -> Result<(), IsrError> {
        let mut worker = isr.netisr.worker(at)?;
        // What this thread's turn at the stack's own queues has put into them again, or who did this work before has left there: no other
        // looks before the loop's next tick.
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
                    // Another thread may be at what waits, and may leave it to us.
                    std::thread::yield_now();
                }
                waits = self.stack.poll_soon(self.cx());
            } else if !worker.sleep() {
                return Ok(());
            }
        }
    }

    /// The host's own loop does not do the work of workstream `at` any more.
    pub(crate) fn release_isr(&self, at: usize) {
        if let Some(feed) = &mut self.inputs.first.lock(self.cx()).feed {
            feed.release(at);
        }
    }

    /// Ends netisr's threads when nothing waits any more: no frames may be taken in from here on.
    pub fn finish_isr(&self) {
        if let Some(isr) = &self.isr {
            isr.netisr.finish();
        }
    }

    /// What netisr is set to and has done; `None`: the host has no workstreams.
    pub fn isr_seen(&self) -> Option<Snapshot> {
        self.isr.as_ref().map(|isr| isr.netisr.snapshot())
    }

    /// Frames that wait in netisr's queues.
    pub fn isr_held(&self) -> u64 {
        self.own_isr().map_or(0, |isr| isr.netisr.held())
    }

    /// Its netisr, where what waits in it is this host's.
    fn own_isr(&self) -> Option<&Isr> {
        self.isr.as_ref().filter(|isr| isr.seat.is_none())
    }

    /// The balance of frames: the stack's, and before it what waits in netisr's queues, and what a worker had in hand that died.
    pub fn audit(&self) -> AuditReport {
        let (waiting, (unseen, lost)) = (self.isr_held(), self.isr_lost());
        let mut report = self.stack.audit(self.cx());
        report.received += waiting + unseen;
        report.held += waiting;
        report.dropped += lost;
        if lost > 0 {
            let sentence = "In the hand of one of netisr's workers that died.";
            report.reasons.push(Entry { name: "net.isr.lost".to_owned(), sentence, value: lost });
        }
        report
    }

    /// Frames that ended in the hands of workers: those that the stack had not counted as received, and all.
    pub(crate) fn isr_lost(&self) -> (u64, u64) {
        self.own_isr().map_or((0, 0), |isr| isr.died.balance(isr.netisr.audit().lost))
    }

    /// Drops everything that is still queued, as the last step before the host goes away. The audit then holds with nothing held.
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
