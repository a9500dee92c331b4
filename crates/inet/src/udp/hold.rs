//! Forwarder of datagrams: datagrams for any address of this host that has no socket wait for a
//! decision of the application. The addresses include those of local routes, of both families.
//!
//! The first datagram between two addresses is a request. Further ones are held with it, up to
//! [`PACKETS_MAX`](super::held::PACKETS_MAX). An accepted request opens a socket that is bound to
//! the original destination and connected to the sender, and the held datagrams are delivered to
//! it.

use crate::Stack;
use crate::demux::Tuple;
use crate::ends::Domain;
use crate::ends::SockEnds;
use crate::iface::{Iface, IfaceId};
use crate::requests::{Decision, RequestKey};
use crate::udp::held::{PACKETS_MAX, POOL_SHARE};
use crate::udp::{BindError, Receive};
use buf::{Burst, Frame};
use lock::{Cx, Locks, Signal};
use stats::DropReason;
use std::sync::Arc;
use std::sync::atomic::Ordering;

impl<L: Locks> Stack<L> {
    /// Starts or ends holding datagrams for addresses without a socket. The held ones are dropped.
    /// Returns `false` if datagrams are held already, or are not held already.
    pub fn udp_hold(&self, cx: Cx, on: bool) -> bool {
        let mut held = self.udp_held.lock(cx);
        if held.is_some() == on {
            return false;
        }
        let before = std::mem::replace(&mut *held, on.then(Box::default));
        self.holds_udp.store(on, Ordering::Release);
        drop(held);
        if let Some(mut before) = before {
            before.signal.raise();
            let frames = before.requests.take_all().into_iter().flatten();
            frames.for_each(|(_, frame)| self.drop_frame(cx, frame, DropReason::UdpNoSocket));
        }
        true
    }

    /// Drops the held datagrams of requests that have expired.
    pub(crate) fn poll_udp_held(&self, cx: Cx) {
        if self.is_holding_udp() {
            let expired = self.udp_held.lock(cx).as_mut().map(|held| held.expire(cx.now)).unwrap_or_default();
            expired.into_iter().for_each(|frame| self.drop_frame(cx, frame, DropReason::UdpNoSocket));
        }
    }

    /// Returns whether datagrams are held.
    pub fn is_holding_udp(&self) -> bool {
        self.holds_udp.load(Ordering::Acquire)
    }

    /// Returns the signal that is raised when a request arrives; `None` if datagrams are not held.
    pub fn udp_request_signal(&self, cx: Cx) -> Option<Arc<Signal>> {
        self.udp_held.lock(cx).as_ref().map(|held| held.signal.clone())
    }

    /// Holds a datagram without a socket. The packet begins with its IP header, and is returned if
    /// it is not held.
    pub(super) fn udp_held<A: Receive>(&self, cx: Cx, iface: Option<&Iface<L>>, packet: Frame) -> Option<Frame> {
        if !self.is_holding_udp() {
            return Some(packet);
        }
        let found = iface.and_then(|iface| Some((iface, A::ends_in(packet.bytes(), iface.id)?)));
        let Some((iface, ends)) = found else { return Some(packet) };
        let tuple = Tuple::from(ends);
        let mut guard = self.udp_held.lock(cx);
        let Some(held) = guard.as_mut() else { return Some(packet) };
        let expired = held.expire(cx.now);
        let most = (self.pool.stats().buffers / POOL_SHARE).max(1);
        let (mut refused, mut is_new) = (None, false);
        if held.packets >= most {
            refused = Some(packet);
        } else if let Some(packets) = held.requests.get_mut(&tuple) {
            match packets.len() < PACKETS_MAX {
                true => {
                    packets.push((iface.id, packet));
                    held.packets += 1;
                }
                false => refused = Some(packet),
            }
        } else {
            match held.requests.add(tuple, cx.now, vec![(iface.id, packet)]) {
                Ok(()) => {
                    held.packets += 1;
                    is_new = true;
                }
                Err(packets) => refused = packets.into_iter().next().map(|(_, packet)| packet),
            }
        }
        let signal = is_new.then(|| held.signal.clone());
        drop(guard);
        if let Some(signal) = signal {
            signal.raise();
        }
        // Without a decision there is no answer, as for a packet that is lost.
        let lost = expired.into_iter().chain(refused);
        lost.for_each(|frame| self.drop_frame(cx, frame, DropReason::UdpNoSocket));
        None
    }

    /// Returns the addresses of the oldest request that was not reported yet: the destination of
    /// the datagram as the local address, and its source as the remote one. `None` if there is
    /// none.
    pub fn udp_next_request(&self, cx: Cx) -> Option<RequestKey> {
        let mut guard = self.udp_held.lock(cx);
        let held = guard.as_mut()?;
        let (expired, next) = (held.expire(cx.now), held.requests.next());
        drop(guard);
        expired.into_iter().for_each(|frame| self.drop_frame(cx, frame, DropReason::UdpNoSocket));
        next
    }

    /// Decides about a request. An accepted one returns the number of its socket.
    ///
    /// # Errors
    /// [`BindError::NotConnected`] if the request has expired or was decided before;
    /// [`BindError::TooMany`] without a free descriptor, and the errors of [`Stack::udp_bind`].
    pub fn udp_decide(&self, cx: Cx, key: &RequestKey, decision: Decision) -> Result<Option<usize>, BindError> {
        let is_due = self.udp_held.lock(cx).as_mut().is_some_and(|held| held.requests.decide(key, cx.now));
        if !is_due {
            return Err(BindError::NotConnected);
        }
        // While the socket is being opened, the request stays in the table and holds the datagrams
        // that arrive.
        let opened = match decision {
            Decision::Accept => self.udp_open_between(cx, &key.tuple).map(Some),
            Decision::Refuse | Decision::Ignore => Ok(None),
        };
        let packets = self.udp_held.lock(cx).as_mut().and_then(|held| held.take(key)).unwrap_or_default();
        for (id, packet) in packets {
            match (&opened, self.ifaces.get(id)) {
                (Ok(Some(_)), Some(iface)) => {
                    self.input_packets(cx, Some(iface), &mut Burst::of(packet), self.lap(cx));
                }
                _ => {
                    if decision == Decision::Refuse {
                        self.refuse_datagram(cx, &key.tuple, id, &packet);
                    }
                    self.drop_frame(cx, packet, DropReason::UdpNoSocket);
                }
            }
        }
        self.flush(cx);
        opened
    }

    fn refuse_datagram(&self, cx: Cx, tuple: &Tuple, iface: IfaceId, packet: &Frame) {
        match tuple.local.to_v4() {
            Some(_) => u32::port_unreachable(self, cx, Some(iface), packet),
            None => u128::port_unreachable(self, cx, Some(iface), packet),
        }
    }

    /// Opens a socket between two addresses. It is never bound without a peer, so it receives from
    /// no other sender.
    fn udp_open_between(&self, cx: Cx, tuple: &Tuple) -> Result<usize, BindError> {
        let Tuple { local, remote, local_port, remote_port } = *tuple;
        if self.udp.contains(cx, tuple, |_| true) {
            return Err(BindError::InUse);
        }
        let id = self.udp_open(cx, Domain::of(&tuple.local_addr())).ok_or(BindError::TooMany)?;
        let ends = SockEnds::between(local, remote, local_port, remote_port);
        self.with_pcb(cx, id, |pcb| {
            pcb.options.reuse_port = true; // several senders may send to the same destination
            pcb.set_ends(ends);
        });
        self.make_findable(cx, id, ends);
        Ok(id)
    }
}
