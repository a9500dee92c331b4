//! The card: moves frames from the wire into posted buffers, and from descriptors onto the wire.
//!
//! The card runs when its owner calls `step`, and then does as much as descriptors, wire and bus
//! allow by `now`. It reads up to `nic.fetch` descriptors from memory at a time, writes receive
//! descriptors back four at a time (64 bytes), and writes transmit descriptors back only where the
//! driver requested a report (RS).

use super::regs::{LSC, RXO, RXT0, TXDW};
use super::settings::{COLD, MOVE};
use super::state::Nic;
use super::wire::{RxEnd, TxEnd};
use super::{bus, work};
use crate::offload::gso::{self, Cutter};
use buf::ring::desc;
use buf::{Burst, Flags, Frame};
use clock::Instant;
use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::Ordering;

/// Number of receive descriptors written back in one bus transaction: a cache line of 64 bytes.
const LINE: usize = 4;

/// A card with its receiving and transmitting engine.
#[derive(Debug)]
pub struct Card {
    /// Moves frames from the wire into posted buffers.
    pub rx: RxEngine,
    /// Moves frames from descriptors onto the wire.
    pub tx: TxEngine,
}

impl Card {
    pub(super) fn new(
        nic: Arc<Nic>,
        rx: desc::Card<Frame>,
        from: Option<RxEnd>,
        tx: desc::Card<Frame>,
        out: Option<TxEnd>,
    ) -> Card {
        let copies = nic.settings.dma.get() != MOVE;
        let vlan = nic.settings.vlan.get() as u16;
        Card {
            rx: RxEngine {
                nic: nic.clone(),
                ring: rx,
                wire: from,
                copies: copies || vlan != 0,
                vlan,
                fetched: 0,
                unwritten: 0,
                stepped: Instant::ZERO,
                done: Burst::new(),
            },
            tx: TxEngine {
                nic,
                ring: tx,
                wire: out,
                copies: copies || vlan != 0,
                vlan,
                fetched: 0,
                cutting: None,
                stepped: Instant::ZERO,
                resting: VecDeque::new(),
            },
        }
    }

    /// Moves all frames that the wire, the descriptors and the bus allow by `now`. Returns the
    /// number of frames moved.
    pub fn step(&mut self, now: Instant) -> usize {
        self.tx.step(now) + self.rx.step(now)
    }
}

/// The receiving engine of the card.
#[derive(Debug)]
pub struct RxEngine {
    nic: Arc<Nic>,
    ring: desc::Card<Frame>,
    wire: Option<RxEnd>,
    copies: bool,
    vlan: u16,
    /// Number of descriptors read from memory and not yet used.
    fetched: usize,
    /// Number of used descriptors whose status has not been written back to memory yet.
    unwritten: usize,
    stepped: Instant,
    /// Frames whose bytes have been copied, collected so that their buffers are freed together.
    done: Burst,
}

impl RxEngine {
    /// Receives all frames that the wire, the descriptors and the bus allow by `now`. Returns the
    /// number of frames stored in buffers.
    pub fn step(&mut self, now: Instant) -> usize {
        self.nic.bus.resume(&self.nic.settings, std::mem::replace(&mut self.stepped, now));
        let mut stored = 0;
        while self.nic.bus.is_free(&self.nic.settings, now)
            && let Some(good) = self.receive_next(now)
        {
            stored += usize::from(good);
        }
        if self.nic.bus.is_free(&self.nic.settings, now) {
            self.write_back(); // no frame is left to fill the current cache line of descriptors
        }
        self.done.clear();
        if stored > 0 {
            self.nic.interrupt(RXT0, now);
        } else if let Some(side) = &self.nic.side {
            side.interrupts.deliver(now); // an interrupt that moderation held back
        }
        self.watch_link(now);
        stored
    }

    /// Takes the next frame off the wire. Returns whether it was stored in a buffer; `None` if no
    /// frame has arrived, or if the frame must wait for the bus or a descriptor.
    fn receive_next(&mut self, now: Instant) -> Option<bool> {
        let wire = self.wire.as_mut()?;
        wire.next_at().filter(|at| *at <= now)?;
        let has_descriptor = self.ring.ready() > 0;
        if !has_descriptor && self.nic.side.as_ref().is_some_and(|side| side.waits.load(Ordering::Relaxed)) {
            return None;
        }
        let frame = wire.take(now)?;
        if !has_descriptor {
            self.nic.counts.missed.bump();
            self.nic.interrupt(RXO, now);
            self.put_away(frame);
            return Some(false);
        }
        let len = frame.len();
        if !self.store(frame) {
            self.nic.counts.refused.bump();
            return Some(false);
        }
        self.account(len);
        self.ring.finish_and_report();
        Some(true)
    }

