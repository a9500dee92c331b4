//! Translation of primitives into tests at offsets of the frame.
//!
//! The compiler keeps its position in the headers in a [`Link`]. `vlan`, `mpls` and `pppoes`
//! advance this position for everything after them in the text, regardless of `or` or `not` in
//! between, as pcap-filter(7) specifies. The tests are in libpcap's order wherever the order
//! decides whether a short frame is rejected.

use super::arith::Relation;
use super::names;
use super::program::{Builder, Code, Test};
use super::protocol::Word;
use alloc::format;
use alloc::string::String;
use alloc::vec::Vec;

mod link;
mod number;

/// Direction qualifier of an address or L4 port: source, destination, either or both.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Dir {
    Src,
    Dst,
    Either,
    Both,
}

/// Link layer whose headers are tested.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Medium {
    Ethernet,
    /// PPP in an Ethernet frame (RFC 2516).
    Ppp,
}

/// Position of the compiler in the headers of a frame, as byte offsets.
#[derive(Clone, Copy, Debug)]
struct Link {
    medium: Medium,
    header: u32,
    ethertype: u32,
    /// Offset after the EtherType, where an 802.2 header would begin.
    payload: u32,
    /// Number of MPLS labels between `payload` and the packet, four bytes each.
    labels: u32,
}

impl Link {
    /// Returns the offset of the packet.
    fn packet(&self) -> u32 {
        self.payload + 4 * self.labels
    }
}

/// Maximum value of an 802.3 length field; libpcap treats larger values as EtherTypes.
const MAX_LENGTH: u32 = 1500;
/// Maximum offset in bytes of a packet within its frame; larger ones would not fit in an
/// instruction.
const MAX_DEPTH: u32 = 1 << 16;

const IP: u32 = 0x0800;
const ARP: u32 = 0x0806;
const RARP: u32 = 0x8035;
const IP6: u32 = 0x86dd;
const ATALK: u32 = 0x809b;
const AARP: u32 = 0x80f3;
const IPX_ETHERTYPE: u32 = 0x8137;
const ISO: u32 = 0xfe;
const IPX: u32 = 0xe0;
const NETBEUI: u32 = 0xf0;
const STP: u32 = 0x42;
const IP_OVER_LLC: u32 = 0x06;

/// Builds a filter, primitive by primitive.
#[derive(Debug)]
pub(super) struct Compiler {
    pub builder: Builder,
    pub relations: Vec<Relation>,
    link: Link,
}

type Outcome = Result<Code, String>;

impl Compiler {
    pub fn new() -> Compiler {
        let link = Link { medium: Medium::Ethernet, header: 0, ethertype: 12, payload: 14, labels: 0 };
        Compiler { builder: Builder::default(), relations: Vec::new(), link }
    }

    // Fields of the packet.

    fn packet(&self, at: u32, size: u8, mask: u32) -> Test {
        Test::field(self.link.packet().saturating_add(at), size, mask)
    }

    fn byte(&self, at: u32) -> Test {
        self.packet(at, 1, 0xff)
    }

    fn ethertype(&self) -> Test {
        Test::field(self.link.ethertype, 2, 0xffff)
    }

    fn llc(&self, at: u32, size: u8, mask: u32) -> Test {
        Test::field(self.link.payload.saturating_add(at), size, mask)
    }

    /// Generates code that evaluates to true if `first` and all of `tests` are true.
    fn all(&mut self, tests: &[Test], first: Code) -> Code {
        tests.iter().fold(first, |code, test| {
            let then = self.builder.test(*test);
            self.builder.and(code, then)
        })
    }

    /// Generates code that evaluates to true if `first` or any of `rest` is true.
    fn any(&mut self, first: Test, rest: &[Test]) -> Code {
        let first = self.builder.test(first);
        rest.iter().fold(first, |code, test| {
            let other = self.builder.test(*test);
            self.builder.or(code, other)
        })
    }

    fn directed(&mut self, dir: Dir, mut of: impl FnMut(&mut Compiler, Dir) -> Code) -> Code {
        match dir {
            Dir::Src | Dir::Dst => of(self, dir),
            Dir::Either | Dir::Both => {
                let (src, dst) = (of(self, Dir::Src), of(self, Dir::Dst));
                if dir == Dir::Both { self.builder.and(src, dst) } else { self.builder.or(src, dst) }
            }
        }
    }

    fn ip(&mut self) -> Outcome {
        self.link_type(IP)
    }

    // Protocols.

