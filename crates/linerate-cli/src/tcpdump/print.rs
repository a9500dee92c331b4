//! Frames as lines of text, as tcpdump prints them.

use crate::args::TcpdumpArgs;
use crate::local_time;
use node::capture::Fate;
use port::pcap::Direction;
use std::borrow::Cow;
use std::fmt::Write;
use wire::dissect;
use wire::eth;
use wire::link::LinkType;

/// Frame to print.
pub struct Capture<'a> {
    /// Time of capture in nanoseconds since 1970.
    pub ts_ns: u64,
    /// Iface at which the frame was captured; empty for a packet of a file.
    pub iface: &'a str,
    /// Received, sent or dropped; `None` for a packet of a file.
    pub fate: Option<Fate>,
    /// Captured bytes, from the Ethernet header on.
    pub data: &'a [u8],
    /// Original length of the frame in bytes.
    pub len: usize,
}

/// Parts of a frame that are printed.
#[derive(Clone, Copy)]
pub struct Lines {
    time: bool,
    iface: bool,
    shown: dissect::Shown,
    /// Hexadecimal dump that follows the line: from the link header (-xx, -XX) or from the network
    /// header.
    bytes: Option<Bytes>,
}

#[derive(Clone, Copy)]
struct Bytes {
    from_link: bool,
    ascii: bool,
}

impl Lines {
    /// Returns the parts that the flags select to be printed.
    pub fn of(args: &TcpdumpArgs) -> Lines {
        let bytes = match (args.hex, args.ascii) {
            (0, 0) => None,
            (hex, ascii) => Some(Bytes { from_link: hex.max(ascii) > 1, ascii: ascii > 0 }),
        };
        let iface = args.read.is_none() && (args.iface == "any" || args.dropped);
        let shown = dissect::Shown { link: args.link, verbose: args.verbose };
        Lines { time: !args.no_time, iface, shown, bytes }
    }

    /// Returns the line of one frame, followed by the lines of its hexadecimal dump if requested.
    pub fn line(self, frame: &Capture<'_>) -> String {
        let mut out = if self.time { clock_time(frame.ts_ns) + " " } else { String::new() };
        if self.iface {
            let way = match frame.fate {
                Some(Fate::Passed(Direction::Outbound)) => "Out",
                Some(Fate::Passed(_)) => "In",
                Some(Fate::Dropped(_)) => "Drop",
                None => "",
            };
            out += &format!("{:<6} {way:<3} ", frame.iface);
        }
        out += &dissect::line_of(frame.data, frame.len, self.shown).to_string();
        if let Some(Fate::Dropped(why)) = frame.fate {
            out += &format!(" [{}]", why.name());
        }
        out.push('\n');
        if let Some(Bytes { from_link, ascii }) = self.bytes {
            let skip = if from_link { 0 } else { eth::HEADER_LEN };
            dump(frame.data.get(skip..).unwrap_or_default(), ascii, &mut out);
        }
        out
    }
}

/// Appends a hexadecimal dump of `bytes` to `out`, 16 bytes per line: the offset, the digits in
/// groups of two bytes and, with `ascii`, the characters.
fn dump(bytes: &[u8], ascii: bool, out: &mut String) {
    for (at, line) in bytes.chunks(16).enumerate() {
        let pairs: Vec<String> =
            line.chunks(2).map(|pair| pair.iter().map(|byte| format!("{byte:02x}")).collect()).collect();
        // Writing to a String cannot fail.
        let _ = write!(out, "\t0x{:04x}:  {}", 16 * at, pairs.join(" "));
        if ascii {
            let shown = |byte: &u8| if byte.is_ascii_graphic() { char::from(*byte) } else { '.' };
            let pad = 39 - pairs.join(" ").len();
            let _ = write!(out, "{:pad$}  {}", "", line.iter().map(shown).collect::<String>());
        }
        out.push('\n');
    }
}

/// Returns the packet as an Ethernet frame. A link header of another type is replaced by an
/// equivalent Ethernet header. Returns `None` if the link type is not supported, or the packet is
/// shorter than its header.
pub fn as_ethernet(linktype: u16, packet: &[u8]) -> Option<Cow<'_, [u8]>> {
    let kind = LinkType::of(linktype)?;
    if kind == LinkType::Ethernet {
        return Some(packet.into());
    }
    let header = kind.ethernet_header(packet)?;
    let payload = packet.get(kind.header_len()..)?;
    let mut out = Vec::with_capacity(eth::HEADER_LEN + payload.len());
    out.extend(header.dst.0);
    out.extend(header.src.0);
    out.extend(header.ethertype.0.to_be_bytes());
    out.extend(payload);
    Some(out.into())
}

/// Formats local time as `06:04:01.123456`.
fn clock_time(ns: u64) -> String {
    local_time::format("%H:%M:%S.%6f", &local_time::local(ns))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_of_the_day() {
        let seconds = |ns: u64| clock_time(ns).split_once(':').unwrap().1.to_string();
        // Time zones differ by quarters of an hour, so only the seconds are compared.
        assert_eq!(seconds(0).split_once(':').unwrap().1, "00.000000");
        assert_eq!(seconds(86_399_999_999_999).split_once(':').unwrap().1, "59.999999");
        assert_eq!(seconds(1_795_240_241_123_456_789).split_once(':').unwrap().1, "41.123456");
    }

    /// tcpdump 4.99's columns: the characters of a short line begin where those of a full line do.
    #[test]
    fn bytes_are_lines_of_sixteen() {
        let mut out = String::new();
        dump(b"0123456789abcdef\x00Z", true, &mut out);
        let (first, second) = (
            "\t0x0000:  3031 3233 3435 3637 3839 6162 6364 6566  0123456789abcdef\n",
            "\t0x0010:  005a                                     .Z\n",
        );
        assert_eq!(out, [first, second].concat());
        out.clear();
        dump(&[1, 2, 3], false, &mut out);
        assert_eq!(out, "\t0x0000:  0102 03\n");
    }

    #[test]
    fn other_links_become_ethernet() {
        let raw = [0x45, 0, 0, 20];
        let frame = as_ethernet(101, &raw).unwrap();
        assert_eq!(frame[12..], [8, 0, 0x45, 0, 0, 20]);
        assert_eq!(as_ethernet(1, &raw).as_deref(), Some(&raw[..]));
        assert_eq!((as_ethernet(147, &raw), as_ethernet(113, &raw)), (None, None));
    }
}
