//! What connections hold together, and who gives way when it is too much.
//!
//! A stranger decides how much of what we send he acknowledges, and an application how much of what comes it reads: so the sum over
//! all connections has a limit, `net.inet.tcp.memlimit`. In steps: text out of order is refused first (it comes again), then
//! buffers stop growing, then text is dropped for whoever has more to read already, so that who reads is the last to be cut off.
//! From half the limit on, a connection may queue for sending four times what is still free (Choudhury and Hahne, Dynamic queue length
//! thresholds, 1998): connections that are not read leave room for others, however many they are. Each may queue a few segments
//! beyond that, as Linux's tcp_wmem has a least. A writer beyond its share waits, and is woken when memory returns. When all is
//! used up, what is held out of order is forgotten and connections whose peers take nothing go, longest first (sockstress,
//! CVE-2008-4609). What no process holds any more has a number and a time of its own.
//!
//! Each connection is charged for the buffers that its bytes pin, to a page: a request and its answer touch no shared word.

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

/// Connections that go at one time for want of memory, so that nothing else waits for it.
const REAPED_AT_ONCE: usize = 1024;
/// How often it is looked for them.
const REAP_EVERY: Duration = Duration::from_secs(1);

/// Connections that are over whose memory is kept for the next: a list of free ones, as BSD's zones have it. What malloc would do to
/// it, and what would be copied into it, is a tenth of what it costs to open and close one.
const SPARE: usize = 32;

impl<L: Locks> Stack<L> {
    /// A place for a connection: what was in it is to be written over.
    #[inline(always)]
    pub(super) fn tcp_place(&self, cx: Cx, config: &Arc<Config>) -> Box<Stream> {
        match self.tcp.spare.lock(cx).pop() {
            Some(place) => place,
            None => Box::new(Stream::new(Tcb::connect(config, SeqNum(0), 0, cx.now), Charge::to(&self.tcp.used))),
        }
    }

    /// Keeps the memory of a connection that is over, but nothing that it held.
    pub(super) fn tcp_keep_place(&self, cx: Cx, mut place: Box<Stream>) {
        place.retire();
        let mut spare = self.tcp.spare.lock(cx);
        if spare.len() < SPARE {
            spare.push(place);
        }
    }
}

/// Bytes that a connection may queue for sending while others have used up the rest: tcp_wmem's least in Linux.
const SEND_LEAST: usize = 4096;
/// Buffers for them: single bytes, each sent at once, have one each.
const SEND_LEAST_BUFFERS: usize = 4;
/// A connection's queue for sending may pin so many times what is free.
const FAIR: usize = 4;

/// Shortest time between two looks for memory that writers wait for; each writer adds a microsecond. Not
/// all of it is announced: buffers return to the pool from elsewhere, and the limit is a knob.
const RETRY: Duration = Duration::from_millis(1);
/// Writers for which there is one look at all of them although the pool is empty: closed ones go.
const WRITERS_KEPT: usize = 4096;

impl<L: Locks> Stack<L> {
    /// Bytes of buffers that all connections hold.
    pub fn tcp_memory(&self) -> usize {
        self.tcp.used.bytes.load(Ordering::Relaxed)
    }

    /// Connections that no process holds.
    pub fn tcp_orphans(&self) -> usize {
        self.tcp.used.orphans.load(Ordering::Relaxed)
    }

