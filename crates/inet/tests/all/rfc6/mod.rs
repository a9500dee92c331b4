//! IPv6 as its standards have it, and as strangers would like it: each expectation is a clause's, and each frame is made and taken apart
//! here byte by byte, with nothing of the code under test.
//!
//! The host under test has 2001:db8::1 on its first link; a router also 2001:db8:0:1::1 on its second. PEER, OTHER and FAR are known to it
//! by hand where no test is about finding them. Nobody is asked for before an address is ours, but where that is the test.

mod campaign;
mod discovery;
mod errors;
mod extension;
mod fragments;
mod gif;
mod header;
mod messages;
mod reach;
mod router;

use crate::common::*;
use linerate_inet::fib6::Via6;
use linerate_inet::iface::IfaceId;
use linerate_inet::ip6::IfaceAddr6;
use linerate_inet::neigh::{Neighbor, State};
use lock::Locks;
use std::net::Ipv6Addr;
use wire::Mac;

pub const ME6: Ipv6Addr = on(0, 1);
pub const PEER6: Ipv6Addr = on(0, 2);
pub const OTHER6: Ipv6Addr = on(0, 3);
pub const ME26: Ipv6Addr = on(1, 1);
pub const FAR6: Ipv6Addr = on(1, 2);
/// Behind FAR.
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

/// RFC 2464 5, for the stations of these tests: 02:00:00:00:xx:yy.
pub fn link_local(station: Station) -> Ipv6Addr {
    let [.., link, host] = station.mac.0;
    Ipv6Addr::new(0xfe80, 0, 0, 0, 0, 0xff, 0xfe00, u16::from(link) << 8 | u16::from(host))
}

/// RFC 4291 2.7.1.
pub fn solicited(addr: Ipv6Addr) -> Ipv6Addr {
    let [.., a, b, c] = addr.octets();
    Ipv6Addr::from_bits(0xff02 << 112 | 0x1_ff00_0000 | u128::from(a) << 16 | u128::from(b) << 8 | u128::from(c))
}

/// RFC 2464 7.
pub fn group_mac(group: Ipv6Addr) -> Mac {
    let [.., a, b, c, d] = group.octets();
    Mac([0x33, 0x33, a, b, c, d])
}

// ---- hosts ------------------------------------------------------------------------------------------------------------

/// The iface gets an address of IPv6; what it says about that is forgotten.
pub fn give<L: Locks>(h: &Host<L>, iface: IfaceId, addr: Ipv6Addr) {
    h.set_checked(iface, Checked::Nothing);
    h.stack.add_addr6(h.cx(), iface, IfaceAddr6::new(addr, 64)).unwrap();
    settle(h, iface);
}

/// Seconds pass, until the groups have been reported twice.
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
    h.stack.knobs.dad_count.set(0);
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

/// The same with another number of buffers.
pub fn host6_of<L: Locks>(buffers: usize) -> Host<L> {
    let h = Host::bare(buffers, 1);
    h.add_iface("em0", ME, 1500);
    with_six(h)
}

