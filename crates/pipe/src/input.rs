//! Reads frames from a stream of bytes.

mod cut;
mod error;
mod json;
mod line;
mod records;
mod tally;
#[cfg(test)]
mod tests;
mod text;

pub use cut::Cut;
pub use error::BadInput;
pub(crate) use json::write as write_json;
pub(crate) use line::decode_line;
pub use tally::{Tally, Warned};
pub use text::{BLOCK, decode_block};

use crate::grep::Front;
use crate::{About, Format, Frames, Time};
use port::pcap::{self, LINKTYPE_ETHERNET, Record, Section};
use records::Records;
use std::collections::VecDeque;
use std::io::{self, Cursor, Read};
use std::sync::Arc;
use text::Text;
use wire::link::LinkType;

/// A stream of frames in any supported format.
pub struct Input {
    state: State,
    /// Detected format. It is valid once the first bytes have been read.
    format: Format,
    strict: bool,
    /// Filter on lines of text: only the selected lines are decoded.
    front: Option<Front>,
    tally: Tally,
    /// Streams to read after the current one.
    following: VecDeque<Stream>,
    /// Format that the caller requires; `None` to detect it from the first bytes of each stream.
    requested: Option<Format>,
    /// Error that the next call of [`Input::read`] returns. The frames before the error have
    /// already been returned.
    failed: Option<BadInput>,
    /// Capture section (file header and interfaces) of all captures read so far.
    origin: Option<Arc<Section>>,
}

type Stream = Box<dyn Read + Send>;

enum State {
    /// State before any bytes have been read.
    Begin(Stream),
    Text(Text<Stream>),
    Json(Text<Stream>),
    Records(Records<Stream>),
    Pcap(Box<Capture>),
    Over,
}

impl Input {
    /// Reads frames from `from`. If `format` is `None`, the format is detected from the first
    /// bytes. With `strict`, a line that is not a frame is an error.
    pub fn new(from: impl Read + Send + 'static, format: Option<Format>, strict: bool) -> Input {
        Input {
            state: State::Begin(Box::new(from)),
            format: Format::Text,
            strict,
            front: None,
            tally: Tally::default(),
            following: VecDeque::new(),
            requested: format,
            failed: None,
            origin: None,
        }
    }

    /// Adds the stream `from`, to be read after the streams added so far. Captures and binary
    /// records are read separately, each with its own header. Streams of lines are read as one
    /// continuous text.
    pub fn then(&mut self, from: impl Read + Send + 'static) {
        self.following.push_back(Box::new(from));
    }

    /// Sets a filter on lines: only the lines that `front` selects are decoded. It has no effect on
    /// formats other than text.
    pub fn select(&mut self, front: Front) {
        self.front = Some(front);
    }

    /// Returns the filter set with [`Input::select`], for callers that decode lines themselves.
    pub fn front(&self) -> Option<&Front> {
        self.front.as_ref()
    }

    /// Returns the format of the stream. Reads the first bytes of the stream if that has not been
    /// done.
    ///
    /// # Errors
    /// Errors of reading.
    pub fn format(&mut self) -> Result<Format, BadInput> {
        self.begin()?;
        Ok(self.format)
    }

    /// Appends frames to `frames` until it is full or reading would block. Blocks only if there is
    /// no frame yet. Returns false at the end of the input.
    ///
    /// # Errors
    /// Reason why the input cannot be read, with the position of the error.
    ///
    /// If frames precede an error, this call returns the frames, and the next call returns the
    /// error.
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

    /// Appends frames of the current stream to `frames`. Returns false at the end of the stream.
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

    /// Reads whole lines of text into `block`, which is cleared first. The caller decodes them with
    /// [`decode_block`]. Returns false at the end of the input, and for formats other than text.
    ///
    /// # Errors
    /// Errors of [`Input::read`].
    pub fn read_lines(&mut self, block: &mut Vec<u8>) -> Result<bool, BadInput> {
        self.begin()?;
        block.clear();
        let State::Text(text) = &mut self.state else { return Ok(false) };
        // The count of over-long lines is discarded, because the caller counts them when it decodes
        // the block.
        let Some(lines) = text.next_block(false, &mut 0)? else { return Ok(false) };
        block.extend_from_slice(lines);
        Ok(true)
    }

    /// Returns the complete lines of text that have arrived. Blocks only if there are none. A line
    /// that is longer than the line of the longest frame is counted as bad and left out. Returns
    /// `None` at the end of the input, and for formats other than text.
    ///
    /// # Errors
    /// Errors of [`Input::read`].
    pub fn lend_lines(&mut self) -> Result<Option<&[u8]>, BadInput> {
        self.begin()?;
        let State::Text(text) = &mut self.state else { return Ok(None) };
        text.next_block(true, &mut self.tally.bad)
    }

