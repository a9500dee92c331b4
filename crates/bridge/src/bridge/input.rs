//! Fast path: learning and forwarding without VLANs, STP or rules. A frame costs 40 ticks,
//! including the rings of its ports (docs/results/2026-11-22-bridge.md).
//!
//! A burst is processed in chunks of 32 frames. The headers and table buckets of a chunk are
//! prefetched together. Then, for each frame, the source is learned and the destination is looked
//! up, which results in a [`Verdict`]. Finally each frame is passed to its port. Tags are not
//! parsed: all frames are in VLAN 0 and cluster 0.

use super::flood::Ingress;
use super::{Bridge, Member};
use crate::{Key, LOCAL, Learned, PortNo};
use buf::{Burst, Frame};
use clock::Instant;
use stats::DropReason;

/// Number of frames whose headers and buckets are prefetched together.
pub(super) const CHUNK: usize = 32;

/// Forwarding decision for a frame: a port, all other ports ([`FLOOD`]), the bridge itself
/// ([`OWN`]), or a drop reason. Stored as a number, so that many decisions can be compared at once.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Verdict(u32);

pub(super) const FLOOD: Verdict = Verdict(1 << 16);
pub(super) const OWN: Verdict = Verdict(1 << 18);
const DROP: u32 = 1 << 17;

impl Verdict {
    #[inline(always)]
    pub(super) fn to(port: PortNo) -> Verdict {
        Verdict(u32::from(port))
    }

    #[inline(always)]
    pub(super) fn drop(why: DropReason) -> Verdict {
        Verdict(DROP | why as u32)
    }

    #[inline(always)]
    pub(super) fn port(self) -> Option<PortNo> {
        PortNo::try_from(self.0).ok()
    }

    pub(super) fn reason(self) -> Option<DropReason> {
        DropReason::ALL.get((self.0 & (DROP - 1)) as usize).copied().filter(|_| self.0 & DROP != 0)
    }
}

/// Returns the destination and source address of a frame in the low 48 bits of two words.
#[cfg_attr(not(debug_assertions), inline(always))]
pub(super) fn addresses(frame: &Frame) -> Option<(u64, u64)> {
    let header = frame.bytes().first_chunk::<{ wire::eth::HEADER_LEN }>()?;
    // Each address is loaded as eight bytes. If this is written as shifts of single bytes, the
    // compiler generates loads of single bytes.
    let dst = u64::from_be_bytes(*header.first_chunk()?) >> 16;
    let src = u64::from_be_bytes(*header.last_chunk()?) >> 16;
    Some((dst, src))
}

/// The group bit of an address.
pub(super) const GROUP: u64 = 1 << 40;
/// First of the addresses 01-80-C2-00-00-00 to 0F, which no bridge forwards (IEEE 802.1Q table
/// 8-1).
pub(super) const RESERVED: u64 = 0x0180_c200_0000;
/// Value that replaces the source address of a frame without a complete header. No real address has
/// this many bits. The group bit is set, so that a single test rejects it together with group
/// sources.
pub(super) const NO_HEADER: u64 = u64::MAX;

/// A parsed frame before the forwarding decision.
#[derive(Clone, Copy, Default)]
pub(super) struct ParsedFrame {
    pub(super) dst: u64,
    pub(super) src: u64,
    pub(super) dst_hash: u64,
    pub(super) src_hash: u64,
}

impl Bridge {
    /// Processes a burst in chunks of 32 frames, on the fast path.
    #[cfg_attr(not(debug_assertions), inline(always))]
    pub(super) fn input_fast(
        &mut self,
        from: PortNo,
        member: Member,
        burst: &mut Burst,
        now: Instant,
        out: &mut [Burst],
    ) {
        while burst.len() > 1 {
            self.chunk(from, member, burst, now, out);
        }
        if let Some(frame) = burst.pop() {
            self.one(from, member, frame, now, out);
        }
    }

    /// Returns the addresses of a frame, and the hashes of their table keys.
    #[inline(always)]
    pub(super) fn parse_addresses(&self, frame: &Frame, vid: u16, cluster: u16) -> ParsedFrame {
        let (dst, src) = addresses(frame).unwrap_or((0, NO_HEADER));
        let hash = |mac| self.fdb.hash(Key::of(vid, mac), cluster);
        ParsedFrame { dst, src, dst_hash: hash(dst), src_hash: hash(src) }
    }

    /// Processes a single frame on the fast path.
    #[inline]
    fn one(&mut self, from: PortNo, member: Member, frame: Frame, now: Instant, out: &mut [Burst]) {
        let seen = self.parse_addresses(&frame, 0, 0);
        self.fdb.prefetch(seen.dst_hash);
        let verdict = self.decide(from, member, &seen, now);
        let mut frame = frame;
        if let Some(to) = verdict.port()
            && let Some(leaving) = out.get_mut(usize::from(to))
        {
            frame = match leaving.push(frame) {
                Ok(()) => return self.given_one(from, to),
                Err(frame) => frame, // dropped below, like any frame for a full burst
            };
        }
        self.give(Ingress::untagged(from), verdict, frame, now, out);
    }