/// A host that knows nobody.
pub fn stranger6<L: Locks>() -> Host<L> {
    let h = Host::new();
    h.stack.knobs.dad_count.set(0);
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
    h.stack.knobs.forwarding.set(1);
    let h = with_six(h);
    give(&h, EM1, ME26);
    knows6(&h, EM1, FAR6, FAR.mac);
    knows6(&h, EM1, link_local(FAR), FAR.mac);
    h.stack.knobs.forwarding6.set(1);
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

/// State and MAC address of a neighbor.
pub fn entry<L: Locks>(h: &Host<L>, addr: Ipv6Addr) -> Option<(State, Mac)> {
    neighbor6(h, addr).map(|n| (n.state, n.mac))
}

/// An echo beside whatever happens: PEER asks and is answered, at once.
#[track_caller]
pub fn assert_alive<L: Locks>(h: &Host<L>) {
    h.sent(EM0);
    h.inject(EM0, echo_from(PEER6, ME6, b"alive?").from_peer());
    let answers = sent6(h, EM0);
    let lives = answers.iter().any(|got| got.is_icmp(129, 0) && got.dst == PEER6 && got.body.ends_with(b"alive?"));
    assert!(lives, "no answer to an echo: {answers:?}");
    h.audit();
}

// ---- packets, made ------------------------------------------------------------------------------------------------------

/// A packet to be made.
#[derive(Clone, Debug)]
pub struct P6 {
    pub class: u8,
    pub flow: u32,
    /// What the header says, if it lies.
    pub len: Option<u16>,
    pub next: u8,
    pub hop: u8,
    pub src: Ipv6Addr,
    pub dst: Ipv6Addr,
    pub body: Vec<u8>,
}

impl P6 {
    pub fn new(src: Ipv6Addr, dst: Ipv6Addr, next: u8, body: impl Into<Vec<u8>>) -> P6 {
        P6 { class: 0, flow: 0, len: None, next, hop: 64, src, dst, body: body.into() }
    }

    pub fn hop(mut self, hop: u8) -> P6 {
        self.hop = hop;
        self
    }

    pub fn class(mut self, class: u8) -> P6 {
        self.class = class;
        self
    }

    /// The same to somebody else; a checksum stays as it was.
    pub fn to(mut self, dst: Ipv6Addr) -> P6 {
        self.dst = dst;
        self
    }

    /// Puts an extension header in front of what is there: its bytes but for the first, which says what comes then.
    pub fn behind(mut self, proto: u8, rest: &[u8]) -> P6 {
        let mut body = vec![self.next];
        body.extend(rest);
        assert_eq!(body.len() % 8, 0, "RFC 8200 4");
        body.append(&mut self.body);
        (self.next, self.body) = (proto, body);
        self
    }

    /// Puts a header with options in front, padded with PadN.
    pub fn options(self, proto: u8, options: &[u8]) -> P6 {
        let mut rest = vec![0];
        rest.extend(options);
        match (8 - (rest.len() + 1) % 8) % 8 {
            0 => {}
            1 => rest.push(0),
            pad => {
                rest.extend([1, pad as u8 - 2]);
                rest.extend(vec![0; pad - 2]);
            }
        }
        rest[0] = ((rest.len() + 1) / 8 - 1) as u8;
        self.behind(proto, &rest)
    }

    /// Bytes `off..off+len` of what this packet carries, as a fragment.
    pub fn fragment(&self, id: u32, off: usize, len: usize) -> P6 {
        let end = (off + len).min(self.body.len());
        let more = end < self.body.len();
        P6 { body: self.body[off..end].to_vec(), ..self.clone() }.fragment_header(id, off, more)
    }

    pub fn fragment_header(self, id: u32, off: usize, more: bool) -> P6 {
        let [o0, o1] = (off as u16 | u16::from(more)).to_be_bytes();
        let [a, b, c, d] = id.to_be_bytes();
        self.behind(FRAGMENT, &[0, o0, o1, a, b, c, d])
    }

    pub fn packet(&self) -> Vec<u8> {
        let mut out = (6 << 28 | u32::from(self.class) << 20 | self.flow).to_be_bytes().to_vec();
        out.extend(self.len.unwrap_or(self.body.len() as u16).to_be_bytes());
        out.extend([self.next, self.hop]);
        out.extend(self.src.octets());
        out.extend(self.dst.octets());
        out.extend(&self.body);
        out
    }

    pub fn frame(&self, src: Mac, dst: Mac) -> Vec<u8> {
        let mut frame = dst.0.to_vec();
        frame.extend(src.0);
        frame.extend([0x86, 0xdd]);
        frame.extend(self.packet());
        frame
    }

    /// The frame as PEER sends it: to the host under test, or to the group.
    pub fn from_peer(&self) -> Vec<u8> {
        let dst = if self.dst.is_multicast() { group_mac(self.dst) } else { ME.mac };
        self.frame(PEER.mac, dst)
    }

    /// The frame as FAR sends it, on the second link.
    pub fn from_far(&self) -> Vec<u8> {
        let dst = if self.dst.is_multicast() { group_mac(self.dst) } else { ME2.mac };
        self.frame(FAR.mac, dst)
    }
}

/// The sum of RFC 1071 over a pseudo header of RFC 8200 8.1 and `message`: 0xffff if its checksum is right.
pub fn sum(src: Ipv6Addr, dst: Ipv6Addr, next: u8, message: &[u8]) -> u16 {
    let mut bytes = [src.octets(), dst.octets()].concat();
    bytes.extend((message.len() as u32).to_be_bytes());
    bytes.extend([0, 0, 0, next]);
    bytes.extend(message);
    bytes.resize(bytes.len().next_multiple_of(2), 0);
    let words = bytes.chunks(2).map(|pair| u64::from(pair[0]) << 8 | u64::from(pair[1]));
    let mut sum: u64 = words.sum();
    while sum > 0xffff {
        sum = (sum >> 16) + (sum & 0xffff);
    }
    sum as u16
}

pub fn icmp6(src: Ipv6Addr, dst: Ipv6Addr, ty: u8, code: u8, rest: &[u8]) -> P6 {
    let mut message = vec![ty, code, 0, 0];
    message.extend(rest);
    let sum = !sum(src, dst, ICMP6, &message);
    message[2..4].copy_from_slice(&sum.to_be_bytes());
    P6::new(src, dst, ICMP6, message)
}

pub fn udp6(src: (Ipv6Addr, u16), dst: (Ipv6Addr, u16), payload: &[u8]) -> P6 {
    let mut datagram = [src.1, dst.1, payload.len() as u16 + 8, 0].map(u16::to_be_bytes).concat();
    datagram.extend(payload);
    let sum = !sum(src.0, dst.0, UDP, &datagram);
    datagram[6..8].copy_from_slice(&sum.to_be_bytes());
    P6::new(src.0, dst.0, UDP, datagram)
}

pub fn echo_from(src: Ipv6Addr, dst: Ipv6Addr, text: &[u8]) -> P6 {
    icmp6(src, dst, 128, 0, &[&[0x12, 0x34, 0, 7], text].concat())
}

/// An error of ICMPv6 that quotes `quoted`.
pub fn error6(src: Ipv6Addr, dst: Ipv6Addr, ty: u8, code: u8, word: u32, quoted: &[u8]) -> P6 {
    icmp6(src, dst, ty, code, &[&word.to_be_bytes(), quoted].concat())
}

/// The option that holds a link-layer address: 1 the source's, 2 the target's (RFC 4861 4.6.1).
pub fn link_option(kind: u8, mac: Mac) -> Vec<u8> {
    [&[kind, 1], &mac.0[..]].concat()
}

/// A neighbor solicitation for `target` (RFC 4861 4.3), to its group or to itself.
pub fn ns(src: Ipv6Addr, dst: Ipv6Addr, target: Ipv6Addr, options: &[u8]) -> P6 {
    icmp6(src, dst, 135, 0, &[&[0; 4], &target.octets()[..], options].concat()).hop(255)
}

/// A neighbor advertisement (RFC 4861 4.4); flags: `R`, `S`, `O`.
pub fn na(src: Ipv6Addr, dst: Ipv6Addr, target: Ipv6Addr, flags: &str, options: &[u8]) -> P6 {
    let bit = |letter, bit: u8| if flags.contains(letter) { bit } else { 0 };
    let flags = bit('R', 0x80) | bit('S', 0x40) | bit('O', 0x20);
    icmp6(src, dst, 136, 0, &[&[flags, 0, 0, 0], &target.octets()[..], options].concat()).hop(255)
}

// ---- packets, taken apart -----------------------------------------------------------------------------------------------

/// A packet that was sent.
#[derive(Clone, PartialEq, Eq)]
pub struct Got {
    pub to: Mac,
    pub class: u8,
    pub next: u8,
    pub hop: u8,
    pub src: Ipv6Addr,
    pub dst: Ipv6Addr,
    pub body: Vec<u8>,
}

impl std::fmt::Debug for Got {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Got { to, class, next, hop, src, dst, body } = self;
        let begin = &body[..body.len().min(64)];
        write!(f, "{src} > {dst} to {to} next {next} hop {hop} class {class:#x}, {} bytes {begin:02x?}", body.len())
    }
}

