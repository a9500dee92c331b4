//! Compiled filters: programs of tests with two branches each. When all jump targets are known, the
//! program is shortened.
//!
//! A [`Test`] reads one number from a frame and checks that it lies in a range. Equality, order,
//! port ranges and masked bits are all expressed in this way. A [`Code`] is a part of the program:
//! its first instruction, and the jumps that have no target yet, in one list for true and one for
//! false. Parts are joined in the order in which they were built, so jumps only go forward and
//! every execution ends.

use alloc::vec;
use alloc::vec::Vec;
/// Source of the number that a test reads.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Source {
    /// The four bytes at `at`. For a narrower field, `at` is lower and the mask selects the low
    /// bits, so that one kind of load serves all sizes.
    Bytes,
    /// Like `Bytes`, but relative to the end of the IPv4 header at `ip`.
    Transport { ip: u32 },
    /// A field of `size` bytes that is too close to the start of the frame for a four-byte load
    /// that ends with it.
    Early { size: u8 },
    /// 1 if the byte at `at` is the protocol number of TCP, UDP or SCTP, otherwise 0. This is a
    /// single test, so that in `port 80 or 443` its result is already known for 443.
    HasPorts,
    /// The frame's length on the wire.
    WireLen,
    /// 1 if the relation with this index in the program's list is true, otherwise 0.
    Relation(u16),
}

/// A test that is true if `lo <= (number & mask) <= lo + span`.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Test {
    pub source: Source,
    pub at: u32,
    pub mask: u32,
    pub lo: u32,
    pub span: u32,
}

impl Test {
    /// Returns a test on a field of `size` bytes (1, 2 or 4) at `at`, under `mask`.
    pub fn field(at: u32, size: u8, mask: u32) -> Test {
        Test::sized(Source::Bytes, at, size, mask)
    }

    /// Returns a test on a field of `size` bytes at `at` after the IPv4 header that begins at `ip`.
    pub fn transport(ip: u32, at: u32, size: u8, mask: u32) -> Test {
        // `at` is relative to an IPv4 header of length 0. Since `ip` is included, the offset is
        // never below 4, so the field is never `Source::Early`.
        Test::sized(Source::Transport { ip }, ip.saturating_add(at), size, mask)
    }

    fn sized(source: Source, at: u32, size: u8, mask: u32) -> Test {
        let mask = mask & u32::MAX >> (32 - 8 * u32::from(size.clamp(1, 4)));
        let whole = Test { source, at, mask, lo: 0, span: u32::MAX };
        match at.saturating_add(size.into()).checked_sub(4) {
            Some(at) => Test { at, ..whole },
            None => Test { source: Source::Early { size }, ..whole },
        }
    }

    /// Returns a test that the IP protocol at `at` is one with ports.
    pub fn has_ports(at: u32) -> Test {
        Test { source: Source::HasPorts, at, mask: 1, lo: 1, span: 0 }
    }

    pub fn wire_len() -> Test {
        Test { source: Source::WireLen, at: 0, mask: u32::MAX, lo: 0, span: u32::MAX }
    }

    pub fn relation(which: u16) -> Test {
        Test { source: Source::Relation(which), at: 0, mask: 1, lo: 1, span: 0 }
    }

    pub fn eq(self, value: u32) -> Test {
        Test { lo: value, span: 0, ..self }
    }

    pub fn at_most(self, value: u32) -> Test {
        Test { lo: 0, span: value, ..self }
    }

    pub fn at_least(self, value: u32) -> Test {
        Test { lo: value, span: u32::MAX - value, ..self }
    }

    /// Returns the test for the range between the two values, both included.
    pub fn between(self, a: u32, b: u32) -> Test {
        Test { lo: a.min(b), span: a.abs_diff(b), ..self }
    }

    /// Returns whether both tests read the same number under the same mask.
    fn alike(&self, other: &Test) -> bool {
        (self.source, self.at, self.mask) == (other.source, other.at, other.mask)
    }

    fn last(&self) -> u32 {
        self.lo.saturating_add(self.span)
    }
}

/// A test and its two branch targets, each of which is the index of an instruction, [`NEXT`],
/// [`ACCEPT`] or [`REJECT`].
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Insn {
    pub test: Test,
    pub yes: u16,
    pub no: u16,
}

/// Branch target in a finished program: the next instruction. No jump leads back to the first
/// instruction, so its index 0 is free for this meaning.
pub(super) const NEXT: u16 = 0;
/// Branch target: the frame matches. This index and [`REJECT`] are beyond the end of every program,
/// so that the bounds check for an index also detects the end of execution.
pub(super) const ACCEPT: u16 = u16::MAX;
/// Branch target: the frame does not match.
pub(super) const REJECT: u16 = u16::MAX - 1;
/// Maximum number of instructions in a program.
pub(super) const MAX_INSNS: usize = 16_384;

/// Result of a test, which selects the branch to follow.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Way {
    Yes,
    No,
}

/// A part of a program, with the jumps that have no target yet.
#[derive(Debug)]
pub(super) struct Code {
    entry: u16,
    yes: Vec<(u16, Way)>,
    no: Vec<(u16, Way)>,
}

impl Code {
    /// Negates the condition by swapping both branches.
    pub fn not(self) -> Code {
        Code { yes: self.no, no: self.yes, ..self }
    }
}

/// Collects the instructions of a program.
#[derive(Debug, Default)]
pub(super) struct Builder {
    insns: Vec<Insn>,
}

impl Builder {
    pub fn is_full(&self) -> bool {
        self.insns.len() >= MAX_INSNS
    }

