//! IPv6 according to its standards, and with the packets of attackers. Each expectation comes from
//! a clause of a standard. Each frame is built and parsed byte by byte in these tests, without any
//! code of the stack.
//!
//! The host under test has the address 2001:db8::1 on its first link. A router also has
//! 2001:db8:0:1::1 on its second. PEER, OTHER and FAR have permanent neighbor entries, except in
//! tests of address resolution. Hosts have completed duplicate address detection, except in tests
//! of it.

mod campaign;
mod discovery;
mod errors;
mod extension;
mod fragments;
mod gif;
mod gif_path;
mod header;
mod messages;
mod packet;
mod reach;
mod router;

use crate::common::*;
pub use packet::*;

use linerate_inet::iface::IfaceId;
use linerate_inet::ip6::IfaceAddr6;
use linerate_inet::neigh::{Neighbor, State};
use linerate_inet::route::Via6;
use lock::Locks;
use std::net::Ipv6Addr;
use wire::Mac;

pub const ME6: Ipv6Addr = on(0, 1);
pub const PEER6: Ipv6Addr = on(0, 2);
pub const OTHER6: Ipv6Addr = on(0, 3);
pub const ME26: Ipv6Addr = on(1, 1);
pub const FAR6: Ipv6Addr = on(1, 2);
/// An address that is reached through FAR.
pub const BEYOND6: Ipv6Addr = on(7, 7);
pub const ALL_NODES: Ipv6Addr = Ipv6Addr::new(0xff02, 0, 0, 0, 0, 0, 0, 1);
pub const ALL_ROUTERS: Ipv6Addr = Ipv6Addr::new(0xff02, 0, 0, 0, 0, 0, 0, 2);
pub const NOWHERE: Ipv6Addr = Ipv6Addr::UNSPECIFIED;

pub const HBH: u8 = 0;
pub const TCP: u8 = 6;
pub const UDP: u8 = 17;
pub const ROUTING: u8 = 43;
pub const FRAGMENT: u8 = 44;
pub const ICMP6: u8 = 58;
pub const NONE: u8 = 59;
pub const DEST: u8 = 60;

pub const fn on(link: u16, host: u16) -> Ipv6Addr {
    Ipv6Addr::new(0x2001, 0xdb8, 0, link, 0, 0, 0, host)
}

/// Returns the link-local address (RFC 2464 5) of a station in these tests, 02:00:00:00:xx:yy.
pub fn link_local(station: Station) -> Ipv6Addr {
    let [.., link, host] = station.mac.0;
    Ipv6Addr::new(0xfe80, 0, 0, 0, 0, 0xff, 0xfe00, u16::from(link) << 8 | u16::from(host))
}

/// Returns the solicited-node group of an address (RFC 4291 2.7.1).
pub fn solicited(addr: Ipv6Addr) -> Ipv6Addr {
    let [.., a, b, c] = addr.octets();
    Ipv6Addr::from_bits(0xff02 << 112 | 0x1_ff00_0000 | u128::from(a) << 16 | u128::from(b) << 8 | u128::from(c))
}

/// Returns the MAC address of a group (RFC 2464 7).
pub fn group_mac(group: Ipv6Addr) -> Mac {
    let [.., a, b, c, d] = group.octets();
    Mac([0x33, 0x33, a, b, c, d])
}

// ---- hosts ------------------------------------------------------------------------------------------------------------

/// Adds an IPv6 address to the interface, and discards the frames that announce it.
pub fn give<L: Locks>(h: &Host<L>, iface: IfaceId, addr: Ipv6Addr) {
    h.set_checked(iface, Checked::Nothing);
    h.stack.add_addr6(h.cx(), iface, IfaceAddr6::new(addr, 64)).unwrap();
    settle(h, iface);
}

/// Advances the time until the groups have been reported twice.
pub fn settle<L: Locks>(h: &Host<L>, iface: IfaceId) {
    for _ in 0..6 {
        h.advance_secs(2);
    }
    h.sent(iface);
    h.forget_counters();
}

pub fn knows6<L: Locks>(h: &Host<L>, iface: IfaceId, addr: Ipv6Addr, mac: Mac) {
    h.stack.set_neighbor6(h.cx(), iface, addr, mac);
}

pub fn with_six<L: Locks>(h: Host<L>) -> Host<L> {
    h.stack.sysctls.dad_count.set(0);
    give(&h, EM0, ME6);
    for (addr, station) in [(PEER6, PEER), (OTHER6, OTHER), (link_local(PEER), PEER), (link_local(OTHER), OTHER)] {
        knows6(&h, EM0, addr, station.mac);
    }
    h.forget_counters();
    h
}

pub fn host6<L: Locks>() -> Host<L> {
    with_six(Host::new())
}

/// Creates a host as [`host6`] does, with this number of buffers.
pub fn host6_of<L: Locks>(buffers: usize) -> Host<L> {
    let h = Host::bare(buffers, 1);
    h.add_iface("em0", ME, 1500);
    with_six(h)
}

