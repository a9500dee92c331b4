//! Timers of connections: one timer wheel for all connections, with one key per socket.

use super::output::{IpOptions, sock_ends};
use super::{Kind, Listening, Sock, Stream, counts};
use crate::Stack;
use crate::ends::SockEnds;
use crate::iface::AtOnce;
use ::tcp::Ends;
use clock::{Instant, Wheel};
use lock::{Cx, Locks};
use std::sync::atomic::Ordering;

/// Maximum number of sockets that are processed in one poll, so that many timers at once do not
/// delay frames.
const AT_ONCE: usize = 4096;

impl<L: Locks> Stack<L> {
    /// Runs the due timers of connections. Returns the time at which the next timer expires.
    pub(crate) fn tcp_poll(&self, cx: Cx) -> Instant {
        if self.tcp.used.is_awaited() || self.tcp_retry_at() <= cx.now {
            self.tcp_wake_starved(cx);
        }
        let mut due = Vec::new();
        if self.tcp_wheel_next(cx) <= cx.now {
            self.with_tcp_wheel(cx, |wheel| wheel.expire(cx.now, AT_ONCE, |key| due.push(key as usize)));
        }
        let next = self.tcp_wheel_next(cx);
        let late = self.tcp_poll_time_wait(cx).min(self.tcp_reap(cx)).min(self.tcp_retry_at());
        if due.is_empty() {
            return next.min(late);
        }
        for id in due {
            self.tcp_timer(cx, id);
        }
        self.flush(cx);
        late.min(self.tcp_wheel_next(cx))
    }

    /// Runs `change` on the timer wheel and publishes the wheel's next expiry.
    #[inline]
    pub(super) fn with_tcp_wheel<R>(&self, cx: Cx, change: impl FnOnce(&mut Wheel) -> R) -> R {
        let mut wheel = self.tcp.wheel.lock(cx);
        let changed = change(&mut wheel);
        if L::SHARED {
            self.tcp.next_timer.store(wheel.next().nanos(), Ordering::Relaxed);
        }
        changed
    }

    #[inline]
    fn tcp_wheel_next(&self, cx: Cx) -> Instant {
        if L::SHARED {
            return Instant::from_nanos(self.tcp.next_timer.load(Ordering::Relaxed));
        }
        self.tcp.wheel.lock(cx).next()
    }

    /// Returns whether a timer of a connection is due.
    #[inline]
    pub(crate) fn tcp_is_due(&self, cx: Cx) -> bool {
        self.tcp.used.is_awaited() || self.tcp_next_timer(cx) <= cx.now
    }

    /// Sets the connection's timer in the wheel if its deadline is now earlier. For a later
    /// deadline, the wheel is not changed: the timer expires once too early and is then set again.
    /// This is cheaper, since every segment changes the deadline.
    #[cfg_attr(not(debug_assertions), inline(always))]
    pub(super) fn tcp_arm(&self, cx: Cx, id: usize, stream: &mut Stream) {
        let next = stream.tcb.next_timer();
        if next < stream.armed {
            stream.armed = next;
            self.with_tcp_wheel(cx, |wheel| wheel.set(id as u32, next));
            self.due(next);
        }
    }

    /// Returns the time at which the first timer of a connection expires or at which free memory is
    /// checked, whichever is earlier.
    pub(crate) fn tcp_next_timer(&self, cx: Cx) -> Instant {
        self.tcp_wheel_next(cx).min(self.tcp_retry_at())
    }

    fn tcp_poll_time_wait(&self, cx: Cx) -> Instant {
        let mut table = self.tcp.late.lock(cx);
        if table.next_timer() <= cx.now {
            let counts = &self.count(cx).tcp.time_wait;
            self.with_tcp_config(cx, |config| {
                table.on_timer(::tcp::time_wait::Context { config, counts, now: cx.now }, AT_ONCE, |_| ());
            });
        }
        table.next_timer()
    }

    fn tcp_timer(&self, cx: Cx, id: usize) {
        let Some(slot) = self.tcp.socks.get(id) else { return };
        let mut slot = slot.lock(cx);
        let Some(sock) = slot.as_mut() else { return };
        let counted = &self.count(cx).tcp;
        let acks = counted.output.acks.get();
        match &mut sock.kind {
            Kind::Stream(stream) => {
                let cx = stream.on_time(cx);
                stream.armed = Instant::NEVER;
                stream.dirty = true;
                let before = stream.tcb.info(cx.now);
                let events = stream.tcb.on_timer(cx.now);
                counts::noted(counted, &mut stream.tcb);
                let after = stream.tcb.info(cx.now);
                self.tcp_count_state(cx, stream, events);
                let reset = stream.tcb.take_reset_due();
                counts::timed(counted, sock, &before, &after, events);
                if let Some(reset) = reset {
                    self.tcp_answer(cx, sock, &reset);
                }
                sock.note(cx, id, events);
                self.tcp_orphan_stalls(cx, sock);
                if let Kind::Stream(stream) = &mut sock.kind {
                    stream.release_memory();
                }
            }
            Kind::Listening(_) => self.tcp_listener_timer(cx, id, sock),
            Kind::Fresh => {}
        }
        let over = self.tcp_output(cx, id, sock, AtOnce::Later);
        // A pure ACK that a timer sent was a delayed ACK, unless it was a keepalive probe.
        counted.output.delayed_acks.add(counted.output.acks.get().wrapping_sub(acks));
        drop(slot);
        self.tcp_free(cx, id, over);
    }

    /// Retransmits a listener's SYN-ACKs that are due.
    fn tcp_listener_timer(&self, cx: Cx, id: usize, sock: &mut Sock<L>) {
        let Kind::Listening(listening) = &mut sock.kind else { return };
        listening.armed = Instant::NEVER;
        let mut again = Vec::new();
        let counts = self.count(cx);
        let Listening { listener, configs, .. } = &mut **listening;
        let context =
            tcp::listen::Context { config: &configs.four, counts: &counts.tcp.listen, now: cx.now, above: None };
        let config = |ends: &Ends| match sock_ends(ends) {
            SockEnds::V6(_) => &*configs.six,
            _ => &*configs.four,
        };
        listener.on_timer(context, AT_ONCE, config, |ends, out| again.push((*ends, out)));
        self.tcp_arm_listener(cx, id, listening);
        let holds = listening.held.is_some();
        if holds {
            sock.wake(cx, id); // wakes callers that wait for the connection of a failed handshake
        }
        for (ends, out) in again {
            match sock_ends(&ends) {
                SockEnds::V4(ends) => {
                    self.tcp_send_bare(cx, ends, &out, &IpOptions::of::<u32, L>(sock.options(), self))
                }
                SockEnds::V6(ends) => {
                    self.tcp_send_bare(cx, ends, &out, &IpOptions::of::<u128, L>(sock.options(), self));
                }
                SockEnds::Both(_) => {} // a handshake is not dual-stack
            }
        }
    }

    pub(super) fn tcp_arm_listener(&self, cx: Cx, id: usize, listening: &mut Listening) {
        let next = listening.listener.next_timer();
        if next != listening.armed {
            listening.armed = next;
            self.with_tcp_wheel(cx, |wheel| wheel.set(id as u32, next));
            self.due(next);
        }
    }
}
