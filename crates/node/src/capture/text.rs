//! Text format of captured frames: a status line, then one line per frame.
//!
//! ```text
//! NOW-NS SEEN MISSED
//! AT-NS in|out|REASON IFACE LENGTH HEX
//! ```
//! Times are in nanoseconds of the host's clock. NOW-NS is the time of the read. The client uses it
//! to convert the other times to calendar time. SEEN and MISSED are numbers of frames. LENGTH is
//! the length of the whole frame in bytes, and HEX is its captured bytes. REASON is the dotted name
//! of a drop reason.

use port::pcap::Direction;
use stats::DropReason;
use std::fmt::Write;

/// Outcome of a captured frame at its capture point.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fate {
    /// The frame was received or sent, according to the direction.
    Passed(Direction),
    /// The frame was dropped for this reason.
    Dropped(DropReason),
}

/// Frames returned by one read of a capture.
#[derive(Clone, Debug, PartialEq, Eq, Default)]
pub struct Batch {
    /// Time of the read by the host's clock, in nanoseconds.
    pub now_ns: u64,
    /// Number of frames that the capture has selected since it began, including missed ones.
    pub seen: u64,
    /// Number of selected frames that were missed because the buffer was full.
    pub missed: u64,
    /// Frames captured since the previous read.
    pub frames: Vec<Caught>,
}

/// A captured frame, possibly truncated.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Caught {
    /// Time at which the frame was captured, by the host's clock, in nanoseconds.
    pub at_ns: u64,
    /// Iface or port of the frame; `-` for a frame dropped in a host.
    pub iface: String,
    /// Outcome: received, sent or dropped.
    pub fate: Fate,
    /// Length of the whole frame in bytes.
    pub len: u32,
    /// Captured bytes; fewer than `len` if the frame was truncated.
    pub data: Vec<u8>,
}

const HEX: &[u8; 16] = b"0123456789abcdef";

impl Batch {
    /// Returns the batch in the text format.
    pub fn to_text(&self) -> String {
        let bytes: usize = self.frames.iter().map(|frame| 2 * frame.data.len() + 64).sum();
        let mut out = String::with_capacity(bytes + 64);
        // Writing to a String cannot fail.
        let _ = writeln!(out, "{} {} {}", self.now_ns, self.seen, self.missed);
        for frame in &self.frames {
            let way = match frame.fate {
                Fate::Passed(Direction::Outbound) => "out",
                Fate::Passed(_) => "in",
                Fate::Dropped(why) => why.name(),
            };
            let _ = write!(out, "{} {way} {} {} ", frame.at_ns, frame.iface, frame.len);
            let digits = frame.data.iter().flat_map(|byte| [byte >> 4, byte & 15]);
            out.extend(digits.filter_map(|digit| HEX.get(usize::from(digit))).map(|digit| char::from(*digit)));
            out.push('\n');
        }
        out
    }
}

/// Parses a batch in the text format; returns `None` if it is invalid.
pub fn parse(text: &str) -> Option<Batch> {
    let mut lines = text.lines();
    let mut words = lines.next()?.split(' ');
    let mut number = || words.next()?.parse().ok();
    let (now_ns, seen, missed) = (number()?, number()?, number()?);
    let frames = lines.map(frame).collect::<Option<Vec<_>>>()?;
    Some(Batch { now_ns, seen, missed, frames })
}

fn frame(line: &str) -> Option<Caught> {
    let words: Vec<&str> = line.split(' ').collect();
    let &[at, way, iface, len, hex] = words.as_slice() else { return None };
    let fate = match way {
        "in" => Fate::Passed(Direction::Inbound),
        "out" => Fate::Passed(Direction::Outbound),
        name => Fate::Dropped(DropReason::ALL.iter().find(|why| why.name() == name).copied()?),
    };
    let digit = |byte: &u8| char::from(*byte).to_digit(16).map(|digit| digit as u8);
    let byte = |pair: &[u8]| match pair {
        [high, low] => Some(digit(high)? << 4 | digit(low)?),
        _ => None,
    };
    let data = hex.as_bytes().chunks(2).map(byte).collect::<Option<Vec<u8>>>()?;
    Some(Caught { at_ns: at.parse().ok()?, iface: iface.to_string(), fate, len: len.parse().ok()?, data })
}
