//! Memory limits of connections, and the measures taken when memory becomes short.
//!
//! A peer decides how much of our data it acknowledges, and an application decides how much of the
//! received data it reads. Therefore the memory of all connections together has a limit,
//! `net.inet.tcp.memlimit`, which is enforced in steps:
//!
//! - First, out-of-order data is dropped. The peer retransmits it.
//! - Then buffers stop growing.
//! - Then received data is dropped for connections whose application has unread data, so that
//!   applications that read promptly are affected last.
//!
//! From half of the limit on, a connection may queue at most four times the free memory for sending
//! (Choudhury and Hahne, Dynamic queue length thresholds, 1998). Connections with stalled peers,
//! however many they are, thereby leave memory for others. Each connection may queue a few segments
//! beyond that, like the minimum of Linux's tcp_wmem. A writer that exceeds its share waits until
//! memory is free. When all memory is used, out-of-order data is discarded. Connections whose peers
//! accept no data are then dropped, those that have been stalled longest first (sockstress,
//! CVE-2008-4609). Orphans, the connections whose socket is closed, have separate limits for their
//! number and their time.
//!
//! Each connection is charged for the buffers that its data occupies. The shared counter is updated
//! only for changes of a page or more, so that a request and its answer do not touch it.

use super::charge::{Charge, MemoryWait, PAGE, Shortage};
use super::{Failure, Kind, Sock, Stream, TcpError};
use crate::Stack;
use crate::iface::AtOnce;
use buf::Frame;
use clock::{Duration, Instant};
use lock::{Cx, Locks};
use stats::DropReason;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use tcp::{Config, Segment, SeqNum, State, Tcb};
use wire::tcp::Flags;

/// Maximum number of connections that are dropped at a time to free memory, so that other work is
/// not delayed.
const REAPED_AT_ONCE: usize = 1024;
/// Interval between searches for stalled connections while memory is exhausted.
const REAP_EVERY: Duration = Duration::from_secs(1);

/// Number of ended connections whose memory is kept for reuse, as in BSD's zones. Allocating and
/// initializing new memory would cost a tenth of opening and closing a connection.
const SPARE: usize = 32;

impl<L: Locks> Stack<L> {
    /// Returns memory for a connection. The caller must overwrite its content.
    #[inline(always)]
    pub(super) fn tcp_place(&self, cx: Cx, config: &Arc<Config>) -> Box<Stream> {
        match self.tcp.spare.lock(cx).pop() {
            Some(place) => place,
            None => Box::new(Stream::new(Tcb::connect(config, SeqNum(0), 0, cx.now), Charge::to(&self.tcp.used))),
        }
    }

    /// Keeps the memory of an ended connection for reuse, but frees everything that the connection
    /// held.
    pub(super) fn tcp_keep_place(&self, cx: Cx, mut place: Box<Stream>) {
        place.reset();
        let mut spare = self.tcp.spare.lock(cx);
        if spare.len() < SPARE {
            spare.push(place);
        }
    }
}

/// Number of bytes that a connection may always queue for sending when memory is short, like the
/// minimum of Linux's tcp_wmem.
const SEND_LEAST: usize = 4096;
/// Maximum number of buffers that the [`SEND_LEAST`] bytes may occupy. A byte that is written and
/// sent alone occupies a whole buffer.
const SEND_LEAST_BUFFERS: usize = 4;
/// Maximum ratio of a connection's send queue to the free memory.
const FAIR: usize = 4;

/// Minimum time between two checks for memory that writers wait for. Each waiting writer adds a
/// microsecond to this time. The checks are needed because not every release of memory is signaled:
/// other code returns buffers to the pool, and the limit is a sysctl that can be changed.
const RETRY: Duration = Duration::from_millis(1);
/// Number of waiting writers at which all of them are checked even if the pool is empty. The check
/// removes closed sockets from the list.
const WRITERS_KEPT: usize = 4096;

impl<L: Locks> Stack<L> {
    /// Returns the number of buffer bytes that all connections hold.
    pub fn tcp_memory(&self) -> usize {
        self.tcp.used.bytes.load(Ordering::Relaxed)
    }

    /// Returns the number of connections whose socket is closed (orphans).
    pub fn tcp_orphans(&self) -> usize {
        self.tcp.used.orphans.load(Ordering::Relaxed)
    }

    /// Returns the memory limit of all connections, in bytes.
    pub fn tcp_memory_limit(&self) -> usize {
        match self.sysctls.tcp_memlimit.get() {
            0 => self.tcp.share,
            bytes => usize::try_from(bytes).unwrap_or(usize::MAX),
        }
    }

