//! The part of a line that describes the transport layer: ports, then the TCP or UDP fields.

use crate::checksum::{self, Partial};
use crate::tcp::{self, Flags, Opt};
use crate::{L4Port, Malformed, Proto, udp, vxlan};
use core::fmt::{Formatter, Result};
use core::net::IpAddr;

/// Offset of a TCP header's checksum (RFC 9293 3.1).
const CHECKSUM_AT: usize = 16;

/// Addresses, if not printed yet, and the length of the payload according to the IP header.
#[derive(Clone, Copy)]
pub(super) struct Ends {
    pub addresses: Option<(IpAddr, IpAddr)>,
    pub len: usize,
    /// Addresses of the pseudo header, if checksums can be verified; `None` for fragments.
    pub verify: Option<(IpAddr, IpAddr)>,
    pub verbose: u8,
}

/// A checksum field and the value it should have.
pub(super) struct Checksum {
    pub found: u16,
    pub expected: u16,
}

impl Checksum {
    /// Computes the checksum of `bytes`, whose checksum field is at `at`. `before` is added to the
    /// sum; it is, for example, the sum of a pseudo header.
    pub(super) fn of(before: Partial, bytes: &[u8], at: usize) -> Option<Checksum> {
        let found = u16::from_be_bytes(*bytes.get(at..)?.first_chunk()?);
        let whole = before.add(checksum::sum(bytes));
        // Adding the complement of the field removes it from the sum. If the sum verifies, the
        // value found is also the expected one, so that both forms of zero are correct.
        let expected = if whole.verifies() { found } else { whole.add_u16(!found).finish() };
        Some(Checksum { found, expected })
    }

    pub(super) fn is_right(&self) -> bool {
        self.found == self.expected
    }
}

impl Ends {
    pub(super) fn without_ports(&self, f: &mut Formatter<'_>) -> Result {
        self.addresses.map_or(Ok(()), |(src, dst)| write!(f, "{src} > {dst}: "))
    }

    /// Returns the checksum of a whole `message` of `proto` with its pseudo header, if `verify`
    /// contains the addresses.
    pub(super) fn checksum(&self, proto: Proto, message: &[u8], at: usize) -> Option<Checksum> {
        let message = message.get(..self.len)?;
        let before = match self.verify? {
            (IpAddr::V4(src), IpAddr::V4(dst)) => Partial::pseudo4(src, dst, proto, u16::try_from(self.len).ok()?),
            (IpAddr::V6(src), IpAddr::V6(dst)) => Partial::pseudo6(src, dst, proto, u32::try_from(self.len).ok()?),
            _ => return None,
        };
        Checksum::of(before, message, at)
    }

    fn with_ports(&self, f: &mut Formatter<'_>, from: L4Port, to: L4Port) -> Result {
        match self.addresses {
            Some((src, dst)) => write!(f, "{src}.{from} > {dst}.{to}: "),
            None => write!(f, "{from} > {to}: "),
        }
    }
}

pub(super) fn udp(f: &mut Formatter<'_>, ends: Ends, datagram: &[u8]) -> Result {
    let len = ends.len;
    let Some(&[s0, s1, d0, d1, l0, l1, c0, c1]) = datagram.first_chunk::<{ udp::HEADER_LEN }>() else {
        return ends.without_ports(f).and_then(|()| f.write_str("[|udp]"));
    };
    ends.with_ports(f, L4Port(u16::from_be_bytes([s0, s1])), L4Port(u16::from_be_bytes([d0, d1])))?;
    if L4Port(u16::from_be_bytes([d0, d1])) == vxlan::PORT {
        return vxlan(f, datagram.get(udp::HEADER_LEN..).unwrap_or_default());
    }
    let level = if matches!(ends.verify, Some((IpAddr::V6(_), _))) { 1 } else { 2 };
    match ends.checksum(Proto::UDP, datagram, udp::HEADER_LEN - 2).filter(|_| ends.verbose >= level) {
        Some(_) if [c0, c1] == [0, 0] => f.write_str("[no cksum] ")?,
        Some(sum) if sum.is_right() => f.write_str("[udp sum ok] ")?,
        Some(sum) => write!(f, "[bad udp cksum {:#06x} -> {:#06x}!] ", sum.found, sum.expected)?,
        None => {}
    }
    f.write_str("UDP, ")?;
    let claimed = usize::from(u16::from_be_bytes([l0, l1]));
    let Some(payload_len) = claimed.checked_sub(udp::HEADER_LEN) else {
        return write!(f, "truncated-udplength {claimed}");
    };
    if claimed > len {
        return write!(f, "bad length {payload_len} > {}", len.saturating_sub(udp::HEADER_LEN));
    }
    write!(f, "length {payload_len}")
}

