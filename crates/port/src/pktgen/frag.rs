//! A source of datagrams that are longer than its MTU: each is made as its fragments, in order (RFC 791 2.3).
//!
//! The fragments of a datagram have its identification, which is one more than that of the datagram before; without it
//! fragments of two datagrams could be put together. Rates, flows and random destinations are for whole datagrams only.

use super::{ETH, HEADERS, Source, template};
use crate::{PortCounts, RxHalf};
use buf::{Burst, Frame, Pool};
use clock::Instant;
use std::sync::Arc;
use wire::ip4;

const IP: usize = ip4::HEADER_LEN;

/// Makes one datagram over and over, a fragment at a time.
pub(super) struct Fragments {
    pieces: Vec<Box<[u8]>>,
    /// The piece that is made next.
    next: usize,
    id: u16,
    pool: Pool,
    counts: Arc<PortCounts>,
    /// Fragments left to make.
    left: u64,
}

impl Fragments {
    /// `None` if the source's datagrams fit into packets of its MTU.
    pub(super) fn new(source: &Source, pool: &Pool, counts: &Arc<PortCounts>) -> Option<Fragments> {
        let mtu = source.mtu.filter(|mtu| HEADERS - ETH + source.size > *mtu)?;
        let pieces = cut(&template(source), mtu)?;
        let left = match source.count {
            0 => u64::MAX,
            datagrams => datagrams.saturating_mul(pieces.len() as u64),
        };
        Some(Fragments { pieces, next: 0, id: 0, pool: pool.clone(), counts: counts.clone(), left })
    }

    /// The next fragment; `None` if the pool has no buffer, or none that is long enough.
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
        let header = frame.bytes_mut().get_mut(ETH..ETH + IP)?;
        let (before, sum) = (word(header, 4)?, word(header, 10)?);
        put(header, 4, self.id);
        put(header, 10, wire::checksum::update16(sum, before, self.id));
        self.next += 1;
        if self.next == self.pieces.len() {
            (self.next, self.id) = (0, self.id.wrapping_add(1));
        }
        Some(frame)
    }
}

/// Cuts a frame with one long packet into frames with packets of at most `mtu` bytes; `None` if an MTU has no room for 8 bytes
/// of payload.
fn cut(whole: &[u8], mtu: usize) -> Option<Vec<Box<[u8]>>> {
    let (link, packet) = whole.split_at_checked(ETH)?;
    let (header, payload) = packet.split_first_chunk::<IP>()?;
    let header = ip4::Header::parse(packet).ok().filter(|_| header[0] == 0x45)?;
    let room = mtu.checked_sub(IP)? & !7;
    if room == 0 {
        return None;
    }
    let last = payload.len().div_ceil(room) - 1;
    let piece = |(n, part): (usize, &[u8])| {
        let (frag_off, total_len) = ((n * room) as u16, (IP + part.len()) as u16);
        let header = ip4::Header { mf: n != last, frag_off, total_len, ..header };
        let mut bytes = [0; IP];
        header.emit(&mut bytes);
        [link, &bytes, part].concat().into_boxed_slice()
    };
    Some(payload.chunks(room).enumerate().map(piece).collect())
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
