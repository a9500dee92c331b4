//! Transmission control block: the variables of one connection (RFC 9293 3.3.1), and the beginning
//! of a connection.
//!
//! Each submodule defines one part of the block, independently of the other parts and of the whole
//! block. `input` and `ack` change the block when a segment arrives, `output` when a segment is
//! sent, and `timers` when a deadline has passed. Other modules implement their steps. State that
//! few connections need is boxed and allocated on first use.

use crate::cc::{Congestion, Control};
use crate::config::MOST_SCALE;
use crate::rare_events::RareEvents;
use crate::reassembly::Reassembly;
use crate::rtt::Rtt;
use crate::scoreboard::Scoreboard;
use crate::{Config, EcnMode, Handshake, Segment, SeqNum, State, Timestamps};
use alloc::boxed::Box;
use alloc::sync::Arc;
use clock::{Duration, Instant};
use wire::tcp::Flags;

mod answer;
mod chrono;
mod cold;
mod pmtu;
mod rack;
mod recovery;
mod sizing;
mod spaces;
mod timers;

pub(crate) use chrono::{Chrono, Why};
pub use cold::Tail;
pub(crate) use cold::{ColdEvents, ColdOptions, Keepalive};
pub(crate) use pmtu::Pmtu;
pub(crate) use rack::{DUPTHRESH, Rack};
pub(crate) use recovery::{Ca, Frto, Probe, Recovery};
pub(crate) use spaces::{Rcv, Snd};
pub(crate) use timers::{Early, Rtx, Timers};

/// Bytes of the timestamps option, including padding.
const TIMESTAMPS_LEN: u16 = 12;
/// Largest window of a peer, in bytes, that a single segment may fill completely (Linux's
/// threshold); see [`Tcb::set_mss`].
const LINUX_SMALL_WINDOW: u32 = 536;
/// State of timestamps (RFC 7323), if both sides agreed on them.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Ts {
    pub recent: u32,
    /// Time at which `recent` was stored, in units of 2^30 ns, since only an age of weeks matters.
    taken: u32,
    pub offset: u32,
}

impl Ts {
    pub(crate) fn new(recent: u32, offset: u32, now: Instant) -> Ts {
        let mut ts = Ts { recent, taken: 0, offset };
        ts.take(recent, now);
        ts
    }

    #[inline]
    pub(crate) fn take(&mut self, recent: u32, now: Instant) {
        (self.recent, self.taken) = (recent, (now.nanos() >> 30) as u32);
    }

    /// Returns the age of `recent`, to about a second.
    #[inline]
    pub(crate) fn age(&self, now: Instant) -> Duration {
        now.since(Instant::from_nanos(u64::from(self.taken) << 30))
    }
}

/// State of ECN (RFC 3168), if both sides agreed on it.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct EcnState {
    pub on: bool,
    /// CE was received, so every ACK has ECE until CWR is received.
    pub echo: bool,
    /// The window was reduced, so the next new segment has CWR.
    pub cwr: bool,
}

/// Options and requests that the application set.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct TcbOptions {
    pub nodelay: bool,
    pub cork: bool,
    /// True if the last write announced more data ([`Tail::More`](crate::Tail::More)) and no ACK
    /// was processed since.
    pub more: bool,
    /// True if the data that Nagle or cork currently delays may be sent. Data queued later is
    /// delayed again.
    pub flush: bool,
    /// The writer waits for space in the send buffer.
    pub starved: bool,
    /// The connection is orphaned: no process has it open any more.
    pub orphan: bool,
    /// True if the open was passive.
    pub passive: bool,
    /// True if the peer offered window scaling.
    pub scaling: bool,
}

/// Counters that `Info` reports.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Counts {
    pub bytes_sent: u64,
    pub bytes_acked: u64,
    pub bytes_received: u64,
    pub segs_out: u32,
    pub segs_in: u32,
    pub data_segs_out: u32,
    pub data_segs_in: u32,
    pub delivered: u32,
}

