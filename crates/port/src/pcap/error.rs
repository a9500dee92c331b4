//! What can be wrong with a capture file, and where.

use std::fmt;
use std::io;

/// What is wrong.
#[derive(Debug)]
pub enum Fault {
    /// The first bytes are of neither format.
    UnknownMagic([u8; 4]),
    /// A version we do not read.
    Version {
        /// Major.
        major: u16,
        /// Minor.
        minor: u16,
    },
    /// A section header's byte-order magic is neither way round.
    ByteOrder(u32),
    /// The file ends inside something.
    Truncated {
        /// Bytes it claims.
        need: u64,
        /// Bytes there are.
        have: u64,
    },
    /// A length that cannot be.
    Length {
        /// The length.
        len: u64,
        /// Of what, and why not.
        what: &'static str,
    },
    /// A block ends with another length than it began with.
    Trailer {
        /// At its start.
        start: u32,
        /// At its end.
        end: u32,
    },
    /// A packet of an interface that was not described.
    UnknownInterface {
        /// Its number.
        id: u32,
        /// Interfaces described so far.
        known: usize,
    },
    /// More than [`super::MAX_INTERFACES`] in a section.
    TooManyInterfaces,
    /// Reading failed.
    Io(io::Error),
}

/// What is wrong with a file, and at which byte of it.
#[derive(Debug)]
pub struct PcapError {
    /// The offset of the block or record, from the file's start.
    pub at: u64,
    /// What.
    pub fault: Fault,
}

impl PcapError {
    /// Is it only that nothing can be read without waiting? Then the next read goes on.
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
            Fault::Version { major, minor } => write!(f, "version {major}.{minor} is not read"),
            Fault::ByteOrder(found) => write!(f, "byte-order magic is {found:#010x}"),
            Fault::Truncated { need, have } => write!(f, "cut short: needs {need} bytes and has {have}"),
            Fault::Length { len, what } => write!(f, "length {len}: {what}"),
            Fault::Trailer { start, end } => {
                write!(f, "the block's length is {start} at its start and {end} at its end")
            }
            Fault::UnknownInterface { id, known } => write!(f, "interface {id} of {known} described"),
            Fault::TooManyInterfaces => write!(f, "more than {} interfaces in a section", super::MAX_INTERFACES),
            Fault::Io(error) => error.fmt(f),
        }
    }
}

impl std::error::Error for PcapError {}
