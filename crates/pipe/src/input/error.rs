//! Errors of reading frames.

use port::pcap::PcapError;
use std::io;
use wire::bpkt::BadRecord;
use wire::text::BadLine;

/// Reason why reading stopped.
#[derive(Debug, thiserror::Error)]
pub enum BadInput {
    /// Error of the stream itself.
    #[error(transparent)]
    Io(#[from] io::Error),
    /// A line that is not a frame, if strict checking was requested.
    #[error("line {line}, {why}")]
    Line {
        /// Number of the line, counted from 1.
        line: u64,
        /// Error in the line.
        why: BadLine,
    },
    /// A JSON line that is not a frame, if strict checking was requested.
    #[error("line {line}: {why}")]
    Json {
        /// Number of the line, counted from 1.
        line: u64,
        /// Error in the line.
        why: String,
    },
    /// A malformed binary record. Reading cannot continue, because the start of the next record is
    /// unknown.
    #[error("byte {at}: {why}")]
    Record {
        /// Byte offset of the record in the stream.
        at: u64,
        /// Error in the record.
        why: BadRecord,
    },
    /// The stream ends within a record.
    #[error("input ends within the record at byte {at}")]
    Truncated {
        /// Byte offset of the record in the stream.
        at: u64,
    },
    /// Error in a capture file.
    #[error(transparent)]
    Pcap(#[from] PcapError),
    /// A packet with an unsupported link header. Contains its link type as in a capture file.
    #[error("unsupported link type {0}: must be Ethernet, IP (RAW), loopback (NULL, LOOP) or Linux (SLL, SLL2)")]
    LinkType(u16),
    /// The stream is neither text nor another known format. Contains its first bytes.
    #[error("unknown format: begins with {}; expected text, a capture or binary records", hex(.0))]
    Unknown(Vec<u8>),
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect::<Vec<_>>().join(" ")
}
