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
mod options;
mod port;
mod reader;
mod record;
mod section;
mod writer;

pub use error::{Fault, PcapError};
pub(crate) use port::create_output;
pub use port::{PcapConfig, PcapFileError, open};
pub use reader::Reader;
pub use record::{Direction, Format, LINKTYPE_ETHERNET, Record};
pub use section::{Interface, Section};
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
