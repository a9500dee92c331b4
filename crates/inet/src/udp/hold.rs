//! Forwarder of datagrams: datagrams for any address of this host that has no socket wait for a
//! decision of the application.
//!
//! The first datagram between two addresses is a request. Further ones are held with it, up to
//! [`PACKETS_MAX`](super::held::PACKETS_MAX). An accepted request opens a socket that is bound to
//! the original destination and connected to the sender, and the held datagrams are delivered to
//! it.

use crate::Stack;
use crate::demux::{Addr, Tuple};
use crate::ends::Domain;
use crate::icmp4::Cause;
use crate::iface::{Iface, IfaceId};
use crate::requests::Decision;
use crate::udp::BindError;
use crate::udp::held::{PACKETS_MAX, POOL_SHARE};
use buf::{Burst, Frame};
use lock::{Cx, Locks, Signal};
use stats::DropReason;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use wire::edit::Layout;
use wire::icmp4::unreachable;

/// Returns the addresses and ports of an IPv4 packet with UDP: its destination is the local one.
fn tuple_of(packet: &Frame) -> Option<Tuple> {
    let (layout, bytes) = (Layout::of_ip4(packet.bytes()), packet.bytes());
    let (header, (from, to)) = (layout.header4(bytes)?, layout.ports(bytes)?);
    let (local, remote) = (Addr::v4(header.dst), Addr::v4(header.src));
    Some(Tuple { local, remote, local_port: to, remote_port: from })
}

impl<L: Locks> Stack<L> {
    /// Starts or ends holding datagrams for addresses without a socket. The held ones are dropped.
    pub fn udp_hold(&self, cx: Cx, on: bool) {
        let mut held = self.udp_held.lock(cx);
        let before = std::mem::replace(&mut *held, on.then(Box::default));
        self.holds_udp.store(on, Ordering::Release);
        drop(held);
        if let Some(mut before) = before {
            before.signal.raise();
            let frames = before.requests.take_all().into_iter().flatten();
            frames.for_each(|(_, frame)| self.drop_frame(cx, frame, DropReason::UdpNoSocket));
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

    /// Holds a datagram without a socket. Returns the packet if it is not held.
    pub(super) fn udp_held(&self, cx: Cx, iface: Option<&Iface<L>>, packet: Frame) -> Option<Frame> {
        if !self.is_holding_udp() {
            return Some(packet);
        }
        let Some((iface, tuple)) = iface.zip(tuple_of(&packet)) else { return Some(packet) };
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
    pub fn udp_next_request(&self, cx: Cx) -> Option<Tuple> {
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
    pub fn udp_decide(&self, cx: Cx, tuple: &Tuple, decision: Decision) -> Result<Option<usize>, BindError> {
        let packets = self.udp_held.lock(cx).as_mut().and_then(|held| held.take(tuple));
        let packets = packets.ok_or(BindError::NotConnected)?;
        if decision == Decision::Accept {
            return self.udp_accept(cx, tuple, packets).map(Some);
        }
        for (_, packet) in packets {
            if decision == Decision::Refuse {
                self.icmp4_error(cx, &packet, Cause::Unreachable(unreachable::PORT));
            }
            self.drop_frame(cx, packet, DropReason::UdpNoSocket);
        }
        self.flush(cx);
        Ok(None)
    }

    fn udp_accept(&self, cx: Cx, tuple: &Tuple, packets: Vec<(IfaceId, Frame)>) -> Result<usize, BindError> {
        let open = || {
            let id = self.udp_open(cx, Domain::Inet).ok_or(BindError::TooMany)?;
            // Several senders may send to the same destination: each has a socket.
            self.with_pcb(cx, id, |pcb| pcb.options.reuse_port = true).ok_or(BindError::NoSocket)?;
            let bound = self.udp_bind(cx, id, tuple.local_addr());
            let done = bound.and_then(|_| self.udp_connect(cx, id, tuple.remote_addr()));
            done.map(|()| id).inspect_err(|_| _ = self.udp_close(cx, id))
        };
        let opened = open();
        for (iface, packet) in packets {
            match (&opened, self.ifaces.get(iface)) {
                (Ok(_), Some(iface)) => self.input_packets(cx, Some(iface), &mut Burst::of(packet), self.lap(cx)),
                _ => self.drop_frame(cx, packet, DropReason::UdpNoSocket),
            }
        }
        opened
    }
}
