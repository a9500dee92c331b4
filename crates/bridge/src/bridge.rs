//! The bridge: a burst in, its frames decided about and given to the bursts that leave.

mod places;
#[cfg(test)]
mod tests;

use crate::{Fdb, FdbConfig, Key, Learned, MAX_PORTS, PortNo};
use buf::{Burst, Frame};
use clock::Instant;
use stats::{DropReason, Drops};

/// Frames of which the headers and buckets are under way together.
const CHUNK: usize = 32;

/// What a bridge is to be.
#[derive(Debug, Clone, Copy, Default)]
pub struct BridgeConfig {
    /// Its table.
    pub fdb: FdbConfig,
}

/// What is asked of a port (if_bridge's member flags).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Member {
    /// Sources are learned.
    pub learn: bool,
    /// Frames for unknown addresses go there too.
    pub discover: bool,
    /// What was learned there stays there.
    pub sticky: bool,
    /// Exchanges nothing with other private ports.
    pub private: bool,
    /// Gets a copy of all that comes in, and is no part of the bridge else.
    pub span: bool,
    /// Frames go from port to port within a cluster only (bridge_cfg of FreeBSD 4).
    pub cluster: u16,
}

impl Default for Member {
    fn default() -> Member {
        Member { learn: true, discover: true, sticky: false, private: false, span: false, cluster: 0 }
    }
}

/// Where a frame goes: to a port, to all others ([`FLOOD`]), or nowhere, for a reason. A number, since many are compared at once.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Verdict(u32);

const FLOOD: Verdict = Verdict(1 << 16);
const DROP: u32 = 1 << 17;

impl Verdict {
    #[inline(always)]
    fn to(port: PortNo) -> Verdict {
        Verdict(u32::from(port))
    }

    #[inline(always)]
    fn drop(why: DropReason) -> Verdict {
        Verdict(DROP | why as u32)
    }

    #[inline(always)]
    fn port(self) -> Option<PortNo> {
        PortNo::try_from(self.0).ok()
    }

    fn reason(self) -> Option<DropReason> {
        DropReason::ALL.get((self.0 & (DROP - 1)) as usize).copied().filter(|_| self.0 & DROP != 0)
    }
}

/// What a port did.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Counts {
    /// Frames that came through it: each was forwarded, flooded or dropped.
    pub received: u64,
    /// To one other port.
    pub forwarded: u64,
    /// To all others.
    pub flooded: u64,
    /// Dropped by a decision.
    pub dropped: u64,
    /// Frames given to it, copies among them.
    pub given: u64,
}

/// What came in, and what became of it: `received + copied = given + dropped`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Audit {
    /// Frames that came.
    pub received: u64,
    /// Copies that were wanted, for floods and spans.
    pub copied: u64,
    /// Frames given to ports.
    pub given: u64,
    /// Dropped, for any reason; copies for which there was no buffer among them.
    pub dropped: u64,
}

impl Audit {
    /// Does it add up?
    pub fn holds(&self) -> bool {
        self.received + self.copied == self.given + self.dropped
    }
}

/// Ports by number, and the table.
#[derive(Debug)]
pub struct Bridge {
    fdb: Fdb,
    members: Vec<(Member, Counts)>,
    spans: usize,
    copied: u64,
    /// What ports did that are no members any more.
    gone: Counts,
    drops: Drops,
}

/// The addresses of a frame in the low 48 bits of two words.
#[inline(always)]
fn addresses(frame: &Frame) -> Option<(u64, u64)> {
    let &[a, b, c, d, e, f, g, h, i, j, k, l, m, n] = frame.bytes().first_chunk::<{ wire::eth::HEADER_LEN }>()?;
    let dst = u64::from_be_bytes([a, b, c, d, e, f, g, h]) >> 16;
    let src = u64::from_be_bytes([g, h, i, j, k, l, m, n]) >> 16;
    Some((dst, src))
}

/// The bit of a group address.
const GROUP: u64 = 1 << 40;
/// 01-80-C2-00-00-00 to 0F, which no bridge forwards (IEEE 802.1Q table 8-1).
const RESERVED: u64 = 0x0180_c200_0000;
/// In place of a source: there is no header. No address has so many bits, and a group's is among them: one question finds it with the others.
const NO_HEADER: u64 = u64::MAX;

/// A frame that was looked at, not yet decided about.
#[derive(Clone, Copy, Default)]
struct Seen {
    dst: u64,
    src: u64,
    dst_hash: u64,
    src_hash: u64,
}

impl Bridge {
    /// Without ports.
    pub fn new(config: BridgeConfig) -> Bridge {
        let (members, gone, drops) = Default::default();
        Bridge { fdb: Fdb::new(config.fdb), members, spans: 0, copied: 0, gone, drops }
    }

