//! Formats in which frames are read and written.

use std::fmt;
use std::str::FromStr;

/// Format of a stream of frames.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Format {
    /// Lines of hexadecimal digits: F1 (destination, source, type, payload), or F2 (the same after
    /// a 16-digit time stamp) for frames with a stamp.
    Text,
    /// Lines in format F1 only: time stamps are omitted.
    Plain,
    /// Lines in format F2 only. A frame without a time gets the stamp 0, which means "send at
    /// once".
    Stamped,
    /// ethpipe's binary records, version 1: without time stamps.
    Bin1,
    /// ethpipe's binary records, version 2: with time stamps.
    Bin2,
    /// Capture file in pcap format, with nanosecond time stamps.
    Pcap,
    /// Capture file in pcapng format.
    Pcapng,
    /// JSON Lines: one JSON object per line.
    Jsonl,
}

impl Format {
    /// All formats, in the order of declaration.
    pub const ALL: [Format; 8] = [
        Format::Text,
        Format::Plain,
        Format::Stamped,
        Format::Bin1,
        Format::Bin2,
        Format::Pcap,
        Format::Pcapng,
        Format::Jsonl,
    ];

    /// Returns the name of the format in command-line options.
    pub const fn name(self) -> &'static str {
        match self {
            Format::Text => "text",
            Format::Plain => "f1",
            Format::Stamped => "f2",
            Format::Bin1 => "bin1",
            Format::Bin2 => "bin2",
            Format::Pcap => "pcap",
            Format::Pcapng => "pcapng",
            Format::Jsonl => "jsonl",
        }
    }

    /// Returns whether the format consists of lines of hexadecimal digits.
    pub const fn is_text(self) -> bool {
        matches!(self, Format::Text | Format::Plain | Format::Stamped)
    }

    /// Returns the format of a stream that begins with `bytes`. Returns [`Format::Bin1`] for binary
    /// records of either version, since the first bytes do not contain the version. Returns
    /// [`Format::Text`] for anything unrecognized.
    pub fn of_start(bytes: &[u8]) -> Format {
        match bytes {
            [0x0a, 0x0d, 0x0d, 0x0a, ..] => Format::Pcapng,
            [0xd4 | 0x4d, 0xc3 | 0x3c, 0xb2, 0xa1, ..] | [0xa1, 0xb2, 0xc3 | 0x3c, 0xd4 | 0x4d, ..] => Format::Pcap,
            [0x34, 0xcd, 0xb2, 0xa1, ..] | [0xa1, 0xb2, 0xcd, 0x34, ..] => Format::Pcap,
            [0x76, 0x37, ..] => Format::Bin1,
            [b'{', ..] => Format::Jsonl,
            _ => Format::Text,
        }
    }

    /// Returns the format for the extension of a file name; `None` if the extension is missing or
    /// unknown.
    pub fn of_name(name: &str) -> Option<Format> {
        let (_, end) = name.rsplit_once('.')?;
        Some(match end {
            "pcap" | "cap" => Format::Pcap,
            "pcapng" => Format::Pcapng,
            "bpkt" => Format::Bin2,
            "apkt" | "txt" => Format::Text,
            "jsonl" => Format::Jsonl,
            _ => return None,
        })
    }
}

impl fmt::Display for Format {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

/// Error for an unknown format name.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct UnknownFormat(String);

impl fmt::Display for UnknownFormat {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "unknown format '{}'; formats:", self.0)?;
        Format::ALL.iter().try_for_each(|format| write!(f, " {format}"))
    }
}

impl std::error::Error for UnknownFormat {}

impl FromStr for Format {
    type Err = UnknownFormat;

    fn from_str(word: &str) -> Result<Format, UnknownFormat> {
        Format::ALL.into_iter().find(|format| format.name() == word).ok_or_else(|| UnknownFormat(word.to_owned()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn format_is_detected_by_the_first_bytes() {
        assert_eq!(Format::of_start(b"FFFFFFFFFFFF 0022"), Format::Text);
        assert_eq!(Format::of_start(b""), Format::Text);
        assert_eq!(Format::of_start(&[0xd4, 0xc3, 0xb2, 0xa1]), Format::Pcap);
        assert_eq!(Format::of_start(&[0xa1, 0xb2, 0x3c, 0x4d]), Format::Pcap);
        assert_eq!(Format::of_start(&[0x4d, 0x3c, 0xb2, 0xa1]), Format::Pcap);
        assert_eq!(Format::of_start(&[0x0a, 0x0d, 0x0d, 0x0a]), Format::Pcapng);
        assert_eq!(Format::of_start(&[0x76, 0x37, 60, 0]), Format::Bin1);
        assert_eq!(Format::of_start(b"{\"dst\""), Format::Jsonl);
    }

    #[test]
    fn unknown_format_error_lists_all_formats() {
        for format in Format::ALL {
            assert_eq!(format.name().parse(), Ok(format));
        }
        let error = "hex".parse::<Format>().unwrap_err().to_string();
        assert_eq!(error, "unknown format 'hex'; formats: text f1 f2 bin1 bin2 pcap pcapng jsonl");
    }
}
