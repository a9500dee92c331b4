//! What a TCP socket tells of itself beside `Tcb::info`: its memory, what it waits for, who still has it.

use super::{Kind, Sock};
use crate::Stack;
use crate::demux::{Addr, Tuple};
use clock::{Duration, Instant};
use lock::{Cx, Locks};
use tcp::State;

/// Bytes that a socket holds, and may hold. A listener's are its connections'.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Memory {
    /// Received and not read, in order and not.
    pub recv: usize,
    /// What may be.
    pub recv_space: usize,
    /// Written and not acknowledged.
    pub send: usize,
    /// What may be.
    pub send_space: usize,
    /// Of what was written: under way.
    pub in_flight: usize,
}

/// What a connection waits for, by the names of `ss -o`.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Timer {
    /// An answer: retransmission, or what comes before it (RACK, tail loss probe).
    On,
    /// Silence, to ask whether the peer is still there.
    Keepalive,
    /// 2 MSL, or FIN-WAIT-2's patience.
    TimeWait,
    /// Room in a window that is closed.
    Persist,
}

impl Timer {
    /// `ss`'s word.
    pub fn word(self) -> &'static str {
        match self {
            Timer::On => "on",
            Timer::Keepalive => "keepalive",
            Timer::TimeWait => "timewait",
            Timer::Persist => "persist",
        }
    }
}

/// A deadline no further away than this may be a delayed ACK's (RFC 9293 3.8.6.3), which `ss` does not show.
const DELAYED_ACK_MAX: Duration = Duration::from_millis(500);

impl<L: Locks> Sock<L> {
    /// Has the process let go of it?
    pub fn is_orphan(&self) -> bool {
        self.orphan
    }

    /// A listener's handshakes under way, and how many there may be.
    pub fn embryonic(&self) -> Option<(usize, usize)> {
        match &self.kind {
            Kind::Listening(listening) => {
                let listener = &listening.listener;
                Some((listener.embryonic(), listener.limits().syn_queue as usize))
            }
            _ => None,
        }
    }

    /// A listener's handshakes under way: between whom, in how long the SYN-ACK goes out again, how often it has.
    pub fn handshakes(&self, now: Instant) -> Vec<(Tuple, Duration, u8)> {
        let Kind::Listening(listening) = &self.kind else { return Vec::new() };
        let each = |(ends, deadline, again): (::tcp::Ends, Instant, u8)| (tuple_of(&ends), deadline.since(now), again);
        listening.listener.handshakes().map(each).collect()
    }

    /// What it holds.
    pub fn memory(&self) -> Memory {
        let Kind::Stream(stream) = &self.kind else { return Memory::default() };
        let early = stream.ooo.as_ref().map_or(0, |ooo| ooo.bytes());
        let sent = stream.tcb.snd_nxt().since_or_zero(stream.tcb.snd_una()) as usize;
        Memory {
            recv: stream.recv.len() + early,
            recv_space: stream.tcb.recv_space() as usize,
            send: stream.send.len(),
            send_space: stream.send.space(),
            in_flight: sent.min(stream.send.len()),
        }
    }

    /// What it waits for and how long still. The core tells the first of its deadlines; which it is follows from the state.
    pub fn timer(&self, now: Instant) -> Option<(Timer, Duration)> {
        let tcb = self.tcb()?;
        let (info, left) = (tcb.info(now), tcb.next_timer());
        if left == Instant::NEVER {
            return None;
        }
        let left = left.since(now);
        let keepalive = self.options().keepalive.then_some(Timer::Keepalive);
        match tcb.state() {
            State::Closed => None,
            State::TimeWait => Some((Timer::TimeWait, left)),
            State::FinWait2 if self.orphan => Some((Timer::TimeWait, left)),
            State::SynSent | State::SynReceived => Some((Timer::On, left)),
            _ if info.unacked > 0 => Some((Timer::On, left)),
            _ if tcb.not_sent() > 0 => Some((Timer::Persist, left)),
            _ if left > DELAYED_ACK_MAX => keepalive.map(|timer| (timer, left)),
            _ => {
                let idle = self.options().keep_idle.unwrap_or(Duration::from_secs(7200));
                let silence = idle.saturating_sub(info.last_ack_recv);
                keepalive.map(|timer| (timer, if info.probes > 0 { left } else { silence.max(left) }))
            }
        }
    }
}

fn tuple_of(ends: &::tcp::Ends) -> Tuple {
    Tuple {
        local: Addr(ends.local),
        remote: Addr(ends.remote),
        local_port: ends.local_port,
        remote_port: ends.remote_port,
    }
}

impl<L: Locks> Stack<L> {
    /// Runs `f` on every connection in TIME-WAIT: its ends, and how long it stays.
    pub fn for_each_late(&self, cx: Cx, mut f: impl FnMut(Tuple, Duration)) {
        let late = self.tcp.late.lock(cx);
        for (ends, deadline) in late.iter() {
            f(tuple_of(&ends), deadline.since(cx.now));
        }
    }
}
