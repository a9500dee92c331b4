//! The driver, written as for hardware: it polls memory, not registers.
//!
//! Receiving: the driver posts buffers of the pool and announces them to the card by writing RDT
//! (T1). It finds filled buffers by their DD bit and takes them in bursts. Settings determine when,
//! and by which code, the memory of a frame is touched (T4 to T6, T10). Transmitting: the driver
//! puts frames into descriptors and announces them by writing TDT (T2). It requests a status report
//! for one descriptor out of several (T3); each report returns many buffers at a time. T1 to T11
//! are the optimizations of the report bridge2004, as the documentation numbers them.

use super::bus;
use super::settings::{AT_POLL, LATE, STACK, TOUCH};
use super::state::Nic;
use crate::{PortCounts, RxHalf, TxHalf};
use buf::ring::desc::{self, RS};
use buf::{BURST_MAX, Burst, Flags, Frame, Kind, Pool};
use clock::Instant;
use stats::Counter;
use std::os::fd::BorrowedFd;
use std::sync::Arc;

/// The receiving half of the driver.
#[derive(Debug)]
pub struct RxDriver {
    nic: Arc<Nic>,
    ring: desc::Driver<Frame>,
    pool: Pool,
    /// True if the pool links its free buffers through their own memory, so that taking a buffer
    /// reads its first cache line.
    linked: bool,
    port: Arc<PortCounts>,
    /// Pointers to buffers that were taken from the pool in bulk, without touching the buffers.
    stock: Burst,
    /// True if an interrupt has arrived and not all of its frames have been taken.
    awake: bool,
}

impl RxDriver {
    pub(super) fn new(nic: Arc<Nic>, ring: desc::Driver<Frame>, pool: Pool, port: Arc<PortCounts>) -> RxDriver {
        let linked = pool.stats().kind == Kind::Freelist;
        RxDriver { nic, ring, pool, linked, port, stock: Burst::new(), awake: true }
    }

    /// Returns the maximum number of descriptors between two writes of a tail register. It is
    /// limited to a quarter of the ring, so that the card always has descriptors while the driver
    /// prepares more.
    fn at_most(wanted: usize, size: usize) -> usize {
        wanted.min(size / 4).max(1)
    }

    /// Takes `n` completed frames from the ring into `into`. Returns their total length in bytes.
    #[cfg_attr(not(debug_assertions), inline(always))]
    fn harvest(&mut self, n: usize, into: &mut Burst) -> u64 {
        let ahead = self.nic.settings.prefetch.size();
        let late = self.nic.settings.parse.get() == LATE;
        let (mut bytes, bugs) = (0, &self.port.rx.bugs);
        if !late {
            self.nic.counts.rx_early_reads.add(n as u64);
        }
        if ahead == 0 {
            self.ring.take_done(n, |frame| bytes += keep(frame, late, bugs, into));
            return bytes;
        }
        self.nic.counts.rx_prefetches.add(n as u64);
        (0..ahead.min(n)).for_each(|i| self.ring.look_ahead(i, Frame::prefetch));
        for _ in 0..n {
            self.ring.look_ahead(ahead, Frame::prefetch);
            self.ring.take_done(1, |frame| bytes += keep(frame, late, bugs, into));
        }
        bytes
    }

    /// Posts buffers to all free descriptors.
    #[cfg_attr(not(debug_assertions), inline(always))]
    fn refill(&mut self) {
        let settings = &self.nic.settings;
        let batch = Self::at_most(settings.rx_tail_batch.size(), self.ring.size());
        match settings.refill.get() {
            STACK => self.refill_from_stock(batch),
            TOUCH => {
                let posted = self.refill_by(batch, |pool| pool.get().map(touched));
                self.nic.counts.rx_headers_written.add(posted);
            }
            _ => _ = self.refill_by(batch, Pool::get),
        }
    }

    #[cfg_attr(not(debug_assertions), inline(always))]
    fn refill_by(&mut self, batch: usize, get: impl Fn(&Pool) -> Option<Frame>) -> u64 {
        let mut all = 0;
        while self.ring.room() > 0 {
            let (pool, wanted) = (&self.pool, batch.saturating_sub(self.ring.unannounced()).max(1));
            let posted = self.ring.put_from(wanted, || get(pool).map(|buffer| (buffer, 0)));
            all += posted as u64;
            if self.ring.unannounced() >= batch {
                self.write_rdt();
            }
            if posted < wanted && self.ring.room() > 0 {
                self.starve();
                break;
            }
        }
        self.count_posted(all);
        all
    }

