//! Receiving: datagrams out of the sockets' queues.
//!
//! A datagram leaves as its [`Frame`], as a copy of its payload, or stays and is copied (peeking). Its sender is read from its
//! headers, which are in front of the payload still.

use crate::Stack;
use buf::{Burst, Frame};
use lock::{Cx, Locks};
use std::net::{Ipv4Addr, SocketAddr};
use wire::L4Port;

/// A datagram taken from a socket's queue.
#[derive(Debug)]
pub struct Received {
    /// The payload (pulled to its first byte; the headers are in front).
    pub frame: Frame,
    /// Source address and port.
    pub from: SocketAddr,
    /// Destination address.
    pub to: Ipv4Addr,
    /// The queue holds another datagram. If not, the arrival of the next is reported to the pollers of
    /// the socket.
    pub more: bool,
}

/// Result of [`Stack::udp_recv_into`](crate::Stack::udp_recv_into).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Read {
    /// A datagram, which is no longer in the queue.
    Datagram {
        /// Bytes copied; the rest of a longer datagram is discarded.
        copied: usize,
        /// Its sender's address.
        addr: Ipv4Addr,
        /// Its sender's port.
        port: L4Port,
    },
    /// No datagram, no error and no end, and the socket's calls never wait.
    Nothing,
    /// Any other case: no such socket, a caller that has to wait, a pending error or the end of input.
    Other,
}

/// Returns the source address and port and the destination address of a received datagram, from the
/// headers in front of the payload.
#[inline(always)]
pub fn ends(frame: &Frame) -> Option<(SocketAddr, Ipv4Addr)> {
    let (from, port, to) = ends4(frame)?;
    Some((SocketAddr::from((from, port.0)), to))
}

/// [`ends`] without a [`SocketAddr`], which is 32 bytes and better made where it stays.
#[inline(always)]
pub(super) fn ends4(frame: &Frame) -> Option<(Ipv4Addr, L4Port, Ipv4Addr)> {
    let Some(&[.., s0, s1, s2, s3, d0, d1, d2, d3, p0, p1, _, _, _, _, _, _]) = frame.headers::<PLAIN_HEADERS>() else {
        return ends_behind_options(frame);
    };
    Some((Ipv4Addr::new(s0, s1, s2, s3), L4Port(u16::from_be_bytes([p0, p1])), Ipv4Addr::new(d0, d1, d2, d3)))
}

#[cold]
fn ends_behind_options(frame: &Frame) -> Option<(Ipv4Addr, L4Port, Ipv4Addr)> {
    let packet = frame.l3_bytes();
    let header = packet.first_chunk::<20>()?;
    let ihl = usize::from(header[0] & 0xf) * 4;
    let ports = packet.get(ihl..)?.first_chunk::<2>()?;
    let from = Ipv4Addr::new(header[12], header[13], header[14], header[15]);
    let to = Ipv4Addr::new(header[16], header[17], header[18], header[19]);
    Some((from, L4Port(u16::from_be_bytes(*ports)), to))
}

/// IPv4 without options, and UDP.
pub(super) const PLAIN_HEADERS: usize = wire::ip4::HEADER_LEN + wire::udp::HEADER_LEN;

impl<L: Locks> Stack<L> {
    /// Takes the next datagram of socket `id` and copies it into `into`, as `recvfrom` does.
    #[inline(always)]
    pub fn udp_recv_into(&self, cx: Cx, id: usize, into: &mut [u8]) -> Read {
        let Some(place) = self.pcbs.get(id) else { return Read::Other };
        let mut slot = place.lock(cx);
        let Some(pcb) = slot.as_mut() else { return Read::Other };
        let Some(frame) = pcb.dequeue() else {
            return if pcb.nonblocking && !pcb.is_readable() { Read::Nothing } else { Read::Other };
        };
        drop(slot);
        let counters = self.count(cx);
        counters.audit.consumed.bump();
        counters.udp.copied_out.bump();
        let Some((addr, port, _)) = ends4(&frame) else { return Read::Other };
        wire::checksum::copy(into, frame.bytes());
        Read::Datagram { copied: frame.len().min(into.len()), addr, port }
    }

    /// Takes the next datagram of socket `id`; `None` if there is none (or no such socket).
    #[inline(always)]
    pub fn udp_recv(&self, cx: Cx, id: usize) -> Option<Received> {
        let mut slot = self.pcbs.get(id)?.lock(cx);
        let pcb = slot.as_mut()?;
        let frame = pcb.dequeue()?;
        let more = pcb.peek().is_some();
        drop(slot);
        self.count(cx).audit.consumed.bump();
        let (from, to) = ends(&frame)?;
        Some(Received { frame, from, to, more })
    }

    /// Takes up to `most` datagrams of socket `id` under one lock, as many as fit into `into`; returns how many.
    pub fn udp_recv_burst(&self, cx: Cx, id: usize, most: usize, into: &mut Burst) -> usize {
        let Some(slot) = self.pcbs.get(id) else { return 0 };
        let mut slot = slot.lock(cx);
        let Some(pcb) = slot.as_mut() else { return 0 };
        let mut taken = 0;
        while taken < most.min(into.room() + taken) {
            let Some(frame) = pcb.dequeue() else { break };
            taken += 1;
            into.put(frame, || {
                taken -= 1;
                self.count_bug(cx);
            });
        }
        drop(slot);
        self.count(cx).audit.consumed.add(taken as u64);
        taken
    }

    /// Copies from the next datagram of socket `id` without taking it: (copied, whole length, sender).
    pub fn udp_peek(&self, cx: Cx, id: usize, into: &mut [u8]) -> Option<(usize, usize, SocketAddr)> {
        let slot = self.pcbs.get(id)?.lock(cx);
        let frame = slot.as_ref()?.peek()?;
        let n = frame.len().min(into.len());
        for (to, from) in into.iter_mut().zip(frame.bytes()) {
            *to = *from;
        }
        Some((n, frame.len(), ends(frame)?.0))
    }
}
