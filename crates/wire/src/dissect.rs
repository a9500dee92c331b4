//! A frame as one line of text, in the style of `tcpdump -e -n -S`.
//!
//! [`line()`] borrows a frame and returns a displayable value. The frame is parsed only when the
//! value is printed. Printing succeeds for any bytes. If bytes are missing, the line ends with
//! tcpdump's truncation marker (`[|ip]`). Malformed fields are reported in brackets. Sequence
//! numbers are absolute, because each line is independent of all others. The protocol of a payload
//! is not guessed from its ports, except for VXLAN.

use crate::eth::{self, EtherType};
use crate::{arp, bpdu, vlan};
use core::fmt::{Display, Formatter, Result};

mod ip;
#[cfg(test)]
mod tests;
mod transport;

/// Maximum number of VLAN tags parsed. It keeps the line short for a frame that consists of nothing
/// but tags.
const MAX_TAGS: usize = 4;

/// Optional parts of a frame's line.
#[derive(Clone, Copy, Default, Debug)]
pub struct Shown {
    /// True to print the link header (`tcpdump -e`). It is always printed for a frame of an unknown
    /// EtherType.
    pub link: bool,
    /// Level of detail. From 1 (`tcpdump -v`): the fields of the IP header in parentheses; for IPv4
    /// the addresses follow on a line of their own. Checksums of IPv4, ICMP, TCP, and UDP over IPv6
    /// are verified if the capture has the whole packet. From 2 (`-vv`): checksums of UDP over IPv4
    /// too.
    pub verbose: u8,
}

/// Returns one line that describes a frame, without a time and without a newline.
pub fn line(frame: &[u8]) -> impl Display + '_ {
    line_of(frame, frame.len(), Shown { link: true, verbose: 0 })
}

/// Returns one line, as tcpdump prints it, about a frame of `len` bytes whose first bytes `kept`
/// were captured.
pub fn line_of(kept: &[u8], len: usize, shown: Shown) -> impl Display + '_ {
    Line { frame: kept, len: len.max(kept.len()), shown }
}

/// Returns the same line as [`line_of`], with none of the optional parts of [`Shown`].
pub fn brief(kept: &[u8], len: usize) -> impl Display + '_ {
    line_of(kept, len, Shown::default())
}

/// Returns one line about an IPv4 or IPv6 packet without a link header; the first nibble is the
/// version.
pub fn packet_line(packet: &[u8]) -> impl Display + '_ {
    Packet(packet)
}

struct Line<'a> {
    frame: &'a [u8],
    len: usize,
    shown: Shown,
}

impl Line<'_> {
    /// Returns the number of bytes of the frame that the capture did not keep.
    fn cut(&self) -> usize {
        self.len - self.frame.len()
    }

    fn packet(&self, f: &mut Formatter<'_>, ethertype: EtherType, payload: &[u8]) -> Result {
        match ethertype {
            EtherType::IPV4 => {
                if self.shown.verbose > 0 {
                    ip::fields4(f, payload)?;
                }
                ip::ip4(f, payload, self.cut(), self.shown.verbose)
            }
            EtherType::IPV6 => {
                if self.shown.verbose > 0 {
                    ip::fields6(f, payload)?;
                }
                ip::ip6(f, payload, self.shown.verbose)
            }
            EtherType::ARP => arp(f, payload, self.cut()),
            _ => write!(f, "payload length {}", payload.len() + self.cut()),
        }
    }
}