    #[inline(always)]
    fn count_posted(&self, posted: u64) {
        self.nic.counts.rx_posted.add(posted);
        if self.linked {
            self.nic.counts.rx_links_read.add(posted);
        }
    }

    #[cfg_attr(not(debug_assertions), inline(always))]
    fn refill_from_stock(&mut self, batch: usize) {
        while let room @ 1.. = self.ring.room() {
            if self.stock.is_empty() && self.pool.get_burst(room.min(BURST_MAX), &mut self.stock) == 0 {
                return self.starve();
            }
            let (stock, wanted) = (&mut self.stock, batch.saturating_sub(self.ring.unannounced()).max(1));
            let posted = self.ring.put_from(wanted, || stock.pop().map(|buffer| (buffer, 0))) as u64;
            self.nic.counts.rx_from_stock.add(posted);
            self.count_posted(posted);
            if self.ring.unannounced() >= batch {
                self.write_rdt();
            }
        }
    }

    /// Announces all posted buffers to the card. Called when the pool is empty.
    #[cold]
    fn starve(&mut self) {
        self.nic.counts.no_buffer.bump();
        self.port.rx.no_buffer.bump();
        if self.ring.unannounced() > 0 {
            self.write_rdt();
        }
    }

    #[inline(always)]
    fn write_rdt(&mut self) {
        self.ring.announce();
        self.nic.counts.rx_doorbells.bump();
        self.nic.access(bus::REGISTER_WRITE, self.nic.settings.reg_write_ns.get());
    }

    /// Returns whether frames may be waiting, in interrupt mode. After an interrupt, reads ICR,
    /// which costs a register access.
    fn is_awake(&mut self) -> bool {
        if let Some(side) = &self.nic.side
            && side.interrupts.is_asserted()
        {
            side.interrupts.moderate(self.nic.settings.itr_us.get());
            self.nic.counts.register_reads.bump();
            self.nic.access(bus::REGISTER_READ, self.nic.settings.reg_read_ns.get());
            side.interrupts.read_cause();
            self.awake = true;
        }
        self.awake
    }
}

/// Adds a received frame to the burst. Returns the frame's length in bytes.
#[cfg_attr(not(debug_assertions), inline(always))]
fn keep(frame: Option<Frame>, late: bool, bugs: &Counter, into: &mut Burst) -> u64 {
    let Some(mut frame) = frame else {
        debug_assert!(false, "a completed descriptor has no frame");
        bugs.bump();
        return 0;
    };
    let bytes = frame.len() as u64;
    if !late {
        mark_broadcast(&mut frame);
    }
    into.put(frame, || bugs.bump()); // the caller has checked the free slots
    bytes
}

/// Sets the broadcast flag of a frame with a group destination address. With `nic.parse=early`,
/// this reads the frame's first cache line.
#[inline(always)]
fn mark_broadcast(frame: &mut Frame) {
    if frame.bytes().first().is_some_and(|first| first & 1 != 0) {
        frame.set_flags(frame.flags().with(Flags::LINK_BROADCAST));
    }
}

/// Writes to the start of the buffer and returns it. This models a pool that links free buffers
/// through their own memory, or that keeps a header in each buffer.
#[cfg_attr(not(debug_assertions), inline(always))]
fn touched(mut buffer: Frame) -> Frame {
    if let Some(line) = buffer.append(8) {
        line.fill(0);
    }
    buffer.truncate(0);
    buffer
}

impl RxHalf for RxDriver {
    fn rx_burst(&mut self, into: &mut Burst, most: usize, _now: Instant) -> usize {
        let most = most.min(into.room());
        let polled = !self.nic.settings.intr.on();
        let frames = if polled || self.is_awake() { self.ring.find_done(most).min(most) } else { 0 };
        let bytes = self.harvest(frames, into);
        self.awake = frames > 0 && frames == most;
        if self.ring.room() > 0 {
            self.refill();
        }
        self.nic.counts.rx_frames.add(frames as u64);
        self.port.rx.frames.add(frames as u64);
        self.port.rx.bytes.add(bytes);
        self.port.rx.idle.add(u64::from(frames == 0));
        frames
    }

    fn wait_fd(&self) -> Option<BorrowedFd<'_>> {
        Some(self.nic.side.as_ref()?.interrupts.event()?.fd())
    }

    fn next_event(&self) -> Option<Instant> {
        self.nic.side.as_ref()?.interrupts.next_event()
    }

    fn held(&self) -> usize {
        let counts = &self.nic.counts;
        counts.rx_stored.get().wrapping_sub(counts.rx_frames.get()) as usize
    }
}

