//! A source of datagrams that are longer than the MTU. It creates each datagram as fragments, in
//! order (RFC 791 2.3).
//!
//! Over IPv6, each fragment has a Fragment header (RFC 8200 4.5). All fragments of a datagram have
//! the same identification. It is incremented with each datagram, so that fragments of two
//! datagrams are not reassembled together. Rates, flows and random destinations are supported for
//! unfragmented datagrams only.

use super::source::{ETH, Source};
use super::template::template;
use crate::{PortCounts, RxHalf};
use buf::{Burst, Frame, Pool};
use clock::Instant;
use std::sync::Arc;
use wire::{ip4, ip6};

/// Source that creates the same datagram repeatedly, one fragment at a time.
pub(super) struct Fragments {
    pieces: Vec<Box<[u8]>>,
    /// Index of the next fragment.
    next: usize,
    id: u32,
    pool: Pool,
    counts: Arc<PortCounts>,
    /// Number of fragments that are still to be created.
    left: u64,
}

impl Fragments {
    /// Creates the source. Returns `None` if the datagrams fit into packets of the MTU.
    pub(super) fn new(source: &Source, pool: &Pool, counts: &Arc<PortCounts>) -> Option<Fragments> {
        let mtu = source.mtu.filter(|mtu| source.headers() - ETH + source.size > *mtu)?;
        let pieces = cut(&template(source), mtu)?;
        let left = match source.count {
            0 => u64::MAX,
            datagrams => datagrams.saturating_mul(pieces.len() as u64),
        };
        Some(Fragments { pieces, next: 0, id: 0, pool: pool.clone(), counts: counts.clone(), left })
    }

    /// Creates the next fragment; `None` if the pool has no free buffer, or if its buffers are too
    /// short.
    fn make(&mut self) -> Option<Frame> {
        let piece = self.pieces.get(self.next)?;
        if self.pool.headroom() + piece.len() > self.pool.size() {
            self.counts.rx.malformed.bump();
            return None;
        }
        let Some(mut frame) = self.pool.get() else {
            self.counts.rx.no_buffer.bump();
            return None;
        };
        frame.extend(piece)?;
        set_id(frame.bytes_mut().get_mut(ETH..)?, self.id)?;
        self.next += 1;
        if self.next == self.pieces.len() {
            (self.next, self.id) = (0, self.id.wrapping_add(1));
        }
        Some(frame)
    }
}

/// Splits a frame with one long packet into frames with packets of at most `mtu` bytes. Returns
/// `None` if the MTU is too small for 8 bytes of payload.
fn cut(whole: &[u8], mtu: usize) -> Option<Vec<Box<[u8]>>> {
    let (link, packet) = whole.split_at_checked(ETH)?;
    match ip6::is_version(packet) {
        true => cut6(link, packet, mtu),
        false => cut4(link, packet, mtu),
    }
}

fn cut4(link: &[u8], packet: &[u8], mtu: usize) -> Option<Vec<Box<[u8]>>> {
    let payload = packet.get(ip4::HEADER_LEN..)?;
    let header = ip4::Header::parse(packet).ok().filter(|header| header.ihl_len == ip4::HEADER_LEN)?;
    pieces(payload, mtu.checked_sub(ip4::HEADER_LEN)?, |part, frag_off, more| {
        let total_len = (ip4::HEADER_LEN + part.len()) as u16;
        let mut bytes = [0; ip4::HEADER_LEN];
        ip4::Header { mf: more, frag_off, total_len, ..header }.emit(&mut bytes);
        [link, &bytes, part].concat().into_boxed_slice()
    })
}

fn cut6(link: &[u8], packet: &[u8], mtu: usize) -> Option<Vec<Box<[u8]>>> {
    let payload = packet.get(ip6::HEADER_LEN..)?;
    let header = ip6::Header::parse(packet).ok()?;
    pieces(payload, mtu.checked_sub(ip6::HEADER_LEN + FRAGMENT)?, |part, offset, more| {
        let fragment = ip6::Fragment { offset, more, id: 0 }.emit(header.next);
        let payload_len = (FRAGMENT + part.len()) as u16;
        let mut bytes = [0; ip6::HEADER_LEN];
        ip6::Header { next: ip6::Proto::FRAGMENT, payload_len, ..header }.emit(&mut bytes);
        [link, &bytes, &fragment, part].concat().into_boxed_slice()
    })
}

/// Length of a Fragment header in bytes.
const FRAGMENT: usize = 8;

/// Splits a payload into parts of at most `room` bytes, whose lengths are multiples of 8 except for
/// the last. Calls `make` with each part, its offset, and whether more parts follow; `make` returns
/// the frame.
fn pieces(payload: &[u8], room: usize, make: impl Fn(&[u8], u16, bool) -> Box<[u8]>) -> Option<Vec<Box<[u8]>>> {
    let room = room & !7;
    if room == 0 {
        return None;
    }
    let last = payload.len().div_ceil(room) - 1;
    let piece = |(n, part): (usize, &[u8])| make(part, (n * room) as u16, n != last);
    Some(payload.chunks(room).enumerate().map(piece).collect())
}

/// Writes the identification of a fragment.
fn set_id(packet: &mut [u8], id: u32) -> Option<()> {
    if ip6::is_version(packet) {
        let field = packet.get_mut(ip6::HEADER_LEN + 4..)?.first_chunk_mut()?;
        *field = id.to_be_bytes();
        return Some(());
    }
    let (before, sum) = (word(packet, 4)?, word(packet, 10)?);
    put(packet, 4, id as u16);
    put(packet, 10, wire::checksum::update16(sum, before, id as u16));
    Some(())
}

fn word(header: &[u8], at: usize) -> Option<u16> {
    header.get(at..)?.first_chunk().map(|bytes| u16::from_be_bytes(*bytes))
}

fn put(header: &mut [u8], at: usize, value: u16) {
    if let Some(word) = header.get_mut(at..).and_then(|rest| rest.first_chunk_mut()) {
        *word = value.to_be_bytes();
    }
}

impl RxHalf for Fragments {
    fn rx_burst(&mut self, into: &mut Burst, most: usize, _now: Instant) -> usize {
        let most = most.min(into.room()).min(usize::try_from(self.left).unwrap_or(usize::MAX));
        let mut made = 0;
        while made < most {
            let Some(frame) = self.make() else { break };
            self.counts.rx.bytes.add(frame.len() as u64);
            into.put(frame, || self.counts.rx.bugs.bump());
            made += 1;
        }
        self.left -= made as u64;
        self.counts.rx.frames.add(made as u64);
        self.counts.rx.idle.add(u64::from(made == 0));
        made
    }

    fn is_gone(&self) -> bool {
        self.left == 0
    }
}
