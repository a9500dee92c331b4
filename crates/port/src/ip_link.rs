//! Ethernet headers for ports that carry IP packets without them: TUN devices, and packet sources
//! and sinks that the caller implements.
//!
//! A host exchanges Ethernet frames with its ports. This module removes the header from each frame
//! that the host sends, and adds a header to each packet that the host receives. All neighbors on
//! the link have the same MAC address, [`PEER`]. ARP requests and neighbor solicitations are not
//! sent; the port answers them itself. It does not answer announcements and probes for duplicate
//! addresses.

use crate::os::epoll::Epoll;
use crate::os::event::Event;
#[cfg(target_os = "linux")]
use buf::Frame;
use std::collections::VecDeque;
use std::io;
use std::net::{Ipv4Addr, Ipv6Addr};
use std::os::fd::BorrowedFd;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Mutex, PoisonError};
use wire::eth::{self, EtherType};
use wire::icmp6::{Message, nd};
use wire::{Mac, Proto, arp, ip4, ip6};

/// MAC address of all neighbors.
pub const PEER: Mac = Mac([0x02, 0x00, b't', b'u', b'n', 0x00]);
/// Maximum number of answers that wait for the receiving half: a few bursts.
const ANSWERS_MAX: usize = 1024;

/// Link between a host and a port for IP packets, shared by both halves of the port.
#[derive(Debug)]
pub(crate) struct IpLink {
    /// MAC address of the host, as an integer: the source of the last frame that it sent.
    host: AtomicU64,
    /// Answers for the host, each a complete Ethernet frame.
    answers: Mutex<VecDeque<Vec<u8>>>,
    /// Number of `answers`.
    waiting: AtomicUsize,
    /// Event that is raised while `answers` is not empty.
    event: Event,
    /// Set that contains the port's descriptor and `event`; `None` if the port must be polled.
    ready: Option<Epoll>,
}

/// Outcome of passing a frame of the host to the link.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Outgoing {
    /// The frame contains a packet, which is to be sent.
    Packet,
    /// The frame belongs to address resolution, which the port handled.
    Handled,
    /// The frame cannot be sent: it contains neither IPv4 nor IPv6, or too many answers wait.
    Rejected,
}

impl IpLink {
    /// Creates the link of a host with the MAC address `host`. `fd` is readable if there may be
    /// packets; `None` if the port must be polled.
    ///
    /// # Errors
    /// The system's errors, such as no available descriptors.
    pub fn new(host: Mac, fd: Option<BorrowedFd<'_>>) -> io::Result<IpLink> {
        let (event, ready) = (Event::new()?, fd.map(|_| Epoll::new()).transpose()?);
        if let (Some(ready), Some(fd)) = (&ready, fd) {
            ready.add(fd)?;
            ready.add(event.fd())?;
        }
        let host = AtomicU64::new(number(host));
        Ok(IpLink { host, answers: Mutex::default(), waiting: AtomicUsize::new(0), event, ready })
    }

    /// Returns a descriptor that is readable if there may be packets, or an answer waits; `None` if
    /// the port must be polled.
    pub fn fd(&self) -> Option<BorrowedFd<'_>> {
        self.ready.as_ref().map(Epoll::fd)
    }

    /// Returns the Ethernet header of a received packet. Returns `None` if it is neither an IPv4
    /// nor an IPv6 packet.
    pub fn header(&self, packet: &[u8]) -> Option<[u8; eth::HEADER_LEN]> {
        let (ethertype, group) = destination(packet)?;
        let dst = group.unwrap_or_else(|| mac(self.host.load(Ordering::Relaxed)));
        let mut header = [0; eth::HEADER_LEN];
        eth::Header { dst, src: PEER, ethertype }.emit(&mut header);
        Some(header)
    }

    /// Puts an Ethernet header in front of a received packet. Returns `false` if it is neither an
    /// IPv4 nor an IPv6 packet.
    #[cfg(target_os = "linux")]
    pub fn add_header(&self, frame: &mut Frame) -> bool {
        let Some(header) = self.header(frame.bytes()) else { return false };
        frame.push().is_some_and(|front| {
            *front = header;
            true
        })
    }

    /// Returns whether an answer waits.
    pub fn has_answer(&self) -> bool {
        self.waiting.load(Ordering::Relaxed) > 0
    }

    /// Removes and returns the next answer, a frame; `None` if there is none.
    pub fn take_answer(&self) -> Option<Vec<u8>> {
        if !self.has_answer() {
            return None;
        }
        let mut answers = self.answers.lock().unwrap_or_else(PoisonError::into_inner);
        let answer = answers.pop_front();
        self.waiting.store(answers.len(), Ordering::Relaxed);
        if answers.is_empty() {
            self.event.clear();
        }
        answer
    }

    /// Inspects a frame that the host sends, and answers it if it belongs to address resolution.
    pub fn send(&self, frame: &[u8]) -> Outgoing {
        let Ok(header) = eth::Header::parse(frame) else { return Outgoing::Rejected };
        let packet = frame.get(eth::HEADER_LEN..).unwrap_or_default();
        let source = number(header.src);
        if self.host.load(Ordering::Relaxed) != source {
            self.host.store(source, Ordering::Relaxed);
        }
        let answer = match header.ethertype {
            EtherType::IPV4 => return Outgoing::Packet,
            EtherType::IPV6 => match solicitation(packet) {
                Some((target, from)) => advertisement(target, from),
                None => return Outgoing::Packet,
            },
            EtherType::ARP => arp_reply(packet),
            _ => return Outgoing::Rejected,
        };
        if let Some((ethertype, answer)) = answer {
            let mut bytes = [0; eth::HEADER_LEN];
            eth::Header { dst: header.src, src: PEER, ethertype }.emit(&mut bytes);
            if !self.queue([&bytes, answer.as_slice()].concat()) {
                return Outgoing::Rejected;
            }
        }
        Outgoing::Handled
    }

    /// Queues an answer. Returns `false` if the queue is full.
    fn queue(&self, answer: Vec<u8>) -> bool {
        let mut answers = self.answers.lock().unwrap_or_else(PoisonError::into_inner);
        let has_room = answers.len() < ANSWERS_MAX;
        if has_room {
            answers.push_back(answer);
            self.waiting.store(answers.len(), Ordering::Relaxed);
            self.event.raise();
        }
        has_room
    }
}

