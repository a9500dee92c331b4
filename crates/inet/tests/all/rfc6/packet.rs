//! IPv6 packets, built and parsed by hand.

use super::{FRAGMENT, ICMP6, UDP, group_mac};
use crate::common::{FAR, ME, ME2, PEER};
use std::net::Ipv6Addr;
use wire::Mac;

// ---- built packets ------------------------------------------------------------------------------------------------------

/// Builder of a packet.
#[derive(Clone, Debug)]
pub struct P6 {
    pub class: u8,
    pub flow: u32,
    /// Payload length in the header; `None` for the correct length.
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

    /// Returns the packet with another destination. Its checksum is not recomputed.
    pub fn to(mut self, dst: Ipv6Addr) -> P6 {
        self.dst = dst;
        self
    }

    /// Puts an extension header in front of the payload. `rest` contains all its bytes but the
    /// first, the Next Header value.
    pub fn behind(mut self, proto: u8, rest: &[u8]) -> P6 {
        let mut body = vec![self.next];
        body.extend(rest);
        assert_eq!(body.len() % 8, 0, "RFC 8200 4");
        body.append(&mut self.body);
        (self.next, self.body) = (proto, body);
        self
    }

    /// Puts a header with options in front of the payload, padded with PadN.
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

    /// Returns bytes `off..off+len` of the payload as a fragment.
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

    /// Returns the frame as PEER sends it: to the host under test, or to the group.
    pub fn by_peer(&self) -> Vec<u8> {
        let dst = if self.dst.is_multicast() { group_mac(self.dst) } else { ME.mac };
        self.frame(PEER.mac, dst)
    }

    /// Returns the frame as FAR sends it on the second link.
    pub fn by_far(&self) -> Vec<u8> {
        let dst = if self.dst.is_multicast() { group_mac(self.dst) } else { ME2.mac };
        self.frame(FAR.mac, dst)
    }
}

/// Returns the RFC 1071 sum over the pseudo header (RFC 8200 8.1) and `message`. It is 0xffff if
/// the checksum is valid.
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

/// Returns an ICMPv6 error that quotes `quoted`.
pub fn error6(src: Ipv6Addr, dst: Ipv6Addr, ty: u8, code: u8, word: u32, quoted: &[u8]) -> P6 {
    icmp6(src, dst, ty, code, &[&word.to_be_bytes(), quoted].concat())
}

/// Returns the option with a link-layer address: kind 1 for the source's, 2 for the target's (RFC
/// 4861 4.6.1).
pub fn link_option(kind: u8, mac: Mac) -> Vec<u8> {
    [&[kind, 1], &mac.0[..]].concat()
}

/// Returns a neighbor solicitation for `target` (RFC 4861 4.3), sent to its group or to the target
/// itself.
pub fn ns(src: Ipv6Addr, dst: Ipv6Addr, target: Ipv6Addr, options: &[u8]) -> P6 {
    icmp6(src, dst, 135, 0, &[&[0; 4], &target.octets()[..], options].concat()).hop(255)
}

/// Returns a neighbor advertisement (RFC 4861 4.4) with the flags `R`, `S`, `O`.
pub fn na(src: Ipv6Addr, dst: Ipv6Addr, target: Ipv6Addr, flags: &str, options: &[u8]) -> P6 {
    let bit = |letter, bit: u8| if flags.contains(letter) { bit } else { 0 };
    let flags = bit('R', 0x80) | bit('S', 0x40) | bit('O', 0x20);
    icmp6(src, dst, 136, 0, &[&[flags, 0, 0, 0], &target.octets()[..], options].concat()).hop(255)
}

// ---- parsed packets -----------------------------------------------------------------------------------------------------

/// A sent packet, parsed.
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
    /// Parses a packet that was sent to `to`, and checks what must hold for all packets on a wire.
    #[track_caller]
    pub fn of(to: Mac, packet: &[u8]) -> Got {
        let address = |at: usize| Ipv6Addr::from(<[u8; 16]>::try_from(&packet[at..at + 16]).unwrap());
        assert!(packet.len() >= 40 && packet[0] >> 4 == 6, "{packet:02x?}");
        let len = usize::from(u16::from_be_bytes([packet[4], packet[5]]));
        // The padding of a short frame is zero (Etherleak, CVE-2003-0001).
        assert!(packet.len() >= 40 + len && packet[40 + len..].iter().all(|byte| *byte == 0), "{packet:02x?}");
        let (src, dst) = (address(8), address(24));
        assert!(
            !src.is_multicast() && !src.is_loopback() && !dst.is_loopback() && !dst.is_unspecified(),
            "{src} > {dst}"
        );
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

    /// Returns the second word of an ICMPv6 message: a pointer, an MTU, or flags.
    pub fn word(&self) -> u32 {
        u32::from_be_bytes(self.body[4..8].try_into().unwrap())
    }

    /// Returns the packet that an error quotes.
    pub fn quoted(&self) -> &[u8] {
        &self.body[8..]
    }

    /// Returns the target of a solicitation or an advertisement.
    pub fn target(&self) -> Ipv6Addr {
        Ipv6Addr::from(<[u8; 16]>::try_from(&self.body[8..24]).unwrap())
    }
}
