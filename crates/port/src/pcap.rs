//! `pcap:FILE`: receives frames from a capture file, and writes sent frames to another. Also
//! implements the file formats for other crates.
//!
//! [`Reader`] reads pcap (with timestamps in micro- or nanoseconds, and the modified form with 8
//! more bytes per record) and pcapng (draft-ietf-opsawg-pcapng), in either byte order, from any
//! `Read`. [`Writer`] writes pcap and pcapng in little-endian byte order. If a file declares that
//! packets end with an FCS, the reader removes it. Input files are untrusted: no allocation depends
//! on a length claimed by the file, errors are reported with their byte offset, and blocks of
//! unknown types are skipped.

mod error;
mod ng;
pub mod notes;
mod port;
mod reader;
mod writer;

pub use error::{Fault, PcapError};
pub(crate) use port::create_output;
pub use port::{PcapConfig, PcapFileError, open};
pub use reader::Reader;
pub use writer::{Writer, append_interface, append_record, written};

use crate::os;
use clock::Instant;

/// Maximum size of a block or record in bytes. A longer block is skipped if the reader does not
/// need it; otherwise it is an error.
pub const MAX_BLOCK: usize = 1 << 20;
/// Maximum number of interfaces in one section.
pub const MAX_INTERFACES: usize = 4096;
/// Maximum number of interfaces in a file.
pub const MAX_ALL_INTERFACES: usize = 65_536;
/// Maximum length of a captured packet in bytes (libpcap's MAXIMUM_SNAPLEN).
pub const MAX_SNAPLEN: u32 = 262_144;
/// Number of Ethernet in the registry of link types (LINKTYPE_ETHERNET).
pub const LINKTYPE_ETHERNET: u16 = 1;

/// Format of a capture file.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Format {
    /// Classic pcap: one header, then records.
    Pcap,
    /// pcapng: a sequence of blocks that describe sections, interfaces and packets.
    Pcapng,
}

impl Format {
    /// Returns the format for a file name: pcap for `.pcap` and `.cap`, otherwise pcapng.
    pub fn of_name(name: &str) -> Format {
        if name.ends_with(".pcap") || name.ends_with(".cap") { Format::Pcap } else { Format::Pcapng }
    }
}

/// Direction of a packet at the capturing interface.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Direction {
    /// The file does not specify the direction.
    #[default]
    Unknown,
    /// The packet was received.
    Inbound,
    /// The packet was sent.
    Outbound,
}

/// One packet of a capture file.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Record<'a> {
    /// Capture time in nanoseconds since 1970. A Simple Packet Block has no time, so it gets the
    /// time of the preceding packet.
    pub ts_ns: u64,
    /// Length of the packet on the wire, in bytes.
    pub orig_len: u32,
    /// Captured bytes of the packet.
    pub data: &'a [u8],
    /// Number of the link type in the registry of link types, such as [`LINKTYPE_ETHERNET`].
    pub linktype: u16,
    /// Index of the packet's interface in [`Section::interfaces`].
    pub interface: u32,
    /// Direction of the packet.
    pub direction: Direction,
    /// Options of a pcapng block, including the direction, in little-endian byte order and without
    /// the end-of-list option. Empty for records of other files; the writer then adds the direction
    /// itself.
    pub options: &'a [u8],
}

impl Default for Record<'_> {
    fn default() -> Self {
        let (direction, linktype) = (Direction::Unknown, LINKTYPE_ETHERNET);
        Record { ts_ns: 0, orig_len: 0, data: &[], linktype, interface: 0, direction, options: &[] }
    }
}

/// Description of an interface on which packets were captured.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Interface {
    /// Link type of the packets captured on the interface.
    pub linktype: u16,
    /// Maximum number of bytes captured of each packet; 0 if there is no limit.
    pub snaplen: u32,
    /// Resolution of timestamps in seconds (if_tsresol): a negative power of ten, or of two if the
    /// top bit is set.
    resolution: u8,
    /// Seconds to add to timestamps (if_tsoffset).
    offset_s: i64,
    /// Number of bytes of FCS at the end of each packet.
    fcs_len: u32,
    /// Other options of the interface, in little-endian byte order and without the end-of-list
    /// option.
    options: Vec<u8>,
}

impl Interface {
    /// Creates an Ethernet interface with timestamps in nanoseconds. If `name` is empty, it is
    /// omitted.
    pub fn ethernet(name: &str, snaplen: u32) -> Interface {
        let name: String = name.chars().take(255).collect();
        let mut options = Vec::new();
        if !name.is_empty() {
            writer::option(&mut options, 2, name.as_bytes()); // if_name
        }
        Interface { linktype: LINKTYPE_ETHERNET, snaplen, resolution: 9, offset_s: 0, fcs_len: 0, options }
    }
}

/// Description of the origin of the packets in a file: its interfaces and, in pcapng, the capturing
/// machine.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Section {
    /// Format of the file.
    pub format: Format,
    /// All interfaces described so far, in all sections of the file. A pcap file has exactly one.
    pub interfaces: Vec<Interface>,
    /// Options of the first section header, in little-endian byte order and without the end-of-list
    /// option.
    options: Vec<u8>,
}

impl Section {
    /// Creates a description without interfaces and options.
    pub fn new(format: Format) -> Section {
        Section { format, interfaces: Vec::new(), options: Vec::new() }
    }
}

/// Conversion of instants of the program's clock to the timestamps in a file.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Stamps {
    /// Nanoseconds of the program's clock.
    Clock,
    /// Wall-clock time: the nanoseconds to add to the program's clock; `None` until they are
    /// determined.
    Wall(Option<u64>),
}

impl Stamps {
    pub(crate) fn at(&mut self, now: Instant) -> u64 {
        match self {
            Stamps::Clock => now.nanos(),
            Stamps::Wall(by) => {
                let by = *by.get_or_insert_with(|| os::calendar_ns().saturating_sub(now.nanos()));
                now.nanos().saturating_add(by)
            }
        }
    }
}

#[cfg(test)]
mod tests;