    #[inline]
    pub(super) fn tcp_shortage(&self) -> Shortage {
        let (used, limit) = (self.tcp_memory(), self.tcp_memory_limit());
        match used {
            _ if used < limit / 2 => Shortage::None,
            _ if used < limit / 4 * 3 => Shortage::OutOfOrder,
            _ if used < limit => Shortage::Growth,
            _ => Shortage::All,
        }
    }

    /// Returns the number of bytes that memory permits to be added to a connection's send queue in
    /// one call.
    #[inline]
    pub(super) fn tcp_send_allowance(&self, stream: &Stream) -> usize {
        let (used, limit) = (self.tcp_memory(), self.tcp_memory_limit());
        if used < limit / 2 { limit / 16 } else { self.tcp_short_allowance(stream, used, limit) }
    }

    /// Computes [`Stack::tcp_send_allowance`] while memory is short. The last eighth of the limit
    /// is reserved for received data, and the send queues share the free memory below it. While
    /// less than fifteen sixteenths of the limit are in use, each queue may contain a few segments
    /// in any case. Until the limit is exceeded by a quarter, an empty queue may still get one
    /// segment, so that an application that writes before it reads makes progress.
    #[cold]
    fn tcp_short_allowance(&self, stream: &Stream, used: usize, limit: usize) -> usize {
        let (len, buffers) = (stream.send.len(), stream.send.buffers());
        let free = (limit / 8 * 7).saturating_sub(used);
        let pinned = pinned_by(len, buffers, self.pool.size());
        // The added data itself reduces the free memory, and it occupies one and a half times its
        // length.
        let fair = free.saturating_mul(FAIR).saturating_sub(pinned) / ((FAIR + 1) * 3 / 2);
        let least = match () {
            () if buffers >= SEND_LEAST_BUFFERS => 0,
            () if used < limit / 16 * 15 => SEND_LEAST.saturating_sub(len),
            () if len == 0 && used < limit.saturating_add(limit / 4) && self.tcp_leaves_buffers(8) => {
                usize::from(stream.tcb.mss())
            }
            () => 0,
        };
        fair.max(least)
    }

    /// Returns whether more than 1/`part` of the pool's buffers are free.
    fn tcp_leaves_buffers(&self, part: u64) -> bool {
        let pool = self.pool.stats();
        pool.live() < pool.buffers as u64 / part * (part - 1)
    }

    /// Charges a connection for `bytes` more bytes before they are copied, since other threads may
    /// write in the meantime.
    #[inline]
    pub(super) fn tcp_charge_ahead(&self, stream: &mut Stream, bytes: usize) {
        if L::SHARED && bytes >= PAGE {
            let pinned = stream.pinned(self.pool.size());
            stream.charge.set_exactly(pinned + bytes + bytes / 2);
        }
    }

    /// Charges a connection exactly if memory is short, since small differences then matter.
    pub(super) fn tcp_charge_exactly(&self, stream: &mut Stream) {
        if self.tcp_memory() >= self.tcp_memory_limit() / 2 {
            stream.charge.set_exactly(stream.pinned(self.pool.size()));
        }
    }

    /// Records that a writer waits for memory. [`Stack::tcp_wake_starved`] wakes the writer once
    /// enough memory is free, or after [`RETRY`].
    #[cold]
    pub(super) fn tcp_starve(&self, cx: Cx, id: usize, stream: &mut Stream) -> TcpError {
        self.count(cx).tcp_memory.sends_refused.bump();
        stream.tcb.writer_waits(cx.now);
        if std::mem::replace(&mut stream.memory_wait, MemoryWait::Starved) == MemoryWait::No {
            self.tcp.starved.lock(cx).push(id);
        }
        self.tcp.used.await_below(self.tcp_memory());
        let retry = cx.now.after(RETRY);
        self.tcp.retry_at.fetch_min(retry.nanos(), Ordering::Relaxed);
        self.due(retry);
        TcpError::WouldBlock
    }

    /// Returns whether memory may be available for a waiting writer.
    pub(crate) fn tcp_may_wake(&self) -> bool {
        self.tcp.used.is_awaited()
    }

    /// Returns the time of the next check for memory; [`Instant::NEVER`] if no writer waits.
    #[inline]
    pub(super) fn tcp_retry_at(&self) -> Instant {
        Instant::from_nanos(self.tcp.retry_at.load(Ordering::Relaxed))
    }

