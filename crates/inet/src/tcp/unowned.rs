//! Segments without an active connection: for a connection in TIME-WAIT, for a listener, or without
//! a socket. Also contains the handshakes of listeners.

use super::counts;
use super::hold::Held;
use super::input::{ParsedSegment, check, is_sound, mss_of};
use super::net::Net;
use super::output::IpOptions;
use super::{Kind, Sock, Stream, core_ends};
use crate::Stack;
use crate::demux::Ends;
use crate::ends::{Domain, SockEnds};
use crate::iface::{AtOnce, Iface};
use ::tcp::listen::{self, Answer, Refused};
use ::tcp::time_wait::{self, TimeWaitAction};
use ::tcp::{Config, Events, SeqNum};
use buf::Frame;
use lock::{Cx, Locks};
use stats::DropReason;
use std::sync::Arc;

impl<L: Locks> Stack<L> {
    /// Processes a segment without an active connection: for a connection in TIME-WAIT, for a
    /// listener, or without a socket.
    #[inline(never)]
    pub(super) fn tcp_for_listener<A: Net>(
        &self,
        cx: Cx,
        listener: Option<usize>,
        seen: &ParsedSegment<A>,
        packet: Frame,
    ) {
        let (ends, counts) = (core_ends(seen.ends), &self.count(cx).tcp);
        counts.input.resets.add(u64::from(seen.segment.has(wire::tcp::Flags::RST)));
        let mut table = self.tcp.late.lock(cx);
        // On a server, the table of connections in TIME-WAIT is empty if its clients close first.
        let late = if table.is_empty() {
            TimeWaitAction::Unknown
        } else {
            self.with_tcp_config(cx, |config| {
                let context = time_wait::Context { config, counts: &counts.time_wait, now: cx.now };
                let late = table.on_segment(context, &ends, &seen.segment);
                match late {
                    TimeWaitAction::Reusable { .. } if listener.is_none() => table.challenge(context, &ends),
                    TimeWaitAction::Reusable { .. } => {
                        table.reuse(context, &ends);
                        late
                    }
                    _ => late,
                }
            })
        };
        drop(table);
        let above = match late {
            TimeWaitAction::Unknown => None,
            TimeWaitAction::Reusable { above } => Some(above),
            TimeWaitAction::Answer(out) => {
                self.tcp_send_bare(cx, seen.ends, &out, &self.tcp_default_ip::<A>());
                return self.drop_frame(cx, packet, DropReason::TcpTimeWait);
            }
            TimeWaitAction::Dropped => return self.drop_frame(cx, packet, DropReason::TcpTimeWait),
        };
        match listener {
            Some(id) => self.tcp_listener(cx, id, seen, packet, above),
            None => self.tcp_nobody(cx, seen, packet),
        }
    }

    fn tcp_default_ip<A: Net>(&self) -> IpOptions {
        IpOptions::of::<A, L>(&super::NO_OPTIONS, self)
    }

    /// Sends a RST in answer to a segment that a policy rejects, as if there were no socket.
    /// Invalid segments are not answered.
    #[inline(never)]
    pub(crate) fn tcp_refuse<A: Net>(&self, cx: Cx, iface: &Iface<L>, packet: &Frame) {
        let mut seen = ParsedSegment::<A>::default();
        let is_valid = check(packet, Some(iface.id), is_sound(packet, iface.offload().rx), &mut seen).is_ok();
        if let Some(reset) = tcp::answer_to_nobody(&seen.segment).filter(|_| is_valid) {
            self.tcp_send_bare(cx, seen.ends, &reset, &self.tcp_default_ip::<A>());
        }
    }

    /// Passes a segment for which there is no socket to the mirror of its interface, or answers it
    /// (RFC 9293 3.10.7.1).
    fn tcp_nobody<A: Net>(&self, cx: Cx, seen: &ParsedSegment<A>, packet: Frame) {
        let Some(packet) = self.punt(cx, self.ifaces.get(seen.came_by), packet) else { return };
        let silent = self.sysctls.tcp_blackhole.on();
        if let Some(reset) = tcp::answer_to_nobody(&seen.segment).filter(|_| !silent) {
            self.tcp_send_bare(cx, seen.ends, &reset, &self.tcp_default_ip::<A>());
        }
        self.drop_frame(cx, packet, DropReason::TcpNoConnection);
    }

