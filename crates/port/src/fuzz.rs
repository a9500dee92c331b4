//! Bodies of the fuzz targets: properties that must be true for every byte string. The tests run
//! them too.
//!
//! Each function takes arbitrary bytes and panics only when an invariant of this crate is broken.
//! `cargo xtask fuzz` calls them with the corpora under `fuzz/corpus/port_*`.
#![allow(
    clippy::unwrap_used,
    clippy::indexing_slicing,
    clippy::panic,
    reason = "broken invariants must panic; built for tests and fuzzing only"
)]

use crate::ip_link::{self, IpLink, Outgoing};
use crate::offload::{RxCsum, virtio};
use crate::os::tun::VNET_HDR_LEN;
use crate::own::unix::{FRAME_MAX, Unframer};
use crate::packet::slot::Packet;
use crate::pcap::{
    Direction, Format, LINKTYPE_ETHERNET, MAX_BLOCK, Reader, Record, Section, Writer, append_record, written,
};
use crate::spec::Spec;
use crate::text::{Line, Lines};
use buf::{Pool, PoolConfig};
use std::io::{self, Read};
use wire::eth::{self, EtherType};
use wire::icmp6::{Message, nd};
use wire::{Mac, arp, ip6};

/// Tests the framing of UNIX streams, with input in pieces.
///
/// Properties: no panic; the frames are those that a parser of the whole input finds; the stream
/// ends normally exactly if the input ends after a frame.
pub fn frames(data: &[u8]) {
    let (mut stream, mut rest) = (Pieces { data, turn: 0 }, data);
    let (mut unframer, mut frame) = (Unframer::new(), vec![0; FRAME_MAX]);
    loop {
        let received = unframer.recv(&mut stream, &mut frame);
        if received.as_ref().is_err_and(|error| error.kind() == io::ErrorKind::WouldBlock) {
            continue;
        }
        let expected = rest.split_first_chunk().map(|(len, rest)| (u32::from_be_bytes(*len) as usize, rest));
        match (received, expected) {
            (Ok(len), Some((expected, bytes))) => {
                assert_eq!(len, expected);
                assert_eq!(frame[..len], bytes[..len]);
                rest = &bytes[len..];
            }
            (Err(error), None) => {
                let is_normal = error.kind() == io::ErrorKind::UnexpectedEof;
                assert_eq!(is_normal, rest.is_empty(), "{error}");
                return;
            }
            (Err(error), Some((len, bytes))) => {
                assert!(len > FRAME_MAX || bytes.len() < len, "{error}");
                return;
            }
            (Ok(len), None) => panic!("a frame of {len} bytes without a prefix"),
        }
    }
}

/// Tests the link of a port for IP packets: the input is a received packet (if the first byte is
/// even) or a frame that the host sends.
///
/// Properties: no panic; a packet gets a header with its type, and its bytes do not change; an
/// answer is an ARP reply or a valid neighbor advertisement to the frame's source.
pub fn ip_link(data: &[u8]) {
    let (&kind, data) = data.split_first().unwrap_or((&0, &[]));
    let pool = Pool::new(&PoolConfig { buffers: 2, data: 1 << 16, ..PoolConfig::default() }).unwrap();
    let link = IpLink::new(Mac([2, 0, 0, 0, 0, 7]), None).unwrap();
    if kind & 1 == 0 {
        let mut frame = pool.get().unwrap();
        if frame.extend(data).is_some() && link.add_header(&mut frame) {
            let header = eth::Header::parse(frame.bytes()).unwrap();
            let version = match data[0] >> 4 {
                4 => EtherType::IPV4,
                _ => EtherType::IPV6,
            };
            assert_eq!((header.src, header.ethertype), (ip_link::PEER, version));
            assert_eq!(&frame.bytes()[eth::HEADER_LEN..], data);
        }
        return;
    }
    let outgoing = link.send(data);
    let Some(answer) = link.take_answer() else { return };
    assert_eq!(outgoing, Outgoing::Handled);
    let (header, packet) = (eth::Header::parse(&answer).unwrap(), &answer[eth::HEADER_LEN..]);
    assert_eq!((header.src, header.dst.0.as_slice()), (ip_link::PEER, &data[6..12]));
    if header.ethertype == EtherType::ARP {
        assert_eq!(arp::Packet::parse(packet).unwrap().op, arp::Op::Reply);
        return;
    }
    let header = ip6::Header::parse(packet).unwrap();
    let message = Message::parse(header.payload(packet), header.src, header.dst);
    assert!(matches!(message, Ok(Message::Nd(nd::Message::Advert { .. }))), "{message:?}");
}