    /// Adds a port; `None` if it has as many as it may.
    pub fn add(&mut self, member: Member) -> Option<PortNo> {
        let number = PortNo::try_from(self.members.len()).ok().filter(|number| usize::from(*number) < MAX_PORTS)?;
        self.members.push((member, Counts::default()));
        self.spans += usize::from(member.span);
        Some(number)
    }

    /// What is asked of a port.
    pub fn member(&self, port: PortNo) -> Option<&Member> {
        self.members.get(usize::from(port)).map(|(member, _)| member)
    }

    /// Asks something else of a port.
    pub fn set_member(&mut self, port: PortNo, member: Member) {
        if let Some((there, _)) = self.members.get_mut(usize::from(port)) {
            self.spans = self.spans - usize::from(there.span) + usize::from(member.span);
            *there = member;
        }
    }

    /// The table.
    pub fn fdb(&self) -> &Fdb {
        &self.fdb
    }

    /// The table, to be told.
    pub fn fdb_mut(&mut self) -> &mut Fdb {
        &mut self.fdb
    }

    /// What each port did, in their order.
    pub fn counts(&self) -> impl Iterator<Item = Counts> {
        self.members.iter().map(|(_, counts)| *counts)
    }

    /// Why frames ended here.
    pub fn drops(&self) -> &Drops {
        &self.drops
    }

    /// Adds up what came and what became of it.
    pub fn audit(&self) -> Audit {
        let mut audit = Audit { copied: self.copied, dropped: self.drops.total(), ..Audit::default() };
        for counts in self.counts().chain([self.gone]) {
            audit.received += counts.received;
            audit.given += counts.given;
        }
        audit
    }

    /// Takes all of `burst`, which came through `from`, and gives each frame to the bursts of the ports to which it goes: `out` has one for
    /// each port. What has no room there is dropped. Of a port that was not added nothing is taken.
    #[inline]
    pub fn input(&mut self, from: PortNo, burst: &mut Burst, now: Instant, out: &mut [Burst]) {
        let came = burst.len();
        let Some((member, counts)) = self.members.get_mut(usize::from(from)) else { return };
        let member = *member;
        counts.received += came as u64;
        if self.spans > 0 {
            self.mirror(&member, burst, out);
        }
        while burst.len() > 1 {
            self.chunk(from, member, burst, now, out);
        }
        if let Some(frame) = burst.pop() {
            self.one(from, member, frame, now, out);
        }
    }

    /// Forgets what has aged, a part at a time.
    pub fn poll(&mut self, now: Instant) {
        self.fdb.poll(now);
    }

    /// Reads a frame's addresses and where they are looked for.
    #[inline(always)]
    fn look(&self, frame: &Frame) -> Seen {
        let (dst, src) = addresses(frame).unwrap_or((0, NO_HEADER));
        Seen { dst, src, dst_hash: self.fdb.hash(Key::of(0, dst)), src_hash: self.fdb.hash(Key::of(0, src)) }
    }

    /// A frame that came alone.
    #[inline]
    fn one(&mut self, from: PortNo, member: Member, frame: Frame, now: Instant, out: &mut [Burst]) {
        let seen = self.look(&frame);
        self.fdb.prefetch(seen.dst_hash);
        let verdict = self.decide(from, member, &seen, now);
        self.give(from, verdict, frame, out);
    }