    /// Processes a segment for a listener: a SYN, or the ACK that completes a handshake.
    fn tcp_listener<A: Net>(&self, cx: Cx, id: usize, seen: &ParsedSegment<A>, packet: Frame, above: Option<SeqNum>) {
        let Some(mut slot) = self.tcp.socks.get(id).map(|slot| slot.lock(cx)) else {
            return self.tcp_nobody(cx, seen, packet);
        };
        let Some(sock) = slot.as_mut() else {
            drop(slot);
            return self.tcp_nobody(cx, seen, packet);
        };
        let (options, domain) = (IpOptions::of::<A, L>(sock.options(), self), sock.domain());
        let Kind::Listening(listening) = &mut sock.kind else {
            drop(slot);
            return self.tcp_nobody(cx, seen, packet);
        };
        if listening.holds(seen.ends, &seen.segment) {
            match listening.hold(cx, seen.ends, seen.segment, above) {
                Held::New => {
                    self.count(cx).audit.consumed.bump();
                    sock.wake(cx, id);
                }
                Held::Again => self.drop_frame(cx, packet, DropReason::TcpSynDuplicate),
                Held::Full => self.drop_frame(cx, packet, DropReason::TcpAcceptQueueFull),
            }
            return;
        }
        let counts = &self.count(cx).tcp.listen;
        let config = A::listen_config(&listening.configs);
        let context = listen::Context { config, counts, now: cx.now, above };
        // A forwarder is a dual-stack listener, but it accepts IPv4 connections as IPv4 sockets,
        // without IPv4-mapped addresses.
        let domain = if listening.held.is_some() { A::DOMAIN } else { domain };
        match listening.listener.on_segment(context, &core_ends(seen.ends), &seen.segment) {
            Answer::SynAck(out) => {
                // A timer that expires before the first retransmission of this SYN-ACK need not be
                // changed, since its handler sets the next timer.
                let Config { rto_initial, rto_max, .. } = &**config;
                if listening.armed > cx.now.after(*rto_initial.min(rto_max)) {
                    self.tcp_arm_listener(cx, id, listening);
                }
                self.tcp_send_bare(cx, seen.ends, &out, &options);
                self.count(cx).audit.consumed.bump();
            }
            Answer::Refuse(out, why) => {
                counts::challenged_by_listener(&self.count(cx).tcp, why);
                self.tcp_send_bare(cx, seen.ends, &out, &options);
                self.drop_frame(cx, packet, refusal::<A>(why));
            }
            Answer::Dropped(why) => {
                if matches!(why, Refused::BadFlags | Refused::BadEnds) {
                    self.count(cx).tcp.states.bad_attempts.bump();
                }
                if why == Refused::ResetTaken && listening.held.is_some() {
                    sock.wake(cx, id); // wakes callers that wait for the connection
                }
                self.drop_frame(cx, packet, refusal::<A>(why));
            }
            Answer::Established(done) => {
                self.count(cx).tcp.states.syn_received.bump();
                let mut place = self.tcp_place(cx, config);
                let tcb = &mut place.tcb;
                tcb.from_handshake_again(config, &done, cx.now);
                tcb.know_path(mss_of::<A>(self.fitting(cx, seen.ends.remote)), cx.now);
                counts::noted(&self.count(cx).tcp, tcb);
                let settings = listening.inherited.clone();
                // Options may require timers, which only the slow path sets.
                let taken = settings.is_none() && tcb.on_handshake_ack(&seen.segment, cx.now);
                match self.tcp_child(cx, (domain, seen.ends), place, settings) {
                    Some(child) => {
                        if let Kind::Listening(listening) = &mut sock.kind {
                            listening.ready.push_back(child);
                        }
                        match taken {
                            true => self.count(cx).audit.consumed.bump(),
                            false => self.tcp_child_segment(cx, child, seen, packet),
                        }
                        sock.wake(cx, id);
                    }
                    None => {
                        listening.listener.on_accepted();
                        if listening.held.is_some() {
                            sock.wake(cx, id);
                        }
                        self.drop_frame(cx, packet, DropReason::TcpNoRoom);
                    }
                }
            }
        }
    }

    /// Creates the socket of a connection whose handshake with a listener is complete.
    #[cfg_attr(not(debug_assertions), inline(always))]
    fn tcp_child<A: Net>(
        &self,
        cx: Cx,
        (domain, ends): (Domain, Ends<A>),
        mut stream: Box<Stream>,
        options: Option<Arc<super::Options>>,
    ) -> Option<usize> {
        let space = options.as_ref().and_then(|o| o.send_space).unwrap_or(self.sysctls.tcp_sendspace.get() as u32);
        stream.reinit(space, cx.now);
        (stream.connected, stream.found) = (true, true);
        self.tcp_count_state(cx, &mut stream, Events::NONE);
        let mut sock = Sock::new(Kind::Stream(stream), domain);
        sock.set_ends(SockEnds::of(ends));
        sock.options = options;
        if sock.options.is_some() {
            sock.apply_options(&self.sysctls, cx.now);
        }
        let id = self.tcp.socks.insert(cx, sock)?;
        self.tcp.demux.insert(cx, &ends.into(), id);
        Some(id)
    }

    /// Processes the ACK that completed the handshake, which may contain data.
    fn tcp_child_segment<A: Net>(&self, cx: Cx, child: usize, seen: &ParsedSegment<A>, packet: Frame) {
        let Some(slot) = self.tcp.socks.get(child) else {
            return self.drop_frame(cx, packet, DropReason::TcpNoRoom);
        };
        let mut slot = slot.lock(cx);
        let Some(sock) = slot.as_mut() else { return self.drop_frame(cx, packet, DropReason::TcpNoRoom) };
        self.tcp_segment(cx, child, sock, seen, packet, None);
        self.tcp_charge(sock);
        self.tcp_output(cx, child, sock, AtOnce::Later);
    }
}

/// Converts the reason for which a listener refuses a segment into a drop reason.
fn refusal<A: Net>(why: Refused) -> DropReason {
    match why {
        Refused::BadFlags => DropReason::TcpBadFlags,
        Refused::BadEnds => A::OWN_SOURCE,
        Refused::AcceptQueueFull => DropReason::TcpAcceptQueueFull,
        Refused::ResetIgnored => DropReason::TcpResetIgnored,
        Refused::ResetTaken => DropReason::TcpHandshakeReset,
        Refused::ResetInWindow => DropReason::TcpResetChallenged,
        Refused::SynDuplicate | Refused::Limited => DropReason::TcpSynDuplicate,
        Refused::SynInHandshake => DropReason::TcpSynChallenged,
        Refused::Paws => DropReason::TcpPaws,
        Refused::OutOfWindow => DropReason::TcpOutOfWindow,
        Refused::BadAck | Refused::NoHandshake => DropReason::TcpBadHandshake,
    }
}