    /// Stores a frame in the next descriptor: either the bytes are copied into the posted buffer,
    /// or the frame's buffer replaces the posted one. Returns false if the frame does not fit or
    /// belongs to another VLAN.
    fn store(&mut self, frame: Frame) -> bool {
        let (copies, vlan) = (self.copies, self.vlan);
        let (look, cold) = (self.nic.settings.csum.on(), self.nic.settings.dma.get() == COLD);
        let mut left = Some(frame);
        let stored = self.ring.with_next(|slot, _| {
            let (Some(posted), Some(frame)) = (slot.as_mut(), left.as_ref()) else { return false };
            if copies {
                let fits = if vlan == 0 {
                    posted.extend(frame.bytes()).is_some()
                } else {
                    work::extend_untagged(posted, frame.bytes(), vlan).is_some()
                };
                if !fits {
                    return false;
                }
            } else {
                if frame.len() > posted.tailroom() {
                    return false;
                }
                left = left.take().and_then(|frame| slot.replace(frame));
            }
            let Some(stored) = slot.as_mut() else { return false };
            stored.set_flags(if look { work::verify(stored.bytes()) } else { Flags::default() });
            if cold {
                buf::evict(stored.bytes());
            }
            true
        });
        if let Some(frame) = left {
            self.put_away(frame);
        }
        stored == Some(true)
    }

    fn put_away(&mut self, frame: Frame) {
        if self.done.room() == 0 {
            self.done.clear();
        }
        self.done.put(frame, || {}); // callers count lost frames
    }

    /// Counts a frame of `len` bytes and its bus cost.
    fn account(&mut self, len: usize) {
        let (counts, settings) = (&self.nic.counts, &self.nic.settings);
        let mut clocks = bus::write_clocks(len as u64);
        if self.fetched == 0 {
            self.fetched = self.ring.ready().min(settings.fetch.size());
            clocks += bus::read_clocks(self.fetched as u64 * bus::DESCRIPTOR);
            counts.rx_fetches.bump();
        }
        self.fetched = self.fetched.saturating_sub(1);
        counts.rx_stored.bump();
        counts.rx_bytes.add(len as u64);
        counts.rx_bus_clocks.add(self.nic.bus.take(settings, clocks));
        self.unwritten += 1;
        if self.unwritten == LINE {
            self.write_back();
        }
    }

    fn write_back(&mut self) {
        if self.unwritten > 0 {
            let clocks = bus::write_clocks(std::mem::take(&mut self.unwritten) as u64 * bus::DESCRIPTOR);
            self.nic.counts.rx_writebacks.bump();
            self.nic.counts.rx_bus_clocks.add(self.nic.bus.take(&self.nic.settings, clocks));
        }
    }

    fn watch_link(&mut self, now: Instant) {
        if self.wire.as_ref().is_some_and(RxEnd::is_closed) && self.nic.link_up.swap(false, Ordering::Relaxed) {
            self.nic.interrupt(LSC, now);
        }
    }

    /// Returns the arrival time of the next frame on the wire; `None` if there is none.
    pub fn next_event(&mut self) -> Option<Instant> {
        let has_place = self.ring.ready() > 0;
        let at = self.wire.as_mut()?.next_at()?;
        has_place.then(|| at.max(self.nic.bus.busy_until(&self.nic.settings)))
    }

    /// Returns the number of frames on the wire towards this card.
    pub fn held(&self) -> usize {
        self.wire.as_ref().map_or(0, RxEnd::held)
    }

    /// Returns whether the other end of the wire is gone and all of its frames have been taken.
    pub fn is_gone(&self) -> bool {
        self.wire.as_ref().is_some_and(RxEnd::is_gone)
    }

    /// Returns whether there is no wire.
    pub fn is_unplugged(&self) -> bool {
        self.wire.is_none()
    }
}