impl Got {
    /// Takes a packet apart that was sent to `to`, and holds it to what is true of all packets on a wire.
    #[track_caller]
    pub fn of(to: Mac, packet: &[u8]) -> Got {
        let address = |at: usize| Ipv6Addr::from(<[u8; 16]>::try_from(&packet[at..at + 16]).unwrap());
        assert!(packet.len() >= 40 && packet[0] >> 4 == 6, "{packet:02x?}");
        let len = usize::from(u16::from_be_bytes([packet[4], packet[5]]));
        // What a short frame is padded with is zeros (Etherleak, CVE-2003-0001).
        assert!(packet.len() >= 40 + len && packet[40 + len..].iter().all(|byte| *byte == 0), "{packet:02x?}");
        let (src, dst) = (address(8), address(24));
        assert!(!src.is_multicast() && !src.is_loopback() && !dst.is_loopback() && !dst.is_unspecified(), "{src} > {dst}");
        let body = packet[40..40 + len].to_vec();
        let class = packet[0] << 4 | packet[1] >> 4;
        let got = Got { to, class, next: packet[6], hop: packet[7], src, dst, body };
        assert_ne!(got.hop, 0, "{got:?}");
        if got.next == ICMP6 {
            assert_eq!(sum(src, dst, ICMP6, &got.body), 0xffff, "checksum: {got:?}");
            assert!(got.body[0] >= 128 || packet.len() <= 1280, "RFC 4443 2.4 c: {} bytes", packet.len());
            assert!(!(133..=137).contains(&got.body[0]) || got.hop == 255, "RFC 4861: {got:?}");
        }
        if dst.is_multicast() {
            assert_eq!(to, group_mac(dst), "RFC 2464 7");
        }
        got
    }

