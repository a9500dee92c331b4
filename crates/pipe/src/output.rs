//! Writes frames to a stream of bytes.

mod error;

pub use error::BadOutput;

use crate::run::RunError;
use crate::stage::BadLink;
use crate::{Format, Frames, Time, input};
use port::pcap::{self, Interface, LINKTYPE_ETHERNET, Record, Section};
use std::io::{self, Write};
use std::sync::Arc;
use wire::bpkt::{self, Form};
use wire::text::{self, Kind, MIN_FRAME, SLACK, STAMP, Stamp};

/// Encodes frames as bytes, without writing them. Each of several threads may use its own encoder;
/// the caller then puts the results in order.
#[derive(Debug)]
pub struct Encoder {
    format: Format,
    tick_ns: u64,
    packet: Vec<u8>,
}

impl Encoder {
    /// Creates an encoder for `format`. Stamps have ticks of `tick_ns` nanoseconds (8 in ethpipe)
    /// when they are converted to or from other times.
    pub fn new(format: Format, tick_ns: u64) -> Encoder {
        Encoder { format, tick_ns, packet: Vec::new() }
    }

    /// Encodes `frames` into the first bytes of `out` and returns the number of bytes encoded.
    /// `out` grows as necessary. Its bytes after the encoded ones are undefined.
    ///
    /// # Errors
    /// The format cannot represent the frames.
    pub fn encode(&mut self, frames: &Frames, out: &mut Vec<u8>) -> Result<usize, BadOutput> {
        if self.format.is_text() {
            BadLink::check(frames, "written as text: use -o pcap, pcapng or jsonl")?;
            return Ok(self.lines(frames, out));
        }
        out.clear();
        match self.format {
            Format::Pcap => self.capture(pcap::Format::Pcap, frames, out)?,
            Format::Pcapng => self.capture(pcap::Format::Pcapng, frames, out)?,
            Format::Jsonl => {
                let section = frames.section();
                for (at, (bytes, time)) in frames.iter().enumerate() {
                    let about = frames.about(at);
                    let interface = section.and_then(|section| section.interfaces.get(about.interface as usize));
                    input::write_json(bytes, time, about, interface.and_then(Interface::name), out);
                }
            }
            _ => {
                BadLink::check(frames, "written as a binary record: use -o pcap, pcapng or jsonl")?;
                let form = if self.format == Format::Bin1 { Form::V1 } else { Form::V2 };
                for (bytes, time) in frames.iter() {
                    if !bpkt::emit(form, bytes, time.stamp(self.tick_ns), out) {
                        return Err(BadOutput::TooLong(bytes.len()));
                    }
                }
            }
        }
        Ok(out.len())
    }

    fn capture(&mut self, format: pcap::Format, frames: &Frames, out: &mut Vec<u8>) -> Result<(), BadOutput> {
        let usual = Interface::ethernet(INTERFACE, pcap::MAX_SNAPLEN);
        let interfaces = frames.section().map_or(std::slice::from_ref(&usual), |section| &section.interfaces);
        let written = written(format, frames.section().map(|section| &**section));
        let first = written.first().map_or(LINKTYPE_ETHERNET, |first| first.linktype);
        for (at, (bytes, time)) in frames.iter().enumerate() {
            let about = frames.about(at);
            let linktype = interfaces.get(about.interface as usize).map_or(LINKTYPE_ETHERNET, |i| i.linktype);
            if format == pcap::Format::Pcap && linktype != first {
                return Err(BadOutput::LinkTypes { first, other: linktype });
            }
            let data = match &about.link {
                None => bytes,
                Some((_, header)) => {
                    self.packet.clear();
                    self.packet.extend_from_slice(header);
                    self.packet.extend_from_slice(bytes.get(MIN_FRAME..).unwrap_or_default());
                    &self.packet
                }
            };
            let record = Record {
                ts_ns: time.wall_ns(self.tick_ns).unwrap_or(0),
                orig_len: about.cut.saturating_add(data.len() as u32),
                data,
                linktype,
                interface: about.interface,
                options: &about.options,
                ..Record::default()
            };
            let of = if format == pcap::Format::Pcap { 0 } else { about.interface as usize };
            pcap::append_record(format, written.get(of), &record, out);
        }
        Ok(())
    }

