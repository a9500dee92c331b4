//! Frames into a stream of bytes.

use crate::{Format, Frames, input};
use port::pcap::{self, Direction, LINKTYPE_ETHERNET, Record};
use std::io::{self, Write};
use wire::bpkt::{self, Form};
use wire::text::{self, Kind, SLACK, STAMP, Stamp};

/// How frames become bytes. Knows no stream: many threads may each have their own, and what they make is put in order behind them.
#[derive(Debug)]
pub struct Encoder {
    format: Format,
    tick_ns: u64,
    capture: Option<pcap::Writer<io::Sink>>,
}

impl Encoder {
    /// For `format`; a stamp's tick is `tick_ns` (8 is ethpipe's), where one kind of time becomes another.
    pub fn new(format: Format, tick_ns: u64) -> Encoder {
        let capture = capture_format(format).and_then(|format| {
            let mut writer = pcap::Writer::new(io::sink(), format, SNAPLEN).ok()?;
            writer.add_interface(INTERFACE).ok()?;
            Some(writer)
        });
        Encoder { format, tick_ns, capture }
    }

    /// What stands in front of all frames.
    pub fn header(&self) -> Vec<u8> {
        let Some(format) = capture_format(self.format) else { return Vec::new() };
        // Writing to a vector does not fail.
        let Ok(mut writer) = pcap::Writer::new(Vec::new(), format, SNAPLEN) else { return Vec::new() };
        let _ = writer.add_interface(INTERFACE);
        writer.into_inner()
    }

    /// Writes `frames` to the front of `out`, whose length only grows; says how many bytes that are.
    pub fn encode(&mut self, frames: &Frames, out: &mut Vec<u8>) -> usize {
        if self.format.is_text() {
            return self.lines(frames, out);
        }
        out.clear();
        let form = if self.format == Format::Bin1 { Form::V1 } else { Form::V2 };
        for (bytes, time) in frames.iter() {
            match (&self.capture, self.format) {
                (Some(capture), _) => {
                    let ts_ns = time.wall_ns(self.tick_ns).unwrap_or(0);
                    let orig_len = bytes.len() as u32;
                    let (linktype, direction) = (LINKTYPE_ETHERNET, Direction::Unknown);
                    capture.encode(&Record { ts_ns, orig_len, data: bytes, linktype, interface: 0, direction }, out);
                }
                (None, Format::Jsonl) => input::write_json(bytes, time, out),
                (None, _) => {
                    bpkt::emit(form, bytes, time.stamp(self.tick_ns), out);
                }
            }
        }
        out.len()
    }

    fn lines(&mut self, frames: &Frames, out: &mut Vec<u8>) -> usize {
        let stamped = |time: crate::Time| match self.format {
            Format::Plain => None,
            Format::Stamped => Some(time.stamp(self.tick_ns).unwrap_or(Stamp(0))),
            _ => match time {
                crate::Time::Stamp(stamp) => Some(stamp),
                _ => None,
            },
        };
        let most: usize = frames.iter().map(|(bytes, _)| text::len(bytes.len()) + STAMP).sum::<usize>() + SLACK;
        if out.len() < most {
            out.resize(most, 0);
        }
        text::encode_lines(Kind::best(), frames.iter().map(|(bytes, time)| (bytes, stamped(time))), out)
    }
}

const SNAPLEN: u32 = 262_144;
const INTERFACE: &str = "pipe";

fn capture_format(format: Format) -> Option<pcap::Format> {
    match format {
        Format::Pcap => Some(pcap::Format::Pcap),
        Format::Pcapng => Some(pcap::Format::Pcapng),
        _ => None,
    }
}

/// A stream that frames are written to, a batch at a time.
pub struct Output {
    to: Box<dyn Write + Send>,
    encoder: Encoder,
    begun: bool,
    out: Vec<u8>,
}

impl Output {
    /// Writes to `to` in `format`.
    pub fn new(to: impl Write + Send + 'static, format: Format, tick_ns: u64) -> Output {
        Output { to: Box::new(to), encoder: Encoder::new(format, tick_ns), begun: false, out: Vec::new() }
    }

    /// Writes a batch, and passes it on at once: whoever reads may be waiting.
    ///
    /// # Errors
    /// What writing says; `BrokenPipe` when nobody reads any more.
    pub fn write(&mut self, frames: &Frames) -> io::Result<()> {
        let mut out = std::mem::take(&mut self.out);
        let used = self.encoder.encode(frames, &mut out);
        let written = self.write_bytes(out.get(..used).unwrap_or_default());
        self.out = out;
        written
    }

    /// Writes what an [`Encoder`] of the same form made.
    ///
    /// # Errors
    /// As [`Output::write`].
    pub fn write_bytes(&mut self, bytes: &[u8]) -> io::Result<()> {
        if !self.begun {
            self.to.write_all(&self.encoder.header())?;
            self.begun = true;
        }
        self.to.write_all(bytes)?;
        self.to.flush()
    }
}