    /// Returns whether a line that is not a frame is an error.
    pub fn is_strict(&self) -> bool {
        self.strict
    }

    /// Returns the capture section (file header and interfaces) of the frames; `None` if no frames
    /// of a capture have been read.
    pub fn section(&self) -> Option<&Arc<Section>> {
        self.origin.as_ref()
    }

    /// Returns the counts of lines read so far.
    pub fn tally(&self) -> &Tally {
        &self.tally
    }

    /// Returns mutable access to the counts of lines, so that the caller can add lines that it has
    /// decoded.
    pub fn tally_mut(&mut self) -> &mut Tally {
        &mut self.tally
    }

    fn begin(&mut self) -> Result<(), BadInput> {
        if !matches!(self.state, State::Begin(..)) {
            return Ok(());
        }
        let State::Begin(mut from) = std::mem::replace(&mut self.state, State::Over) else { return Ok(()) };
        let requested = self.requested;
        // Read enough bytes to detect the format, or all bytes of a shorter stream.
        let mut start = Vec::new();
        let need = if requested.is_some_and(Format::is_text) { 0 } else { 4 };
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
        let format = requested.unwrap_or_else(|| Format::of_start(&start));
        if requested.is_none() && format.is_text() && start.iter().any(|byte| !is_of_text(*byte)) {
            return Err(BadInput::Unknown(start));
        }
        // A line may continue in the next stream, so all streams are joined.
        if format.is_text() || format == Format::Jsonl {
            while let Some(next) = self.following.pop_front() {
                from = Box::new(from.chain(next));
            }
        }
        (self.state, self.format) = match format {
            Format::Text | Format::Plain | Format::Stamped => (State::Text(Text::new(start, from)), Format::Text),
            Format::Jsonl => (State::Json(Text::new(start, from)), format),
            Format::Bin1 | Format::Bin2 => {
                let records = Records::new(start, from, requested)?;
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

/// Returns whether a text file may begin with `byte`: a printable character, white space, or part
/// of a UTF-8 character.
fn is_of_text(byte: u8) -> bool {
    matches!(byte, b'\t' | b'\n' | b'\r' | 0x20..=0x7e | 0xc3..=0xf4)
}

/// A stream in pcap or pcapng format.
struct Capture {
    reader: pcap::Reader<io::Chain<Cursor<Vec<u8>>, Stream>>,
    /// Number of interfaces in the captures that were read before this one.
    before: usize,
    /// Number of this capture's interfaces that have been added to the input's capture section.
    known: usize,
    frame: Vec<u8>,
}

impl Capture {
    /// Appends frames until the batch is full. Returns false at the end of the capture. A packet
    /// that is too long or too short for a frame is counted as bad.
    fn read(
        &mut self,
        frames: &mut Frames,
        origin: &mut Option<Arc<Section>>,
        tally: &mut Tally,
    ) -> Result<bool, BadInput> {
        frames.describe(origin.as_ref());
        // The reader cannot report whether reading the next record would block. The number of
        // records per batch is limited, so that frames of a live capture are passed on soon.
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

    /// Adds the interfaces that the capture has described since the last call to the section
    /// `origin`.
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

/// Returns whether a record has only default metadata, that is, a complete Ethernet frame of the
/// first interface.
#[inline]
fn is_usual(record: &Record<'_>, before: usize) -> bool {
    record.linktype == LINKTYPE_ETHERNET
        && record.orig_len as usize == record.data.len()
        && (record.interface as usize, before) == (0, 0)
        && record.options.is_empty()
        && record.direction == pcap::Direction::Unknown
}

/// Appends a packet with its metadata to `frames`. In a packet of another link type, an Ethernet
/// header replaces the link header; `frame` is scratch space for it. Returns false if the packet is
/// too short or too long for a frame.
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

/// Encodes the direction of a packet as a pcapng option, for capture formats that have a direction
/// but no options.
fn direction(record: &Record<'_>) -> Vec<u8> {
    match record.direction {
        pcap::Direction::Unknown => Vec::new(),
        pcap::Direction::Inbound => vec![2, 0, 4, 0, 1, 0, 0, 0],
        pcap::Direction::Outbound => vec![2, 0, 4, 0, 2, 0, 0, 0],
    }
}

/// Writes `packet` into `frame`, with an Ethernet header in place of its link header. Returns the
/// link header, or `None` if the packet is shorter than its link header.
fn cooked(link: LinkType, packet: &[u8], frame: &mut Vec<u8>) -> Option<Box<[u8]>> {
    let mut header = [0; wire::eth::HEADER_LEN];
    link.ethernet_header(packet)?.emit(&mut header);
    let (own, payload) = packet.split_at_checked(link.header_len())?;
    frame.clear();
    frame.extend_from_slice(&header);
    frame.extend_from_slice(payload);
    Some(own.into())
}
