//! A host's receiving halves: bursts from its ports into the stack, or to where netisr says.
//!
//! Of a host that one thread keeps going they are one list. Those of a shared host can be divided into parts, each with a
//! lock of its own. A thread that runs a part ([`Host::run_part`]) takes its frames alone, and threads that receive at the
//! same time write no common line; what no thread runs is [`Host::step`]'s.

use crate::Host;
use crate::capture::Watch;
use crate::isr::Feed;
use crate::split::Seated;
use buf::Burst;
use clock::Instant;
use inet::iface::IfaceId;
use lock::{Apart, Cx, Guarded, Locks};
use port::os::event::Event;
use port::pcap::Direction;
use port::{PortCounts, RxHalf};
use stats::Stage;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

/// A port's receiving half and where it leads.
pub(crate) struct Receiver {
    pub(crate) iface: IfaceId,
    pub(crate) half: Box<dyn RxHalf>,
    pub(crate) watch: Arc<Watch>,
    pub(crate) counts: Arc<PortCounts>,
    /// Time of the last burst with frames.
    pub(crate) gave: Instant,
}

/// The receivers of a part.
#[derive(Default)]
pub(crate) struct Inputs {
    pub(crate) receivers: Vec<Receiver>,
    /// What decides who takes frames through the stack, if not always who took them from the port.
    pub(crate) feed: Option<Feed>,
    /// Of a split host's stack: where its frames come from.
    pub(crate) seat: Option<Seated>,
}

/// A part.
pub(crate) struct Part<L: Locks> {
    inputs: Apart<Guarded<L, Inputs>>,
    /// A thread runs it.
    is_run: AtomicBool,
    /// Rounds in which that thread has taken frames in.
    rounds: Apart<AtomicU64>,
    /// Wakes that thread, whose sleep is on the ports that there were; `None`: no descriptor was left.
    event: Option<Event>,
}

/// A part that the calling thread runs, until dropped.
pub(crate) struct Run<'a, L: Locks>(pub(crate) &'a Part<L>);

/// All parts.
pub(crate) struct Parts<L: Locks> {
    /// The one with netisr and the steerer.
    pub(crate) first: Part<L>,
    more: Box<[Part<L>]>,
}

impl<L: Locks> Run<'_, L> {
    /// Counts a round with frames.
    pub(crate) fn note_round(&self) {
        self.0.rounds.0.fetch_add(1, Ordering::Release);
    }
}

impl<L: Locks> Part<L> {
    /// Waits for the part and locks it.
    pub(crate) fn lock(&self, cx: Cx) -> impl std::ops::DerefMut<Target = Inputs> {
        self.inputs.0.lock(cx)
    }

    /// Makes an empty part for a thread beside the first.
    fn beside() -> Part<L> {
        Part { event: Event::new().ok(), ..Part::default() }
    }

    /// Returns what wakes the thread that runs it.
    pub(crate) fn event(&self) -> Option<&Event> {
        self.event.as_ref()
    }

    /// Wakes the thread that runs it.
    fn wake(&self) {
        self.event.iter().for_each(Event::raise);
    }

    /// Takes the part for the calling thread; `None`: another runs it.
    fn run(&self) -> Option<Run<'_, L>> {
        (!self.is_run.swap(true, Ordering::AcqRel)).then_some(Run(self))
    }
}

impl<L: Locks> Default for Part<L> {
    fn default() -> Self {
        Part {
            inputs: Apart(Guarded::default()),
            is_run: AtomicBool::new(false),
            rounds: Apart::default(),
            event: None,
        }
    }
}

impl<L: Locks> Drop for Run<'_, L> {
    fn drop(&mut self) {
        self.0.is_run.store(false, Ordering::Release);
    }
}

impl<L: Locks> Default for Parts<L> {
    fn default() -> Self {
        Parts { first: Part::default(), more: Box::default() }
    }
}

impl<L: Locks> Parts<L> {
    /// Returns all parts.
    #[inline(always)]
    pub(crate) fn iter(&self) -> impl Iterator<Item = &Part<L>> {
        std::iter::once(&self.first).chain(&self.more)
    }

    /// Returns in how many rounds threads that run parts have taken frames in: what these gave rise to, no round of another
    /// thread has brought.
    pub(crate) fn rounds(&self) -> u64 {
        self.more.iter().map(|part| part.rounds.0.load(Ordering::Acquire)).sum()
    }