    /// Compiles a primitive that consists of a protocol name alone.
    pub fn protocol(&mut self, word: Word) -> Outcome {
        if let Some(ethertype) = carried(word) {
            return self.link_type(ethertype);
        }
        match word {
            Word::Sctp => self.proto(None, 132),
            Word::Tcp => self.proto(None, 6),
            Word::Udp => self.proto(None, 17),
            Word::Pim => self.proto(None, 103),
            Word::Ah => self.proto(None, 51),
            Word::Esp => self.proto(None, 50),
            Word::Icmp => self.proto(Some(Word::Ip), 1),
            Word::Igmp => self.proto(Some(Word::Ip), 2),
            Word::Igrp => self.proto(Some(Word::Ip), 9),
            Word::Vrrp | Word::Carp => self.proto(Some(Word::Ip), 112),
            Word::Icmp6 => self.proto(Some(Word::Ip6), 58),
            Word::Esis => self.proto(Some(Word::Iso), 0x82),
            Word::Isis => self.proto(Some(Word::Iso), 0x83),
            Word::Clnp => self.proto(Some(Word::Iso), 0x81),
            // PDU types of ISO/IEC 10589 9.5 and later: hellos 15 to 17, LSPs 18 and 20, CSNPs 24
            // and 25, PSNPs 26 and 27.
            Word::L1 => self.isis(&[26, 24, 18, 15, 17]),
            Word::L2 => self.isis(&[27, 25, 20, 16, 17]),
            Word::Iih => self.isis(&[17, 15, 16]),
            Word::Lsp => self.isis(&[18, 20]),
            Word::Snp => self.isis(&[27, 26, 24, 25]),
            Word::Csnp => self.isis(&[24, 25]),
            Word::Psnp => self.isis(&[26, 27]),
            _ => Err(format!("expected a qualifier such as 'host', 'src' or 'proto' after '{}'", word.name())),
        }
    }

    /// Compiles `proto N` for IPv4, IPv6 or both, or for another layer with protocol numbers.
    pub fn proto(&mut self, layer: Option<Word>, number: u32) -> Outcome {
        match layer {
            None => {
                let v4 = self.proto(Some(Word::Ip), number)?;
                let v6 = self.proto(Some(Word::Ip6), number)?;
                Ok(self.builder.or(v4, v6))
            }
            Some(Word::Link) => self.link_type(number),
            Some(Word::Ip) => {
                let ip = self.ip()?;
                Ok(self.all(&[self.byte(9).eq(number)], ip))
            }
            Some(Word::Ip6) => {
                // Tests the protocol directly after the fixed header, or after a Fragment header
                // that follows the fixed header directly.
                let ip6 = self.link_type(IP6)?;
                let next = self.builder.test(self.byte(6).eq(number));
                let fragment = self.builder.test(self.byte(6).eq(44));
                let behind = self.all(&[self.byte(40).eq(number)], fragment);
                let either = self.builder.or(next, behind);
                Ok(self.builder.and(ip6, either))
            }
            Some(Word::Iso) => {
                let iso = self.link_type(ISO)?;
                Ok(self.all(&[self.osi(0).eq(number)], iso))
            }
            Some(Word::Isis) => {
                let isis = self.proto(Some(Word::Iso), 0x83)?;
                Ok(self.all(&[self.osi(4).eq(number)], isis))
            }
            Some(other) => Err(format!("'{}' has no protocol numbers", other.name())),
        }
    }

    fn isis(&mut self, kinds: &[u32]) -> Outcome {
        let isis = self.proto(Some(Word::Iso), 0x83)?;
        let (Some(first), rest) = (kinds.first(), kinds.get(1..).unwrap_or(&[])) else { return Ok(isis) };
        let rest: Vec<Test> = rest.iter().map(|kind| self.osi(4).eq(*kind)).collect();
        let kinds = self.any(self.osi(4).eq(*first), &rest);
        Ok(self.builder.and(isis, kinds))
    }

    /// Returns a test of the byte at offset `at` after the 802.2 header, which has three bytes.
    fn osi(&self, at: u32) -> Test {
        Test::field(self.link.packet().saturating_add(3 + at), 1, 0xff)
    }

    // Addresses.

    /// Matches an IPv4 address in IPv4, ARP and RARP, or only in the protocol `layer`.
    pub fn host4(&mut self, layer: Option<Word>, dir: Dir, address: u32, mask: u32) -> Outcome {
        let (proto, src, dst) = match layer {
            None => {
                let mut code = self.host4(Some(Word::Ip), dir, address, mask)?;
                if self.link.labels == 0 {
                    for layer in [Word::Arp, Word::Rarp] {
                        let other = self.host4(Some(layer), dir, address, mask)?;
                        code = self.builder.or(code, other);
                    }
                }
                return Ok(code);
            }
            Some(Word::Ip) => (IP, 12, 16),
            Some(Word::Arp) => (ARP, 14, 24),
            Some(Word::Rarp) => (RARP, 14, 24),
            Some(other) => return Err(format!("'{}' has no IPv4 addresses", other.name())),
        };
        let link = self.link_type(proto)?;
        let hosts = self.directed(dir, |of, dir| {
            let test = of.packet(if dir == Dir::Src { src } else { dst }, 4, mask).eq(address);
            of.builder.test(test)
        });
        Ok(self.builder.and(link, hosts))
    }