/// State of one connection.
#[derive(Clone, Debug)]
pub struct Tcb {
    pub(crate) state: State,
    pub(crate) options: TcbOptions,
    pub(crate) sack: bool,
    pub(crate) ecn: EcnState,
    pub(crate) snd: Snd,
    pub(crate) rcv: Rcv,
    pub(crate) timers: Timers,
    pub(crate) ts: Option<Ts>,
    pub(crate) rtt: Rtt,
    pub(crate) board: Scoreboard,
    pub(crate) cc: Control,
    pub(crate) recovery: Recovery,
    pub(crate) rack: Rack,
    pub(crate) counts: Counts,
    pub(crate) chrono: Chrono,
    /// Cause that currently delays queued data.
    pub(crate) held_by: Why,
    pub(crate) rare_events: RareEvents,
    pub(crate) ooo: Option<Box<Reassembly>>,
    pub(crate) cold_options: Option<Box<ColdOptions>>,
    pub(crate) cold_events: Option<Box<ColdEvents>>,
    pub(crate) pmtu: Option<Box<Pmtu>>,
    pub(crate) config: Arc<Config>,
}

impl Tcb {
    fn new(config: &Arc<Config>, iss: SeqNum, now: Instant) -> Tcb {
        Tcb {
            state: State::Closed,
            options: TcbOptions::default(),
            sack: config.sack,
            ecn: EcnState::default(),
            snd: Snd::new(config, iss, now),
            rcv: Rcv::new(config),
            timers: Timers::default(),
            ts: None,
            rtt: Rtt::new(config),
            board: Scoreboard::default(),
            cc: Control::new(config.algorithm, config.default_mss, 0),
            recovery: Recovery::new(iss),
            rack: Rack::new(iss),
            counts: Counts::default(),
            chrono: Chrono::default(),
            held_by: Why::Idle,
            rare_events: RareEvents::default(),
            ooo: None,
            cold_options: None,
            cold_events: None,
            pmtu: None,
            config: Arc::clone(config),
        }
    }

    /// Reinitialises a closed connection to the value that [`Tcb::new`] returns. Each part is
    /// written in place; building it elsewhere and moving it in would copy 600 bytes twice.
    #[cfg_attr(not(debug_assertions), inline(always))]
    fn reinit(&mut self, config: &Arc<Config>, iss: SeqNum, now: Instant) {
        let Tcb {
            state,
            options,
            sack,
            ecn,
            snd,
            rcv,
            timers,
            ts,
            rtt,
            board,
            cc,
            recovery,
            rack,
            counts,
            chrono,
            held_by,
            rare_events,
            ooo,
            cold_options,
            cold_events,
            pmtu,
            config: before,
        } = self;
        (*state, *options, *sack, *ecn) = (State::Closed, TcbOptions::default(), config.sack, EcnState::default());
        *snd = Snd::new(config, iss, now);
        *rcv = Rcv::new(config);
        (*timers, *ts, *rtt) = (Timers::default(), None, Rtt::new(config));
        board.clear();
        *cc = Control::new(config.algorithm, config.default_mss, 0);
        (*recovery, *rack) = (Recovery::new(iss), Rack::new(iss));
        (*counts, *chrono, *held_by) = (Counts::default(), Chrono::default(), Why::Idle);
        (*rare_events, *ooo, *cold_options, *cold_events, *pmtu) = (RareEvents::default(), None, None, None, None);
        if !Arc::ptr_eq(before, config) {
            *before = Arc::clone(config);
        }
    }

    /// Closes the connection and frees its cold state, so that the slot can be reused.
    pub fn reset(&mut self) {
        self.over();
        self.board.keep_little();
        (self.cold_options, self.cold_events, self.pmtu) = (None, None, None);
    }

    /// Begins an active open in SYN-SENT; [`Tcb::poll_segment`] then returns the SYN (RFC 9293
    /// 3.10.1).
    ///
    /// `iss` and `ts_offset` come from a keyed generator (RFC 6528, RFC 7323 5.4).
    pub fn connect(config: &Arc<Config>, iss: SeqNum, ts_offset: u32, now: Instant) -> Tcb {
        let mut tcb = Tcb::new(config, iss, now);
        tcb.begin(config, ts_offset, now);
        tcb
    }

    /// Begins an active open as [`Tcb::connect`] does, but reuses the memory of this closed
    /// connection.
    pub fn connect_again(&mut self, config: &Arc<Config>, iss: SeqNum, ts_offset: u32, now: Instant) {
        self.reinit(config, iss, now);
        self.begin(config, ts_offset, now);
    }

