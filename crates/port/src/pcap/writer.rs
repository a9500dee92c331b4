//! Writer of captures, in pcap or pcapng, always in little-endian byte order.

use super::ng;
use super::options::{append_option, pad};
use super::record::{Direction, Format, LINKTYPE_ETHERNET, Record};
use super::section::{Interface, Section};
use std::io::{self, Write};

/// Writer of a capture.
#[derive(Debug)]
pub struct Writer<W: Write> {
    out: W,
    format: Format,
    snaplen: u32,
    interfaces: Vec<Interface>,
    scratch: Vec<u8>,
}

impl<W: Write> Writer<W> {
    /// Writes the header of a file of Ethernet frames with nanosecond timestamps. At most `snaplen`
    /// bytes of each frame are written. For pcapng, the caller must also call
    /// [`Writer::add_interface`] for each interface before it writes frames of it.
    ///
    /// # Errors
    /// Errors of the underlying writer.
    pub fn new(out: W, format: Format, snaplen: u32) -> io::Result<Writer<W>> {
        let interface = Interface::ethernet("", snaplen);
        Writer { out, format, snaplen, interfaces: Vec::new(), scratch: Vec::new() }.begin(&interface, &[])
    }

    /// Writes the header of a file for packets from a file with the description `section`. A pcap
    /// file gets the link type of the section's first interface. For pcapng, the caller must also
    /// call [`Writer::describe`] for each interface.
    ///
    /// # Errors
    /// Errors of the underlying writer.
    pub fn like(out: W, format: Format, section: &Section) -> io::Result<Writer<W>> {
        let first = written(format, section).into_iter().next();
        let first = first.unwrap_or_else(|| Interface::ethernet("", super::MAX_SNAPLEN));
        let snaplen = first.snaplen;
        Writer { out, format, snaplen, interfaces: Vec::new(), scratch: Vec::new() }.begin(&first, &section.options)
    }

    fn begin(mut self, first: &Interface, options: &[u8]) -> io::Result<Writer<W>> {
        let mut header = Vec::new();
        match self.format {
            Format::Pcap => {
                let magic = if first.resolution == 6 { 0xa1b2_c3d4 } else { 0xa1b2_3c4d };
                words(&mut header, &[magic, 4 << 16 | 2, 0, 0, first.snaplen, u32::from(first.linktype)]);
                self.interfaces.push(first.clone());
            }
            Format::Pcapng => block(&mut header, ng::SECTION, |body| {
                words(body, &[ng::BYTE_ORDER, 1, u32::MAX, u32::MAX]); // version 1.0, section length unknown
                body.extend_from_slice(options);
                append_option(body, 4, concat!("linerate ", env!("CARGO_PKG_VERSION")).as_bytes()); // shb_userappl
                words(body, &[0]);
            }),
        }
        self.out.write_all(&header)?;
        Ok(self)
    }

    /// Describes another Ethernet interface and returns its number. A pcap file has a single,
    /// unnamed interface with the number 0.
    ///
    /// # Errors
    /// Errors of the underlying writer.
    pub fn add_interface(&mut self, name: &str) -> io::Result<u32> {
        self.describe(&Interface::ethernet(name, self.snaplen))
    }

    /// Describes another interface and returns its number. A pcap file has a single interface with
    /// the number 0.
    ///
    /// # Errors
    /// Errors of the underlying writer.
    pub fn describe(&mut self, interface: &Interface) -> io::Result<u32> {
        if self.format == Format::Pcap {
            return Ok(0);
        }
        let interface = interface.writable();
        let mut description = Vec::new();
        append_interface(&interface, &mut description);
        self.out.write_all(&description)?;
        self.interfaces.push(interface);
        Ok(self.interfaces.len() as u32 - 1)
    }

    /// Returns the number of interfaces described so far, which is always one for a pcap file.
    pub fn described(&self) -> usize {
        self.interfaces.len()
    }

    /// Returns the link type of a pcap file; `None` for pcapng, where each interface has its own.
    pub fn linktype(&self) -> Option<u16> {
        (self.format == Format::Pcap).then(|| self.interfaces.first().map_or(LINKTYPE_ETHERNET, |first| first.linktype))
    }

    /// Writes one record. Its link type is that of its interface, and `record.linktype` is ignored.
    ///
    /// # Errors
    /// `InvalidInput` if the interface of the record was not described, so that no reader could
    /// read the record; otherwise errors of the underlying writer.
    pub fn write(&mut self, record: &Record<'_>) -> io::Result<()> {
        if self.format == Format::Pcapng && record.interface as usize >= self.interfaces.len() {
            let what = format!(
                "interface {}: {} are described; call add_interface first",
                record.interface,
                self.interfaces.len()
            );
            return Err(io::Error::new(io::ErrorKind::InvalidInput, what));
        }
        let mut scratch = std::mem::take(&mut self.scratch);
        scratch.clear();
        self.encode(record, &mut scratch);
        let answer = self.out.write_all(&scratch);
        self.scratch = scratch;
        answer
    }

