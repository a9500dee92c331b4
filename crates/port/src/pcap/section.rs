//! Descriptions of the interfaces on which packets were captured, and of the capturing machine.

use super::options::{Numbers, append_option, interface_option};
use super::record::{Format, LINKTYPE_ETHERNET};

/// Description of an interface on which packets were captured.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Interface {
    /// Link type of the packets captured on the interface.
    pub linktype: u16,
    /// Maximum number of bytes captured of each packet; 0 if there is no limit.
    pub snaplen: u32,
    /// Resolution of timestamps in seconds (if_tsresol): a negative power of ten, or of two if the
    /// top bit is set.
    pub(super) resolution: u8,
    /// Seconds to add to timestamps (if_tsoffset).
    pub(super) offset_s: i64,
    /// Number of bytes of FCS at the end of each packet.
    pub(super) fcs_len: u32,
    /// Other options of the interface, in little-endian byte order and without the end-of-list
    /// option.
    pub(super) options: Vec<u8>,
}

impl Interface {
    /// Creates an Ethernet interface with timestamps in nanoseconds. If `name` is empty, it is
    /// omitted.
    pub fn ethernet(name: &str, snaplen: u32) -> Interface {
        let name: String = name.chars().take(255).collect();
        let mut options = Vec::new();
        if !name.is_empty() {
            append_option(&mut options, 2, name.as_bytes()); // if_name
        }
        Interface { linktype: LINKTYPE_ETHERNET, snaplen, resolution: 9, offset_s: 0, fcs_len: 0, options }
    }

    /// Parses the body of an Interface Description Block.
    pub(super) fn parse(numbers: Numbers, body: &[u8]) -> Option<Interface> {
        let options = body.get(8..)?;
        let first = |code| numbers.option(options, code).and_then(|value| value.first().copied());
        let offset_s = numbers.option(options, 14).and_then(|value| numbers.i64(value));
        let mut copied = Vec::new();
        numbers.copy_options(options, interface_option, &mut copied);
        Some(Interface {
            linktype: numbers.u16(body, 0)?,
            snaplen: numbers.u32(body, 4)?,
            resolution: first(9).unwrap_or(6),
            offset_s: offset_s.unwrap_or(0),
            fcs_len: first(13).map_or(0, u32::from),
            options: copied,
        })
    }

    /// Returns the interface's name (if_name); `None` if it has none.
    pub fn name(&self) -> Option<String> {
        let name = Numbers { big_endian: false }.option(&self.options, 2)?;
        Some(String::from_utf8_lossy(name).into_owned())
    }

    /// Returns a description of this interface for an output file. It has no timestamp offset and
    /// no FCS. Its timestamps are in nanoseconds if 64 bits would overflow in the interface's own
    /// unit.
    pub(super) fn writable(&self) -> Interface {
        let keeps = matches!(self.resolution, 0..=9 | 0x80..=0x9d);
        let resolution = if keeps { self.resolution } else { 9 };
        Interface { resolution, offset_s: 0, fcs_len: 0, ..self.clone() }
    }

    /// Converts nanoseconds since 1970 to units of the interface's clock. This is the inverse of
    /// [`Interface::nanos`].
    pub(super) fn units(&self, ns: u64) -> u64 {
        let power = u32::from(self.resolution & 0x7f);
        let units = match self.resolution {
            0x80.. => (u128::from(ns) << power.min(63)).div_ceil(1_000_000_000),
            _ => u128::from(ns) / 10u128.pow(9u32.saturating_sub(power)),
        };
        u64::try_from(units).unwrap_or(u64::MAX)
    }

    /// Converts units of the interface's clock to nanoseconds since 1970. The result saturates.
    pub(super) fn nanos(&self, units: u64) -> u64 {
        let power = u32::from(self.resolution & 0x7f);
        let ns = if self.resolution & 0x80 != 0 {
            (u128::from(units) * 1_000_000_000).checked_shr(power).unwrap_or(0)
        } else if power <= 9 {
            u128::from(units) * 10u128.pow(9 - power)
        } else {
            10u128.checked_pow(power - 9).map_or(0, |scale| u128::from(units) / scale)
        };
        let ns = i128::try_from(ns).unwrap_or(i128::MAX).saturating_add(i128::from(self.offset_s) * 1_000_000_000);
        u64::try_from(ns.max(0)).unwrap_or(u64::MAX)
    }
}

/// Description of the origin of the packets in a file: its interfaces and, in pcapng, the capturing
/// machine.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Section {
    /// Format of the file.
    pub format: Format,
    /// All interfaces described so far, in all sections of the file. A pcap file has exactly one.
    pub interfaces: Vec<Interface>,
    /// Options of the first section header, in little-endian byte order and without the end-of-list
    /// option.
    pub(super) options: Vec<u8>,
}

impl Section {
    /// Creates a description without interfaces and options.
    pub fn new(format: Format) -> Section {
        Section { format, interfaces: Vec::new(), options: Vec::new() }
    }
}
