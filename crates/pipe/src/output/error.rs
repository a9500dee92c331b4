//! Errors of encoding frames.

use crate::stage::BadLink;

/// Error for frames that a format cannot represent.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
pub enum BadOutput {
    /// Text and binary records can contain only Ethernet frames.
    #[error(transparent)]
    Link(#[from] BadLink),
    /// The packets have different link types, but a pcap file has a single one.
    #[error("packets of link types {first} and {other} do not fit into one pcap file: use -o pcapng")]
    LinkTypes {
        /// Link type of the file.
        first: u16,
        /// Link type of the packet that does not fit.
        other: u16,
    },
    /// A frame is too long for the 16-bit length field of a binary record. Contains its length in
    /// bytes.
    #[error("frame of {0} bytes is too long for a binary record: must be at most 65535")]
    TooLong(usize),
}
