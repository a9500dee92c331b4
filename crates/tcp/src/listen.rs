//! LISTEN and the handshake: takes SYNs, sends SYN-ACKs, and returns a [`Handshake`] for a new Tcb
//! (RFC 9293 3.10.7.2).
//!
//! A SYN creates a 64-byte entry in the SYN queue, not a Tcb. When the queue is full, the state is
//! encoded in a cookie that the peer returns ([`crate::cookie`], RFC 4987), or the oldest entry is
//! evicted, unanswered ones first. A flood therefore uses bounded memory, and a peer that answers
//! within a round trip still connects.
//!
//! | segment | without an entry | with an entry |
//! |---|---|---|
//! | SYN with FIN or RST; SYN from our own address and port | dropped | dropped |
//! | RST | dropped | at RCV.NXT: ends the handshake; in the window: challenged (RFC 5961 3.2) |
//! | SYN | new entry or cookie, SYN-ACK | same SYN: SYN-ACK again; another SYN: challenged |
//! | SYN and ACK (split handshake, simultaneous open) | reset | challenged: we stay passive |
//! | ACK of our SYN | valid cookie: established | established |
//! | another ACK | reset | reset |
//!
//! Challenge ACKs and repeated SYN-ACKs to one peer are at least half a second apart. When the
//! accept queue is full, SYNs are dropped, and so is an ACK that would complete a handshake. The
//! entry of that handshake stays and the SYN-ACK is sent again, so that the peer's next ACK may
//! find space in the accept queue (as in Linux). Data on a SYN is not accepted; the peer
//! retransmits it.

mod context;
mod entry;
mod limits;
#[cfg(test)]
mod tests;

use crate::answer::reset_for;
use crate::config::{MOST_SCALE, scale_for};
use crate::cookie::{Cookies, Remembered, SLOT};
use crate::isn::{numbers, ts_offset};
use crate::siphash::Key;
use crate::table::Table;
use crate::{Config, Ecn, EcnMode, Ends, Handshake, Out, Segment, SeqNum, TsState};
use clock::Instant;
pub use context::Context;
use entry::{Entry, flag, wait};
pub use limits::{CookieMode, Limits, UnknownCookieMode};
use wire::tcp::Flags;

/// Minimum effective MSS, regardless of the configuration (CVE-2019-11479).
pub const LEAST_MSS: u16 = 48;

/// Returns the MSS used for a peer whose SYN had the MSS option `offered`. The result is never 0,
/// so that it is a safe divisor (CVE-2018-16523).
pub fn floored_mss(config: &Config, offered: Option<u16>) -> u16 {
    offered.filter(|mss| *mss != 0).unwrap_or(config.default_mss).max(config.min_mss).max(LEAST_MSS)
}

/// Number of queues of the table. An entry is in the queue whose number is the number of its
/// SYN-ACK retransmissions; higher numbers share the last queue.
const QUEUES: usize = 16;

/// Reason why a segment neither began nor completed a handshake; determines the reply.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Refused {
    /// SYN with FIN or RST, or no relevant flag: dropped.
    BadFlags,
    /// Segment from our own address and port, or from the zero address (CVE-1999-0016): dropped.
    BadEnds,
    /// Segment while the accept queue is full: dropped.
    AcceptQueueFull,
    /// RST that matches no handshake: dropped.
    ResetIgnored,
    /// RST that ended a handshake.
    ResetTaken,
    /// RST in the window but not at RCV.NXT: challenged (RFC 5961 3.2).
    ResetInWindow,
    /// Repeat of the SYN being answered: the SYN-ACK is sent again.
    SynDuplicate,
    /// Different SYN during the handshake: challenged (RFC 5961 4.2).
    SynInHandshake,
    /// Old duplicate, detected by its timestamp (RFC 7323 5.3): acknowledged.
    Paws,
    /// Segment outside the window: acknowledged.
    OutOfWindow,
    /// ACK of something other than our SYN: reset.
    BadAck,
    /// ACK without a matching handshake: reset.
    NoHandshake,
    /// Reply suppressed by the rate limit.
    Limited,
}

/// Action that the caller takes for a segment.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Answer {
    /// A handshake began or continues: send this SYN-ACK.
    SynAck(Out),
    /// The handshake is complete. Create a Tcb from it, process the segment with this Tcb (for its
    /// data and FIN), and queue the connection for accept.
    Established(Handshake),
    /// Send this ACK or RST.
    Refuse(Out, Refused),
    /// Send no reply.
    Dropped(Refused),
}

