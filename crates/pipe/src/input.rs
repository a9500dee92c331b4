//! Frames out of a stream of bytes.

mod cut;
mod in_place;
mod json;
mod records;
#[cfg(test)]
mod tests;
mod text;

pub use cut::{Cut, Piece};
pub(crate) use json::write as write_json;
pub use text::Tally;
pub(crate) use text::decode_line;

use crate::grep::Front;
use crate::{Format, Frames, Time};
use in_place::InPlace;
use port::pcap::{self, LINKTYPE_ETHERNET, PcapError};
use records::Records;
use std::fs::File;
use std::io::{self, Cursor, Read};
use text::Text;
use wire::bpkt::BadRecord;
use wire::text::BadLine;

/// Bytes asked of the stream at once: the most that a pipe holds by default is less, and what is read is still in the cache when it is
/// worked on.
pub const BLOCK: usize = 256 * 1024;

/// Bytes decoded at once where they lie: a writer waits no longer than that.
const AT_ONCE: usize = 4 * BLOCK;

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
}

/// A stream of frames.
pub struct Input {
    state: State,
    /// Once the first bytes were read.
    format: Format,
    strict: bool,
    /// Which lines of text are decoded at all.
    front: Option<Front>,
    /// Of a file whose lines need not be copied to be decoded.
    in_place: Option<InPlace>,
    tally: Tally,
}

type Stream = Box<dyn Read + Send>;

enum State {
    /// Nothing was read yet.
    Begin(Stream, Option<Format>),
    Text(Text<Stream>),
    /// And the stream, for what must be read after all.
    InPlace(InPlace, Stream),
    Json(Text<Stream>),
    Records(Records<Stream>),
    Pcap(Box<pcap::Reader<io::Chain<Cursor<Vec<u8>>, Stream>>>),
    Over,
}

impl Input {
    /// Frames from `from`, in a form that its first bytes tell unless `format` does. With `strict` a bad line is an error.
    pub fn new(from: impl Read + Send + 'static, format: Option<Format>, strict: bool) -> Input {
        let state = State::Begin(Box::new(from), format);
        Input { state, format: Format::Text, strict, front: None, in_place: None, tally: Tally::default() }
    }

    /// Lines of a regular file, or of what else `file` is; `from` reads it, and is asked where its bytes cannot be had without being copied.
    ///
    /// # Errors
    /// What the file says, when asked where it stands.
    pub fn of_file(
        file: &File,
        from: impl Read + Send + 'static,
        format: Option<Format>,
        strict: bool,
    ) -> io::Result<Input> {
        Ok(Input { in_place: InPlace::of(file)?, ..Input::new(from, format, strict) })
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
    pub fn read(&mut self, frames: &mut Frames) -> Result<bool, BadInput> {
        self.begin()?;
        if frames.is_full() {
            return Ok(true);
        }
        let before = frames.len();
        if let State::InPlace(lines, _) = &mut self.state {
            let (front, tally) = (self.front.as_ref(), &mut self.tally);
            if !lines.lend(AT_ONCE, |lines| text::decode_selected(lines, front, frames, tally)) {
                self.read_on()?;
            }
        }
        let more = match &mut self.state {
            State::InPlace(..) => true,
            State::Text(text) => {
                let front = self.front.as_ref();
                text.read(&mut self.tally, |bytes, tally| text::decode_selected(bytes, front, frames, tally))?
            }
            State::Json(text) => text.read(&mut self.tally, |bytes, tally| json::decode(bytes, frames, tally))?,
            State::Records(records) => records.read(frames)?,
            State::Pcap(reader) => read_pcap(reader, frames, &mut self.tally)?,
            State::Begin(..) | State::Over => false,
        };
        if self.strict
            && let Some(bad) = self.tally.first_bad()
        {
            self.state = State::Over;
            return Err(bad);
        }
        if !more && frames.len() == before {
            self.state = State::Over;
            return Ok(false);
        }
        Ok(true)
    }

    /// Whole lines of text into `block`, which is emptied first, undecoded ([`Tally::decode`]). `false` at the end. Only for text.
    ///
    /// # Errors
    /// As [`Input::read`].
    pub fn read_lines(&mut self, block: &mut Vec<u8>) -> Result<bool, BadInput> {
        self.begin()?;
        block.clear();
        let copy = |lines: &[u8]| {
            block.extend_from_slice(lines);
            lines.len()
        };
        if let State::InPlace(lines, _) = &mut self.state
            && lines.lend(BLOCK, copy)
        {
            return Ok(true);
        }
        self.read_on()?;
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
        self.read_on()?;
        let State::Text(text) = &mut self.state else { return Ok(None) };
        text.next_block(true, &mut self.tally.bad)
    }

    /// From now on lines are read, not looked at where they lie.
    fn read_on(&mut self) -> Result<(), BadInput> {
        self.state = match std::mem::replace(&mut self.state, State::Over) {
            State::InPlace(lines, from) => {
                lines.leave()?;
                State::Text(Text::new(Vec::new(), from))
            }
            other => other,
        };
        Ok(())
    }

    /// Is a bad line an error?
    pub fn is_strict(&self) -> bool {
        self.strict
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
        let State::Begin(mut from, asked) = std::mem::replace(&mut self.state, State::Over) else { return Ok(()) };
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
        (self.state, self.format) = match format {
            Format::Text | Format::Plain | Format::Stamped => {
                let state = match self.in_place.take() {
                    Some(lines) => State::InPlace(lines, from),
                    None => State::Text(Text::new(start, from)),
                };
                (state, Format::Text)
            }
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
                (State::Pcap(Box::new(reader)), format)
            }
        };
        Ok(())
    }
}

/// Frames of a capture until the batch is full. A frame that is no Ethernet frame, or was not kept whole, is a bad one.
fn read_pcap<R: Read>(reader: &mut pcap::Reader<R>, frames: &mut Frames, tally: &mut Tally) -> Result<bool, BadInput> {
    // A reader cannot say whether the next record would have to be waited for: what a live capture writes comes in small batches.
    for _ in 0..4096 {
        if frames.is_full() {
            break;
        }
        let Some(record) = reader.read()? else { return Ok(false) };
        tally.lines += 1;
        let good = record.linktype == LINKTYPE_ETHERNET && frames.push(record.data, Time::Wall(record.ts_ns));
        tally.bad += u64::from(!good);
    }
    Ok(true)
}