    #[inline]
    fn chunk(&mut self, from: PortNo, member: Member, burst: &mut Burst, now: Instant, out: &mut [Burst]) {
        let n = burst.len().min(CHUNK);
        let frames = burst.as_slice().get(..n).unwrap_or_default();
        frames.iter().for_each(Frame::prefetch);
        let mut seen = [Seen::default(); CHUNK];
        for (frame, seen) in frames.iter().zip(&mut seen) {
            *seen = self.look(frame);
            self.fdb.prefetch(seen.src_hash);
            self.fdb.prefetch(seen.dst_hash);
        }
        let mut verdicts = [FLOOD; CHUNK];
        for (seen, verdict) in seen.iter().zip(&mut verdicts).take(n) {
            *verdict = self.decide(from, member, seen, now);
        }
        let verdicts = verdicts.get(..n).unwrap_or_default();
        // As it mostly is between two ports: all of them go together.
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
                self.give(from, *verdict, frame, out);
            }
        }
    }

    #[inline(always)]
    fn given(&mut self, to: PortNo, frames: u64) {
        if let Some((_, counts)) = self.members.get_mut(usize::from(to)) {
            counts.given += frames;
        }
    }

    /// Learns the source and says where the frame goes.
    #[inline(always)]
    fn decide(&mut self, from: PortNo, member: Member, seen: &Seen, now: Instant) -> Verdict {
        if seen.src & GROUP != 0 || seen.src == 0 || member.span {
            return self.refused(member, seen);
        }
        if seen.dst & !0xf == RESERVED {
            return Verdict::drop(DropReason::BridgeReserved);
        }
        if member.learn {
            let learned = self.fdb.learn_hashed(Key::of(0, seen.src), seen.src_hash, from, member.sticky, now);
            if let Learned::Bound(_) = learned {
                return Verdict::drop(DropReason::BridgeBound);
            }
        }
        if seen.dst & GROUP != 0 {
            return FLOOD;
        }
        match self.fdb.lookup_hashed(Key::of(0, seen.dst), seen.dst_hash, now) {
            Some(to) if to == from => Verdict::drop(DropReason::BridgeSamePort),
            Some(to) if self.may_go(&member, to) => Verdict::to(to),
            Some(_) => Verdict::drop(DropReason::BridgeApart),
            None => FLOOD,
        }
    }

    #[cold]
    fn refused(&self, member: Member, seen: &Seen) -> Verdict {
        Verdict::drop(match seen.src {
            _ if member.span => DropReason::BridgeSpan,
            NO_HEADER => DropReason::BridgeShort,
            _ => DropReason::BridgeBadSource,
        })
    }

    /// May what came through `member` leave through `to`?
    #[inline(always)]
    fn may_go(&self, member: &Member, to: PortNo) -> bool {
        let other = self.members.get(usize::from(to));
        other.is_some_and(|(to, _)| to.cluster == member.cluster && !(to.private && member.private) && !to.span)
    }

    #[inline]
    fn give(&mut self, from: PortNo, verdict: Verdict, frame: Frame, out: &mut [Burst]) {
        match (verdict.port(), verdict.reason()) {
            (Some(to), _) => {
                let given = self.put(frame, to, out);
                if let Some((_, counts)) = self.members.get_mut(usize::from(from)) {
                    *if given { &mut counts.forwarded } else { &mut counts.dropped } += 1;
                }
            }
            (None, None) => self.flood(from, frame, out),
            (None, Some(why)) => self.dropped(from, why),
        }
    }

    #[cold]
    fn dropped(&mut self, from: PortNo, why: DropReason) {
        self.drops.bump(why);
        if let Some((_, counts)) = self.members.get_mut(usize::from(from)) {
            counts.dropped += 1;
        }
    }

    /// To each port that may have it: copies, and the frame itself to the last.
    fn flood(&mut self, from: PortNo, frame: Frame, out: &mut [Burst]) {
        let Some(member) = self.member(from).copied() else { return };
        let group = addresses(&frame).is_some_and(|(dst, _)| dst & GROUP != 0);
        let takes = |bridge: &Bridge, to: PortNo| {
            to != from && bridge.may_go(&member, to) && (group || bridge.member(to).is_some_and(|to| to.discover))
        };
        let ports = 0..self.members.len() as PortNo;
        let Some(last) = ports.clone().rev().find(|to| takes(self, *to)) else {
            return self.dropped(from, DropReason::BridgeNowhere);
        };
        for to in ports.take(usize::from(last)) {
            if takes(self, to) {
                self.copy(&frame, to, out);
            }
        }
        self.put(frame, last, out);
        if let Some((_, counts)) = self.members.get_mut(usize::from(from)) {
            counts.flooded += 1;
        }
    }

    /// A copy to `to`.
    fn copy(&mut self, frame: &Frame, to: PortNo, out: &mut [Burst]) {
        self.copied += 1;
        match frame.try_clone() {
            Some(copy) => {
                self.put(copy, to, out);
            }
            None => self.drops.bump(DropReason::BridgeNoCopy),
        }
    }

    /// Gives a frame to `to`, if that has room.
    #[inline(always)]
    fn put(&mut self, frame: Frame, to: PortNo, out: &mut [Burst]) -> bool {
        match out.get_mut(usize::from(to)).map(|leaving| leaving.push(frame)) {
            Some(Ok(())) => {
                self.given(to, 1);
                true
            }
            _ => {
                self.drops.bump(DropReason::BridgeOutFull);
                false
            }
        }
    }

    /// Copies of all that came, to the ports that want that.
    #[cold]
    fn mirror(&mut self, member: &Member, burst: &Burst, out: &mut [Burst]) {
        if member.span {
            return;
        }
        for to in 0..self.members.len() as PortNo {
            if self.member(to).is_some_and(|to| to.span) {
                burst.as_slice().iter().for_each(|frame| self.copy(frame, to, out));
            }
        }
    }
}