/// Listening socket: its SYN queue and its limits.
#[derive(Debug)]
pub struct Listener {
    limits: Limits,
    table: Table<Entry, QUEUES>,
    cookies: Cookies,
    numbers: Key,
    /// Time until which cookies are accepted. They are verified only if cookies were sent recently.
    cookies_until: Instant,
    may_send_cookies: bool,
    /// Number of connections waiting to be accepted.
    ready: u32,
}

impl Listener {
    /// Creates a listener without handshakes in progress. `secret` is the secret of the host's ISN
    /// generator.
    pub fn new(limits: Limits, secret: Key) -> Listener {
        Listener {
            limits,
            table: Table::new(secret.derive(0x5359_4e51), limits.syn_queue as usize),
            cookies: Cookies::new(secret.derive(0x434f_4f4b)),
            numbers: secret,
            cookies_until: Instant::ZERO,
            may_send_cookies: true,
            ready: 0,
        }
    }

    /// Processes a segment for this listener's port that belongs to no connection.
    pub fn on_segment(&mut self, cx: Context<'_>, ends: &Ends, seg: &Segment) -> Answer {
        let outcome = match () {
            () if seg.has(Flags::SYN) && seg.flags.intersects(Flags::FIN | Flags::RST) => Err(Refused::BadFlags),
            () if seg.has(Flags::RST) => Err(self.on_rst(cx, ends, seg)),
            () if seg.has(Flags::ACK) => match self.on_ack(cx, ends, seg) {
                Ok(done) => return Answer::Established(done),
                Err(why) => Err(why),
            },
            () if seg.has(Flags::SYN) => self.on_syn(cx, ends, seg),
            () => Err(Refused::BadFlags),
        };
        match outcome {
            Ok(synack) => Answer::SynAck(synack),
            Err(why) => self.refuse(cx, ends, seg, why),
        }
    }

    /// Processes a SYN without ACK and returns the SYN-ACK to send (RFC 9293 3.10.7.2, third).
    ///
    /// # Errors
    ///
    /// The reason why no SYN-ACK is sent.
    pub fn on_syn(&mut self, cx: Context<'_>, ends: &Ends, syn: &Segment) -> Result<Out, Refused> {
        if ends.is_remote_unspecified() || (ends.local, ends.local_port) == (ends.remote, ends.remote_port) {
            return Err(Refused::BadEnds);
        }
        let hash = self.table.hash(ends);
        if let Some(at) = self.find_hashed(hash, ends) {
            return self.on_syn_again(cx, at, syn);
        }
        if self.accept_queue_is_full() {
            cx.counts.accept_overflows.bump();
            return Err(Refused::AcceptQueueFull);
        }
        let (mut entry, offset) = self.entry_of(cx, ends, syn);
        let may = self.may_send_cookies && cx.above.is_none();
        let cookies = if may { self.limits.cookies } else { CookieMode::Never };
        if cookies == CookieMode::Always {
            return Ok(self.synack_with_cookie(cx, ends, &mut entry, offset));
        }
        if self.table.is_full() {
            cx.counts.overflows.bump();
            if cookies == CookieMode::WhenFull {
                return Ok(self.synack_with_cookie(cx, ends, &mut entry, offset));
            }
            self.evict(cx);
        }
        // with a SYN queue of length 0 no entry is stored: the SYN is answered, but the ACK of the
        // SYN-ACK will match nothing
        if self.table.insert(hash, 0, entry).is_some() {
            cx.counts.added.bump();
        }
        Ok(entry.synack(cx, offset, false))
    }

    /// Processes a segment with ACK and without RST. Returns the handshake that it completes (RFC
    /// 9293 3.10.7.4 in SYN-RECEIVED).
    ///
    /// # Errors
    ///
    /// The reason why the segment completes no handshake.
    pub fn on_ack(&mut self, cx: Context<'_>, ends: &Ends, seg: &Segment) -> Result<Handshake, Refused> {
        let Some(at) = self.find(ends) else { return self.on_cookie(cx, ends, seg) };
        let full = self.accept_queue_is_full();
        let offset = self.offset(ends);
        let entry = self.table.get_mut(at).ok_or(Refused::NoHandshake)?;
        // Accept a segment without timestamps, as Linux does, although RFC 7323 3.2 would drop it:
        // some paths strip options.
        let ts = seg.options.timestamps.filter(|_| entry.has(flag::TIMESTAMPS));
        if ts.is_some_and(|ts| SeqNum(ts.val).before(SeqNum(entry.ts_recent))) {
            return Err(Refused::Paws);
        }
        if !entry.acceptable(cx.config, seg) {
            return Err(if seg.has(Flags::SYN) { Refused::SynInHandshake } else { Refused::OutOfWindow });
        }
        if seg.has(Flags::SYN) {
            return Err(Refused::SynInHandshake);
        }
        if seg.ack != entry.iss.plus(1) {
            return Err(Refused::BadAck);
        }
        if full {
            cx.counts.accept_overflow_acks.bump();
            return Err(Refused::AcceptQueueFull);
        }
        if let Some(ts) = seg.options.timestamps.filter(|_| seg.seq == entry.rcv_nxt()) {
            // TS.Recent is set (RFC 7323 4.3) only after all checks have passed (CVE-2005-0356).
            entry.ts_recent = ts.val;
        }
        let done = entry.finished(cx, offset, seg.window);
        self.table.remove(at);
        self.ready = self.ready.saturating_add(1);
        cx.counts.completed.bump();
        Ok(done)
    }

