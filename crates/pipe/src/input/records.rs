//! Reads binary records in blocks.

use super::error::BadInput;
use super::text::BLOCK;
use crate::{Format, Frames, Time};
use std::io::{self, Read};
use wire::bpkt::{self, Form};

/// Size of the buffer in bytes. There is space for a block and the longest record, and a few bytes
/// more, so that the end of the stream can be detected.
const ROOM: usize = BLOCK + 12 + (u16::MAX as usize) + 2;

pub(super) struct Records<R> {
    from: R,
    buf: Vec<u8>,
    start: usize,
    end: usize,
    /// Offset in the stream of the byte at index `start` of the buffer.
    offset: u64,
    at_end: bool,
    form: Form,
}

impl<R: Read> Records<R> {
    /// Creates a reader of records. `start` contains bytes that have already been read from `from`.
    /// If `requested` is `None`, reads until the records determine the version of the format.
    pub fn new(start: Vec<u8>, from: R, requested: Option<Format>) -> Result<Records<R>, BadInput> {
        let end = start.len();
        let mut buf = start;
        buf.resize(ROOM, 0);
        let mut records = Records { from, buf, start: 0, end, offset: 0, at_end: false, form: Form::V1 };
        if let Some(format) = requested {
            records.form = if format == Format::Bin2 { Form::V2 } else { Form::V1 };
            return Ok(records);
        }
        loop {
            if let Some(form) = Form::guess(records.held(), records.at_end) {
                records.form = form;
                return Ok(records);
            }
            // Two records of maximum length are enough to determine the version of the format.
            if records.at_end || records.end > 2 * (12 + usize::from(u16::MAX)) {
                return Ok(records);
            }
            records.fill()?;
        }
    }

    pub fn format(&self) -> Format {
        if self.form == Form::V1 { Format::Bin1 } else { Format::Bin2 }
    }

    fn held(&self) -> &[u8] {
        self.buf.get(self.start..self.end).unwrap_or_default()
    }

    pub fn read(&mut self, frames: &mut Frames) -> Result<bool, BadInput> {
        let mut any = false;
        while !frames.is_full() {
            let held = self.buf.get(self.start..self.end).unwrap_or_default();
            match bpkt::parse(self.form, held) {
                Ok(Some(record)) => {
                    frames.push(record.frame, record.stamp.map_or(Time::None, Time::Stamp));
                    self.start += record.used;
                    self.offset += record.used as u64;
                    any = true;
                }
                Ok(None) if any => break,
                Ok(None) if self.at_end && held.is_empty() => return Ok(false),
                Ok(None) if self.at_end => return Err(BadInput::Truncated { at: self.offset }),
                Ok(None) => self.fill()?,
                Err(why) => return Err(BadInput::Record { at: self.offset, why }),
            }
        }
        Ok(true)
    }

    fn fill(&mut self) -> Result<(), BadInput> {
        self.buf.copy_within(self.start..self.end, 0);
        (self.start, self.end) = (0, self.end - self.start);
        match self.from.read(self.buf.get_mut(self.end..).unwrap_or_default()) {
            Ok(0) => self.at_end = true,
            Ok(n) => self.end += n,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error.into()),
        }
        Ok(())
    }
}
