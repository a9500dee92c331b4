//! `pcap:FILE`: frames out of a capture file, and into one. Also the formats themselves, for whoever needs them.
//!
//! [`Reader`] reads pcap (micro- and nanoseconds) and pcapng (draft-ietf-opsawg-pcapng), of either byte order, from
//! anything that can be read; [`Writer`] writes pcap with nanoseconds and pcapng, little-endian. A file is hostile
//! until parsed: nothing is allocated by a length that the file claims, what is wrong is told with its byte offset, and
//! blocks of unknown types are stepped over.

mod error;
mod ng;
mod port;
mod reader;
mod writer;

pub use error::{Fault, PcapError};
pub(crate) use port::create_output;
pub use port::{PcapConfig, PcapFileError, open};
pub use reader::Reader;
pub use writer::Writer;

use crate::os;
use clock::Instant;

/// The largest block or record that is read, in bytes; larger ones are an error, or stepped over if of no interest.
pub const MAX_BLOCK: usize = 1 << 20;
/// The most interfaces of one section.
pub const MAX_INTERFACES: usize = 4096;
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
    /// What kind of link it was on: [`LINKTYPE_ETHERNET`].
    pub linktype: u16,
    /// The interface within its section.
    pub interface: u32,
    /// Received or sent.
    pub direction: Direction,
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