    #[inline(always)]
    fn begin(&mut self, config: &Config, ts_offset: u32, now: Instant) {
        self.state = State::SynSent;
        self.ts = config.timestamps.then_some(Ts::new(0, ts_offset, now));
        self.ecn.on = config.ecn == EcnMode::On;
        self.arm_rto(now);
    }

    /// Begins a passive open in SYN-RECEIVED for a host that does not use a listener's SYN queue.
    /// [`Tcb::poll_segment`] then returns the SYN-ACK (RFC 9293 3.10.7.2, third).
    ///
    /// `syn` has SYN and neither ACK, RST nor FIN. Data in it is not accepted; the peer retransmits
    /// the data.
    pub fn accept(config: &Arc<Config>, iss: SeqNum, ts_offset: u32, syn: &Segment, now: Instant) -> Tcb {
        let mut tcb = Tcb::new(config, iss, now);
        tcb.state = State::SynReceived;
        tcb.options.passive = true;
        tcb.ts = config.timestamps.then_some(Ts::new(0, ts_offset, now));
        let asks_for_ecn = syn.has(Flags::ECE | Flags::CWR);
        tcb.ecn.on = asks_for_ecn && config.ecn != EcnMode::Off;
        tcb.learn_syn(syn, now);
        tcb.arm_rto(now);
        tcb
    }

    /// Creates a connection in ESTABLISHED from a listener's completed handshake.
    pub fn from_handshake(config: &Arc<Config>, done: &Handshake, now: Instant) -> Tcb {
        let mut tcb = Tcb::new(config, done.iss, now);
        tcb.take_over(done, now);
        tcb
    }

    /// Creates a connection as [`Tcb::from_handshake`] does, but reuses the memory of this closed
    /// connection.
    pub fn from_handshake_again(&mut self, config: &Arc<Config>, done: &Handshake, now: Instant) {
        self.reinit(config, done.iss, now);
        self.take_over(done, now);
    }

    #[cfg_attr(not(debug_assertions), inline(always))]
    fn take_over(&mut self, done: &Handshake, now: Instant) {
        self.options.passive = true;
        self.snd.syn_due = false;
        self.snd.una = done.iss.plus(1);
        self.snd.nxt = self.snd.una;
        self.rcv.irs = done.irs;
        self.set_rcv_nxt(done.irs.plus(1));
        self.sack = done.sack;
        self.ecn.on = done.ecn;
        self.ts = done.ts.map(|ts| Ts::new(ts.recent, ts.offset, now));
        self.snd.wscale = done.snd_wscale.unwrap_or(0).min(MOST_SCALE);
        self.rcv.wscale = if done.snd_wscale.is_some() { done.rcv_wscale.min(MOST_SCALE) } else { 0 };
        self.set_peer_mss((done.mss != 0).then_some(done.mss));
        self.snd.syns = 1;
        let syn_window = self.advertise_on_syn();
        self.rcv.adv = self.rcv.nxt.plus(u32::from(syn_window));
        if let Some(rtt) = done.rtt {
            let us = u32::try_from(rtt.as_micros()).unwrap_or(u32::MAX);
            self.rtt.sample(us, self.snd.una, self.snd.nxt, now);
        }
        self.take_window(done.window, done.irs.plus(1), self.snd.una, true);
        self.establish(now);
    }

    /// Stores the options of the peer's SYN or SYN-ACK (RFC 9293 3.7.1, RFC 7323 2.2 and 3.2, RFC
    /// 2018 2).
    pub(crate) fn learn_syn(&mut self, syn: &Segment, now: Instant) {
        self.rcv.irs = syn.seq;
        self.set_rcv_nxt(syn.seq.plus(1));
        self.sack &= syn.options.sack_permitted;
        self.ts = match (self.ts, syn.options.timestamps) {
            (Some(ts), Some(Timestamps { val, .. })) => Some(Ts::new(val, ts.offset, now)),
            _ => None,
        };
        let offered = syn.options.window_scale.filter(|_| self.config.window_scaling);
        self.options.scaling = offered.is_some();
        match offered {
            // RFC 7323 2.3: a shift above 14 is treated as 14.
            Some(shift) => self.snd.wscale = shift.min(MOST_SCALE),
            None => (self.snd.wscale, self.rcv.wscale) = (0, 0),
        }
        self.set_peer_mss(syn.options.mss.filter(|mss| *mss != 0));
        self.snd.wnd = u32::from(syn.window);
        self.snd.max_wnd = self.snd.max_wnd.max(self.snd.wnd);
        (self.snd.wl1, self.snd.wl2) = (syn.seq, self.snd.una);
    }