    pub fn is_icmp(&self, ty: u8, code: u8) -> bool {
        self.next == ICMP6 && self.body[..2] == [ty, code]
    }

    /// The second word of an ICMPv6 message: a pointer, an MTU, flags.
    pub fn word(&self) -> u32 {
        u32::from_be_bytes(self.body[4..8].try_into().unwrap())
    }

    /// The packet that an error quotes.
    pub fn quoted(&self) -> &[u8] {
        &self.body[8..]
    }

    /// The target of a solicitation or an advertisement.
    pub fn target(&self) -> Ipv6Addr {
        Ipv6Addr::from(<[u8; 16]>::try_from(&self.body[8..24]).unwrap())
    }
}

/// The IPv6 packets that `iface` has sent, but for reports of MLD; every frame must have the iface's own source.
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

/// PEER sends `packet`, and is answered with exactly one error: type, code, second word, and as much of the packet as fits
/// (RFC 4443 3).
#[track_caller]
pub fn assert_error<L: Locks>(h: &Host<L>, packet: &P6, ty: u8, code: u8, word: u32) -> Got {
    h.inject(EM0, packet.from_peer());
    let got = sent6_one(h, EM0);
    assert_eq!((got.next, got.body[0], got.body[1], got.word()), (ICMP6, ty, code, word), "{got:?}");
    assert_eq!((got.dst, got.to), (packet.src, PEER.mac));
    let whole = packet.packet();
    assert_eq!(got.quoted(), &whole[..whole.len().min(1280 - 48)], "as much as fits, unchanged");
    h.audit();
    got
}

/// PEER sends `packet`, and nothing is heard of it.
#[track_caller]
pub fn assert_silent<L: Locks>(h: &Host<L>, packet: &P6) {
    h.inject(EM0, packet.from_peer());
    sent6_nothing(h, EM0);
    h.audit();
}

/// PEER sends `packet`, an echo request with whatever around it, and is answered.
#[track_caller]
pub fn assert_answered<L: Locks>(h: &Host<L>, packet: &P6) -> Got {
    h.inject(EM0, packet.from_peer());
    let got = sent6_one(h, EM0);
    assert!(got.is_icmp(129, 0) && got.dst == packet.src, "{got:?}");
    h.audit();
    got
}