/// Prints the VXLAN header as tcpdump does; the inner frame is not dissected.
fn vxlan(f: &mut Formatter<'_>, payload: &[u8]) -> Result {
    match vxlan::Header::parse(payload) {
        Ok(header) => write!(f, "VXLAN, flags [I] ({:#04x}), vni {}", payload.first().unwrap_or(&0), header.vni),
        Err(Malformed::Truncated { .. }) => f.write_str("[|vxlan]"),
        Err(why) => write!(f, "[{why}]"),
    }
}

pub(super) fn tcp(f: &mut Formatter<'_>, ends: Ends, segment: &[u8]) -> Result {
    let len = ends.len;
    let header = match tcp::Header::parse(segment) {
        Ok(header) => header,
        Err(why) => {
            ends.without_ports(f)?;
            return match why {
                Malformed::Truncated { .. } => f.write_str("[|tcp]"),
                why => write!(f, "[{why}]"),
            };
        }
    };
    let text_len = len.saturating_sub(header.header_len);
    ends.with_ports(f, header.src, header.dst)?;
    write!(f, "Flags [{}]", header.flags)?;
    match ends.checksum(Proto::TCP, segment, CHECKSUM_AT) {
        Some(sum) if sum.is_right() => write!(f, ", cksum {:#06x} (correct)", sum.found)?,
        Some(sum) => write!(f, ", cksum {:#06x} (incorrect -> {:#06x})", sum.found, sum.expected)?,
        None => {}
    }
    if text_len > 0 {
        write!(f, ", seq {}:{}", header.seq, header.seq.wrapping_add(text_len as u32))?;
    } else if header.flags.intersects(Flags::SYN | Flags::FIN | Flags::RST) {
        write!(f, ", seq {}", header.seq)?;
    }
    if header.flags.contains(Flags::ACK) {
        write!(f, ", ack {}", header.ack)?;
    }
    write!(f, ", win {}", header.window)?;
    if header.flags.contains(Flags::URG) {
        write!(f, ", urg {}", header.urgent)?;
    }
    options(f, header.options(segment))?;
    write!(f, ", length {text_len}")
}

fn options(f: &mut Formatter<'_>, options: tcp::Options<'_>) -> Result {
    let mut before = ", options [";
    for option in options {
        f.write_str(before)?;
        before = ",";
        match option {
            Ok(Opt::End) => f.write_str("eol")?,
            Ok(Opt::Nop) => f.write_str("nop")?,
            Ok(Opt::Mss(mss)) => write!(f, "mss {mss}")?,
            Ok(Opt::WindowScale(shift)) => write!(f, "wscale {shift}")?,
            Ok(Opt::SackPermitted) => f.write_str("sackOK")?,
            Ok(Opt::Sack(blocks)) => {
                write!(f, "sack {} ", blocks.iter().len())?;
                blocks.iter().try_for_each(|(left, right)| write!(f, "{{{left}:{right}}}"))?;
            }
            Ok(Opt::Timestamps { val, ecr }) => write!(f, "TS val {val} ecr {ecr}")?,
            Ok(Opt::Unknown { kind, data }) => {
                write!(f, "unknown-{kind}")?;
                if !data.is_empty() {
                    f.write_str(" 0x")?;
                }
                data.iter().try_for_each(|byte| write!(f, "{byte:02x}"))?;
            }
            Err(Malformed::BadOptionLen { kind, len, .. }) => write!(f, "bad-{kind} length {len}")?,
            Err(_) => f.write_str("bad")?,
        }
    }
    if before == "," { f.write_str("]") } else { Ok(()) }
}