    /// Processes an ACK without an entry: it is valid if it returns one of our cookies.
    fn on_cookie(&mut self, cx: Context<'_>, ends: &Ends, seg: &Segment) -> Result<Handshake, Refused> {
        if seg.has(Flags::SYN) || !(self.limits.cookies == CookieMode::Always || cx.now < self.cookies_until) {
            return Err(Refused::NoHandshake);
        }
        let (iss, irs) = (seg.ack.minus(1), seg.seq.minus(1));
        let ts = seg.options.timestamps.filter(|_| cx.config.timestamps);
        let Some(syn) = self.cookies.check(ends, iss, irs, ts.map(|ts| ts.ecr), cx.now) else {
            cx.counts.cookies_failed.bump();
            return Err(Refused::NoHandshake);
        };
        cx.counts.cookies_received.bump();
        if self.accept_queue_is_full() {
            cx.counts.accept_overflow_acks.bump();
            return Err(Refused::AcceptQueueFull);
        }
        self.ready = self.ready.saturating_add(1);
        cx.counts.completed.bump();
        Ok(Handshake {
            iss,
            irs,
            mss: syn.mss,
            snd_wscale: syn.wscale,
            rcv_wscale: syn.wscale.map_or(0, |_| scale_for(cx.config.recv_space_max)),
            sack: syn.sack,
            ts: ts.map(|ts| TsState { recent: ts.val, offset: self.offset(ends) }),
            window: seg.window,
            ecn: syn.ecn,
            rtt: None,
        })
    }

    /// Processes a SYN for which an entry exists: a retransmission of the same SYN, or a different
    /// SYN.
    fn on_syn_again(&mut self, cx: Context<'_>, at: u32, syn: &Segment) -> Result<Out, Refused> {
        let Some(entry) = self.table.get_mut(at) else { return Err(Refused::NoHandshake) };
        if syn.seq != entry.irs {
            return Err(Refused::SynInHandshake);
        }
        cx.counts.duplicate_syns.bump();
        if !entry.may_answer(cx) {
            return Err(Refused::Limited);
        }
        entry.flags |= flag::AGAIN;
        if let Some(ts) = syn.options.timestamps.filter(|ts| !SeqNum(ts.val).before(SeqNum(entry.ts_recent))) {
            entry.ts_recent = ts.val;
        }
        let entry = *entry;
        Ok(entry.synack(cx, self.offset(&entry.ends()), true))
    }

    /// Processes a RST (RFC 9293 3.10.7.2, first; 3.10.7.4, second, as modified by RFC 5961 3.2).
    fn on_rst(&mut self, cx: Context<'_>, ends: &Ends, seg: &Segment) -> Refused {
        let Some((at, entry)) = self.find(ends).and_then(|at| Some((at, *self.table.get(at)?))) else {
            return Refused::ResetIgnored;
        };
        if seg.seq == entry.rcv_nxt() {
            self.table.remove(at);
            cx.counts.reset.bump();
            return Refused::ResetTaken;
        }
        if entry.in_window(cx.config, seg.seq) { Refused::ResetInWindow } else { Refused::ResetIgnored }
    }

