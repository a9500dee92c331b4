//! Writes captures: pcap with nanoseconds, or pcapng with named interfaces and directions. Little-endian, always.

use super::{Direction, Format, LINKTYPE_ETHERNET, Record, ng};
use std::io::{self, Write};

/// A capture of Ethernet frames being written.
#[derive(Debug)]
pub struct Writer<W: Write> {
    out: W,
    format: Format,
    snaplen: u32,
    interfaces: u32,
    scratch: Vec<u8>,
}

impl<W: Write> Writer<W> {
    /// Writes the file's header. Of each frame at most `snaplen` bytes will be kept.
    ///
    /// # Errors
    /// What writing says.
    pub fn new(out: W, format: Format, snaplen: u32) -> io::Result<Writer<W>> {
        let mut writer = Writer { out, format, snaplen, interfaces: 0, scratch: Vec::new() };
        let mut header = Vec::new();
        match format {
            Format::Pcap => {
                words(&mut header, &[0xa1b2_3c4d, 4 << 16 | 2, 0, 0, snaplen, u32::from(LINKTYPE_ETHERNET)]);
            }
            Format::Pcapng => block(&mut header, ng::SECTION, |body| {
                words(body, &[ng::BYTE_ORDER, 1, u32::MAX, u32::MAX]); // version 1.0, section length unknown
                option(body, 4, concat!("linerate ", env!("CARGO_PKG_VERSION")).as_bytes()); // shb_userappl
                words(body, &[0]);
            }),
        }
        writer.out.write_all(&header)?;
        Ok(writer)
    }

    /// Describes one more interface and says its number. A pcap file has one without a name: 0.
    ///
    /// # Errors
    /// What writing says.
    pub fn add_interface(&mut self, name: &str) -> io::Result<u32> {
        if self.format == Format::Pcap {
            return Ok(0);
        }
        let mut description = Vec::new();
        let name: String = name.chars().take(255).collect();
        block(&mut description, ng::INTERFACE, |body| {
            words(body, &[u32::from(LINKTYPE_ETHERNET), self.snaplen]);
            option(body, 2, name.as_bytes()); // if_name
            option(body, 9, &[9]); // if_tsresol: nanoseconds
            words(body, &[0]);
        });
        self.out.write_all(&description)?;
        self.interfaces += 1;
        Ok(self.interfaces - 1)
    }

    /// Writes one record; its link type is Ethernet, whatever it says.
    ///
    /// # Errors
    /// What writing says.
    pub fn write(&mut self, record: &Record<'_>) -> io::Result<()> {
        let mut scratch = std::mem::take(&mut self.scratch);
        scratch.clear();
        self.encode(record, &mut scratch);
        let answer = self.out.write_all(&scratch);
        self.scratch = scratch;
        answer
    }

    /// Appends the bytes that [`Writer::write`] would write.
    pub fn encode(&self, record: &Record<'_>, into: &mut Vec<u8>) {
        let keep = record.data.len().min(self.snaplen as usize);
        let data = record.data.get(..keep).unwrap_or_default();
        match self.format {
            Format::Pcap => {
                let seconds = u32::try_from(record.ts_ns / 1_000_000_000).unwrap_or(u32::MAX);
                words(into, &[seconds, (record.ts_ns % 1_000_000_000) as u32, keep as u32, record.orig_len]);
                into.extend_from_slice(data);
            }
            Format::Pcapng => block(into, ng::PACKET, |body| {
                let (high, low) = ((record.ts_ns >> 32) as u32, record.ts_ns as u32);
                words(body, &[record.interface, high, low, keep as u32, record.orig_len]);
                body.extend_from_slice(data);
                pad(body, keep);
                let flags = match record.direction {
                    Direction::Unknown => return,
                    Direction::Inbound => 1u32,
                    Direction::Outbound => 2,
                };
                option(body, 2, &flags.to_le_bytes()); // epb_flags
                words(body, &[0]);
            }),
        }
    }

    /// Writes bytes that [`Writer::encode`] made.
    ///
    /// # Errors
    /// What writing says.
    pub fn write_encoded(&mut self, bytes: &[u8]) -> io::Result<()> {
        self.out.write_all(bytes)
    }

    /// Passes on what the writer underneath holds back.
    ///
    /// # Errors
    /// What flushing says.
    pub fn flush(&mut self) -> io::Result<()> {
        self.out.flush()
    }

    /// The writer underneath.
    pub fn into_inner(self) -> W {
        self.out
    }
}

fn words(out: &mut Vec<u8>, words: &[u32]) {
    words.iter().for_each(|word| out.extend_from_slice(&word.to_le_bytes()));
}

/// Zeros up to a multiple of four, behind `len` bytes.
fn pad(out: &mut Vec<u8>, len: usize) {
    out.extend_from_slice([0; 3].get(..len.next_multiple_of(4) - len).unwrap_or_default());
}

fn option(out: &mut Vec<u8>, code: u16, value: &[u8]) {
    out.extend_from_slice(&code.to_le_bytes());
    out.extend_from_slice(&(value.len() as u16).to_le_bytes());
    out.extend_from_slice(value);
    pad(out, value.len());
}

/// A block around what `fill` writes.
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
