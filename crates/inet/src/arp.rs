//! ARP (RFC 826, RFC 5227): input, replies, announcements and address conflicts.
//!
//! A received packet may update the neighbor table and may be answered with a reply in a new frame.
//! The received frame itself is always dropped, normally with the reason `ArpConsumed`. Following
//! RFC 826's merge flag, a sender is stored only if it is in the table already, or if the packet is
//! a request for one of our addresses. Unsolicited replies therefore cannot fill the table. If
//! another station uses one of our addresses, the stack counts the conflict and defends the address
//! with an announcement, at most once in ten seconds (RFC 5227 2.4 b).

mod probe;

pub(crate) use probe::Probe;

use crate::Stack;
use crate::iface::AtOnce;
use crate::iface::{Iface, IfaceId, IfaceKind};
use crate::neigh::{self, Expired, Learned};
use buf::Frame;
use clock::Duration;
use lock::{Cx, Locks};
use stats::DropReason;
use std::net::Ipv4Addr;
use wire::Mac;
use wire::arp::{Op, Packet};
use wire::eth::{self, EtherType};

impl<L: Locks> Stack<L> {
    pub(crate) fn arp_input(&self, cx: Cx, iface: &Iface<L>, frame: Frame) {
        let Ok(packet) = Packet::parse(frame.bytes()) else {
            return self.drop_frame(cx, frame, DropReason::ArpMalformed);
        };
        // The sender in the ARP packet may differ from the source in the Ethernet header, since a
        // proxy answers for other stations (RFC 826).
        let is_station = packet.sha.is_unicast() && packet.sha != Mac::ZERO && packet.sha != iface.mac;
        if !is_station || packet.spa.is_multicast() || packet.spa.is_broadcast() {
            return self.drop_frame(cx, frame, DropReason::ArpMalformed);
        }
        if iface.probe.input(&packet) {
            self.count(cx).arp.conflicts.bump();
            return self.drop_frame(cx, frame, DropReason::ArpConflict);
        }
        let addrs = iface.addrs(cx);
        if addrs.iter().any(|a| a.addr == packet.spa) {
            self.conflict(cx, iface, packet.spa);
            return self.drop_frame(cx, frame, DropReason::ArpConflict);
        }
        let counters = &self.count(cx).arp;
        match packet.op {
            Op::Request => counters.requests_received.bump(),
            Op::Reply => counters.replies_received.bump(),
        }
        let for_us = addrs.iter().any(|a| a.addr == packet.tpa);
        let on_link = addrs.iter().any(|a| a.contains(packet.spa));
        let mut why = DropReason::ArpConsumed;
        // A route without a gateway may cover addresses outside the prefixes of the interface.
        // Replies from such addresses are accepted, but they only update existing entries, which
        // were created for requests of this host.
        let is_reply = for_us && packet.op == Op::Reply;
        // A probe (RFC 5227 2.1.1) has the sender address 0.0.0.0. It is answered if it is for us,
        // but its sender is never stored.
        if !packet.spa.is_unspecified() && (on_link || is_reply) {
            let create = for_us && packet.op == Op::Request;
            let rules = self.neigh_rules();
            let mut neighbors = self.neighbors.lock(cx);
            let learned = neighbors.learn(iface.id, packet.spa, packet.sha, create, cx.now, rules);
            self.count(cx).neigh.evicted.add(neighbors.take_evicted());
            let ended = neighbors.take_ended();
            drop(neighbors);
            self.end_all(cx, ended);
            match learned {
                Learned::Changed { pending, moved, created } => {
                    self.changed();
                    self.answered::<u32>(cx, iface.id, packet.spa);
                    let counters = &self.count(cx).neigh;
                    counters.created.add(u64::from(created));
                    counters.moved.add(u64::from(moved));
                    counters.resolved.add(u64::from(!created && !moved));
                    self.send_pending(cx, iface.id, packet.sha, pending);
                }
                Learned::Permanent => why = DropReason::ArpStatic,
                Learned::Ignored if !for_us => why = DropReason::ArpIgnored,
                Learned::Ignored | Learned::Same => {}
            }
        } else if !for_us {
            why = DropReason::ArpIgnored;
        }
        if for_us && packet.op == Op::Request && self.sysctls.arp_answer.get() == 1 {
            let reply = Packet { op: Op::Reply, sha: iface.mac, spa: packet.tpa, tha: packet.sha, tpa: packet.spa };
            self.arp_send(cx, iface, packet.sha, &reply);
            self.count(cx).arp.replies_sent.bump();
        }
        self.drop_frame(cx, frame, why);
    }

    fn conflict(&self, cx: Cx, iface: &Iface<L>, addr: Ipv4Addr) {
        self.count(cx).arp.conflicts.bump();
        if self.sysctls.arp_answer.get() == 1 && self.limiter.lock(cx).may_defend(cx.now) {
            self.announce(cx, iface, addr);
        }
    }

    /// Announces `addr` on the link with a gratuitous request (RFC 5227 2.3).
    pub(crate) fn announce(&self, cx: Cx, iface: &Iface<L>, addr: Ipv4Addr) {
        let packet = Packet { op: Op::Request, sha: iface.mac, spa: addr, tha: Mac::ZERO, tpa: addr };
        if iface.tunnel.is_some() || iface.queues.at(|| 0).lock(cx).output.is_some() {
            self.arp_send(cx, iface, Mac::BROADCAST, &packet);
            self.count(cx).arp.announcements_sent.bump();
        }
    }

    /// Announces every IPv4 address of an interface. Called when its port has just been connected.
    #[inline(never)]
    pub fn announce_all(&self, cx: Cx, id: IfaceId) {
        if let Some(iface) = self.ifaces.get(id).filter(|iface| iface.kind == IfaceKind::Ethernet) {
            for addr in iface.addrs(cx) {
                self.announce(cx, iface, addr.addr);
            }
            self.announce6(cx, iface);
        }
    }