    #[inline]
    fn chunk(&mut self, from: PortNo, member: Member, burst: &mut Burst, now: Instant, out: &mut [Burst]) {
        let n = burst.len().min(CHUNK);
        let frames = burst.as_slice().get(..n).unwrap_or_default();
        frames.iter().for_each(Frame::prefetch);
        let mut seen = [ParsedFrame::default(); CHUNK];
        for (frame, seen) in frames.iter().zip(&mut seen) {
            *seen = self.parse_addresses(frame, 0, 0);
            self.fdb.prefetch(seen.src_hash);
            self.fdb.prefetch(seen.dst_hash);
        }
        let mut verdicts = [FLOOD; CHUNK];
        for (seen, verdict) in seen.iter().zip(&mut verdicts).take(n) {
            *verdict = self.decide(from, member, seen, now);
        }
        let verdicts = verdicts.get(..n).unwrap_or_default();
        // In the common case, with two ports, all frames of the chunk go to the same port and are
        // moved together.
        if let [first, others @ ..] = verdicts
            && let Some(to) = first.port()
            && others.iter().fold(0, |differs, verdict| differs | (verdict.0 ^ first.0)) == 0
            && let Some(leaving) = out.get_mut(usize::from(to))
            && leaving.room() >= n
        {
            leaving.take_some(burst, n);
            if let Some((_, counts)) = self.members.get_mut(usize::from(from)) {
                counts.forwarded += n as u64;
            }
            return self.given(to, n as u64);
        }
        for verdict in verdicts {
            if let Some(frame) = burst.pop() {
                self.give(Ingress::untagged(from), *verdict, frame, now, out);
            }
        }
    }

    /// Counts a frame forwarded from one port to another.
    #[inline(always)]
    fn given_one(&mut self, from: PortNo, to: PortNo) {
        if let Some((_, counts)) = self.members.get_mut(usize::from(from)) {
            counts.forwarded += 1;
        }
        self.given(to, 1);
    }

    #[inline(always)]
    pub(super) fn given(&mut self, to: PortNo, frames: u64) {
        if let Some((_, counts)) = self.members.get_mut(usize::from(to)) {
            counts.given += frames;
        }
    }

    /// Learns the source address and decides where the frame goes.
    #[cfg_attr(not(debug_assertions), inline(always))]
    fn decide(&mut self, from: PortNo, member: Member, seen: &ParsedFrame, now: Instant) -> Verdict {
        if seen.src & GROUP != 0 || seen.src == 0 || member.span {
            return self.refused(member, seen.src);
        }
        if seen.dst & !0xf == RESERVED {
            return self.reserved_verdict();
        }
        if member.learn {
            let learned = self.fdb.learn_hashed(Key::of(0, seen.src), seen.src_hash, from, member.sticky, now);
            if learned != Learned::Known
                && let Some(why) = self.learned(Key::of(0, seen.src), from, learned, now)
            {
                return Verdict::drop(why);
            }
        }
        if seen.dst & GROUP != 0 {
            return FLOOD;
        }
        match self.fdb.lookup_hashed(Key::of(0, seen.dst), 0, seen.dst_hash, now) {
            Some(to) if to == from => Verdict::drop(DropReason::BridgeSamePort),
            Some(to) if self.may_go(&member, to) => Verdict::to(to),
            Some(LOCAL) => OWN,
            Some(to) => Verdict::drop(self.apart(to)),
            None => FLOOD,
        }
    }

    /// Handles a source address that was not already known at this port. Returns a reason if the
    /// frame must be dropped.
    #[cold]
    pub(super) fn learned(&mut self, key: Key, from: PortNo, learned: Learned, now: Instant) -> Option<DropReason> {
        if let Some(announced) = &mut self.announced {
            announced.note(key, from, learned, now);
        }
        match learned {
            Learned::Bound(LOCAL) => Some(DropReason::BridgeOwnSource),
            Learned::Bound(_) => Some(DropReason::BridgeBound),
            Learned::PortFull => Some(DropReason::BridgePortFull),
            Learned::Moved(before) => {
                self.moved(key, before, from, now);
                None
            }
            Learned::Known | Learned::New | Learned::Full => None,
        }
    }

    #[cold]
    pub(super) fn refused(&self, member: Member, src: u64) -> Verdict {
        Verdict::drop(match src {
            _ if member.span => DropReason::BridgeSpan,
            NO_HEADER => DropReason::BridgeShort,
            _ => DropReason::BridgeBadSource,
        })
    }

    /// Returns whether a frame that was received on a port with the settings `member` may leave
    /// through port `to`.
    #[inline(always)]
    pub(super) fn may_go(&self, member: &Member, to: PortNo) -> bool {
        let other = self.members.get(usize::from(to));
        other.is_some_and(|(to, _)| {
            to.cluster == member.cluster && !(to.private && member.private) && !to.span && to.carrier
        })
    }
}
