//! Forwarder of datagrams: holds datagrams without a matching socket until the application decides.
//! Their destination may be an address of this host or of a local route, of either family. A
//! forwarder serves all addresses or a prefix; the longest matching prefix applies.
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
use crate::prefixes::{AnyPrefix, PrefixTable};
use crate::requests::{Decision, RequestKey};
use crate::udp::held::{HeldDatagrams, PACKETS_MAX, POOL_SHARE};
use crate::udp::{BindError, Receive};
use buf::{Burst, Frame};
use clock::Instant;
use lock::{Cx, Locks, Signal};
use stats::DropReason;
use std::sync::Arc;
use std::sync::atomic::Ordering;

/// Removes the requests that have expired, and returns their frames.
fn expire(all: &mut PrefixTable<HeldDatagrams>, now: Instant) -> Vec<Frame> {
    all.iter_mut().flat_map(|(_, held)| held.expire(now)).collect()
}

impl<L: Locks> Stack<L> {
    /// Starts holding datagrams to the addresses of `prefix` for which there is no socket. Returns
    /// `false` if datagrams for this prefix are held already.
    pub fn udp_hold(&self, cx: Cx, prefix: AnyPrefix) -> bool {
        let mut held = self.udp_held.lock(cx);
        let is_added = held.add(prefix, HeldDatagrams::default());
        self.holds_udp.store(true, Ordering::Release);
        is_added
    }

    /// Stops holding datagrams to the addresses of `prefix`, and drops the datagrams that are held.
    pub fn udp_release(&self, cx: Cx, prefix: AnyPrefix) {
        let mut held = self.udp_held.lock(cx);
        let ended = held.remove(prefix);
        self.holds_udp.store(held.len() > 0, Ordering::Release);
        drop(held);
        ended.into_iter().for_each(|ended| self.end_held(cx, ended));
    }

    /// Stops holding datagrams for all prefixes and drops the held ones, before the host ends.
    pub(crate) fn udp_release_all(&self, cx: Cx) {
        let ended = self.udp_held.lock(cx).take_all();
        self.holds_udp.store(false, Ordering::Release);
        ended.into_iter().for_each(|ended| self.end_held(cx, ended));
    }

    fn end_held(&self, cx: Cx, mut ended: HeldDatagrams) {
        ended.raise();
        let frames = ended.requests.take_all().into_iter().flatten();
        frames.for_each(|(_, frame)| self.drop_frame(cx, frame, DropReason::UdpNoSocket));
    }

    /// Drops the held datagrams of requests that have expired.
    pub(crate) fn poll_udp_held(&self, cx: Cx) {
        if self.is_holding_udp() {
            let expired = expire(&mut self.udp_held.lock(cx), cx.now);
            expired.into_iter().for_each(|frame| self.drop_frame(cx, frame, DropReason::UdpNoSocket));
        }
    }

    /// Returns whether there is a forwarder that holds datagrams.
    pub fn is_holding_udp(&self) -> bool {
        self.holds_udp.load(Ordering::Acquire)
    }

    /// Returns the signal that is raised when a request for an address of `prefix` arrives; `None`
    /// if datagrams for this prefix are not held.
    pub fn udp_request_signal(&self, cx: Cx, prefix: AnyPrefix) -> Option<Arc<Signal>> {
        self.udp_held.lock(cx).get_mut(prefix).map(|held| held.signal.clone())
    }

    /// Holds a datagram for which there is no socket. The packet begins with its IP header. Returns
    /// the packet if no forwarder serves its destination.
    pub(super) fn udp_held<A: Receive>(&self, cx: Cx, iface: Option<&Iface<L>>, packet: Frame) -> Option<Frame> {
        if !self.is_holding_udp() {
            return Some(packet);
        }
        let found = iface.and_then(|iface| Some((iface, A::ends_in(packet.bytes(), iface.id)?)));
        let Some((iface, ends)) = found else { return Some(packet) };
        let tuple = Tuple::from(ends);
        let mut guard = self.udp_held.lock(cx);
        if guard.lookup_mut(tuple.local).is_none() {
            return Some(packet);
        }
        let expired = expire(&mut guard, cx.now);
        let most = (self.pool.stats().buffers / POOL_SHARE).max(1);
        let packets: usize = guard.iter_mut().map(|(_, held)| held.packets).sum();
        let Some(held) = guard.lookup_mut(tuple.local) else { return Some(packet) };
        let (mut refused, mut is_new) = (None, false);
        if packets >= most {
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
        // There is no decision about these datagrams. Their senders get no ICMP error, as if the
        // datagrams had been lost on the path.
        let lost = expired.into_iter().chain(refused);
        lost.for_each(|frame| self.drop_frame(cx, frame, DropReason::UdpNoSocket));
        None
    }

    /// Returns the addresses of the oldest request for an address of `prefix` that was not reported
    /// yet: the destination of the datagram as the local address, and its source as the remote one.
    /// `None` if there is none.
    pub fn udp_next_request(&self, cx: Cx, prefix: AnyPrefix) -> Option<RequestKey> {
        let mut guard = self.udp_held.lock(cx);
        let expired = expire(&mut guard, cx.now);
        let next = guard.get_mut(prefix).and_then(|held| held.requests.next());
        drop(guard);
        expired.into_iter().for_each(|frame| self.drop_frame(cx, frame, DropReason::UdpNoSocket));
        next
    }

    /// Applies the decision of the application about a request. If the request was accepted,
    /// returns the number of the new socket.
    ///
    /// # Errors
    /// [`BindError::NotConnected`] if the request has expired or was decided before;
    /// [`BindError::TooMany`] without a free descriptor, and the errors of [`Stack::udp_bind`].
    pub fn udp_decide(&self, cx: Cx, key: &RequestKey, decision: Decision) -> Result<Option<usize>, BindError> {
        let is_due = self.udp_held.lock(cx).iter_mut().any(|(_, held)| held.requests.decide(key, cx.now));
        if !is_due {
            return Err(BindError::NotConnected);
        }
        // While the socket is being opened, the request stays in the table and holds the datagrams
        // that arrive.
        let opened = match decision {
            Decision::Accept => self.udp_open_between(cx, &key.tuple).map(Some),
            Decision::Refuse | Decision::Ignore => Ok(None),
        };
        let packets = self.udp_held.lock(cx).iter_mut().find_map(|(_, held)| held.take(key)).unwrap_or_default();
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
