//! Frames out of a stream of bytes.

mod cut;
mod json;
mod records;
#[cfg(test)]
mod tests;
mod text;

pub use cut::Cut;
pub(crate) use json::write as write_json;
pub(crate) use text::decode_line;
pub use text::{Tally, Told};

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

/// Bytes asked of the stream at once: the most that a pipe holds by default is less, and what is read is still in the cache when it is
/// worked on.
pub const BLOCK: usize = 256 * 1024;

/// Why there is no reading on.
#[derive(Debug, thiserror::Error)]
pub enum BadInput {
    /// The stream itself.
    #[error(transparent)]
    Io(#[from] io::Error),
    /// A bad line, where none is forgiven.
    #[error("line {line}, {why}")]
    Line {
        /// Its number, the first being 1.
        line: u64,
        /// What is wrong.
        why: BadLine,
    },
    /// The like, of JSON.
    #[error("line {line}: {why}")]
    Json {
        /// Its number, the first being 1.
        line: u64,
        /// What is wrong.
        why: String,
    },
    /// What should be a binary record: nothing says where the next one begins.
    #[error("byte {at}: {why}")]
    Record {
        /// Bytes in front of it.
        at: u64,
        /// What is wrong.
        why: BadRecord,
    },
    /// A stream that ends within a record.
    #[error("ends within the record at byte {at}")]
    Truncated {
        /// Bytes in front of it.
        at: u64,
    },
    /// A capture file.
    #[error(transparent)]
    Pcap(#[from] PcapError),
    /// Packets with a link header that is not read.
    #[error("link type {0} is not read: those of Ethernet, IP (RAW), loopback (NULL, LOOP) and Linux (SLL, SLL2) are")]
    LinkType(u16),
    /// Bytes that are neither text nor another form of frames.
    #[error("begins with {}: neither text nor a capture nor binary records", hex(.0))]
    Unknown(Vec<u8>),
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect::<Vec<_>>().join(" ")
}

/// A stream of frames.
pub struct Input {
    state: State,
    /// Once the first bytes were read.
    format: Format,
    strict: bool,
    /// Which lines of text are decoded at all.
    front: Option<Front>,
    tally: Tally,
    /// Streams that are read after this one.
    following: VecDeque<Stream>,
    /// Form that the caller requires; otherwise the first bytes decide.
    asked: Option<Format>,
    /// An error that is returned when the frames before it have been.
    failed: Option<BadInput>,
    /// Origin of the frames of captures, of all streams so far.
    origin: Option<Arc<Section>>,
}

type Stream = Box<dyn Read + Send>;

enum State {
    /// Nothing was read yet.
    Begin(Stream),
    Text(Text<Stream>),
    Json(Text<Stream>),
    Records(Records<Stream>),
    Pcap(Box<Capture>),
    Over,
}

impl Input {
    /// Frames from `from`, in a form that its first bytes tell unless `format` does. With `strict` a bad line is an error.
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

    /// Reads `from` when what there is so far has ended: captures and records one after the other, each with
    /// its header; lines as one text.
    pub fn then(&mut self, from: impl Read + Send + 'static) {
        self.following.push_back(Box::new(from));
    }

    /// Of lines of text decodes only those that `front` selects. Only for text.
    pub fn select(&mut self, front: Front) {
        self.front = Some(front);
    }

    /// What was selected by, for who decodes lines elsewhere.
    pub fn front(&self) -> Option<&Front> {
        self.front.as_ref()
    }

    /// The form; reads the first bytes if that was not done yet.
    ///
    /// # Errors
    /// What reading says.
    pub fn format(&mut self) -> Result<Format, BadInput> {
        self.begin()?;
        Ok(self.format)
    }

    /// Appends frames to `frames` until it is full or the stream would have to be waited for; waits for the first. `false` at the end.
    ///
    /// # Errors
    /// What cannot be read on, and where.
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

    /// Appends frames; `false` at the stream's end.
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

    /// Whole lines of text into `block`, which is emptied first, undecoded ([`Tally::decode`]). `false` at the end. Only for text.
    ///
    /// # Errors
    /// As [`Input::read`].
    pub fn read_lines(&mut self, block: &mut Vec<u8>) -> Result<bool, BadInput> {
        self.begin()?;
        block.clear();
        let State::Text(text) = &mut self.state else { return Ok(false) };
        // Who decodes these lines will count the long one.
        let Some(lines) = text.next_block(false, &mut 0)? else { return Ok(false) };
        block.extend_from_slice(lines);
        Ok(true)
    }

    /// Lends whole lines of text, as many as have come; waits for the first. A line that is longer than any frame's is counted as a bad one
    /// and left out. `None` at the end. Only for text.
    ///
    /// # Errors
    /// As [`Input::read`].
    pub fn lend_lines(&mut self) -> Result<Option<&[u8]>, BadInput> {
        self.begin()?;
        let State::Text(text) = &mut self.state else { return Ok(None) };
        text.next_block(true, &mut self.tally.bad)
    }

    /// Is a bad line an error?
    pub fn is_strict(&self) -> bool {
        self.strict
    }

    /// Origin of the frames, if they come from a capture and some were read.
    pub fn section(&self) -> Option<&Arc<Section>> {
        self.origin.as_ref()
    }

    /// Counts of what was read so far.
    pub fn tally(&self) -> &Tally {
        &self.tally
    }

    /// The same, to add to.
    pub fn tally_mut(&mut self) -> &mut Tally {
        &mut self.tally
    }

    fn begin(&mut self) -> Result<(), BadInput> {
        if !matches!(self.state, State::Begin(..)) {
            return Ok(());
        }
        let State::Begin(mut from) = std::mem::replace(&mut self.state, State::Over) else { return Ok(()) };
        let asked = self.asked;
        // Enough to know the form, or all there is.
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
        // Lines may go on in the next file.
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

/// Returns whether a file of text may begin with `byte`: printable, white space, or part of a character of UTF-8.
fn is_of_text(byte: u8) -> bool {
    matches!(byte, b'\t' | b'\n' | b'\r' | 0x20..=0x7e | 0xc3..=0xf4)
}

/// A capture among the streams.
struct Capture {
    reader: pcap::Reader<io::Chain<Cursor<Vec<u8>>, Stream>>,
    /// Interfaces of the captures before it.
    before: usize,
    /// Interfaces that the origin of frames has from this one.
    known: usize,
    frame: Vec<u8>,
}

impl Capture {
    /// Appends frames until the batch is full; `false` at the end. A packet that is longer or shorter than a frame may
    /// be is counted as a bad one.
    fn read(
        &mut self,
        frames: &mut Frames,
        origin: &mut Option<Arc<Section>>,
        tally: &mut Tally,
    ) -> Result<bool, BadInput> {
        frames.describe(origin.as_ref());
        // A reader cannot say whether the next record would have to be waited for: what a live capture writes comes in
        // small batches.
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
                let why =
                    format!("a packet of {} bytes, of which {} were captured", record.orig_len, record.data.len());
                tally.tell(Told::Record(why), frames.len());
            }
            if self.reader.section().interfaces.len() > self.known {
                self.describe(origin);
                frames.describe(origin.as_ref());
            }
        }
        Ok(true)
    }

    /// Adds the interfaces that were described since the last time.
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

/// Returns whether a record has no metadata worth keeping: a whole Ethernet frame of the first interface.
#[inline]
fn is_usual(record: &Record<'_>, before: usize) -> bool {
    record.linktype == LINKTYPE_ETHERNET
        && record.orig_len as usize == record.data.len()
        && (record.interface as usize, before) == (0, 0)
        && record.options.is_empty()
        && record.direction == pcap::Direction::Unknown
}

/// Appends a packet with its metadata; a packet of another link with an Ethernet header in place of its own, made in
/// `frame`. Returns whether a frame can have its length.
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

/// The direction as an option, where a capture without options has one.
fn direction(record: &Record<'_>) -> Vec<u8> {
    match record.direction {
        pcap::Direction::Unknown => Vec::new(),
        pcap::Direction::Inbound => vec![2, 0, 4, 0, 1, 0, 0, 0],
        pcap::Direction::Outbound => vec![2, 0, 4, 0, 2, 0, 0, 0],
    }
}

/// Writes a packet with an Ethernet header in place of its own into `frame`; returns its own.
fn cooked(link: LinkType, packet: &[u8], frame: &mut Vec<u8>) -> Option<Box<[u8]>> {
    let mut header = [0; wire::eth::HEADER_LEN];
    link.ethernet_header(packet)?.emit(&mut header);
    let (own, payload) = packet.split_at_checked(link.header_len())?;
    frame.clear();
    frame.extend_from_slice(&header);
    frame.extend_from_slice(payload);
    Some(own.into())
}