    /// Counts the refusal of a segment and determines the reply.
    fn refuse(&mut self, cx: Context<'_>, ends: &Ends, seg: &Segment, why: Refused) -> Answer {
        match why {
            Refused::BadFlags | Refused::BadEnds => cx.counts.bad_segments.bump(),
            Refused::Paws | Refused::OutOfWindow => cx.counts.old_duplicates.bump(),
            Refused::BadAck | Refused::NoHandshake => cx.counts.bad_acks.bump(),
            Refused::Limited => cx.counts.limited.bump(),
            _ => {}
        }
        match why {
            Refused::BadAck | Refused::NoHandshake => Answer::Refuse(reset_for(seg), why),
            Refused::ResetInWindow | Refused::SynInHandshake | Refused::Paws | Refused::OutOfWindow => {
                let offset = self.offset(ends);
                let entry = self.find(ends).and_then(|at| self.table.get_mut(at));
                let Some(entry) = entry else { return Answer::Dropped(why) };
                if !entry.may_answer(cx) {
                    cx.counts.limited.bump();
                    return Answer::Dropped(Refused::Limited);
                }
                Answer::Refuse(entry.ack(cx, offset), why)
            }
            _ => Answer::Dropped(why),
        }
    }

    /// Processes an ICMP error that quotes our SYN-ACK. The quoted sequence number `seq` must
    /// match, which prevents forgeries (RFC 5927 4). Returns whether the error ended a handshake.
    pub fn on_unreachable(&mut self, cx: Context<'_>, ends: &Ends, seq: SeqNum) -> bool {
        let Some(at) = self.find(ends).filter(|at| self.table.get(*at).is_some_and(|entry| entry.iss == seq)) else {
            return false;
        };
        self.table.remove(at);
        cx.counts.unreachable.bump();
        true
    }

    /// Time at which [`Listener::on_timer`] must be called next.
    pub fn next_timer(&self) -> Instant {
        let fronts = (0..QUEUES as u8).filter_map(|queue| self.table.front(queue));
        fronts.map(|(_, entry)| entry.deadline).min().unwrap_or(Instant::NEVER)
    }