    fn set_rcv_nxt(&mut self, nxt: SeqNum) {
        (self.rcv.nxt, self.rcv.wup, self.rcv.adv) = (nxt, nxt, nxt);
    }

    /// Sets the peer's MSS, with a lower bound against tiny segments (RFC 9293 3.7.1).
    fn set_peer_mss(&mut self, mss: Option<u16>) {
        self.snd.peer_mss = mss.unwrap_or(self.config.default_mss).max(self.config.min_mss);
        self.set_mss();
    }

    /// Recomputes the number of data bytes in a full segment, after a change of the path MTU, the
    /// peer's MSS, or the peer's window.
    pub(crate) fn set_mss(&mut self) {
        let path = self.pmtu.as_ref().map_or(self.config.mss, |pmtu| pmtu.mss);
        let whole = self.snd.peer_mss.min(path).min(self.own_mss().max(self.config.min_mss));
        let options = if self.ts.is_some() { TIMESTAMPS_LEN } else { 0 };
        let mss = whole.saturating_sub(options).max(self.config.min_mss.saturating_sub(options)).max(1);
        // A full segment is at most half of the largest window, so that a small window fits two
        // (RFC 9293 3.8.6.2.1, Fs = 1/2).
        let half = match self.snd.max_wnd {
            0 => u32::from(u16::MAX),
            window if window > LINUX_SMALL_WINDOW => window / 2,
            window => window,
        };
        let mss = u32::from(mss).min(half).max(1) as u16;
        if mss != self.snd.mss {
            self.snd.mss = mss;
            self.cc.set_mss(mss);
        }
    }

    /// Returns the MSS that we advertise.
    pub(crate) fn own_mss(&self) -> u16 {
        let requested = self.cold_options.as_ref().and_then(|cold_options| cold_options.maxseg);
        requested.map_or(self.config.mss, |requested| requested.min(self.config.mss)).max(1)
    }

    /// Enters ESTABLISHED, the state in which both sides may send data.
    pub(crate) fn establish(&mut self, now: Instant) {
        self.state = State::Established;
        self.snd.syn_due = false;
        self.snd.max_wnd = self.snd.max_wnd.max(self.snd.wnd);
        self.set_mss();
        let nxt = self.snd.nxt;
        (self.snd.round_end, self.snd.push, self.snd.small) = (nxt, self.snd.push.later(nxt), nxt);
        self.recovery.begin_at(nxt);
        self.rack.begin_at(nxt);
        if self.snd.syns > 1 && self.rtt.srtt().is_none() {
            self.rtt.after_lost_syn();
        }
        self.cc = Control::new(self.config.algorithm, self.snd.mss, self.initial_window());
        if self.ecn.on {
            self.rare_events |= RareEvents::ECN_HANDSHAKE;
        }
        self.snd.last_at = now;
        self.rcv.last_at = Instant::ZERO;
        self.timers.clear_rtx();
        self.recovery.backoff = 0;
        self.more_quick_acks();
        self.arm_keepalive(now);
    }

    /// Returns the initial congestion window in bytes (RFC 6928 2): ten segments, but at most
    /// 14,600 bytes or two segments, whichever is more. After a lost SYN it is one segment (RFC
    /// 5681 3.1).
    pub(crate) fn initial_window(&self) -> u32 {
        let mss = u32::from(self.snd.mss);
        if self.snd.syns > 1 && self.rtt.srtt().is_none() {
            return mss;
        }
        let segments = u32::from(self.config.initial_window).max(1);
        (mss * segments).min((segments * 1460).max(2 * mss))
    }

    /// Current state of the connection.
    #[inline]
    pub fn state(&self) -> State {
        self.state
    }

    /// SND.NXT. A new connection that replaces this one in TIME-WAIT begins above it (RFC 6191).
    pub fn snd_nxt(&self) -> SeqNum {
        self.snd.nxt
    }

    /// RCV.NXT: next sequence number expected from the peer.
    pub fn rcv_nxt(&self) -> SeqNum {
        self.rcv.nxt
    }

    /// SND.UNA: sequence number of the first byte in the send queue.
    pub fn snd_una(&self) -> SeqNum {
        self.snd.una
    }