fn number(Mac([a, b, c, d, e, f]): Mac) -> u64 {
    u64::from_be_bytes([0, 0, a, b, c, d, e, f])
}

fn mac(number: u64) -> Mac {
    let [_, _, a, b, c, d, e, f] = number.to_be_bytes();
    Mac([a, b, c, d, e, f])
}

/// Returns the EtherType of a packet, and the MAC address of its destination if that is a group.
fn destination(packet: &[u8]) -> Option<(EtherType, Option<Mac>)> {
    match packet.first()? >> 4 {
        4 if packet.len() >= ip4::HEADER_LEN => {
            let dst = Ipv4Addr::from(*packet.get(16..)?.first_chunk::<4>()?);
            let group = if dst.is_broadcast() { Some(Mac::BROADCAST) } else { None };
            Some((EtherType::IPV4, group.or_else(|| dst.is_multicast().then(|| Mac::multicast4(dst)))))
        }
        6 if packet.len() >= ip6::HEADER_LEN => {
            let dst = Ipv6Addr::from(*packet.get(24..)?.first_chunk::<16>()?);
            Some((EtherType::IPV6, dst.is_multicast().then(|| Mac::multicast6(dst))))
        }
        _ => None,
    }
}

/// Returns the target and the source of a neighbor solicitation; `None` for other packets, and for
/// a probe for duplicate addresses, which has no source.
fn solicitation(packet: &[u8]) -> Option<(Ipv6Addr, Ipv6Addr)> {
    let header = ip6::Header::parse(packet).ok().filter(|header| header.next == Proto::IPV6_ICMP)?;
    match Message::parse(header.payload(packet), header.src, header.dst).ok()? {
        Message::Nd(nd::Message::Solicit { target, .. }) if !header.src.is_unspecified() => Some((target, header.src)),
        _ => None,
    }
}

fn advertisement(target: Ipv6Addr, to: Ipv6Addr) -> Option<(EtherType, Vec<u8>)> {
    // A neighbor that denied being a router would be removed from the host's default routers.
    let advert = nd::Advert { target, router: true, solicited: true, replaces: true };
    let mut packet = vec![0; ip6::HEADER_LEN + nd::NEIGHBOR_LEN];
    let (front, message) = packet.split_first_chunk_mut::<{ ip6::HEADER_LEN }>()?;
    let len = nd::emit_advert(advert, Some(PEER), (target, to), message)?;
    let header = ip6::Header {
        traffic_class: 0,
        flow_label: 0,
        payload_len: len as u16,
        next: Proto::IPV6_ICMP,
        hop_limit: 255,
        src: target,
        dst: to,
    };
    header.emit(front);
    Some((EtherType::IPV6, packet))
}

/// Returns the reply to an ARP request; `None` for other packets, probes and announcements.
fn arp_reply(packet: &[u8]) -> Option<(EtherType, Vec<u8>)> {
    let request = arp::Packet::parse(packet).ok().filter(|packet| packet.op == arp::Op::Request)?;
    if request.spa.is_unspecified() || request.spa == request.tpa {
        return None;
    }
    let reply = arp::Packet { op: arp::Op::Reply, sha: PEER, spa: request.tpa, tha: request.sha, tpa: request.spa };
    Some((EtherType::ARP, reply.emit().to_vec()))
}

#[cfg(test)]
mod tests;
