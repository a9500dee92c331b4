//! Forwarders: listeners that answer a SYN only after the application has decided about it.
//!
//! A listener with IP_BINDANY that holds SYNs stores each first SYN as a request. The application
//! takes the request ([`Stack::tcp_next_request`]), for example connects to the real destination,
//! and decides ([`Stack::tcp_decide`]): the handshake goes on, or is refused, or is ignored. Once
//! the handshake is complete, [`Stack::tcp_accept_of`] returns the connection.

use super::held::HeldSyn;
use super::net::Net;
use super::output::IpOptions;
use super::{Kind, Listening, NO_OPTIONS, TcpError, core_ends};
use crate::Stack;
use crate::demux::{Ends, Ends4, Ends6, Tuple};
use crate::requests::{Decision, RequestKey, Requests};
use ::tcp::listen::{self, Answer};
use ::tcp::{Segment, SeqNum};
use lock::{Cx, Locks};

/// Result of holding a SYN.
pub(super) enum Held {
    /// The SYN is a new request.
    New,
    /// The SYN is a retransmission of a request that is not decided yet.
    Again,
    /// Too many requests are undecided.
    Full,
}

impl Listening {
    /// Returns whether the listener holds this segment: a SYN that belongs to no handshake.
    pub(super) fn holds<A: Net>(&self, ends: Ends<A>, segment: &Segment) -> bool {
        use wire::tcp::Flags;
        let is_first = segment.has(Flags::SYN) && !segment.flags.intersects(Flags::ACK | Flags::RST | Flags::FIN);
        self.held.is_some() && is_first && !self.listener.knows(&core_ends(ends))
    }

    /// Holds the SYN `segment`.
    pub(super) fn hold<A: Net>(&mut self, cx: Cx, ends: Ends<A>, segment: Segment, above: Option<SeqNum>) -> Held {
        let Some(held) = &mut self.held else { return Held::Full };
        drop(held.expire(cx.now));
        let tuple: Tuple = ends.into();
        if let Some(before) = held.get_mut(&tuple) {
            before.segment = segment;
            return Held::Again;
        }
        match held.add(tuple, cx.now, HeldSyn { segment, above }) {
            Ok(()) => Held::New,
            Err(_) => Held::Full,
        }
    }
}

impl<L: Locks> Stack<L> {
    /// Makes the listener `id` hold SYNs if `on` is true, otherwise answer them immediately. Ends
    /// the handshakes and unaccepted connections of the listener.
    ///
    /// # Errors
    /// [`TcpError::NotListening`], [`TcpError::NoSocket`].
    pub fn tcp_hold(&self, cx: Cx, id: usize, on: bool) -> Result<(), TcpError> {
        let children = self.act(cx, id, |sock| {
            let Kind::Listening(listening) = &mut sock.kind else { return Err(TcpError::NotListening) };
            listening.held = on.then(|| Box::new(Requests::default()));
            // A connection that a cookie establishes would belong to no request.
            listening.listener.use_cookies(!on);
            // Handshakes that began before would not belong to a request either.
            let counts = &self.count(cx).tcp.listen;
            let config = &listening.configs.four;
            listening.listener.close(listen::Context { config, counts, now: cx.now, above: None });
            let children = std::mem::take(&mut listening.ready);
            children.iter().for_each(|_| listening.listener.on_accepted());
            Ok(children)
        })?;
        children.into_iter().for_each(|child| _ = self.tcp_close(cx, child, true));
        Ok(())
    }

    /// Returns the addresses of the oldest request that was not reported yet: the destination of
    /// the SYN as the local address, and its source as the remote one.
    ///
    /// # Errors
    /// [`TcpError::WouldBlock`] if there is none; [`TcpError::NotListening`], also if the listener
    /// does not hold SYNs.
    pub fn tcp_next_request(&self, cx: Cx, id: usize) -> Result<RequestKey, TcpError> {
        self.act(cx, id, |sock| {
            let Kind::Listening(listening) = &mut sock.kind else { return Err(TcpError::NotListening) };
            let held = listening.held.as_mut().ok_or(TcpError::NotListening)?;
            drop(held.expire(cx.now));
            held.next().ok_or(TcpError::WouldBlock)
        })
    }

    /// Applies the decision of the application about a request.
    ///
    /// # Errors
    /// [`TcpError::TimedOut`] if the request has expired or was decided before, and
    /// [`TcpError::TooMany`] if the listener's queues are full; the SYN is then not answered.
    pub fn tcp_decide(&self, cx: Cx, id: usize, key: &RequestKey, decision: Decision) -> Result<(), TcpError> {
        let tuple = &key.tuple;
        match (tuple.local.to_v4(), tuple.remote.to_v4()) {
            (Some(local), Some(remote)) => {
                let (local, remote) = (local.to_bits(), remote.to_bits());
                let ends = Ends4 { local, remote, local_port: tuple.local_port, remote_port: tuple.remote_port };
                self.tcp_decide_of(cx, id, ends, key, decision)
            }
            _ => {
                let (local, remote) = (tuple.local.0, tuple.remote.0);
                let ends = Ends6 { local, remote, local_port: tuple.local_port, remote_port: tuple.remote_port };
                self.tcp_decide_of(cx, id, ends, key, decision)
            }
        }
    }