    /// Sends an ARP request for `addr`. If `known` is set, the request is sent by unicast to this
    /// MAC address, to confirm the neighbor entry that contains it. Otherwise it is broadcast.
    pub(crate) fn arp_ask(&self, cx: Cx, iface: &Iface<L>, addr: Ipv4Addr, known: Option<Mac>) {
        let spa = self.source_for(cx, iface, addr).unwrap_or(Ipv4Addr::UNSPECIFIED);
        let packet = Packet { op: Op::Request, sha: iface.mac, spa, tha: known.unwrap_or(Mac::ZERO), tpa: addr };
        self.arp_send(cx, iface, known.unwrap_or(Mac::BROADCAST), &packet);
        self.count(cx).arp.requests_sent.bump();
    }

    #[inline(never)]
    fn arp_send(&self, cx: Cx, iface: &Iface<L>, dst: Mac, packet: &Packet) {
        let Some(mut frame) = self.make_frame(cx) else { return }; // the pool counts its allocation failures
        let header = eth::Header { dst, src: iface.mac, ethertype: EtherType::ARP };
        let mut written = frame.extend(&packet.emit());
        if let (Some(()), Some(room)) = (written, frame.push::<{ eth::HEADER_LEN }>()) {
            header.emit(room);
        } else {
            written = None;
        }
        match written {
            Some(()) => self.stage(cx, iface, frame, AtOnce::Later),
            None => self.drop_as_bug(cx, frame, "the ARP message does not fit into a new frame"),
        }
    }

    /// Sends the packets that were queued until the MAC address of their next hop was resolved.
    pub(crate) fn send_pending(&self, cx: Cx, id: IfaceId, mac: Mac, pending: impl IntoIterator<Item = Frame>) {
        for packet in pending {
            match self.ifaces.get(id) {
                // IPv4 packets wait for IPv6 neighbors, too.
                Some(iface) if is_ip4(&packet) => self.ether_output::<u32>(cx, iface, mac, packet, AtOnce::Later),
                Some(iface) => self.ether_output::<u128>(cx, iface, mac, packet, AtOnce::Later),
                None => self.drop_frame(cx, packet, DropReason::TxNoPort),
            }
        }
    }

    pub(crate) fn neigh_rules(&self) -> neigh::Rules {
        neigh::Rules {
            limit: self.sysctls.neigh_limit.get() as usize,
            hold: self.sysctls.neigh_queue.get() as usize,
            hold_all: self.sysctls.neigh_queue_all.get() as usize,
            tries: self.sysctls.neigh_tries.get() as u32,
            max_age: Duration::from_secs(self.sysctls.neigh_max_age.get() as u64),
        }
    }

    pub(crate) fn poll_neighbors(&self, cx: Cx) {
        {
            let mut neighbors = self.neighbors.lock(cx);
            self.count(cx).neigh.evicted.add(neighbors.take_evicted());
            if cx.now < neighbors.next_deadline() {
                return;
            }
        }
        let mut events = Vec::new();
        self.neighbors.lock(cx).expire(cx.now, self.neigh_rules(), |event| events.push(event));
        for event in events {
            match event {
                Expired::Aged => self.changed(),
                Expired::Ask(id, addr, known) => {
                    if let Some(iface) = self.ifaces.get(id) {
                        self.arp_ask(cx, iface, addr, known);
                    }
                }
                Expired::Dead(id, addr, pending) => {
                    self.changed();
                    self.silent::<u32>(cx, id, addr);
                    self.count(cx).neigh.failed.bump();
                    self.neighbor_failed(cx, pending);
                }
            }
        }
    }

    /// Drops the packets that were queued for a neighbor that did not answer. Sends ICMP errors to
    /// their senders, or reports them to the sockets of this host.
    pub(crate) fn neighbor_failed(&self, cx: Cx, pending: impl IntoIterator<Item = Frame>) {
        for packet in pending {
            match is_ip4(&packet) {
                true => self.host_unreachable(cx, packet),
                false => self.host_unreachable6(cx, packet),
            }
        }
    }
}

/// Returns the family of a packet without a link header.
fn is_ip4(packet: &Frame) -> bool {
    packet.bytes().first().is_some_and(|first| first >> 4 == 4)
}

impl<L: Locks> Stack<L> {
    /// Sends an ARP probe for `addr` and records whether another station uses it. An interface
    /// probes for one address at a time.
    pub fn probe_addr(&self, cx: Cx, id: IfaceId, addr: Ipv4Addr) {
        let Some(iface) = self.ifaces.get(id) else { return };
        iface.probe.begin(addr);
        self.send_probe(cx, iface, addr);
        self.flush(cx);
    }

    /// Returns whether another station uses the address that `id` probes for.
    pub fn is_probed_addr_taken(&self, id: IfaceId) -> bool {
        self.ifaces.get(id).is_some_and(|iface| iface.probe.is_taken())
    }

    /// Ends the probe of an interface and clears its result.
    pub fn end_probe(&self, id: IfaceId) {
        if let Some(iface) = self.ifaces.get(id) {
            iface.probe.end();
        }
    }

    fn send_probe(&self, cx: Cx, iface: &Iface<L>, addr: Ipv4Addr) {
        let spa = Ipv4Addr::UNSPECIFIED;
        let packet = Packet { op: Op::Request, sha: iface.mac, spa, tha: Mac::ZERO, tpa: addr };
        self.arp_send(cx, iface, Mac::BROADCAST, &packet);
        self.count(cx).arp.requests_sent.bump();
    }
}
