//! Errors in a capture file, with their positions.

use std::fmt;
use std::io;

/// Kind of error in a capture file.
#[derive(Debug)]
pub enum Fault {
    /// The first bytes match neither format.
    UnknownMagic([u8; 4]),
    /// The version is not supported.
    Version {
        /// Major version number.
        major: u16,
        /// Minor version number.
        minor: u16,
    },
    /// The byte-order magic of a section header is invalid.
    ByteOrder(u32),
    /// The file ends within a header, block or record.
    Truncated {
        /// Bytes needed by the item.
        need: u64,
        /// Bytes available in the file.
        have: u64,
    },
    /// A length is invalid.
    Length {
        /// Length stated in the file.
        len: u64,
        /// Item that has this length, or the reason why the length is invalid.
        what: &'static str,
    },
    /// The lengths at a block's start and end differ.
    Trailer {
        /// Length stated at the block's start.
        start: u32,
        /// Length stated at the block's end.
        end: u32,
    },
    /// A packet refers to an interface that was not described.
    UnknownInterface {
        /// Number of the interface.
        id: u32,
        /// Number of interfaces described so far.
        known: usize,
    },
    /// A section has more than [`super::MAX_INTERFACES`] interfaces.
    TooManyInterfaces,
    /// Reading the file failed.
    Io(io::Error),
}

/// An error in a capture file and its position.
#[derive(Debug)]
pub struct PcapError {
    /// Offset of the block or record from the file's start.
    pub at: u64,
    /// Kind of error.
    pub fault: Fault,
}

impl PcapError {
    /// Returns whether the error only means that no data is available now. The caller may then read
    /// again later.
    pub fn is_would_block(&self) -> bool {
        matches!(&self.fault, Fault::Io(error) if error.kind() == io::ErrorKind::WouldBlock)
    }
}

impl fmt::Display for PcapError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "at byte {}: ", self.at)?;
        match &self.fault {
            Fault::UnknownMagic([a, b, c, d]) => {
                write!(f, "neither pcap nor pcapng: begins with {a:02x} {b:02x} {c:02x} {d:02x}")
            }
            Fault::Version { major, minor } => write!(f, "version {major}.{minor} is not supported"),
            Fault::ByteOrder(found) => write!(f, "invalid byte-order magic {found:#010x}"),
            Fault::Truncated { need, have } => write!(f, "truncated: {have} of {need} bytes"),
            Fault::Length { len, what } => write!(f, "length {len}: {what}"),
            Fault::Trailer { start, end } => {
                write!(f, "block length is {start} at the start and {end} at the end")
            }
            Fault::UnknownInterface { id, known } => write!(f, "unknown interface {id}: {known} are described"),
            Fault::TooManyInterfaces => write!(f, "more than {} interfaces in a section", super::MAX_INTERFACES),
            Fault::Io(error) => error.fmt(f),
        }
    }
}

impl std::error::Error for PcapError {}