/// Tests the conversion of received frames. If the first byte is even, the input is a slot of a
/// packet socket's ring; otherwise it is a virtio header with a frame after it.
///
/// Properties: no panic; the bytes of a frame lie within its slot; the checksum and segmentation
/// requests of an accepted virtio header can be converted back into a header, or are refused;
/// emitting and parsing a header yields the same header.
pub fn device(data: &[u8]) {
    let (&flags, data) = data.split_first().unwrap_or((&0, &[]));
    let pool = Pool::new(&PoolConfig { buffers: 4, data: 1 << 16, ..PoolConfig::default() }).unwrap();
    if flags & 1 == 1 {
        if let Some((header, bytes)) = data.split_first_chunk() {
            vnet(&pool, flags, header, bytes);
        }
        return;
    }
    let Some(packet) = Packet::parse(data) else { return };
    assert!(data.as_ptr_range().contains(&packet.bytes.as_ptr()) || packet.bytes.is_empty());
    let _ = packet.extent();
    let mut frame = pool.get().unwrap();
    if packet.copy_to(&mut frame).is_some() {
        assert_eq!(frame.len(), packet.bytes.len() + packet.tag.map_or(0, |tag| tag.len()));
    }
    vnet(&pool, flags, &packet.vnet, packet.bytes);
}

fn vnet(pool: &Pool, flags: u8, header: &[u8; VNET_HDR_LEN], bytes: &[u8]) {
    let header = virtio::Header::parse(header);
    assert_eq!(virtio::Header::parse(&header.emit()), header);
    let mut frame = pool.get().unwrap();
    if frame.extend(bytes).is_none() {
        return;
    }
    let rx_csum = [RxCsum::Complete, RxCsum::Trust][usize::from(flags >> 1 & 1)];
    let largest = if flags & 4 == 0 { 0 } else { 1 << 16 };
    if virtio::understand(&header, &mut frame, rx_csum, largest).is_none() {
        return;
    }
    assert_eq!(frame.len(), bytes.len());
    if let Some(sent) = virtio::prepare(&mut frame, flags & 8 != 0) {
        let place = usize::from(sent.csum_start) + usize::from(sent.csum_offset) + 2;
        assert!(sent.flags & virtio::NEEDS_CSUM == 0 || place <= frame.len());
        assert!(sent.gso_type == virtio::GSO_NONE || usize::from(sent.hdr_len) < frame.len());
    }
}

/// Tests both capture formats, with the input read whole and in pieces.
///
/// Properties: reading ends; memory is bounded; input in pieces results in the same records and the
/// same error; records are unchanged by writing and reading again.
pub fn pcap(data: &[u8]) {
    let whole = records(Reader::new(data));
    let pieces = records(Reader::new(Pieces { data, turn: 0 }));
    assert_eq!(whole.1, pieces.1);
    assert!(whole.0 == pieces.0, "input in pieces results in other records");
    for format in [Format::Pcap, Format::Pcapng] {
        let mut writer = Writer::new(Vec::new(), format, u32::MAX).unwrap();
        writer.add_interface("fuzz").unwrap();
        let mut wanted = whole.0.clone();
        for (record, data, options) in &mut wanted {
            (record.linktype, record.interface) = (LINKTYPE_ETHERNET, 0);
            if format == Format::Pcap {
                record.direction = Default::default();
                options.clear();
                record.ts_ns %= u64::from(u32::MAX) * 1_000_000_000; // limit of 32-bit seconds
            }
            writer.write(&Record { data, options, ..*record }).unwrap();
            if format == Format::Pcapng && options.is_empty() {
                *options = direction_option(record.direction);
            }
        }
        let bytes = writer.into_inner();
        let again = records(Reader::new(&bytes[..]));
        assert_eq!(again.1, None);
        assert!(again.0 == wanted, "the records change when written and read again");
    }
    like(&whole.0, &whole.2);
}

/// Returns the option that the writer adds for a direction when the record has no options.
fn direction_option(direction: Direction) -> Vec<u8> {
    match direction {
        Direction::Unknown => Vec::new(),
        Direction::Inbound => vec![2, 0, 4, 0, 1, 0, 0, 0],
        Direction::Outbound => vec![2, 0, 4, 0, 2, 0, 0, 0],
    }
}

