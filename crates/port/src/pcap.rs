//! `pcap:FILE`: receives frames from a capture file, and writes sent frames to one. Also implements
//! the file formats for other crates.
//!
//! [`Reader`] reads pcap (micro- and nanoseconds, and the modified form with 8 more bytes a record)
//! and pcapng (draft-ietf-opsawg-pcapng), of either byte order, from any `Read`. [`Writer`] writes
//! pcap and pcapng, little-endian. An FCS that a file declares is stripped. Input files are
//! untrusted: no allocation depends on a length claimed by the file, errors are reported with their
//! byte offset, and blocks of unknown types are skipped.

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

/// Maximum size of a block or record in bytes. A larger one is an error, or skipped if it is not
/// needed.
pub const MAX_BLOCK: usize = 1 << 20;
/// Maximum number of interfaces in one section.
pub const MAX_INTERFACES: usize = 4096;
/// Maximum number of interfaces in a file.
pub const MAX_ALL_INTERFACES: usize = 65_536;
/// Maximum length of a captured packet (libpcap's MAXIMUM_SNAPLEN).
pub const MAX_SNAPLEN: u32 = 262_144;
/// Ethernet, in the registry of link types.
pub const LINKTYPE_ETHERNET: u16 = 1;

/// Format of a capture file.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Format {
    /// Classic pcap: one header, then records.
    Pcap,
    /// pcapng: blocks of sections, interfaces and packets.
    Pcapng,
}

impl Format {
    /// Returns the format for a file name: `.pcap` or `.cap` is pcap, all else pcapng.
    pub fn of_name(name: &str) -> Format {
        if name.ends_with(".pcap") || name.ends_with(".cap") { Format::Pcap } else { Format::Pcapng }
    }
}

/// Direction in which a packet passed.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Direction {
    /// The file does not specify it.
    #[default]
    Unknown,
    /// Received packet.
    Inbound,
    /// Sent packet.
    Outbound,
}

/// One packet of a capture file.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Record<'a> {
    /// Nanoseconds since 1970. A Simple Packet Block has no time and uses that of the packet
    /// before.
    pub ts_ns: u64,
    /// Length of the packet on the wire, in bytes.
    pub orig_len: u32,
    /// Captured bytes of the packet.
    pub data: &'a [u8],
    /// Link type, from the registry of link types: [`LINKTYPE_ETHERNET`].
    pub linktype: u16,
    /// Index of the interface in [`Section::interfaces`].
    pub interface: u32,
    /// Direction of the packet.
    pub direction: Direction,
    /// Options of a pcapng block, direction included, little-endian and without the end-of-list
    /// option. Empty in other files; then the writer writes the direction.
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
    /// Link type of its packets.
    pub linktype: u16,
    /// Maximum number of bytes captured of each packet; 0: no limit.
    pub snaplen: u32,
    /// if_tsresol: a negative power of ten, or of two with the top bit set.
    resolution: u8,
    /// if_tsoffset: seconds to add.
    offset_s: i64,
    /// Bytes of FCS at the end of each packet.
    fcs_len: u32,
    /// Its other options, little-endian, without the end-of-list option.
    options: Vec<u8>,
}

impl Interface {
    /// Creates an Ethernet interface with timestamps in nanoseconds. An empty `name` is omitted.
    pub fn ethernet(name: &str, snaplen: u32) -> Interface {
        let name: String = name.chars().take(255).collect();
        let mut options = Vec::new();
        if !name.is_empty() {
            writer::option(&mut options, 2, name.as_bytes()); // if_name
        }
        Interface { linktype: LINKTYPE_ETHERNET, snaplen, resolution: 9, offset_s: 0, fcs_len: 0, options }
    }
}

/// Description of the packets' origin in a file: its interfaces and, in pcapng, the capturing
/// machine.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Section {
    /// Format of the file.
    pub format: Format,
    /// All interfaces described so far, of all sections; a pcap file has one.
    pub interfaces: Vec<Interface>,
    /// Options of the first section header, little-endian, without the end-of-list option.
    options: Vec<u8>,
}

impl Section {
    /// Creates a section without a description.
    pub fn new(format: Format) -> Section {
        Section { format, interfaces: Vec::new(), options: Vec::new() }
    }
}

/// Converts instants of the clock to timestamps.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Stamps {
    /// The clock's own nanoseconds.
    Clock,
    /// Wall-clock time: the offset to add, once known.
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