/// Creates a host without neighbor entries.
pub fn stranger6<L: Locks>() -> Host<L> {
    let h = Host::new();
    h.stack.sysctls.dad_count.set(0);
    give(&h, EM0, ME6);
    h
}

pub fn router6<L: Locks>() -> Host<L> {
    router6_of(512)
}

pub fn router6_of<L: Locks>(buffers: usize) -> Host<L> {
    let h = Host::bare(buffers, 1);
    h.add_iface("em0", ME, 1500);
    h.add_iface("em1", ME2, 1500);
    h.knows(EM0, PEER);
    h.knows(EM1, FAR);
    h.stack.sysctls.forwarding.set(1);
    let h = with_six(h);
    give(&h, EM1, ME26);
    knows6(&h, EM1, FAR6, FAR.mac);
    knows6(&h, EM1, link_local(FAR), FAR.mac);
    h.stack.sysctls.forwarding6.set(1);
    route6(&h, "2001:db8:0:7::/64", Via6::Gateway(EM1, FAR6));
    settle(&h, EM1);
    settle(&h, EM0);
    h
}

pub fn route6<L: Locks>(h: &Host<L>, prefix: &str, via: Via6) {
    h.stack.add_route6(h.cx(), prefix.parse().unwrap(), via).unwrap();
}

pub fn neighbor6<L: Locks>(h: &Host<L>, addr: Ipv6Addr) -> Option<Neighbor<Ipv6Addr>> {
    h.stack.neighbors6(h.cx()).into_iter().find(|n| n.addr == addr)
}

/// Returns state and MAC address of a neighbor.
pub fn entry<L: Locks>(h: &Host<L>, addr: Ipv6Addr) -> Option<(State, Mac)> {
    neighbor6(h, addr).map(|n| (n.state, n.mac))
}

/// Checks that an echo request of PEER is answered at once.
#[track_caller]
pub fn assert_alive<L: Locks>(h: &Host<L>) {
    h.sent(EM0);
    h.inject(EM0, echo_from(PEER6, ME6, b"alive?").by_peer());
    let answers = sent6(h, EM0);
    let lives = answers.iter().any(|got| got.is_icmp(129, 0) && got.dst == PEER6 && got.body.ends_with(b"alive?"));
    assert!(lives, "no answer to an echo: {answers:?}");
    h.audit();
}

// ---- what was sent ------------------------------------------------------------------------------------------------------

/// Returns the IPv6 packets that `iface` has sent, except MLD reports. Every frame must have the
/// MAC address of the interface as its source.
#[track_caller]
pub fn sent6<L: Locks>(h: &Host<L>, iface: IfaceId) -> Vec<Got> {
    let own = h.stack.iface(iface).unwrap().mac;
    let mut all = Vec::new();
    for frame in h.sent(iface) {
        assert_eq!(frame[6..12], own.0);
        if frame[12..14] == [0x86, 0xdd] {
            all.push(Got::of(Mac(frame[..6].try_into().unwrap()), &frame[14..]));
        }
    }
    all.retain(|got| !(got.next == HBH && got.body[0] == ICMP6 && got.body[8] == 143));
    all
}

#[track_caller]
pub fn sent6_one<L: Locks>(h: &Host<L>, iface: IfaceId) -> Got {
    let mut all = sent6(h, iface);
    assert_eq!(all.len(), 1, "{all:?}");
    all.remove(0)
}

#[track_caller]
pub fn sent6_nothing<L: Locks>(h: &Host<L>, iface: IfaceId) {
    let all = sent6(h, iface);
    assert!(all.is_empty(), "{all:?}");
}

/// Receives `packet` from PEER and checks that exactly one error is sent, with this type, code and
/// second word, and with as much of the packet as fits (RFC 4443 3).
#[track_caller]
pub fn assert_error<L: Locks>(h: &Host<L>, packet: &P6, ty: u8, code: u8, word: u32) -> Got {
    h.inject(EM0, packet.by_peer());
    let got = sent6_one(h, EM0);
    assert_eq!((got.next, got.body[0], got.body[1], got.word()), (ICMP6, ty, code, word), "{got:?}");
    assert_eq!((got.dst, got.to), (packet.src, PEER.mac));
    let whole = packet.packet();
    assert_eq!(got.quoted(), &whole[..whole.len().min(1280 - 48)], "as much as fits, unchanged");
    h.audit();
    got
}

/// Receives `packet` from PEER and checks that nothing is sent.
#[track_caller]
pub fn assert_silent<L: Locks>(h: &Host<L>, packet: &P6) {
    h.inject(EM0, packet.by_peer());
    sent6_nothing(h, EM0);
    h.audit();
}

/// Receives `packet` from PEER, an echo request with any extension headers, and checks that it is
/// answered.
#[track_caller]
pub fn assert_answered<L: Locks>(h: &Host<L>, packet: &P6) -> Got {
    h.inject(EM0, packet.by_peer());
    let got = sent6_one(h, EM0);
    assert!(got.is_icmp(129, 0) && got.dst == packet.src, "{got:?}");
    h.audit();
    got
}