    pub fn test(&mut self, test: Test) -> Code {
        // The caller checks later whether the program is full. Until then the index only has to
        // stay in range.
        let at = self.insns.len().min(MAX_INSNS) as u16;
        self.insns.truncate(MAX_INSNS);
        self.insns.push(Insn { test, yes: REJECT, no: REJECT });
        Code { entry: at, yes: vec![(at, Way::Yes)], no: vec![(at, Way::No)] }
    }

    pub fn and(&mut self, first: Code, then: Code) -> Code {
        self.patch(&first.yes, then.entry);
        Code { entry: first.entry, yes: then.yes, no: joined(first.no, then.no) }
    }

    pub fn or(&mut self, first: Code, then: Code) -> Code {
        self.patch(&first.no, then.entry);
        Code { entry: first.entry, yes: joined(first.yes, then.yes), no: then.no }
    }

    fn patch(&mut self, jumps: &[(u16, Way)], target: u16) {
        for (at, way) in jumps {
            if let Some(insn) = self.insns.get_mut(usize::from(*at)) {
                *way.of(insn) = target;
            }
        }
    }

    /// Returns the finished program, which begins at its first instruction. If `code` is `None`,
    /// the program is empty and accepts every frame.
    pub fn finish(mut self, code: Option<Code>) -> Vec<Insn> {
        let Some(code) = code else { return Vec::new() };
        self.patch(&code.yes, ACCEPT);
        self.patch(&code.no, REJECT);
        let mut insns = self.insns;
        thread(&mut insns);
        compact(&insns)
    }
}

impl Way {
    fn of(self, insn: &mut Insn) -> &mut u16 {
        match self {
            Way::Yes => &mut insn.yes,
            Way::No => &mut insn.no,
        }
    }
}

/// Appends one list of jumps to the other. In a long chain the right list is short, so appending it
/// keeps the total cost linear.
fn joined(mut left: Vec<(u16, Way)>, right: Vec<(u16, Way)>) -> Vec<(u16, Way)> {
    left.extend(right);
    left
}

/// Result of an earlier test on the path to an instruction.
type Fact = (Test, Way);

/// Maximum number of earlier results that are kept for an instruction. The latest ones are kept.
/// More would cost time on long expressions and gain little.
const MAX_FACTS: usize = 24;

/// Redirects each jump past tests whose result is already known on the path to it.
///
/// `host a or host b` then tests the EtherType once. The bytes of a skipped test were read by an
/// earlier test, so the set of frames that are too short for the program does not change.
fn thread(insns: &mut [Insn]) {
    let mut known: Vec<Option<Vec<Fact>>> = vec![None; insns.len()];
    if let Some(first) = known.first_mut() {
        *first = Some(Vec::new());
    }
    for at in 0..insns.len() {
        let Some(facts) = known.get_mut(at).and_then(Option::take) else { continue };
        for way in [Way::Yes, Way::No] {
            let Some(mut insn) = insns.get(at).copied() else { continue };
            let mut facts = facts.clone();
            facts.push((insn.test, way));
            if facts.len() > MAX_FACTS {
                facts.remove(0);
            }
            let mut target = *way.of(&mut insn);
            while let Some(mut next) = insns.get(usize::from(target)).copied()
                && let Some(answer) = answer(&next.test, &facts)
            {
                target = *answer.of(&mut next);
            }
            *way.of(&mut insn) = target;
            if let Some(place) = insns.get_mut(at) {
                *place = insn;
            }
            if let Some(there) = known.get_mut(usize::from(target)) {
                match there {
                    Some(others) => others.retain(|fact| facts.contains(fact)),
                    None => *there = Some(facts),
                }
            }
        }
    }
}

/// Returns the result of a test if the earlier results `facts` determine it.
fn answer(test: &Test, facts: &[Fact]) -> Option<Way> {
    let inside = |outer: &Test| outer.lo <= test.lo && test.last() <= outer.last();
    let apart = |other: &Test| test.last() < other.lo || other.last() < test.lo;
    let around = |inner: &Test| test.lo <= inner.lo && inner.last() <= test.last();
    facts.iter().filter(|(fact, _)| fact.alike(test)).find_map(|(fact, way)| match way {
        Way::Yes if around(fact) => Some(Way::Yes),
        Way::Yes if apart(fact) => Some(Way::No),
        Way::No if inside(fact) => Some(Way::No),
        _ => None,
    })
}

/// Removes unreachable instructions.
fn compact(insns: &[Insn]) -> Vec<Insn> {
    let mut reached = vec![false; insns.len()];
    let mut places = vec![0u16; insns.len()];
    let mark = |reached: &mut Vec<bool>, target: u16| {
        if let Some(there) = reached.get_mut(usize::from(target)) {
            *there = true;
        }
    };
    mark(&mut reached, 0);
    let mut kept = Vec::new();
    for (at, insn) in insns.iter().enumerate() {
        if reached.get(at) == Some(&true) {
            mark(&mut reached, insn.yes);
            mark(&mut reached, insn.no);
            if let Some(place) = places.get_mut(at) {
                *place = kept.len() as u16;
            }
            kept.push(*insn);
        }
    }
    for (at, insn) in kept.iter_mut().enumerate() {
        let moved = |target: u16| match places.get(usize::from(target)) {
            Some(place) if usize::from(*place) == at + 1 => NEXT,
            Some(place) => *place,
            None => target,
        };
        (insn.yes, insn.no) = (moved(insn.yes), moved(insn.no));
    }
    kept
}