    /// Appends the bytes that [`Writer::write`] would write.
    pub fn encode(&self, record: &Record<'_>, into: &mut Vec<u8>) {
        let keep = record.data.len().min(if self.snaplen == 0 { usize::MAX } else { self.snaplen as usize });
        let data = record.data.get(..keep).unwrap_or_default();
        let at = if self.format == Format::Pcap { 0 } else { record.interface as usize };
        append_record(self.format, self.interfaces.get(at), &Record { data, ..*record }, into);
    }

    /// Writes bytes produced by [`Writer::encode`] or [`append_record`].
    ///
    /// # Errors
    /// Errors of the underlying writer.
    pub fn write_encoded(&mut self, bytes: &[u8]) -> io::Result<()> {
        self.out.write_all(bytes)
    }

    /// Flushes the underlying writer.
    ///
    /// # Errors
    /// Errors of the underlying writer.
    pub fn flush(&mut self) -> io::Result<()> {
        self.out.flush()
    }

    /// Returns the underlying writer.
    pub fn into_inner(self) -> W {
        self.out
    }
}

/// Returns the interfaces of an output file in `format`, to which the packets of a file with the
/// description `section` are written. Timestamps keep the resolution of the input if 64 bits are
/// sufficient for it. A pcap file gets microseconds only if the input is a pcap file with
/// microseconds, and nanoseconds otherwise.
pub fn written(format: Format, section: &Section) -> Vec<Interface> {
    let mut interfaces: Vec<Interface> = section.interfaces.iter().map(Interface::writable).collect();
    if format == Format::Pcap {
        interfaces.truncate(1);
        for interface in &mut interfaces {
            let is_coarse = section.format == Format::Pcap && interface.resolution == 6;
            interface.resolution = if is_coarse { 6 } else { 9 };
        }
    }
    interfaces
}

/// Appends the pcapng block that describes `interface`.
pub fn append_interface(interface: &Interface, into: &mut Vec<u8>) {
    block(into, ng::INTERFACE, |body| {
        words(body, &[u32::from(interface.linktype), interface.snaplen]);
        body.extend_from_slice(&interface.options);
        append_option(body, 9, &[interface.resolution]); // if_tsresol
        words(body, &[0]);
    });
}

/// Appends `record` in `format`. Its timestamp has the resolution of `interface`, or nanoseconds if
/// `interface` is `None`.
pub fn append_record(format: Format, interface: Option<&Interface>, record: &Record<'_>, into: &mut Vec<u8>) {
    let captured = record.data.len() as u32;
    match format {
        Format::Pcap => {
            let seconds = u32::try_from(record.ts_ns / 1_000_000_000).unwrap_or(u32::MAX);
            let ns = (record.ts_ns % 1_000_000_000) as u32;
            let fraction = if interface.is_some_and(|interface| interface.resolution == 6) { ns / 1_000 } else { ns };
            words(into, &[seconds, fraction, captured, record.orig_len]);
            into.extend_from_slice(record.data);
        }
        Format::Pcapng => block(into, ng::PACKET, |body| {
            let units = interface.map_or(record.ts_ns, |interface| interface.units(record.ts_ns));
            words(body, &[record.interface, (units >> 32) as u32, units as u32, captured, record.orig_len]);
            body.extend_from_slice(record.data);
            pad(body, record.data.len());
            if !record.options.is_empty() {
                body.extend_from_slice(record.options);
                return words(body, &[0]);
            }
            let flags = match record.direction {
                Direction::Unknown => return,
                Direction::Inbound => 1u32,
                Direction::Outbound => 2,
            };
            append_option(body, 2, &flags.to_le_bytes()); // epb_flags
            words(body, &[0]);
        }),
    }
}

fn words(out: &mut Vec<u8>, words: &[u32]) {
    words.iter().for_each(|word| out.extend_from_slice(&word.to_le_bytes()));
}

/// Appends a block whose body is written by `fill`.
fn block(out: &mut Vec<u8>, ty: u32, fill: impl FnOnce(&mut Vec<u8>)) {
    let start = out.len();
    words(out, &[ty, 0]);
    fill(out);
    let len = (out.len() - start + 4) as u32;
    words(out, &[len]);
    if let Some(place) = out.get_mut(start + 4..start + 8) {
        place.copy_from_slice(&len.to_le_bytes());
    }
}
