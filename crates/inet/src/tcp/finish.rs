//! Shutdown of a host: handling of data that is written but not acknowledged.
//!
//! [`Stack::tcp_finish`] shuts all connections down for writing. The caller keeps polling the host
//! until [`Stack::tcp_has_unacknowledged`] returns `false` or a timeout expires. It then resets the
//! remaining connections ([`Stack::tcp_reset_unacknowledged`]), so that no peer takes partial data
//! for complete data (RFC 9293 3.10.5).

use super::Failure;
use super::{Kind, Sock};
use crate::Stack;
use crate::demux::Tuple;
use crate::iface::AtOnce;
use ::tcp::State;
use clock::Duration;
use lock::{Cx, Locks};

/// A connection whose peer has not acknowledged all written data or the FIN.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Unacknowledged {
    /// Addresses and ports of the connection.
    pub ends: Tuple,
    /// Number of bytes written but not acknowledged; 0 if only the FIN is not acknowledged.
    pub bytes: usize,
}

impl<L: Locks> Sock<L> {
    /// Returns the unacknowledged data of the connection; `None` if the peer has acknowledged all
    /// data and the FIN.
    fn unacknowledged(&self) -> Option<Unacknowledged> {
        let Kind::Stream(stream) = &self.kind else { return None };
        let state = stream.tcb.state();
        let is_open = state.is_synchronized() && !matches!(state, State::FinWait2 | State::TimeWait);
        let waits = is_open && (stream.tcb.has_shut_send() || !stream.send.is_empty());
        waits.then(|| Unacknowledged { ends: self.tuple(), bytes: stream.send.len() })
    }
}

impl<L: Locks> Stack<L> {
    /// Shuts all connections down for writing: written data is sent, followed by a FIN. Nothing can
    /// be written afterwards.
    pub fn tcp_finish(&self, cx: Cx) {
        let mut open = Vec::new();
        self.tcp.socks.for_each(cx, |id, sock| {
            let writes = sock.has_peer() && sock.tcb().is_some_and(|tcb| !tcb.has_shut_send());
            open.extend(writes.then_some(id));
        });
        for id in open {
            let _ = self.tcp_shutdown(cx, id, false, true); // a connection that has ended has nothing to send
        }
        self.flush(cx);
    }

    /// Wakes all threads and tasks that wait for a TCP socket.
    pub(crate) fn tcp_wake_all(&self, cx: Cx) {
        self.tcp.socks.for_each(cx, |id, sock| sock.wake(cx, id));
    }

    /// Returns whether any connection has data or a FIN that its peer has not acknowledged.
    pub fn tcp_has_unacknowledged(&self, cx: Cx) -> bool {
        let mut has = false;
        self.tcp.socks.for_each(cx, |_, sock| has |= sock.unacknowledged().is_some());
        has
    }

    /// Returns the longest smoothed round-trip time of the connections with written data that the
    /// peer has not acknowledged; `None` if there is no such connection. A connection whose
    /// round-trip time was not measured counts as 0.
    pub fn tcp_unacknowledged_rtt(&self, cx: Cx) -> Option<Duration> {
        let mut longest = None;
        self.tcp.socks.for_each(cx, |_, sock| {
            if sock.unacknowledged().is_some_and(|left| left.bytes > 0) {
                longest = longest.max(sock.tcb().map(|tcb| tcb.info(cx.now).rtt));
            }
        });
        longest
    }

    /// Resets the connections with unacknowledged data or FINs, and returns them.
    #[inline(never)]
    pub fn tcp_reset_unacknowledged(&self, cx: Cx) -> Vec<Unacknowledged> {
        let mut all = Vec::new();
        self.tcp.socks.for_each(cx, |id, sock| all.extend(sock.unacknowledged().map(|left| (id, left))));
        for (id, _) in &all {
            let Some(slot) = self.tcp.socks.get(*id) else { continue };
            let mut slot = slot.lock(cx);
            let Some(sock) = slot.as_mut().filter(|sock| sock.unacknowledged().is_some()) else { continue };
            self.tcp_give_up(cx, sock, Failure::TimedOut);
            sock.wake(cx, *id);
            self.tcp_charge(sock);
            let over = self.tcp_output(cx, *id, sock, AtOnce::Later);
            drop(slot);
            self.tcp_free(cx, *id, over);
        }
        self.flush(cx);
        all.into_iter().map(|(_, left)| left).collect()
    }
}
