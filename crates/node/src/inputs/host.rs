//! Reception of frames from a host's ports, by the host's own loop and by the threads that run
//! parts.

use super::{Inputs, Part, Receiver};
use crate::Host;
use buf::Burst;
use clock::Instant;
use inet::iface::IfaceId;
use lock::{Cx, Locks};
use stats::Stage;
use std::sync::atomic::Ordering;

/// Exclusive claim of the calling thread to a part. Until the claim is dropped, only this thread
/// receives the part's frames, and it sends through a transmit queue of its own.
pub(super) struct Claim<'a, L: Locks> {
    host: &'a Host<L>,
    pub(super) part: &'a Part<L>,
}

impl<L: Locks> Drop for Claim<'_, L> {
    fn drop(&mut self) {
        self.part.is_claimed.store(false, Ordering::Release);
        self.host.stack.set_queue(self.host.cx(), None); // a later thread may get this number
        self.host.wake(); // to receive from the part's ports
    }
}

impl<L: Locks> Host<L> {
    /// Divides the ports into `parts` parts, each for one thread. The first part is for the thread
    /// in [`Host::run`], and parts 1, 2, ... are for threads in [`Host::run_part`]. A port added
    /// later goes to the part with the fewest ports. Has no effect on a host of one thread or with
    /// netisr; 0 is the same as 1.
    pub fn divide(&mut self, parts: usize) {
        if !L::SHARED || self.isr.is_some() {
            return;
        }
        let cx = self.cx();
        let whole = std::mem::take(&mut self.inputs);
        self.inputs.more = (1..parts).map(|_| Part::beside()).collect();
        for part in whole.iter() {
            part.lock(cx).receivers.drain(..).for_each(|receiver| self.inputs.add(cx, receiver));
        }
    }

    /// Receives the frames of part `part` until `stop` returns `true`, sleeping when none arrive.
    /// Another thread must be in [`Host::run`]. Both threads run timers while they are awake, but
    /// only the thread in [`Host::run`] wakes up for timers. Returns `false` if there is no such
    /// part, or if another thread runs it.
    pub fn run_part(&self, part: usize, mut stop: impl FnMut() -> bool) -> bool {
        let Some(claim) = self.claim_part(part) else { return false };
        while !stop() {
            let step = self.step_with(|cx| {
                let frames = self.take_in(cx, claim.part);
                if frames > 0 {
                    claim.part.rounds.0.fetch_add(1, Ordering::Release);
                }
                frames
            });
            if step.frames == 0 {
                self.wait_part(claim.part);
            }
        }
        true
    }

    /// Claims a part for the calling thread; `None` if there is no such part, or if another thread
    /// has claimed it.
    pub(super) fn claim_part(&self, at: usize) -> Option<Claim<'_, L>> {
        let part = self.inputs.iter().nth(at).filter(|part| !part.is_claimed.swap(true, Ordering::AcqRel))?;
        self.stack.set_queue(self.cx(), Some(at as u16));
        Some(Claim { host: self, part })
    }

    /// Calls `f` with each receiver.
    fn each_receiver(&self, mut f: impl FnMut(&Receiver)) {
        let cx = self.cx();
        self.inputs.iter().for_each(|part| part.lock(cx).receivers.iter().for_each(&mut f));
    }

    /// Receives a burst from each port of a part and passes it to the stack, or to netisr's queues.
    /// Returns the number of frames.
    #[cfg_attr(not(debug_assertions), inline(always))]
    pub(crate) fn take_in(&self, cx: Cx, part: &Part<L>) -> usize {
        let lap = self.stack.lap(cx);
        let mut frames = 0;
        let mut burst = Burst::new();
        let mut inputs = part.inputs.0.lock(cx);
        let Inputs { receivers, feed, shard } = &mut *inputs;
        for receiver in receivers.iter_mut() {
            let n = receiver.half.rx_burst(&mut burst, self.burst(), cx.now);
            if n == 0 {
                lap.mark(Stage::PortLook, 1);
            } else {
                lap.mark(Stage::PortRx, n as u64);
                frames += n;
                receiver.gave = cx.now;
                if receiver.watch.is_on() {
                    receiver.take_watched(&self.stack, cx, &mut burst);
                }
                match feed {
                    None => self.stack.input(cx, receiver.iface, &mut burst),
                    Some(feed) => feed.input(&self.stack, cx, receiver.iface, &mut burst),
                }
            }
        }
        if let Some(feed) = feed {
            feed.work(&self.stack, cx);
        }
        if let Some(shard) = shard {
            frames += shard.take(&self.stack, cx, receivers);
        }
        frames
    }

    /// Returns the earliest time at which a port releases a delayed frame; `None` if no frame is
    /// delayed.
    pub fn next_arrival(&self) -> Option<Instant> {
        let mut next: Option<Instant> = None;
        self.each_receiver(|r| next = [next, r.half.next_event()].into_iter().flatten().min());
        next
    }

    /// Returns whether no more frames can arrive: at least one port has ended, and all other ports
    /// have ended too or only transmit. Mirrors do not count.
    pub fn is_over(&self) -> bool {
        let (mut any_gone, mut all_over) = (false, true);
        self.each_receiver(|r| {
            let gone = r.half.is_gone();
            if r.is_mirror {
                return;
            }
            any_gone |= gone;
            all_over &= gone || r.half.is_silent();
        });
        any_gone && all_over
    }

    /// Returns the ports that have ended, each with the reason unless it ended normally.
    pub fn gone(&self) -> Vec<(IfaceId, Option<String>)> {
        let mut gone = Vec::new();
        self.each_receiver(|r| gone.extend(r.half.is_gone().then(|| (r.iface, r.half.why_gone()))));
        gone
    }

    /// Returns the receive warnings of the ports, as sentences.
    pub fn warnings(&self) -> Vec<(IfaceId, String)> {
        let mut all = Vec::new();
        self.each_receiver(|r| all.extend(r.half.warnings().into_iter().map(|warning| (r.iface, warning))));
        all
    }

    /// Returns the number of frames held by the receive halves.
    pub fn held_by_ports(&self) -> usize {
        let mut held = 0;
        self.each_receiver(|r| held += r.half.held());
        held
    }

    /// Returns the ifaces that received a frame whose source is their own MAC address.
    pub fn duplicates(&self) -> Vec<IfaceId> {
        let seen = self.stack.ifaces().filter(|iface| iface.is_own_source_seen());
        seen.map(|iface| iface.id).collect()
    }

    /// Returns whether a port has an open capture.
    #[cfg(test)]
    pub(crate) fn receivers_watched(&self) -> bool {
        let mut watched = false;
        self.each_receiver(|r| watched |= r.watch.is_on());
        watched
    }
}