    /// Wakes writers that wait for memory, if memory is available.
    #[cold]
    pub(super) fn tcp_wake_starved(&self, cx: Cx) {
        let (used, has_buffer) = (&self.tcp.used, self.pool.get().is_some());
        used.wake_below.swap(0, Ordering::SeqCst);
        self.tcp.retry_at.store(Instant::NEVER.nanos(), Ordering::Relaxed);
        let mut starved = self.tcp.starved.lock(cx);
        if !has_buffer && starved.len() < WRITERS_KEPT {
            return self.tcp_look_again(cx, starved.len());
        }
        let (held, waiting) = (self.tcp_memory(), std::mem::take(&mut *starved));
        drop(starved);
        let mut still = Vec::new();
        for id in waiting {
            let Some(slot) = self.tcp.socks.get(id) else { continue };
            let mut slot = slot.lock(cx);
            let Some(sock) = slot.as_mut() else { continue };
            let Kind::Stream(stream) = &mut sock.kind else { continue };
            match stream.memory_wait {
                MemoryWait::Starved if !has_buffer || self.tcp_send_allowance(stream) == 0 => still.push(id),
                MemoryWait::Starved => {
                    stream.memory_wait = MemoryWait::No;
                    sock.wake(cx, id);
                }
                MemoryWait::No | MemoryWait::Listed => stream.memory_wait = MemoryWait::No,
            }
        }
        if !still.is_empty() {
            self.tcp_look_again(cx, still.len());
            self.tcp.starved.lock(cx).extend(still);
            used.await_below(held);
        }
    }

    /// Schedules the next check for memory, given the number of waiting writers.
    fn tcp_look_again(&self, cx: Cx, writers: usize) {
        if writers > 0 {
            let retry = cx.now.after(RETRY + Duration::from_micros(writers as u64));
            self.tcp.retry_at.fetch_min(retry.nanos(), Ordering::Relaxed);
        }
    }

    /// Returns whether a buffer may grow.
    pub(super) fn tcp_may_grow(&self, cx: Cx) -> bool {
        let may = self.tcp_shortage() < Shortage::Growth;
        if !may {
            self.count(cx).tcp_memory.growth_refused.bump();
        }
        may
    }

    /// Updates the memory charged to a connection.
    #[inline]
    pub(super) fn tcp_charge(&self, sock: &mut Sock<L>) {
        if let Kind::Stream(stream) = &mut sock.kind {
            self.tcp_charge_stream(stream);
        }
    }

    #[cfg_attr(not(debug_assertions), inline(always))]
    pub(super) fn tcp_charge_stream(&self, stream: &mut Stream) {
        let pinned = stream.pinned(self.pool.size());
        stream.charge.set(pinned);
        if L::SHARED && self.tcp.used.is_awaited() {
            self.due(Instant::ZERO); // wakes the writers that wait for memory
        }
    }

    /// Returns whether the data of this segment is refused because memory is short.
    #[inline]
    pub(super) fn tcp_refuses(&self, cx: Cx, stream: &mut Stream, segment: &Segment) -> bool {
        if segment.len == 0 || self.tcp_memory() < self.tcp_memory_limit() / 2 {
            return false;
        }
        self.tcp_refuses_short(cx, stream, segment)
    }

    #[cold]
    fn tcp_refuses_short(&self, cx: Cx, stream: &mut Stream, segment: &Segment) -> bool {
        stream.charge.set(stream.pinned(self.pool.size())); // without this, a run is charged only at its end
        if !stream.tcb.state().is_synchronized() || segment.has(Flags::SYN) || segment.has(Flags::RST) {
            return false;
        }
        let counts = &self.count(cx).tcp_memory;
        if segment.seq.after(stream.tcb.rcv_nxt()) {
            counts.out_of_order_refused.add(segment.segments().into());
            return true;
        }
        // If the application has no unread data, a segment is still accepted. For this case, the
        // limit is slightly higher than for a sender with an empty queue (`tcp_short_allowance`).
        let (used, limit) = (self.tcp_memory(), self.tcp_memory_limit());
        let most = if stream.recv.is_empty() { limit.saturating_add(limit / 16 * 5) } else { limit };
        let refused = used >= most || used >= limit && !self.tcp_leaves_buffers(16);
        if refused {
            counts.text_refused.add(segment.segments().into());
        }
        refused
    }

    /// Drops the data of a segment because memory is short. Its acknowledgment is still processed.
    #[cold]
    pub(super) fn tcp_without_text(&self, cx: Cx, segment: &Segment, packet: Frame) -> Segment {
        self.drop_frame(cx, packet, DropReason::TcpNoMemory);
        let flags = Flags(segment.flags.0 & !(Flags::FIN.0 | Flags::URG.0 | Flags::PSH.0));
        Segment { len: 0, flags, ..*segment }
    }

    /// Returns the time for which a peer may accept no data before its connection can be dropped.
    fn tcp_patience(&self) -> Duration {
        Duration::from_millis(self.sysctls.tcp_stall_time.get().unsigned_abs())
    }