impl Display for Line<'_> {
    fn fmt(&self, f: &mut Formatter<'_>) -> Result {
        let Ok(header) = eth::Header::parse(self.frame) else {
            return f.write_str("[|ether]");
        };
        let mut payload = self.frame.get(eth::HEADER_LEN..).unwrap_or_default();
        let mut ethertype = header.ethertype;
        let name = match ethertype {
            EtherType::IPV4 => Some("IP "),
            EtherType::IPV6 => Some("IP6 "),
            EtherType::ARP => Some("ARP, "),
            _ => None,
        };
        if let Some(name) = name.filter(|_| !self.shown.link) {
            f.write_str(name)?;
            return self.packet(f, ethertype, payload);
        }
        write!(f, "{} > {}, ", header.src, header.dst)?;
        if ethertype.is_length() {
            write!(f, "802.3, length {}", ethertype.0)?;
            return llc(f, payload.get(..usize::from(ethertype.0)).unwrap_or(payload));
        }
        write!(f, "ethertype {ethertype}, length {}: ", self.len)?;
        for _ in 0..MAX_TAGS {
            if !ethertype.is_tag() {
                break;
            }
            let Ok(tag) = vlan::Tag::parse(payload) else {
                return f.write_str("[|vlan]");
            };
            let dei = if tag.dei { "DEI, " } else { "" };
            write!(f, "vlan {}, p {}, {dei}", tag.vid, tag.pcp)?;
            if tag.ethertype.is_length() {
                return write!(f, "802.3, length {}", tag.ethertype.0);
            }
            write!(f, "ethertype {}, ", tag.ethertype)?;
            ethertype = tag.ethertype;
            payload = payload.get(vlan::TAG_LEN..).unwrap_or_default();
        }
        self.packet(f, ethertype, payload)
    }
}

struct Packet<'a>(&'a [u8]);

impl Display for Packet<'_> {
    fn fmt(&self, f: &mut Formatter<'_>) -> Result {
        match self.0.first().map(|byte| byte >> 4) {
            Some(4) => f.write_str("IP ").and_then(|()| ip::ip4(f, self.0, 0, 0)),
            Some(6) => f.write_str("IP6 ").and_then(|()| ip::ip6(f, self.0, 0)),
            Some(version) => write!(f, "[bad IP version {version}]"),
            None => f.write_str("[|ip]"),
        }
    }
}

/// Prints the LLC payload after an 802.3 length: BPDUs only, nothing for other protocols.
fn llc(f: &mut Formatter<'_>, payload: &[u8]) -> Result {
    let Some((&bpdu::LLC, rest)) = payload.split_first_chunk() else { return Ok(()) };
    f.write_str(": LLC, dsap STP (0x42) Individual, ssap STP (0x42) Command, ctrl 0x03: STP ")?;
    let (bpdu, kind) = match bpdu::Bpdu::parse(rest) {
        Ok(bpdu::Bpdu::Tcn) => return f.write_str("802.1d, Topology Change"),
        Ok(bpdu::Bpdu::Config(bpdu)) => (bpdu, "802.1d, Config"),
        Ok(bpdu::Bpdu::Rst(bpdu)) => (bpdu, "802.1w, Rapid STP"),
        Err(crate::Malformed::Truncated { .. }) => return f.write_str("[|stp]"),
        Err(why) => return write!(f, "[{why}]"),
    };
    write!(f, "{kind}, Flags [")?;
    for (nth, name) in bpdu.flags.names().enumerate() {
        write!(f, "{}{name}", if nth == 0 { "" } else { ", " })?;
    }
    f.write_str(if bpdu.flags.names().next().is_none() { "none], " } else { "], " })?;
    write!(f, "bridge-id {}.{}, length {}", bpdu.bridge, bpdu.port, rest.len())
}

fn arp(f: &mut Formatter<'_>, payload: &[u8], cut: usize) -> Result {
    use crate::Malformed;
    match arp::Packet::parse(payload) {
        Ok(packet) => match packet.op {
            arp::Op::Request => {
                write!(f, "Request who-has {}", packet.tpa)?;
                if packet.tha != eth::Mac::ZERO {
                    write!(f, " ({})", packet.tha)?;
                }
                write!(f, " tell {}", packet.spa)?;
            }
            arp::Op::Reply => write!(f, "Reply {} is-at {}", packet.spa, packet.sha)?,
        },
        Err(Malformed::Truncated { .. }) => return f.write_str("[|arp]"),
        Err(why) => return write!(f, "[{why}]"),
    }
    write!(f, ", length {}", payload.len() + cut)
}