    /// Bytes that they may hold.
    pub fn tcp_memory_limit(&self) -> usize {
        match self.knobs.tcp_memlimit.get() {
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

    /// Returns how many bytes memory has for a connection's queue for sending, in one call.
    #[inline]
    pub(super) fn tcp_send_allowance(&self, stream: &Stream) -> usize {
        let (used, limit) = (self.tcp_memory(), self.tcp_memory_limit());
        if used < limit / 2 { limit / 16 } else { self.tcp_short_allowance(stream, used, limit) }
    }

    /// Sent text leaves an eighth of the limit for received text. Within that queues share what is free. Beyond, a few
    /// segments for each, and one for an empty queue up to a quarter more than the limit, so that who writes before it reads
    /// goes on.
    #[cold]
    fn tcp_short_allowance(&self, stream: &Stream, used: usize, limit: usize) -> usize {
        let (len, buffers) = (stream.send.len(), stream.send.buffers());
        let free = (limit / 8 * 7).saturating_sub(used);
        let pinned = pinned_by(len, buffers, self.pool.size());
        // What is added is free no longer, and text pins half as much again.
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

    /// Returns whether more than one in `part` buffers of the pool is free.
    fn tcp_leaves_buffers(&self, part: u64) -> bool {
        let pool = self.pool.stats();
        pool.live() < pool.buffers as u64 / part * (part - 1)
    }

    /// Charges a connection for `bytes` more, before they are copied: other threads write meanwhile.
    #[inline]
    pub(super) fn tcp_charge_ahead(&self, stream: &mut Stream, bytes: usize) {
        if L::SHARED && bytes >= PAGE {
            let pinned = stream.pinned(self.pool.size());
            stream.charge.set_exactly(pinned + bytes + bytes / 2);
        }
    }

    /// Charges a connection exactly, where memory is short and small differences add up.
    pub(super) fn tcp_charge_exactly(&self, stream: &mut Stream) {
        if self.tcp_memory() >= self.tcp_memory_limit() / 2 {
            stream.charge.set_exactly(stream.pinned(self.pool.size()));
        }
    }

    /// Notes that a writer waits for memory: [`Stack::tcp_wake_starved`] wakes it, once others hold fewer bytes or
    /// after [`RETRY`].
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

    /// Returns whether there may be memory now for a writer that waits.
    pub(crate) fn tcp_may_wake(&self) -> bool {
        self.tcp.used.is_awaited()
    }

    /// Returns the time of the next look for memory, if a writer waits for some.
    #[inline]
    pub(super) fn tcp_retry_at(&self) -> Instant {
        Instant::from_nanos(self.tcp.retry_at.load(Ordering::Relaxed))
    }

    /// Wakes writers that wait for memory, if there is some for them.
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

    /// Sets the time of the next look for memory that so many writers wait for.
    fn tcp_look_again(&self, cx: Cx, writers: usize) {
        if writers > 0 {
            let retry = cx.now.after(RETRY + Duration::from_micros(writers as u64));
            self.tcp.retry_at.fetch_min(retry.nanos(), Ordering::Relaxed);
        }
    }

    /// May a buffer grow?
    pub(super) fn tcp_may_grow(&self, cx: Cx) -> bool {
        let may = self.tcp_shortage() < Shortage::Growth;
        if !may {
            self.count(cx).tcp_memory.growth_refused.bump();
        }
        may
    }

    /// Charges a connection for what it holds now.
    #[inline]
    pub(super) fn tcp_charge(&self, sock: &mut Sock<L>) {
        if let Kind::Stream(stream) = &mut sock.kind {
            self.tcp_charge_stream(stream);
        }
    }

    #[inline(always)]
    pub(super) fn tcp_charge_stream(&self, stream: &mut Stream) {
        let pinned = stream.pinned(self.pool.size());
        stream.charge.set(pinned);
        if L::SHARED && self.tcp.used.is_awaited() {
            self.due(Instant::ZERO); // for those that wait for memory
        }
    }

    /// Is there no memory for this segment's text?
    #[inline]
    pub(super) fn tcp_refuses(&self, cx: Cx, stream: &mut Stream, segment: &Segment) -> bool {
        if segment.len == 0 || self.tcp_memory() < self.tcp_memory_limit() / 2 {
            return false;
        }
        self.tcp_refuses_short(cx, stream, segment)
    }

    #[cold]
    fn tcp_refuses_short(&self, cx: Cx, stream: &mut Stream, segment: &Segment) -> bool {
        stream.charge.set(stream.pinned(self.pool.size())); // a run of segments is charged when it ends: not so late now
        if !stream.tcb.state().is_synchronized() || segment.has(Flags::SYN) || segment.has(Flags::RST) {
            return false;
        }
        let counts = &self.count(cx).tcp_memory;
        if segment.seq.after(stream.tcb.rcv_nxt()) {
            counts.out_of_order_refused.add(segment.segments().into());
            return true;
        }
        // A reader who has read all gets a segment all the same, a little longer than one who has nothing under way may send one
        // (`tcp_short_allowance`).
        let (used, limit) = (self.tcp_memory(), self.tcp_memory_limit());
        let most = if stream.recv.is_empty() { limit.saturating_add(limit / 16 * 5) } else { limit };
        let refused = used >= most || used >= limit && !self.tcp_leaves_buffers(16);
        if refused {
            counts.text_refused.add(segment.segments().into());
        }
        refused
    }

    /// A segment whose text there is no memory for: what it acknowledges counts, its text is as lost.
    #[cold]
    pub(super) fn tcp_without_text(&self, cx: Cx, segment: &Segment, packet: Frame) -> Segment {
        self.drop_frame(cx, packet, DropReason::TcpNoMemory);
        let flags = Flags(segment.flags.0 & !(Flags::FIN.0 | Flags::URG.0 | Flags::PSH.0));
        Segment { len: 0, flags, ..*segment }
    }

    /// How long a peer may take nothing.
    fn tcp_patience(&self) -> Duration {
        Duration::from_millis(self.knobs.tcp_stall_time.get().unsigned_abs())
    }

    /// A timer of a connection that nobody holds went off: has its peer taken nothing for too long? Every such connection has a
    /// timer, of a retransmission, a probe or FIN-WAIT-2.
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

    /// When memory has run out: forgets what is out of order, and gives up the connections that have stalled longest, until a
    /// quarter of the limit is free. Says when to come again.
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
        let over = self.tcp_settle(cx, id, sock, AtOnce::Later);
        drop(slot);
        self.tcp_bury(cx, id, over);
    }
}

/// Bytes of buffers of `buffer` bytes that a queue holds, nearly.
#[inline(always)]
fn pinned_by(len: usize, buffers: usize, buffer: usize) -> usize {
    // A full segment of Ethernet's is two thirds of its buffer; the last may be all empty. No division: every call asks.
    // Single bytes, each sent at once, pin a buffer each.
    if len == 0 { 0 } else { (len + len / 2 + buffer).max(buffers * buffer) }
}

impl Stream {
    /// The connection is over: nothing is held any more but the place.
    fn retire(&mut self) {
        self.tcb.retire();
        self.send.renew(0);
        self.recv.renew();
        self.ooo = None;
        self.charge.clear();
    }

    /// Bytes of buffers that its queues hold, nearly: a segment's text pins the whole of its buffer.
    #[inline]
    fn pinned(&self, buffer: usize) -> usize {
        pinned_by(self.send.len(), self.send.buffers(), buffer)
            + pinned_by(self.recv.len(), self.recv.chunks(), buffer)
            + self.ooo.as_ref().map_or(0, |ooo| ooo.bytes())
    }

    /// How long the peer has taken nothing of what waits for it.
    fn stalls(&self, now: Instant) -> Duration {
        let state = self.tcb.state();
        let waits = !self.send.is_empty() || matches!(state, State::FinWait1 | State::Closing | State::LastAck);
        if waits { now.since(self.progress) } else { Duration::ZERO }
    }
}