/// The transmitting engine of the card.
#[derive(Debug)]
pub struct TxEngine {
    nic: Arc<Nic>,
    ring: desc::Card<Frame>,
    wire: Option<TxEnd>,
    copies: bool,
    vlan: u16,
    fetched: usize,
    /// The large segment being split. Its descriptor is completed after the last piece.
    cutting: Option<Cutter>,
    stepped: Instant,
    /// Sent buffers that are held back, oldest first: see [`TxEngine::rest`].
    resting: VecDeque<Frame>,
}

impl TxEngine {
    /// Sends all frames that the descriptors, the wire and the bus allow by `now`. Returns the
    /// number of frames put onto the wire.
    pub fn step(&mut self, now: Instant) -> usize {
        self.nic.bus.resume(&self.nic.settings, std::mem::replace(&mut self.stepped, now));
        let (mut sent, before) = (0, self.nic.counts.tx_writebacks.get());
        while self.can_send(now)
            && let Some(frame) = self.next_frame()
        {
            if let Some(frame) = frame {
                self.send(frame, now);
                sent += 1;
            }
        }
        if sent > 0
            && let Some(wire) = &self.wire
        {
            wire.ring_far(now);
        }
        if self.nic.counts.tx_writebacks.get() != before {
            self.nic.interrupt(TXDW, now);
        }
        sent
    }

    /// Adds `buffers` to a delay queue. From then on each sent buffer enters the queue, and the
    /// oldest buffer in the queue is returned to the driver instead. A driver whose pool reuses the
    /// last freed buffer first then cycles through all of them, as on a machine where buffers pass
    /// through many stages. This has an effect only if the card copies payload (`nic.dma` is not
    /// `move`).
    pub fn rest(&mut self, buffers: impl IntoIterator<Item = Frame>) {
        self.resting.extend(buffers);
    }

    fn can_send(&mut self, now: Instant) -> bool {
        if self.ring.ready() == 0 || !self.nic.bus.is_free(&self.nic.settings, now) {
            return false;
        }
        match &mut self.wire {
            Some(wire) if !wire.is_closed() => wire.has_room(now),
            _ => {
                self.nic.link_up.store(false, Ordering::Relaxed);
                true // the frame is dropped, because there is no peer
            }
        }
    }

    fn send(&mut self, frame: Frame, now: Instant) {
        let counts = &self.nic.counts;
        match &mut self.wire {
            Some(wire) if !wire.is_closed() => {
                counts.tx_wire.bump();
                counts.tx_bytes.add(frame.len() as u64);
                wire.push(frame, now);
            }
            _ => counts.unplugged.bump(),
        }
    }

    /// Returns the next frame for the wire: `Some(None)` if the frame was malformed; `None` if no
    /// frame is waiting, or if the card has no free buffer now.
    fn next_frame(&mut self) -> Option<Option<Frame>> {
        if self.cutting.is_some() {
            return self.next_piece();
        }
        let (copies, vlan, nic) = (self.copies, self.vlan, self.nic.clone());
        let resting = &mut self.resting;
        let mut len = 0;
        let next = self.ring.with_next(|slot, _| {
            let Some(frame) = slot.as_mut() else { return Next::Frame(None) };
            len = frame.len();
            if frame.flags().has(Flags::GSO) {
                if !fits_pieces(frame, nic.fifo.as_ref()) {
                    return Next::Frame(None);
                }
                return match slot.take().map(Cutter::new) {
                    Some(Ok(cutter)) => Next::Cut(Box::new(cutter)),
                    Some(Err(frame)) => {
                        *slot = Some(frame);
                        Next::Frame(None)
                    }
                    None => Next::Frame(None),
                };
            }
            if !copies {
                return Next::Frame(slot.take().and_then(finished));
            }
            let Some(mut copy) = nic.fifo.as_ref().and_then(|fifo| fifo.get()) else { return Next::Wait };
            let whole = if vlan == 0 {
                copy.extend(frame.bytes())
            } else {
                work::extend_tagged(&mut copy, frame.bytes(), vlan)
            };
            copy.set_flags(frame.flags());
            if let Some(rested) = resting.pop_front() {
                resting.push_back(std::mem::replace(frame, rested));
            }
            Next::Frame(whole.and_then(|()| finished(copy)))
        })?;
        if !matches!(next, Next::Wait) {
            self.account(len);
        }
        match next {
            Next::Wait => None,
            Next::Cut(cutter) => {
                self.cutting = Some(*cutter);
                self.next_piece()
            }
            Next::Frame(frame) => {
                self.finish();
                self.nic.counts.tx_malformed.add(u64::from(frame.is_none()));
                Some(frame)
            }
        }
    }