    /// Returns the parts that no thread runs.
    #[inline(always)]
    pub(crate) fn not_run(&self) -> impl Iterator<Item = &Part<L>> {
        self.iter().filter(|part| !part.is_run.load(Ordering::Relaxed))
    }

    /// Takes part `at` for the calling thread; `None`: there is none, or another thread runs it.
    pub(crate) fn run(&self, at: usize) -> Option<Run<'_, L>> {
        self.iter().nth(at)?.run()
    }

    /// Adds a receiver to the part with the fewest.
    pub(crate) fn add(&self, cx: Cx, receiver: Receiver) {
        if let Some(part) = self.iter().min_by_key(|part| part.lock(cx).receivers.len()) {
            part.lock(cx).receivers.push(receiver);
            part.wake();
        }
    }

    /// Removes the receivers of an iface.
    pub(crate) fn remove(&self, cx: Cx, iface: IfaceId) {
        for part in self.iter() {
            part.lock(cx).receivers.retain(|receiver| receiver.iface != iface);
            part.wake(); // it holds the port's descriptor while it sleeps
        }
    }
}

impl<L: Locks> Host<L> {
    /// Divides the ports among `parts` threads that keep a shared host going together: those beside the first run a part
    /// each, from 1 on ([`Host::run_part`]). A port added later goes to the part with the fewest. 0 is 1; the ports of a host
    /// of one thread, and those of a host with netisr, stay together.
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

    /// Calls `f` with each receiver.
    fn each_receiver(&self, mut f: impl FnMut(&Receiver)) {
        let cx = self.cx();
        self.inputs.iter().for_each(|part| part.lock(cx).receivers.iter().for_each(&mut f));
    }

    /// Takes a burst from each port of a part into the stack, or to where netisr says; returns how many frames.
    #[inline(always)]
    pub(crate) fn take_in(&self, cx: Cx, part: &Part<L>) -> usize {
        let lap = self.stack.lap(cx);
        let mut frames = 0;
        let mut burst = Burst::new();
        let mut inputs = part.inputs.0.lock(cx);
        let Inputs { receivers, feed, seat } = &mut *inputs;
        for receiver in receivers.iter_mut() {
            let n = receiver.half.rx_burst(&mut burst, self.burst(), cx.now);
            if n == 0 {
                lap.mark(Stage::PortLook, 1);
            } else {
                lap.mark(Stage::PortRx, n as u64);
                frames += n;
                receiver.gave = cx.now;
                if receiver.watch.is_on() {
                    receiver.watch.keep(receiver.watch.copy(burst.as_slice()), Direction::Inbound, cx.now);
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
        if let Some(seat) = seat {
            frames += seat.take(&self.stack, cx, receivers);
        }
        frames
    }

    /// Returns when a port that holds frames back by time will give the next; `None`: none does.
    pub fn next_arrival(&self) -> Option<Instant> {
        let mut next: Option<Instant> = None;
        self.each_receiver(|r| next = [next, r.half.next_event()].into_iter().flatten().min());
        next
    }

    /// Returns whether no frame will ever come again: ports have ended, and all but those that only take.
    pub fn is_over(&self) -> bool {
        let (mut any_gone, mut all_over) = (false, true);
        self.each_receiver(|r| {
            let gone = r.half.is_gone();
            any_gone |= gone;
            all_over &= gone || r.half.is_silent();
        });
        any_gone && all_over
    }

    /// Returns the ports that have ended, with the reason if there is one beyond their having come to their end.
    pub fn gone(&self) -> Vec<(IfaceId, Option<String>)> {
        let mut gone = Vec::new();
        self.each_receiver(|r| gone.extend(r.half.is_gone().then(|| (r.iface, r.half.why_gone()))));
        gone
    }

    /// Returns what was wrong with what came in through the ports, a sentence each.
    pub fn remarks(&self) -> Vec<(IfaceId, String)> {
        let mut all = Vec::new();
        self.each_receiver(|r| all.extend(r.half.remarks().into_iter().map(|remark| (r.iface, remark))));
        all
    }

    /// Returns the number of frames held by the ports' receiving halves.
    pub fn held_by_ports(&self) -> usize {
        let mut held = 0;
        self.each_receiver(|r| held += r.half.held());
        held
    }

    /// Returns whether any port is watched.
    #[cfg(test)]
    pub(crate) fn receivers_watched(&self) -> bool {
        let mut watched = false;
        self.each_receiver(|r| watched |= r.watch.is_on());
        watched
    }
}

#[cfg(test)]
mod tests;