    /// Retransmits the SYN-ACKs that are due and drops handshakes of silent peers, at most `limit`
    /// entries per call. `config` returns the configuration for a peer. Returns whether more
    /// entries are due.
    pub fn on_timer<'a>(
        &mut self,
        cx: Context<'a>,
        limit: usize,
        config: impl Fn(&Ends) -> &'a Config,
        mut send: impl FnMut(&Ends, Out),
    ) -> bool {
        let mut left = limit;
        for queue in 0..QUEUES as u8 {
            while let Some((at, entry)) = self.table.front(queue).filter(|(_, entry)| entry.deadline <= cx.now) {
                if left == 0 {
                    return true;
                }
                left -= 1;
                let mut entry = *entry;
                let cx = Context { config: config(&entry.ends()), ..cx };
                if entry.sent_again >= cx.config.synack_retries {
                    self.table.remove(at);
                    cx.counts.stale.bump();
                    continue;
                }
                entry.sent_again += 1;
                entry.deadline = cx.now.after(wait(cx.config, entry.sent_again));
                if let Some(place) = self.table.get_mut(at) {
                    *place = entry;
                }
                self.table.requeue(at, entry.sent_again.min(QUEUES as u8 - 1));
                cx.counts.retransmitted.bump();
                send(&entry.ends(), entry.synack(cx, self.offset(&entry.ends()), true));
            }
        }
        false
    }

    /// Decrements the number of connections in the accept queue, because one was accepted, or
    /// closed while waiting.
    pub fn on_accepted(&mut self) {
        self.ready = self.ready.saturating_sub(1);
    }

    /// Closes the listener and drops its handshakes.
    pub fn close(&mut self, cx: Context<'_>) {
        for queue in 0..QUEUES as u8 {
            while let Some((at, _)) = self.table.front(queue) {
                self.table.remove(at);
                cx.counts.aborted.bump();
            }
        }
    }

    /// Changes the limits; handshakes in progress are kept.
    pub fn set_limits(&mut self, limits: Limits) {
        self.limits = limits;
        self.table.set_limit(limits.syn_queue as usize);
    }

    /// Changes the secret of cookies. Cookies already sent stay valid until they expire.
    pub fn rotate_cookies(&mut self, secret: Key, now: Instant) {
        self.cookies.rotate(secret, now);
    }

    /// Limits of this listener.
    pub fn limits(&self) -> Limits {
        self.limits
    }

    /// Number of handshakes in progress.
    pub fn embryonic(&self) -> usize {
        self.table.len()
    }

    /// Iterates over the handshakes in progress. An item is the addresses and ports, the time of
    /// the next SYN-ACK, and the number of SYN-ACK retransmissions so far.
    pub fn handshakes(&self) -> impl Iterator<Item = (Ends, Instant, u8)> + '_ {
        self.table.iter().map(|entry| (entry.ends(), entry.deadline, entry.sent_again))
    }

    /// Number of connections waiting to be accepted.
    pub fn ready(&self) -> u32 {
        self.ready
    }

    /// Bytes of memory used by handshakes.
    pub fn bytes(&self) -> usize {
        self.table.bytes()
    }

    fn accept_queue_is_full(&self) -> bool {
        self.ready > self.limits.backlog
    }

    /// Returns whether a handshake between `ends` is in progress.
    pub fn knows(&self, ends: &Ends) -> bool {
        self.find(ends).is_some()
    }

    /// Drops the handshake between `ends`, if there is one. Its peer gets a RST for its ACK.
    pub fn forget(&mut self, ends: &Ends) {
        if let Some(at) = self.find(ends) {
            self.table.remove(at);
        }
    }

    /// Sets whether SYNs may be answered with a cookie, as far as the limits permit.
    pub fn use_cookies(&mut self, on: bool) {
        self.may_send_cookies = on;
    }

    fn find(&self, ends: &Ends) -> Option<u32> {
        self.find_hashed(self.table.hash(ends), ends)
    }

    fn find_hashed(&self, hash: u32, ends: &Ends) -> Option<u32> {
        self.table.find(hash, |entry| entry.ends() == *ends)
    }

    fn offset(&self, ends: &Ends) -> u32 {
        ts_offset(self.numbers, ends)
    }

    /// Evicts one entry: the oldest among those with the most unanswered SYN-ACKs.
    fn evict(&mut self, cx: Context<'_>) {
        let oldest = (0..QUEUES as u8).rev().find_map(|queue| self.table.front(queue)).map(|(at, _)| at);
        if oldest.and_then(|at| self.table.remove(at)).is_some() {
            cx.counts.evicted.bump();
        }
    }

    /// Creates the entry for a SYN with the options that both sides support (RFC 7323 2.2 and 3.2,
    /// RFC 2018 2, RFC 3168 6.1.1). The second result is the timestamp offset.
    fn entry_of(&self, cx: Context<'_>, ends: &Ends, syn: &Segment) -> (Entry, u32) {
        let (config, requested) = (cx.config, &syn.options);
        let ts = requested.timestamps.filter(|_| config.timestamps);
        let sack = requested.sack_permitted && config.sack;
        // A SYN is never ECN-marked: if it is, a device on the path rewrites the field.
        let ecn = config.ecn != EcnMode::Off && syn.has(Flags::ECE | Flags::CWR) && syn.ecn == Ecn::NotEct;
        if requested.mss.is_some_and(|mss| mss < floored_mss(config, Some(mss))) {
            cx.counts.mss_raised.bump();
        }
        let (iss, offset) = numbers(self.numbers, ends, cx.now);
        let entry = Entry {
            iss: cx.above.map_or(iss, |above| iss.later(above)),
            irs: syn.seq,
            ts_recent: ts.map_or(0, |ts| ts.val),
            deadline: cx.now.after(wait(config, 0)),
            mss: requested.mss.unwrap_or(0),
            wscale: requested
                .window_scale
                .filter(|_| config.window_scaling)
                .map_or(entry::NO_SCALE, |shift| shift.min(MOST_SCALE)),
            flags: flag::when(sack, flag::SACK)
                | flag::when(ts.is_some(), flag::TIMESTAMPS)
                | flag::when(ecn, flag::ECN),
            ..Entry::between(ends)
        };
        (entry, offset)
    }

    /// Builds a SYN-ACK with a cookie. Stores only the time until which cookies are accepted.
    fn synack_with_cookie(&mut self, cx: Context<'_>, ends: &Ends, entry: &mut Entry, offset: u32) -> Out {
        cx.counts.cookies_sent.bump();
        self.cookies_until = cx.now.after(2 * SLOT);
        if !entry.has(flag::TIMESTAMPS) {
            // without timestamps there is no field for these options, so they are refused
            (entry.wscale, entry.flags) = (entry::NO_SCALE, 0);
        }
        let syn = Remembered {
            mss: floored_mss(cx.config, Some(entry.mss)),
            wscale: (entry.wscale != entry::NO_SCALE).then_some(entry.wscale),
            sack: entry.has(flag::SACK),
            ecn: entry.has(flag::ECN),
        };
        let tsval = entry.has(flag::TIMESTAMPS).then(|| entry::tsval(cx.now, offset));
        let (cookie, tsval) = self.cookies.make(ends, entry.irs, &syn, tsval, cx.now);
        entry.iss = cookie;
        entry.synack_at(cx.config, tsval, false)
    }
}