/// The transmitting half of the driver.
#[derive(Debug)]
pub struct TxDriver {
    nic: Arc<Nic>,
    ring: desc::Driver<Frame>,
    port: Arc<PortCounts>,
    /// Number of frames put into the ring since a report (RS) was last requested.
    unreported: usize,
    /// Frames completed by the card, freed together.
    done: Burst,
}

impl TxDriver {
    pub(super) fn new(nic: Arc<Nic>, ring: desc::Driver<Frame>, port: Arc<PortCounts>) -> TxDriver {
        TxDriver { nic, ring, port, unreported: 0, done: Burst::new() }
    }

    /// Takes back the buffers that the card has reported as sent, and returns them to their pools.
    #[inline(always)]
    fn clean(&mut self) {
        match self.ring.find_reported() {
            0 => {}
            ready => self.return_buffers(ready),
        }
    }

    /// Frees completed buffers. This is a separate function so that its loop is compiled as a
    /// whole: if it is inlined at two call sites, the compiler generates a call for each frame.
    #[inline(never)]
    fn return_buffers(&mut self, mut ready: usize) {
        self.nic.counts.cleanings.bump();
        self.nic.counts.cleaned.add(ready as u64);
        let done = &mut self.done;
        while ready > 0 {
            ready -= self.ring.take_done(BURST_MAX, |frame| {
                if let Some(frame) = frame {
                    done.put(frame, || {}); // not counted as lost, because the frame was sent
                }
            });
            done.clear();
        }
    }

    #[inline(always)]
    fn write_tdt(&mut self) {
        self.ring.announce();
        self.nic.counts.tx_doorbells.bump();
        self.nic.access(bus::REGISTER_WRITE, self.nic.settings.reg_write_ns.get());
    }

    /// Announces the pending descriptors to the card.
    #[inline(always)]
    fn flush(&mut self) {
        if self.ring.unannounced() > 0 {
            self.write_tdt();
        }
    }

    /// Drops all frames, because nothing can be sent without a wire.
    #[cold]
    fn drop_all(&mut self, from: &mut Burst) -> usize {
        let frames = from.len();
        self.nic.counts.unplugged.add(frames as u64);
        self.port.tx.errors.add(frames as u64);
        from.clear();
        frames
    }

    /// Returns the number of frames in the ring that have not been announced to the card.
    pub fn unannounced(&self) -> usize {
        self.ring.unannounced()
    }

    /// Returns the number of frames in the ring that the card has not processed yet.
    pub fn pending(&self) -> usize {
        self.ring.pending()
    }
}

impl TxHalf for TxDriver {
    fn tx_burst(&mut self, from: &mut Burst, _now: Instant) -> usize {
        if !self.nic.is_up() {
            return self.drop_all(from);
        }
        self.clean();
        let size = self.ring.size();
        let batch = RxDriver::at_most(self.nic.settings.tx_tail_batch.size(), size);
        let every = RxDriver::at_most(self.nic.settings.tx_rs_every.size(), size);
        let mut bytes = 0;
        let n = from.len().min(self.ring.room());
        let mut unreported = self.unreported;
        let mut left = n;
        while left > 0 {
            let wanted = batch.saturating_sub(self.ring.unannounced()).clamp(1, left);
            self.ring.put_from(wanted, || {
                let frame = from.pop()?;
                bytes += frame.len() as u64;
                unreported += 1;
                let command = if unreported >= every { RS } else { 0 };
                unreported = if command == RS { 0 } else { unreported };
                Some((frame, command))
            });
            left -= wanted;
            if self.ring.unannounced() >= batch {
                self.write_tdt();
            }
        }
        self.unreported = unreported;
        if !from.is_empty() {
            self.nic.counts.tx_full.bump();
            self.flush();
        } else if self.nic.settings.tx_flush.get() != AT_POLL {
            self.flush();
        }
        self.nic.counts.tx_frames.add(n as u64);
        self.port.tx.frames.add(n as u64);
        self.port.tx.bytes.add(bytes);
        self.port.tx.bursts.add(u64::from(n > 0));
        n
    }

    fn poll(&mut self, _now: Instant) {
        self.flush();
        self.clean();
    }

    fn held(&self) -> usize {
        self.ring.pending()
    }
}
