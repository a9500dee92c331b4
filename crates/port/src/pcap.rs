//! `pcap:FILE`: frames out of a capture file, and into one. Also the formats themselves, for whoever needs them.
//!
//! [`Reader`] reads pcap (micro- and nanoseconds, and the modified form with 8 more bytes a record) and pcapng
//! (draft-ietf-opsawg-pcapng), of either byte order, from anything that can be read; [`Writer`] writes pcap and pcapng,
//! little-endian. An FCS that a file announces is stripped. A file is hostile
//! until parsed: nothing is allocated by a length that the file claims, what is wrong is told with its byte offset, and
//! blocks of unknown types are stepped over.

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

/// The largest block or record that is read, in bytes; larger ones are an error, or stepped over if of no interest.
pub const MAX_BLOCK: usize = 1 << 20;
/// The most interfaces of one section.
pub const MAX_INTERFACES: usize = 4096;
/// The most interfaces of a file.
pub const MAX_ALL_INTERFACES: usize = 65_536;
/// The longest packet that a capture has (libpcap's MAXIMUM_SNAPLEN).
pub const MAX_SNAPLEN: u32 = 262_144;
/// Ethernet, in the registry of link types.
pub const LINKTYPE_ETHERNET: u16 = 1;

/// A file's format.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Format {
    /// The old one: one header, then records.
    Pcap,
    /// Blocks: sections, interfaces, packets.
    Pcapng,
}

impl Format {
    /// By the name's end: `.pcap` or `.cap` is pcap, all else pcapng.
    pub fn of_name(name: &str) -> Format {
        if name.ends_with(".pcap") || name.ends_with(".cap") { Format::Pcap } else { Format::Pcapng }
    }
}

/// Which way a packet passed.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Direction {
    /// The file does not say.
    #[default]
    Unknown,
    /// Received.
    Inbound,
    /// Sent.
    Outbound,
}

/// One packet of a file.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Record<'a> {
    /// Nanoseconds since 1970. A Simple Packet Block has none and takes the one before.
    pub ts_ns: u64,
    /// Bytes it had on the wire.
    pub orig_len: u32,
    /// The bytes that were kept.
    pub data: &'a [u8],
    /// Link type, from the registry of link types: [`LINKTYPE_ETHERNET`].
    pub linktype: u16,
    /// The interface: an index into [`Section::interfaces`].
    pub interface: u32,
    /// Received or sent.
    pub direction: Direction,
    /// Options of a pcapng block, direction included, little-endian and without the end of the list.
    /// Empty in other files; then the writer writes the direction.
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
    /// Bytes captured of each packet at most; 0: no limit.
    pub snaplen: u32,
    /// if_tsresol: a negative power of ten, or of two with the top bit set.
    resolution: u8,
    /// if_tsoffset: seconds to add.
    offset_s: i64,
    /// Bytes of FCS at the end of each packet.
    fcs_len: u32,
    /// Its other options, little-endian, without the end of the list.
    options: Vec<u8>,
}

impl Interface {
    /// An Ethernet interface with timestamps of nanoseconds. An empty `name` is no name.
    pub fn ethernet(name: &str, snaplen: u32) -> Interface {
        let name: String = name.chars().take(255).collect();
        let mut options = Vec::new();
        if !name.is_empty() {
            writer::option(&mut options, 2, name.as_bytes()); // if_name
        }
        Interface { linktype: LINKTYPE_ETHERNET, snaplen, resolution: 9, offset_s: 0, fcs_len: 0, options }
    }
}

/// Description of the packets' origin in a file: its interfaces and, in pcapng, the capturing machine.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Section {
    /// The file's format.
    pub format: Format,
    /// All interfaces described so far, of all sections; a pcap file has one.
    pub interfaces: Vec<Interface>,
    /// Options of the first section header, little-endian, without the end of the list.
    options: Vec<u8>,
}

impl Section {
    /// A section without a description.
    pub fn new(format: Format) -> Section {
        Section { format, interfaces: Vec::new(), options: Vec::new() }
    }
}

/// Turns the clock's instants into stamps.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Stamps {
    /// Nanoseconds of the clock itself.
    Clock,
    /// Moved to the calendar's time, by this much once it is known.
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