    /// Returns the next piece of a large segment. After the last piece, completes the segment's
    /// descriptor.
    fn next_piece(&mut self) -> Option<Option<Frame>> {
        let (fifo, cutter) = (self.nic.fifo.as_ref()?, self.cutting.as_mut()?);
        let piece = cutter.cut(fifo)?;
        let piece = if self.vlan == 0 { Some(piece) } else { tagged(&piece, fifo, self.vlan) };
        self.nic.counts.tx_segments.bump();
        self.nic.counts.tx_malformed.add(u64::from(piece.is_none())); // no suitable buffer for the tagged piece
        if cutter.is_done() {
            let frame = self.cutting.take().map(Cutter::into_frame);
            // The buffer is returned to the driver, which frees it when it cleans up.
            self.ring.with_next(|slot, _| *slot = frame);
            self.finish();
        }
        Some(piece)
    }

    /// Completes the next descriptor.
    fn finish(&mut self) {
        if self.ring.with_next(|_, command| command & desc::RS != 0) == Some(true) {
            self.nic.counts.tx_writebacks.bump();
            let clocks = bus::write_clocks(bus::DESCRIPTOR);
            self.nic.counts.tx_bus_clocks.add(self.nic.bus.take(&self.nic.settings, clocks));
        }
        self.ring.finish();
    }

    /// Counts the bus cost of reading a frame of `len` bytes and its descriptor.
    fn account(&mut self, len: usize) {
        let mut clocks = bus::read_clocks(len as u64);
        if self.fetched == 0 {
            self.fetched = self.ring.ready().min(self.nic.settings.fetch.size());
            clocks += bus::read_clocks(self.fetched as u64 * bus::DESCRIPTOR);
            self.nic.counts.tx_fetches.bump();
        }
        self.fetched = self.fetched.saturating_sub(1);
        self.nic.counts.tx_bus_clocks.add(self.nic.bus.take(&self.nic.settings, clocks));
    }

    /// Returns the time at which a frame that waits for the wire or the bus can be sent; `None` if
    /// no frame is waiting.
    pub fn next_event(&mut self) -> Option<Instant> {
        if self.ring.ready() == 0 {
            return None;
        }
        let wire = self.wire.as_ref().map_or(Instant::ZERO, TxEnd::next_room);
        Some(wire.max(self.nic.bus.busy_until(&self.nic.settings)))
    }

    /// Returns whether the other end of the wire is gone.
    pub fn is_gone(&self) -> bool {
        self.wire.as_ref().is_some_and(TxEnd::is_closed)
    }
}

enum Next {
    /// A frame for the wire, or `None` if it was malformed.
    Frame(Option<Frame>),
    Cut(Box<Cutter>),
    /// The card has no free buffer now.
    Wait,
}

/// Performs the offloads that the frame requests, and clears its flags. Returns `None` if the
/// frame's headers do not allow the offloads.
fn finished(mut frame: Frame) -> Option<Frame> {
    if frame.flags().any(Flags::TX_WORK) {
        crate::offload::complete(&mut frame)?;
    }
    frame.set_flags(Flags::default());
    Some(frame)
}

/// Returns whether each piece of a large segment, plus a VLAN tag, fits in the card's buffers.
fn fits_pieces(frame: &Frame, fifo: Option<&buf::Pool>) -> bool {
    let (Some(fifo), Some(size), Some((_, text))) = (fifo, frame.gso_size(), gso::places(frame)) else { return false };
    text + usize::from(size) + ::wire::vlan::TAG_LEN <= fifo.size() - fifo.headroom()
}

/// Returns a copy of a piece with a VLAN tag; `None` if no buffer is free or the copy does not fit.
fn tagged(piece: &Frame, fifo: &buf::Pool, vlan: u16) -> Option<Frame> {
    let mut copy = fifo.get()?;
    work::extend_tagged(&mut copy, piece.bytes(), vlan)?;
    Some(copy)
}
