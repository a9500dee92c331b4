//! Packets of a capture file, and the formats of these files.

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
    /// Index of the packet's interface in [`Section::interfaces`](super::Section::interfaces).
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