/// Checks that records written together with the descriptions of their interfaces are read back
/// unchanged. Timestamps are not compared, because the time unit of a record's interface, or 64
/// bits, may not be able to represent them.
fn like(all: &Records, section: &Section) {
    let mut writer = Writer::like(Vec::new(), Format::Pcapng, section).unwrap();
    let described = written(Format::Pcapng, section);
    described.iter().for_each(|interface| _ = writer.describe(interface).unwrap());
    let mut bytes = writer.into_inner();
    for (record, data, options) in all {
        let interface = described.get(record.interface as usize);
        append_record(Format::Pcapng, interface, &Record { data, options, ..*record }, &mut bytes);
    }
    let (again, error, section) = records(Reader::new(&bytes[..]));
    assert_eq!((error, section.interfaces), (None, described));
    let timeless = |all: &Records| {
        let mut all = all.clone();
        for (record, _, options) in &mut all {
            record.ts_ns = 0;
            if options.is_empty() {
                *options = direction_option(record.direction);
            }
        }
        all
    };
    assert!(timeless(&again) == timeless(all), "the records change when written with their interfaces and read again");
}

/// Records of a capture, each with its data and its options.
type Records = Vec<(Record<'static>, Vec<u8>, Vec<u8>)>;

fn records(mut reader: Reader<impl Read>) -> (Records, Option<String>, Section) {
    let mut records = Vec::new();
    loop {
        assert!(reader.allocated() <= 2 * (MAX_BLOCK + 128 * 1024));
        match reader.read() {
            Ok(Some(record)) => {
                let (data, options) = (record.data.to_vec(), record.options.to_vec());
                let Record { ts_ns, orig_len, linktype, interface, direction, .. } = record;
                let bare = Record { ts_ns, orig_len, linktype, interface, direction, ..Record::default() };
                records.push((bare, data, options));
            }
            Ok(None) => return (records, None, reader.section().clone()),
            Err(error) if error.is_would_block() => {}
            Err(error) => {
                let text = error.to_string();
                assert!(reader.read().unwrap().is_none(), "a record follows an error");
                return (records, Some(text), reader.section().clone());
            }
        }
    }
}

/// An input that returns its data in small pieces, with `WouldBlock` between them.
struct Pieces<'a> {
    data: &'a [u8],
    turn: usize,
}

impl Read for Pieces<'_> {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        self.turn += 1;
        if self.turn.is_multiple_of(2) {
            return Err(io::ErrorKind::WouldBlock.into());
        }
        let n = [1, 7, 64, 4096][self.turn / 2 % 4].min(self.data.len()).min(into.len());
        into[..n].copy_from_slice(&self.data[..n]);
        self.data = &self.data[n..];
        Ok(n)
    }
}

/// Tests lines of text, whole and in pieces.
///
/// Properties: parsing ends; input in pieces results in the same frames and the same warnings; each
/// line is a frame, blank or bad; frames are unchanged by writing and reading again.
pub fn text(data: &[u8]) {
    let whole = lines(data, data.len().max(1));
    for piece in [1, 7, 4096] {
        assert_eq!(lines(data, piece), whole, "in pieces of {piece}");
    }
    let mut written = Vec::new();
    for frame in &whole.0 {
        let mut line = vec![0; wire::text::MAX_LINE + wire::text::SLACK];
        let len = wire::text::encode(frame, None, &mut line).unwrap();
        written.extend_from_slice(&line[..len]);
    }
    assert_eq!(lines(&written, 64), (whole.0, Vec::new()));
}

fn lines(mut data: &[u8], piece: usize) -> (Vec<Vec<u8>>, Vec<String>) {
    let (mut lines, mut frames, mut closed) = (Lines::new(), Vec::new(), false);
    loop {
        match lines.next() {
            Some(Line::Frame) => frames.push(lines.frame().to_vec()),
            Some(Line::Bad) => {}
            None if data.is_empty() && closed => break,
            None if data.is_empty() => {
                lines.close();
                closed = true;
            }
            None => {
                let room = lines.room();
                let n = piece.min(data.len()).min(room.len());
                assert!(n > 0, "the buffer is full but contains no line");
                room[..n].copy_from_slice(&data[..n]);
                lines.came(n);
                data = &data[n..];
            }
        }
    }
    assert!(lines.is_empty(), "unparsed input is left");
    (frames, lines.warnings())
}

/// Tests the grammar of port names.
///
/// Properties: a text is parsed into a spec, or results in a non-empty error; a spec is formatted
/// as text that is parsed to the same spec.
pub fn spec(data: &[u8]) {
    let Ok(text) = std::str::from_utf8(data) else { return };
    match Spec::parse(text) {
        // The formatted text can be longer than the input and exceed the limit.
        Ok(spec) if spec.to_string().len() <= crate::spec::MAX_LEN => {
            assert_eq!(Spec::parse(&spec.to_string()), Ok(spec));
        }
        Ok(_) => {}
        Err(error) => assert!(!error.to_string().is_empty()),
    }
}

#[cfg(test)]
mod tests;