    pub fn host6(&mut self, layer: Option<Word>, dir: Dir, address: u128, mask: u128) -> Outcome {
        if let Some(other) = layer.filter(|layer| *layer != Word::Ip6) {
            return Err(format!("'{}' has no IPv6 addresses", other.name()));
        }
        let link = self.link_type(IP6)?;
        let hosts = self.directed(dir, |of, dir| {
            let at = if dir == Dir::Src { 8 } else { 24 };
            let part = |whole: u128, nth: u32| (whole >> (96 - 32 * nth)) as u32;
            let [first, rest @ ..] =
                [0, 1, 2, 3].map(|nth| of.packet(at + 4 * nth, 4, part(mask, nth)).eq(part(address, nth)));
            let first = of.builder.test(first);
            of.all(&rest, first)
        });
        Ok(self.builder.and(link, hosts))
    }

    pub fn ether_host(&mut self, dir: Dir, mac: [u8; 6]) -> Outcome {
        self.on_ethernet("ether host")?;
        let [a, b, c, d, e, f] = mac;
        let (head, tail) = (u16::from_be_bytes([a, b]), u32::from_be_bytes([c, d, e, f]));
        Ok(self.directed(dir, |of, dir| {
            let at = of.link.header + if dir == Dir::Src { 6 } else { 0 };
            let first = of.builder.test(Test::field(at + 2, 4, u32::MAX).eq(tail));
            of.all(&[Test::field(at, 2, 0xffff).eq(head.into())], first)
        }))
    }

    pub fn broadcast(&mut self, layer: Option<Word>) -> Outcome {
        match layer {
            None | Some(Word::Link) => {
                self.on_ethernet("broadcast")?;
                self.ether_host(Dir::Dst, [0xff; 6])
            }
            Some(Word::Ip) => {
                // The netmask is unknown, because there is no interface (as when tcpdump reads a
                // file). Only addresses of all zeros and all ones are tested.
                let ip = self.ip()?;
                let dst = self.packet(16, 4, u32::MAX);
                let either = self.any(dst.eq(0), &[dst.eq(u32::MAX)]);
                Ok(self.builder.and(ip, either))
            }
            Some(other) => Err(format!("'{}' has no broadcast addresses", other.name())),
        }
    }

    pub fn multicast(&mut self, layer: Option<Word>) -> Outcome {
        match layer {
            None | Some(Word::Link) => {
                self.on_ethernet("multicast")?;
                Ok(self.builder.test(Test::field(self.link.header, 1, 0x01).eq(0x01)))
            }
            Some(Word::Ip) => {
                let ip = self.ip()?;
                Ok(self.all(&[self.byte(16).at_least(224)], ip))
            }
            Some(Word::Ip6) => {
                let ip6 = self.link_type(IP6)?;
                Ok(self.all(&[self.byte(24).eq(0xff)], ip6))
            }
            Some(other) => Err(format!("'{}' has no multicast addresses", other.name())),
        }
    }

    // L4 ports.

    /// Matches ports `low..=high` of one IP protocol, or of all protocols with ports. In IPv4,
    /// later fragments have no ports; in IPv6, only a transport header directly after the fixed
    /// header is checked.
    pub fn ports(&mut self, proto: Option<u8>, dir: Dir, low: u16, high: u16) -> Outcome {
        let (low, high) = (low.into(), high.into());
        let at = |dir: Dir| if dir == Dir::Src { 0 } else { 2 };
        let packet = self.link.packet();
        let carrier = |at: u32| match proto {
            Some(proto) => Test::field(packet + at, 1, 0xff).eq(proto.into()),
            None => Test::has_ports(packet + at),
        };
        let ip = self.ip()?;
        let first = self.all(&[carrier(9), self.packet(6, 2, 0x1fff).eq(0)], ip);
        let ports = self
            .directed(dir, |of, dir| of.builder.test(Test::transport(packet, at(dir), 2, 0xffff).between(low, high)));
        let v4 = self.builder.and(first, ports);
        let ip6 = self.link_type(IP6)?;
        let carried = self.all(&[carrier(6)], ip6);
        let ports = self
            .directed(dir, |of, dir| of.builder.test(Test::field(packet + 40 + at(dir), 2, 0xffff).between(low, high)));
        let v6 = self.builder.and(carried, ports);
        Ok(self.builder.or(v4, v6))
    }
}

/// Returns the number by which the link layer identifies a protocol: an EtherType, or an 802.2 SAP
/// if it is at most 1500.
fn carried(word: Word) -> Option<u32> {
    match word {
        Word::Ip
        | Word::Ip6
        | Word::Arp
        | Word::Rarp
        | Word::Atalk
        | Word::Aarp
        | Word::Decnet
        | Word::Lat
        | Word::Sca
        | Word::Moprc
        | Word::Mopdl
        | Word::Iso
        | Word::Ipx
        | Word::Netbeui
        | Word::Stp => names::ether_protocol(word.name()),
        _ => None,
    }
}
