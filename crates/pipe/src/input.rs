//! Reads frames from a stream of bytes.

mod cut;
mod json;
mod records;
#[cfg(test)]
mod tests;
mod text;

pub use cut::Cut;
pub(crate) use json::write as write_json;
pub(crate) use text::decode_line;
pub use text::{Tally, Warned};

use crate::grep::Front;
use crate::{About, Format, Frames, Time};
use port::pcap::{self, LINKTYPE_ETHERNET, PcapError, Record, Section};
use records::Records;
use std::collections::VecDeque;
use std::io::{self, Cursor, Read};
use std::sync::Arc;
use text::Text;
use wire::bpkt::BadRecord;
use wire::link::LinkType;
use wire::text::BadLine;

/// Maximum number of bytes read from the stream at once. It exceeds the default capacity of a pipe,
/// and the bytes are still in the cache when they are processed.
pub const BLOCK: usize = 256 * 1024;

/// Reason why reading stopped.
#[derive(Debug, thiserror::Error)]
pub enum BadInput {
    /// Error of the stream itself.
    #[error(transparent)]
    Io(#[from] io::Error),
    /// A bad line of text, with strict checking.
    #[error("line {line}, {why}")]
    Line {
        /// Number of the line, from 1.
        line: u64,
        /// Error in the line.
        why: BadLine,
    },
    /// A bad JSON line, with strict checking.
    #[error("line {line}: {why}")]
    Json {
        /// Number of the line, from 1.
        line: u64,
        /// Error in the line.
        why: String,
    },
    /// A malformed binary record; the start of the next record is unknown.
    #[error("byte {at}: {why}")]
    Record {
        /// Offset of the record in the stream.
        at: u64,
        /// Error in the record.
        why: BadRecord,
    },
    /// The stream ends within a record.
    #[error("ends within the record at byte {at}")]
    Truncated {
        /// Offset of the record in the stream.
        at: u64,
    },
    /// Error in a capture file.
    #[error(transparent)]
    Pcap(#[from] PcapError),
    /// Packets with an unsupported link header.
    #[error("unsupported link type {0}: must be Ethernet, IP (RAW), loopback (NULL, LOOP) or Linux (SLL, SLL2)")]
    LinkType(u16),
    /// The stream is neither text nor another known format.
    #[error("unknown format: begins with {}; expected text, a capture or binary records", hex(.0))]
    Unknown(Vec<u8>),
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect::<Vec<_>>().join(" ")
}

/// A stream of frames in any supported format.
pub struct Input {
    state: State,
    /// Detected format, valid once the first bytes have been read.
    format: Format,
    strict: bool,
    /// Selects the lines of text to decode.
    front: Option<Front>,
    tally: Tally,
    /// Streams to read after this one.
    following: VecDeque<Stream>,
    /// Format required by the caller; otherwise it is detected from the first bytes.
    asked: Option<Format>,
    /// Error to return after the frames before it have been returned.
    failed: Option<BadInput>,
    /// Origin of the frames of captures, of all streams so far.
    origin: Option<Arc<Section>>,
}

type Stream = Box<dyn Read + Send>;

enum State {
    /// No bytes have been read yet.
    Begin(Stream),
    Text(Text<Stream>),
    Json(Text<Stream>),
    Records(Records<Stream>),
    Pcap(Box<Capture>),
    Over,
}

impl Input {
    /// Reads frames from `from`. Detects the format by the first bytes unless `format` is given.
    /// With `strict`, a bad line is an error.
    pub fn new(from: impl Read + Send + 'static, format: Option<Format>, strict: bool) -> Input {
        Input {
            state: State::Begin(Box::new(from)),
            format: Format::Text,
            strict,
            front: None,
            tally: Tally::default(),
            following: VecDeque::new(),
            asked: format,
            failed: None,
            origin: None,
        }
    }

    /// Reads `from` after the streams so far. Captures and records are read one after the other,
    /// each with its header; lines are read as one continuous text.
    pub fn then(&mut self, from: impl Read + Send + 'static) {
        self.following.push_back(Box::new(from));
    }

    /// Decodes only the lines that `front` selects. For text only.
    pub fn select(&mut self, front: Front) {
        self.front = Some(front);
    }

    /// Returns the selection set with [`Input::select`], for callers that decode lines themselves.
    pub fn front(&self) -> Option<&Front> {
        self.front.as_ref()
    }

    /// Returns the format; reads the first bytes if that has not been done yet.
    ///
    /// # Errors
    /// Errors of reading.
    pub fn format(&mut self) -> Result<Format, BadInput> {
        self.begin()?;
        Ok(self.format)
    }

    /// Appends frames to `frames` until it is full or reading would block; blocks only for the
    /// first frame. Returns false at the end.
    ///
    /// # Errors
    /// The input that cannot be read, and its position.
    ///
    /// Frames before an error are returned first, and the error by the next call.
    pub fn read(&mut self, frames: &mut Frames) -> Result<bool, BadInput> {
        if let Some(why) = self.failed.take() {
            self.state = State::Over;
            return Err(why);
        }
        self.begin()?;
        if frames.is_full() {
            return Ok(true);
        }
        let before = frames.len();
        let more = self.read_some(frames);
        let more = match self.tally.first_bad().filter(|_| self.strict) {
            Some(bad) => {
                frames.truncate(self.tally.good);
                Err(bad)
            }
            None => more,
        };
        match more {
            Err(why) if frames.len() > before => self.failed = Some(why),
            Err(why) => {
                self.state = State::Over;
                return Err(why);
            }
            Ok(false) if frames.len() == before => match self.following.pop_front() {
                Some(next) => {
                    self.state = State::Begin(next);
                    return self.read(frames);
                }
                None => {
                    self.state = State::Over;
                    return Ok(false);
                }
            },
            Ok(_) => {}
        }
        Ok(true)
    }

    /// Appends frames; returns false at the end of the stream.
    fn read_some(&mut self, frames: &mut Frames) -> Result<bool, BadInput> {
        Ok(match &mut self.state {
            State::Text(text) => {
                let front = self.front.as_ref();
                text.read(&mut self.tally, |bytes, tally| text::decode_selected(bytes, front, frames, tally))?
            }
            State::Json(text) => text.read(&mut self.tally, |bytes, tally| json::decode(bytes, frames, tally))?,
            State::Records(records) => records.read(frames)?,
            State::Pcap(capture) => capture.read(frames, &mut self.origin, &mut self.tally)?,
            State::Begin(..) | State::Over => false,
        })
    }

    /// Reads whole lines of text into `block`, which is cleared first, without decoding them
    /// ([`Tally::decode`]). Returns false at the end. For text only.
    ///
    /// # Errors
    /// Those of [`Input::read`].
    pub fn read_lines(&mut self, block: &mut Vec<u8>) -> Result<bool, BadInput> {
        self.begin()?;
        block.clear();
        let State::Text(text) = &mut self.state else { return Ok(false) };
        // The caller counts the over-long line when it decodes the block.
        let Some(lines) = text.next_block(false, &mut 0)? else { return Ok(false) };
        block.extend_from_slice(lines);
        Ok(true)
    }

    /// Lends whole lines of text, as many as have arrived; blocks only for the first. A line that
    /// is longer than that of any frame is counted as bad and left out. Returns `None` at the end.
    /// For text only.
    ///
    /// # Errors
    /// Those of [`Input::read`].
    pub fn lend_lines(&mut self) -> Result<Option<&[u8]>, BadInput> {
        self.begin()?;
        let State::Text(text) = &mut self.state else { return Ok(None) };
        text.next_block(true, &mut self.tally.bad)
    }

    /// Returns whether a bad line is an error.
    pub fn is_strict(&self) -> bool {
        self.strict
    }

    /// Returns the origin of the frames, if they come from a capture and some have been read.
    pub fn section(&self) -> Option<&Arc<Section>> {
        self.origin.as_ref()
    }

    /// Returns the counts of lines read so far.
    pub fn tally(&self) -> &Tally {
        &self.tally
    }

    /// Returns the counts for updating.
    pub fn tally_mut(&mut self) -> &mut Tally {
        &mut self.tally
    }

    fn begin(&mut self) -> Result<(), BadInput> {
        if !matches!(self.state, State::Begin(..)) {
            return Ok(());
        }
        let State::Begin(mut from) = std::mem::replace(&mut self.state, State::Over) else { return Ok(()) };
        let asked = self.asked;
        // Enough bytes to detect the format, or all there are.
        let mut start = Vec::new();
        let need = if asked.is_some_and(Format::is_text) { 0 } else { 4 };
        while start.len() < need {
            let mut some = [0; 4];
            let room = some.get_mut(..need - start.len()).unwrap_or_default();
            match from.read(room) {
                Ok(0) => break,
                Ok(n) => start.extend_from_slice(some.get(..n).unwrap_or_default()),
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(error.into()),
            }
        }
        let format = asked.unwrap_or_else(|| Format::of_start(&start));
        if asked.is_none() && format.is_text() && start.iter().any(|byte| !is_of_text(*byte)) {
            return Err(BadInput::Unknown(start));
        }
        // A line may continue in the next file.
        if format.is_text() || format == Format::Jsonl {
            while let Some(next) = self.following.pop_front() {
                from = Box::new(from.chain(next));
            }
        }
        (self.state, self.format) = match format {
            Format::Text | Format::Plain | Format::Stamped => (State::Text(Text::new(start, from)), Format::Text),
            Format::Jsonl => (State::Json(Text::new(start, from)), format),
            Format::Bin1 | Format::Bin2 => {
                let records = Records::new(start, from, asked)?;
                let format = records.format();
                (State::Records(records), format)
            }
            Format::Pcap | Format::Pcapng => {
                let mut reader = pcap::Reader::new(Cursor::new(start).chain(from));
                let format = match reader.format()? {
                    pcap::Format::Pcap => Format::Pcap,
                    pcap::Format::Pcapng => Format::Pcapng,
                };
                let before = self.origin.as_ref().map_or(0, |origin| origin.interfaces.len());
                (State::Pcap(Box::new(Capture { reader, before, known: 0, frame: Vec::new() })), format)
            }
        };
        Ok(())
    }
}

/// Returns whether a text file may begin with `byte`: printable, white space, or part of a UTF-8
/// character.
fn is_of_text(byte: u8) -> bool {
    matches!(byte, b'\t' | b'\n' | b'\r' | 0x20..=0x7e | 0xc3..=0xf4)
}

/// A capture, one of the streams.
struct Capture {
    reader: pcap::Reader<io::Chain<Cursor<Vec<u8>>, Stream>>,
    /// Number of interfaces of the captures before this one.
    before: usize,
    /// Number of this capture's interfaces that are in the origin of the frames so far.
    known: usize,
    frame: Vec<u8>,
}

impl Capture {
    /// Appends frames until the batch is full; returns false at the end. A packet that is too long
    /// or too short for a frame is counted as bad.
    fn read(
        &mut self,
        frames: &mut Frames,
        origin: &mut Option<Arc<Section>>,
        tally: &mut Tally,
    ) -> Result<bool, BadInput> {
        frames.describe(origin.as_ref());
        // The reader cannot report whether the next record would block, so the number per batch is
        // limited for live captures.
        for _ in 0..4096 {
            if frames.is_full() {
                break;
            }
            let Some(record) = self.reader.read()? else { return Ok(false) };
            tally.lines += 1;
            let pushed = match is_usual(&record, self.before) {
                true => frames.push(record.data, Time::Wall(record.ts_ns)),
                false => push_unusual(frames, &record, self.before, &mut self.frame)?,
            };
            if !pushed {
                let (len, captured) = (record.orig_len, record.data.len());
                let why = format!("length {len}, captured {captured}: too short or too long for a frame");
                tally.warn(Warned::Record(why), frames.len());
            }
            if self.reader.section().interfaces.len() > self.known {
                self.describe(origin);
                frames.describe(origin.as_ref());
            }
        }
        Ok(true)
    }

    /// Adds the interfaces described since the last call to the origin.
    fn describe(&mut self, origin: &mut Option<Arc<Section>>) {
        let here = self.reader.section();
        let mut all = origin.as_deref().cloned().unwrap_or_else(|| {
            let mut first = here.clone();
            first.interfaces.clear();
            first
        });
        all.interfaces.extend(here.interfaces.iter().skip(self.known).cloned());
        self.known = here.interfaces.len();
        *origin = Some(Arc::new(all));
    }
}

/// Returns whether a record has no metadata to keep: a whole Ethernet frame of the first interface.
#[inline]
fn is_usual(record: &Record<'_>, before: usize) -> bool {
    record.linktype == LINKTYPE_ETHERNET
        && record.orig_len as usize == record.data.len()
        && (record.interface as usize, before) == (0, 0)
        && record.options.is_empty()
        && record.direction == pcap::Direction::Unknown
}

/// Appends a packet with its metadata. A packet of another link type gets an Ethernet header
/// instead of its own, using `frame` as scratch space. Returns whether its length is possible for a
/// frame.
#[inline(never)]
fn push_unusual(
    frames: &mut Frames,
    record: &Record<'_>,
    before: usize,
    frame: &mut Vec<u8>,
) -> Result<bool, BadInput> {
    let (time, about) = (Time::Wall(record.ts_ns), about(record, before));
    Ok(match LinkType::of(record.linktype).ok_or(BadInput::LinkType(record.linktype))? {
        LinkType::Ethernet => frames.push_about(record.data, time, &about),
        link => cooked(link, record.data, frame)
            .is_some_and(|header| frames.push_about(frame, time, &About { link: Some((link, header)), ..about })),
    })
}

fn about(record: &Record<'_>, before: usize) -> About {
    About {
        cut: record.orig_len.saturating_sub(record.data.len() as u32),
        interface: record.interface + before as u32,
        options: if record.options.is_empty() { direction(record) } else { record.options.to_vec() },
        link: None,
    }
}

/// Encodes the direction as an option, for captures that have a direction but no options.
fn direction(record: &Record<'_>) -> Vec<u8> {
    match record.direction {
        pcap::Direction::Unknown => Vec::new(),
        pcap::Direction::Inbound => vec![2, 0, 4, 0, 1, 0, 0, 0],
        pcap::Direction::Outbound => vec![2, 0, 4, 0, 2, 0, 0, 0],
    }
}

/// Writes a packet with an Ethernet header instead of its own into `frame`; returns its own header.
fn cooked(link: LinkType, packet: &[u8], frame: &mut Vec<u8>) -> Option<Box<[u8]>> {
    let mut header = [0; wire::eth::HEADER_LEN];
    link.ethernet_header(packet)?.emit(&mut header);
    let (own, payload) = packet.split_at_checked(link.header_len())?;
    frame.clear();
    frame.extend_from_slice(&header);
    frame.extend_from_slice(payload);
    Some(own.into())
}