    fn tcp_decide_of<A: Net>(
        &self,
        cx: Cx,
        id: usize,
        ends: Ends<A>,
        key: &RequestKey,
        decision: Decision,
    ) -> Result<(), TcpError> {
        let mut slot = self.tcp.socks.get(id).ok_or(TcpError::NoSocket)?.lock(cx);
        let sock = slot.as_mut().ok_or(TcpError::NoSocket)?;
        let options = IpOptions::of::<A, L>(sock.options(), self);
        let Kind::Listening(listening) = &mut sock.kind else { return Err(TcpError::NotListening) };
        let held = listening.held.as_mut().ok_or(TcpError::NotListening)?;
        let is_due = held.decide(key, cx.now);
        let HeldSyn { segment, above } = held.take(key).filter(|_| is_due).ok_or(TcpError::TimedOut)?;
        let answer = match decision {
            Decision::Ignore => None,
            Decision::Refuse => {
                drop(slot);
                let plain = IpOptions::of::<A, L>(&NO_OPTIONS, self);
                if let Some(reset) = ::tcp::answer_to_nobody(&segment) {
                    self.tcp_send_bare(cx, ends, &reset, &plain);
                }
                None
            }
            Decision::Accept => {
                let config = A::listen_config(&listening.configs);
                let counts = &self.count(cx).tcp.listen;
                let context = listen::Context { config, counts, now: cx.now, above };
                let answer = listening.listener.on_segment(context, &core_ends(ends), &segment);
                self.tcp_arm_listener(cx, id, listening);
                drop(slot);
                Some(answer)
            }
        };
        let accepted = match answer {
            None => Ok(()),
            Some(Answer::SynAck(out)) => {
                self.tcp_send_bare(cx, ends, &out, &options);
                Ok(())
            }
            Some(Answer::Refuse(out, _)) => {
                self.tcp_send_bare(cx, ends, &out, &options);
                Err(TcpError::TooMany)
            }
            Some(_) => Err(TcpError::TooMany),
        };
        self.flush(cx);
        accepted
    }

    /// Removes the connection with the addresses `tuple` from the accept queue, after the request
    /// was accepted. Returns its socket.
    ///
    /// # Errors
    /// [`TcpError::WouldBlock`] while the handshake is not complete, [`TcpError::TimedOut`] if the
    /// handshake has failed; [`TcpError::NotListening`], [`TcpError::NoSocket`].
    pub fn tcp_accept_of(&self, cx: Cx, id: usize, key: &RequestKey) -> Result<usize, TcpError> {
        let tuple = &key.tuple;
        let children = self.act(cx, id, |sock| match &sock.kind {
            Kind::Listening(listening) => Ok(listening.ready.clone()),
            _ => Err(TcpError::NotListening),
        })?;
        // The locks of the children are acquired while the lock of the listener is not held.
        let is_it = |child: &usize| self.with_sock(cx, *child, |sock| sock.tuple() == *tuple) == Some(true);
        let found = children.iter().copied().find(is_it);
        self.act(cx, id, |sock| {
            let Kind::Listening(listening) = &mut sock.kind else { return Err(TcpError::NotListening) };
            let place = found.and_then(|child| listening.ready.iter().position(|other| *other == child));
            if let Some(child) = place.and_then(|place| listening.ready.remove(place)) {
                listening.listener.on_accepted();
                return Ok(child);
            }
            let (local, remote) = (tuple.local.0, tuple.remote.0);
            let ends = ::tcp::Ends { local, remote, local_port: tuple.local_port, remote_port: tuple.remote_port };
            // A handshake may have been completed since the queue was copied.
            let may_come = listening.listener.knows(&ends) || listening.ready != children;
            Err(if may_come { TcpError::WouldBlock } else { TcpError::TimedOut })
        })
    }

    /// Cancels an accepted request: removes its handshake, or resets its connection if
    /// [`Stack::tcp_accept_of`] has not returned it.
    pub fn tcp_forget(&self, cx: Cx, id: usize, key: &RequestKey) {
        if let Ok(child) = self.tcp_accept_of(cx, id, key) {
            self.tcp_close(cx, child, true);
            return;
        }
        let (local, remote) = (key.tuple.local.0, key.tuple.remote.0);
        let ends = ::tcp::Ends { local, remote, local_port: key.tuple.local_port, remote_port: key.tuple.remote_port };
        self.with_sock(cx, id, |sock| {
            if let Kind::Listening(listening) = &mut sock.kind {
                listening.listener.forget(&ends);
            }
        });
        // The handshake may have been completed in the meantime.
        if let Ok(child) = self.tcp_accept_of(cx, id, key) {
            self.tcp_close(cx, child, true);
        }
    }
}