    /// Drops an orphan (a connection whose socket is closed) if its peer has accepted no data for
    /// too long. Called when the connection's timer expires. Every orphan has a timer: for
    /// retransmission, probes or FIN-WAIT-2.
    pub(super) fn tcp_orphan_stalls(&self, cx: Cx, sock: &mut Sock<L>) {
        if !sock.orphan {
            return;
        }
        let patience = self.tcp_patience();
        let Kind::Stream(stream) = &mut sock.kind else { return };
        if stream.tcb.state() != State::TimeWait && stream.stalls(cx.now) >= patience {
            self.count(cx).tcp_memory.orphans_stalled.bump();
            self.tcp_give_up(cx, sock, Failure::TimedOut);
        }
    }

    pub(super) fn tcp_give_up(&self, cx: Cx, sock: &mut Sock<L>, why: Failure) {
        let Kind::Stream(stream) = &mut sock.kind else { return };
        let reset = stream.tcb.abort(cx.now);
        let sent = stream.send.len();
        stream.send.release(sent as u32);
        stream.ooo = None;
        stream.dirty = true;
        if let Some(reset) = reset {
            self.tcp_answer(cx, sock, &reset);
        }
        sock.error = Some(why);
    }

    /// Frees memory when it is exhausted. Discards out-of-order data, and drops the connections
    /// whose peers have been stalled longest until a quarter of the limit is free. Returns the time
    /// of the next check.
    pub(super) fn tcp_reap(&self, cx: Cx) -> Instant {
        if self.tcp_shortage() < Shortage::All {
            return Instant::NEVER;
        }
        let mut due = self.tcp.reap_at.lock(cx);
        if *due > cx.now {
            return *due;
        }
        *due = cx.now.after(REAP_EVERY);
        let next = *due;
        drop(due);
        let patience = self.tcp_patience();
        let mut stalled = Vec::new();
        self.tcp.socks.for_each(cx, |id, sock| {
            let Kind::Stream(stream) = &mut sock.kind else { return };
            if stream.ooo.take().is_some() {
                stream.tcb.renege();
                self.count(cx).tcp_memory.reneged.bump();
                stream.charge.set(stream.pinned(self.pool.size()));
            }
            let age = stream.stalls(cx.now);
            if age >= patience {
                stalled.push((age, id));
            }
        });
        stalled.sort_unstable_by(|a, b| b.cmp(a));
        for (_, id) in stalled.into_iter().take(REAPED_AT_ONCE) {
            if self.tcp_shortage() < Shortage::Growth {
                break;
            }
            self.tcp_reap_one(cx, id);
        }
        next
    }

    fn tcp_reap_one(&self, cx: Cx, id: usize) {
        let Some(slot) = self.tcp.socks.get(id) else { return };
        let mut slot = slot.lock(cx);
        let Some(sock) = slot.as_mut() else { return };
        self.count(cx).tcp_memory.stalled.bump();
        self.tcp_give_up(cx, sock, Failure::TimedOut);
        sock.wake(cx, id);
        self.tcp_charge(sock);
        let over = self.tcp_output(cx, id, sock, AtOnce::Later);
        drop(slot);
        self.tcp_free(cx, id, over);
    }
}

/// Returns approximately how many bytes of buffers a queue with `len` bytes of data occupies.
/// `buffers` is the number of its buffers, `buffer` the size of one in bytes.
#[inline(always)]
fn pinned_by(len: usize, buffers: usize, buffer: usize) -> usize {
    // A full Ethernet segment fills two thirds of its buffer, and the last buffer may be almost
    // empty. The estimate avoids a division, since every call computes it. Each single byte that is
    // sent at once occupies a buffer.
    if len == 0 { 0 } else { (len + len / 2 + buffer).max(buffers * buffer) }
}

impl Stream {
    /// Frees everything that an ended connection held, except the memory of the connection itself.
    fn reset(&mut self) {
        self.tcb.reset();
        self.send.reinit(0);
        self.recv.reinit();
        self.ooo = None;
        self.charge.clear();
    }

    /// Returns approximately how many bytes of buffers the queues occupy. The data of a segment
    /// occupies its whole buffer.
    #[inline]
    fn pinned(&self, buffer: usize) -> usize {
        pinned_by(self.send.len(), self.send.buffers(), buffer)
            + pinned_by(self.recv.len(), self.recv.chunks(), buffer)
            + self.ooo.as_ref().map_or(0, |ooo| ooo.bytes())
    }

    /// Returns the time since the peer last accepted data from the send queue; zero if no data is
    /// queued.
    fn stalls(&self, now: Instant) -> Duration {
        let state = self.tcb.state();
        let waits = !self.send.is_empty() || matches!(state, State::FinWait1 | State::Closing | State::LastAck);
        if waits { now.since(self.last_progress) } else { Duration::ZERO }
    }
}