    /// Returns whether everything sent has been acknowledged.
    #[inline]
    pub fn is_all_acknowledged(&self) -> bool {
        self.snd.una == self.snd.nxt
    }

    /// Returns the state of timestamps for the TIME-WAIT entry that replaces this connection;
    /// `None` if timestamps were not negotiated.
    pub fn timestamps(&self) -> Option<crate::TsState> {
        self.ts.map(|ts| crate::TsState { recent: ts.recent, offset: ts.offset })
    }

    /// Returns our millisecond clock plus this connection's offset, as used for TSval (RFC 7323
    /// 5.4).
    #[inline]
    pub(crate) fn ts_now(&self, now: Instant) -> u32 {
        let offset = self.ts.map_or(0, |ts| ts.offset);
        ((now.nanos() / 1_000_000) as u32).wrapping_add(offset)
    }

    /// Number of data bytes queued and not sent.
    #[inline]
    pub(crate) fn unsent(&self) -> u32 {
        self.snd.end.since_or_zero(self.snd.nxt)
    }

    /// Returns whether our FIN has been sent.
    #[inline]
    pub(crate) fn fin_sent(&self) -> bool {
        self.snd.nxt.after(self.snd.end)
    }

    /// Number of bytes considered in flight (RFC 6675 4: pipe).
    #[inline]
    pub(crate) fn in_flight(&self) -> u32 {
        let outstanding = self.snd.nxt.since(self.snd.una);
        let (gone, again) = self.board.gone_and_again();
        let gone = gone.saturating_add(self.recovery.reno_bytes(self.snd.mss));
        outstanding.saturating_sub(gone).saturating_add(again)
    }

    /// Returns the infrequent events recorded since the last call, and clears them.
    #[inline]
    pub fn take_notes(&mut self) -> RareEvents {
        core::mem::take(&mut self.rare_events)
    }

    /// Returns the state of infrequently used options, allocating it on first use.
    pub(crate) fn cold_options(&mut self) -> &mut ColdOptions {
        self.cold_options.get_or_insert_default()
    }

    /// Returns the state of infrequent events, allocating it on first use.
    #[cold]
    pub(crate) fn cold_events(&mut self) -> &mut ColdEvents {
        let iss = self.snd.iss;
        self.cold_events.get_or_insert_with(|| Box::new(ColdEvents::new(iss)))
    }

    /// Returns the sequence number after the last urgent byte to send; `None` if there is no urgent
    /// data.
    #[inline]
    pub(crate) fn snd_urgent(&self) -> Option<SeqNum> {
        if !self.snd.urgent_on {
            return None;
        }
        self.cold_events.as_ref().map(|cold_events| cold_events.snd_urgent)
    }

    /// Enters CLOSED: discards the queues and stops all timers.
    pub(crate) fn over(&mut self) {
        self.state = State::Closed;
        self.timers = Timers::default();
        self.stop_pace();
        self.board.clear();
        self.ooo = None;
        self.snd.syn_due = false;
        self.rcv.ack_now = false;
        self.recovery.probe = None;
    }

    /// Panics if variables of this connection contradict each other.
    #[cfg(any(test, fuzzing))]
    pub fn check_invariants(&self) {
        let (snd, rcv) = (&self.snd, &self.rcv);
        if self.state == State::Closed {
            assert_eq!(self.next_timer(), Instant::NEVER, "a closed connection has no timers");
            return;
        }
        assert!(snd.una.at_or_before(snd.nxt) && snd.nxt.at_or_before(snd.end.plus(1)), "{snd:?}");
        assert!(rcv.wup.at_or_before(rcv.nxt), "{rcv:?}");
        assert!(self.cc.cwnd() >= u32::from(snd.mss) || !self.state.is_synchronized(), "cwnd below a segment");
        assert!(snd.mss > 0);
        if self.state.is_synchronized() {
            self.board.check_invariants(snd.una, snd.nxt);
            assert_eq!(self.board.is_empty(), snd.una == snd.nxt, "text under way without records: {snd:?}");
        }
        if let Some(ooo) = &self.ooo {
            ooo.check_invariants(rcv.nxt);
        }
        if self.state.may_send() && snd.una != snd.nxt {
            assert_ne!(self.next_timer(), Instant::NEVER, "text under way and no timer");
        }
        assert!(!self.state.is_closing() || snd.fin);
    }
}

#[cfg(test)]
mod tests;
