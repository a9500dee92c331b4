//! Checksums computed from scratch.

use super::{Ip, Layout, Upper, addresses6, place, read};
use crate::checksum::{Partial, sum};
use crate::{Proto, ip4, udp};

/// Part of a frame that a checksum covers.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Covered {
    /// An IPv4 header, without payload.
    Ip4,
    /// TCP segment with pseudo header.
    Tcp,
    /// UDP datagram with pseudo header.
    Udp,
    /// ICMP message (RFC 792), without pseudo header.
    Icmp,
    /// IGMP message, without pseudo header.
    Igmp,
    /// ICMPv6 message with pseudo header.
    Icmp6,
}

/// A checksum of a frame.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Checksum {
    /// Part of the frame that it covers.
    pub of: Covered,
    /// Value found in the frame.
    pub found: u16,
    /// Value that would be correct.
    pub right: u16,
    at: usize,
    ip: Ip,
}

impl Checksum {
    /// Returns whether the checksum is correct. A UDP checksum of 0 is correct over IPv4, where it
    /// means "not computed" (RFC 768), but not over IPv6 (RFC 8200 8.1).
    pub fn verifies(&self) -> bool {
        match self.of {
            Covered::Udp if self.found == 0 => self.ip == Ip::V4,
            // 0xffff and 0 are both zero in one's complement.
            _ => self.found == self.right || self.found % 0xffff == self.right % 0xffff,
        }
    }

    /// Returns whether the field may be 0 with the meaning "not computed".
    pub fn may_be_none(&self) -> bool {
        self.of == Covered::Udp && self.ip == Ip::V4
    }

    /// Writes `field` at the position of this checksum.
    pub fn write(&self, frame: &mut [u8], field: u16) {
        if let Some(place) = place(frame, self.at) {
            *place = field.to_be_bytes();
        }
    }
}

/// Returns the sum of `bytes` except the two bytes at `at`, an even offset.
fn without(bytes: &[u8], at: usize) -> Option<Partial> {
    let (before, rest) = bytes.split_at_checked(at)?;
    Some(sum(before).add(sum(rest.get(2..)?)))
}

impl Layout {
    /// Returns the checksum of the frame's IPv4 header and the checksum of its upper layer. The
    /// upper-layer checksum is `None` if it cannot be computed: for a fragment, a truncated packet,
    /// or a Routing header with segments left.
    pub fn checksums(&self, frame: &[u8]) -> [Option<Checksum>; 2] {
        [self.header_checksum(frame), self.upper_checksum(frame)]
    }

    fn header_checksum(&self, frame: &[u8]) -> Option<Checksum> {
        const AT: usize = 10;
        let header = self.header4(frame)?;
        let bytes = frame.get(self.l3..self.l3 + header.ihl_len)?;
        let right = match bytes.first_chunk::<{ ip4::HEADER_LEN }>() {
            Some(plain) if bytes.len() == plain.len() => {
                let mut plain = *plain;
                [plain[AT], plain[AT + 1]] = [0, 0];
                crate::checksum::header20(&plain).finish()
            }
            _ => without(bytes, AT)?.finish(),
        };
        Some(Checksum { of: Covered::Ip4, found: header.checksum, right, at: self.l3 + AT, ip: self.ip })
    }

    fn upper_checksum(&self, frame: &[u8]) -> Option<Checksum> {
        let message = frame.get(self.l4..self.end).filter(|_| self.whole && !self.source_routed)?;
        let (of, proto) = match self.upper {
            Upper::None => return None,
            Upper::Tcp => (Covered::Tcp, Some(Proto::TCP)),
            Upper::Udp => (Covered::Udp, Some(Proto::UDP)),
            Upper::Icmp => (Covered::Icmp, None),
            Upper::Igmp => (Covered::Igmp, None),
            Upper::Icmp6 => (Covered::Icmp6, Some(Proto::IPV6_ICMP)),
        };
        // Bytes after the end of the UDP datagram within its IP packet are not covered.
        let message = match of {
            Covered::Udp => message.get(..usize::from(udp::Header::parse(message).ok()?.len))?,
            _ => message,
        };
        let pseudo = match (proto, self.ip) {
            (None, _) | (_, Ip::None) => Partial::ZERO,
            (Some(proto), Ip::V4) => {
                let header = self.header4(frame)?;
                Partial::pseudo4(header.src, header.dst, proto, message.len() as u16)
            }
            (Some(proto), Ip::V6) => {
                let (src, dst) = addresses6(frame, self.l3)?;
                Partial::pseudo6(src, dst, proto, message.len() as u32)
            }
        };
        let at = self.upper.checksum_at();
        let found = u16::from_be_bytes(read(message, at)?);
        let all = pseudo.add(without(message, at)?);
        let right = if of == Covered::Udp { all.finish_nonzero() } else { all.finish() };
        Some(Checksum { of, found, right, at: self.l4 + at, ip: self.ip })
    }
}