    fn lines(&mut self, frames: &Frames, out: &mut Vec<u8>) -> usize {
        let stamped = |time: Time| match self.format {
            Format::Plain => None,
            Format::Stamped => Some(time.stamp(self.tick_ns).unwrap_or(Stamp(0))),
            _ => match time {
                Time::Stamp(stamp) => Some(stamp),
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

/// Interface name in captures for frames that do not come from a capture.
const INTERFACE: &str = "pipe";

/// Returns the interfaces that a capture file of `format` must describe for frames of `section`.
fn written(format: pcap::Format, section: Option<&Section>) -> Vec<Interface> {
    match section {
        Some(section) => pcap::written(format, section),
        None => vec![Interface::ethernet(INTERFACE, pcap::MAX_SNAPLEN)],
    }
}

fn capture_format(format: Format) -> Option<pcap::Format> {
    match format {
        Format::Pcap => Some(pcap::Format::Pcap),
        Format::Pcapng => Some(pcap::Format::Pcapng),
        _ => None,
    }
}

/// A stream to which batches of frames are written.
pub struct Output {
    to: Box<dyn Write + Send>,
    encoder: Encoder,
    /// Number of interfaces described in the stream so far; `None` before the header is written.
    described: Option<usize>,
    out: Vec<u8>,
}

impl Output {
    /// Creates an output that writes frames to `to` in `format`. Stamps have ticks of `tick_ns`
    /// nanoseconds.
    pub fn new(to: impl Write + Send + 'static, format: Format, tick_ns: u64) -> Output {
        Output { to: Box::new(to), encoder: Encoder::new(format, tick_ns), described: None, out: Vec::new() }
    }

    /// Writes a batch of frames and flushes the stream, since its reader may be waiting.
    ///
    /// # Errors
    /// Errors of the stream (`BrokenPipe` if the reader has closed it) and [`BadOutput`].
    pub fn write(&mut self, frames: &Frames) -> Result<(), RunError> {
        let mut out = std::mem::take(&mut self.out);
        let used = self.encoder.encode(frames, &mut out);
        let written = used
            .map_err(RunError::from)
            .and_then(|used| Ok(self.write_bytes(out.get(..used).unwrap_or_default(), frames.section())?));
        self.out = out;
        written
    }

    /// Writes bytes that an [`Encoder`] of the same format has encoded from frames of the capture
    /// section `section`.
    ///
    /// # Errors
    /// Errors of writing.
    pub fn write_bytes(&mut self, bytes: &[u8], section: Option<&Arc<Section>>) -> io::Result<()> {
        let header = self.header(section.map(|section| &**section));
        self.to.write_all(&header)?;
        self.to.write_all(bytes)?;
        self.to.flush()
    }

    /// Writes the file header of a capture if no frames were written, and flushes the stream.
    ///
    /// # Errors
    /// Errors of writing.
    pub fn end(&mut self) -> io::Result<()> {
        self.write_bytes(&[], None)
    }

    /// Returns the bytes to write before frames of `section`: the file header if it has not been
    /// written, and descriptions of new interfaces.
    fn header(&mut self, section: Option<&Section>) -> Vec<u8> {
        let known = section.map_or(0, |section| section.interfaces.len());
        if self.described.is_some_and(|described| known <= described) {
            return Vec::new();
        }
        let header = header(self.encoder.format, section, self.described);
        self.described = Some(known.max(1));
        header
    }
}

/// Returns the bytes to write before frames of `section` in `format`. If `described` is `None`,
/// these are the file header and descriptions of all interfaces; otherwise only the descriptions of
/// the interfaces from index `described` on.
pub(crate) fn header(format: Format, section: Option<&Section>, described: Option<usize>) -> Vec<u8> {
    let Some(format) = capture_format(format) else { return Vec::new() };
    let mut out = Vec::new();
    if described.is_none() {
        // Writing to a vector does not fail.
        out = match section {
            Some(section) => pcap::Writer::like(out, format, section),
            None => pcap::Writer::new(out, format, pcap::MAX_SNAPLEN),
        }
        .map_or_else(|_| Vec::new(), pcap::Writer::into_inner);
    }
    if format == pcap::Format::Pcapng {
        let interfaces = written(format, section);
        let new = interfaces.get(described.unwrap_or(0)..).unwrap_or_default();
        new.iter().for_each(|interface| pcap::append_interface(interface, &mut out));
    }
    out
}
