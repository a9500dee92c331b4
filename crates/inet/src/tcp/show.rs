//! State of a TCP socket for display, in addition to `Tcb::info`: memory, timer, and whether the
//! process has closed the socket.

use super::{Kind, Sock};
use crate::Stack;
use crate::demux::{Addr, Tuple};
use clock::{Duration, Instant};
use lock::{Cx, Locks};
use tcp::State;

/// Number of bytes in the queues of a socket, and its buffer sizes. For a listener, the buffer
/// sizes are those of the connections that it accepts.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Memory {
    /// Number of bytes received but not read, in order or not.
    pub recv: usize,
    /// Maximum number of bytes in `recv`.
    pub recv_space: usize,
    /// Number of bytes written but not acknowledged.
    pub send: usize,
    /// Maximum number of bytes queued in `send`.
    pub send_space: usize,
    /// Number of bytes in `send` that have been sent.
    pub in_flight: usize,
}

/// Active timer of a connection, with the names of `ss -o`.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Timer {
    /// Waits for an acknowledgment: retransmission timer, reordering timer (RACK) or tail loss
    /// probe.
    On,
    /// Waits until the connection has been idle for a time, then sends a probe to an idle peer.
    Keepalive,
    /// Waits for the end of TIME-WAIT or FIN-WAIT-2.
    TimeWait,
    /// Waits until the peer opens its closed window.
    Persist,
}

impl Timer {
    /// Returns the name that `ss` prints.
    pub fn word(self) -> &'static str {
        match self {
            Timer::On => "on",
            Timer::Keepalive => "keepalive",
            Timer::TimeWait => "timewait",
            Timer::Persist => "persist",
        }
    }
}

/// Maximum delay of an ACK (RFC 9293 3.8.6.3). A timer that expires earlier may be for a delayed
/// ACK, which `ss` does not print.
const DELAYED_ACK_MAX: Duration = Duration::from_millis(500);

impl<L: Locks> Sock<L> {
    /// Returns whether the process has closed the socket.
    pub fn is_orphan(&self) -> bool {
        self.orphan
    }

    /// Returns the number of a listener's handshakes in progress, and the maximum number; `None` if
    /// the socket does not listen.
    pub fn embryonic(&self) -> Option<(usize, usize)> {
        match &self.kind {
            Kind::Listening(listening) => {
                let listener = &listening.listener;
                Some((listener.embryonic(), listener.limits().syn_queue as usize))
            }
            _ => None,
        }
    }

    /// Returns a listener's handshakes in progress. Each item contains addresses and ports, the
    /// time until the SYN-ACK is retransmitted, and the number of retransmissions so far.
    pub fn handshakes(&self, now: Instant) -> Vec<(Tuple, Duration, u8)> {
        let Kind::Listening(listening) = &self.kind else { return Vec::new() };
        let each = |(ends, deadline, again): (::tcp::Ends, Instant, u8)| (tuple_of(&ends), deadline.since(now), again);
        listening.listener.handshakes().map(each).collect()
    }

    /// Returns the number of bytes in the queues of the socket, and its buffer sizes.
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

    /// Returns the active timer and the time until it expires. The core returns only the earliest
    /// deadline, so the kind of the timer is derived from the state of the connection.
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
    /// Runs `f` on every connection in TIME-WAIT, with its addresses and ports and the remaining
    /// time.
    pub fn for_each_time_wait(&self, cx: Cx, mut f: impl FnMut(Tuple, Duration)) {
        let late = self.tcp.late.lock(cx);
        for (ends, deadline) in late.iter() {
            f(tuple_of(&ends), deadline.since(cx.now));
        }
    }
}
