//! Results of parsing a line, and the errors of lines.

use super::sizes::{MAX_FRAME, MAX_READ, MIN_FRAME};
use super::stamp::Stamp;
use core::fmt;

/// Result of reading the start of a text.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Next {
    /// A line with a frame.
    Frame {
        /// Length of the frame in bytes.
        len: usize,
        /// Time stamp of an F2 or F0 line; `None` for F1.
        stamp: Option<Stamp>,
        /// Bytes of the text consumed, including the newline.
        used: usize,
    },
    /// An empty or blank line.
    Blank {
        /// Bytes of the text consumed.
        used: usize,
    },
    /// A line that is not a valid frame.
    Bad {
        /// Reason and column of the error.
        why: BadLine,
        /// Bytes of the text consumed.
        used: usize,
    },
    /// A line whose newline is not in the text yet.
    Partial,
}

/// Reason why a line is not a frame.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum Why {
    /// A byte that is neither a digit nor a blank.
    NotHex(u8),
    /// An odd number of digits.
    OddDigits,
    /// The frame has fewer bytes than an Ethernet header.
    TooShort(usize),
    /// The frame has more bytes than allowed ([`MAX_FRAME`], or the size of the buffer).
    TooLong,
    /// No newline was found within [`MAX_READ`] bytes.
    NoNewline,
}

/// Reason and position of an error in a line.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct BadLine {
    /// Position in bytes from the line's start, counted from 1.
    pub column: usize,
    /// Reason for the error.
    pub why: Why,
}

impl fmt::Display for BadLine {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "column {}: ", self.column)?;
        match self.why {
            Why::NotHex(byte) if byte.is_ascii_graphic() => {
                write!(f, "'{}' is not a hexadecimal digit", char::from(byte))
            }
            Why::NotHex(byte) => write!(f, "byte 0x{byte:02x} is not a hexadecimal digit"),
            Why::OddDigits => f.write_str("odd number of hexadecimal digits"),
            Why::TooShort(len) => write!(f, "frame of {len} bytes: must be at least {MIN_FRAME}"),
            Why::TooLong => write!(f, "frame is longer than {MAX_FRAME} bytes"),
            Why::NoNewline => write!(f, "no newline within {MAX_READ} bytes"),
        }
    }
}

impl core::error::Error for BadLine {}
