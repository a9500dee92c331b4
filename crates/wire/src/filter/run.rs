//! Execution of a program on a frame: one loop, no allocation, no recursion.

use super::arith::{Op, Relation, STACK};
use super::program::{ACCEPT, Insn, NEXT, Source, Test};
use crate::hint::cold_path;

/// Returns whether the program accepts the frame.
///
/// The usual target of a branch is the next instruction in memory. The targets for true and for
/// false have separate branches, so that the CPU predicts the target instead of waiting for the
/// loaded value. A test then costs 1 ns (docs/results/2026-11-22-filter.md). Alternatives were
/// slower: a target chosen by a conditional move cost 3 ns, both targets read from the instruction
/// 2 ns, and a single `match` over all sources, which is a jump through a table, 1.4 ns.
#[inline]
pub(super) fn run(insns: &[Insn], relations: &[Relation], frame: &[u8], wire_len: u32) -> bool {
    if insns.is_empty() {
        return true;
    }
    let mut rest = insns.iter();
    // Jumps only go forward (see `program`), so the loop ends.
    while let Some(insn) = rest.next() {
        let test = &insn.test;
        let number = if test.source == Source::Bytes {
            word(frame, test.at as usize)
        } else {
            cold_path();
            seldom(test, relations, frame, wire_len)
        };
        let Some(number) = number else { return false };
        let on = if (number & test.mask).wrapping_sub(test.lo) <= test.span {
            if insn.yes == NEXT {
                continue;
            }
            insn.yes
        } else {
            cold_path();
            if insn.no == NEXT {
                continue;
            }
            insn.no
        };
        match insns.get(usize::from(on)..) {
            Some(there) => rest = there.iter(),
            None => return on == ACCEPT,
        }
    }
    false
}

/// Returns the number that a test reads from a source other than bytes at a fixed offset. L4 ports
/// are handled first, because they are the most frequent case.
#[cfg_attr(not(debug_assertions), inline(always))]
fn seldom(test: &Test, relations: &[Relation], frame: &[u8], wire_len: u32) -> Option<u32> {
    if let Source::Transport { ip } = test.source {
        return transport(frame, ip, test.at);
    }
    cold_path();
    match test.source {
        Source::Relation(which) => holds(relations.get(usize::from(which))?, frame, wire_len).map(u32::from),
        _ => field(test, frame, wire_len),
    }
}

/// Returns the number that a test reads, before its mask.
#[cfg_attr(not(debug_assertions), inline(always))]
fn field(test: &Test, frame: &[u8], wire_len: u32) -> Option<u32> {
    match test.source {
        Source::Bytes => word(frame, test.at as usize),
        Source::Transport { ip } => transport(frame, ip, test.at),
        Source::Early { size } => load(frame, test.at.into(), size),
        Source::HasPorts => frame.get(test.at as usize).map(|proto| u32::from(matches!(proto, 6 | 17 | 132))),
        Source::WireLen => Some(wire_len),
        Source::Relation(_) => None,
    }
}

#[inline(always)]
fn word(frame: &[u8], at: usize) -> Option<u32> {
    frame.get(at..)?.first_chunk().map(|bytes| u32::from_be_bytes(*bytes))
}

/// Returns the four bytes at `at` plus the length of the IPv4 header at `ip`.
#[inline(always)]
fn transport(frame: &[u8], ip: u32, at: u32) -> Option<u32> {
    word(frame, at as usize + header_len(frame, ip)?)
}

/// Returns the length in the IPv4 header at `at` (RFC 791 3.1 "IHL").
#[inline(always)]
fn header_len(frame: &[u8], at: u32) -> Option<usize> {
    frame.get(at as usize).map(|byte| usize::from(byte & 0x0f) * 4)
}

/// Returns `size` bytes at `at` as a number; `None` if they are beyond the frame.
fn load(frame: &[u8], at: u64, size: u8) -> Option<u32> {
    let bytes = frame.get(usize::try_from(at).ok()?..)?.get(..size.into())?;
    Some(bytes.iter().fold(0, |value, byte| value << 8 | u32::from(*byte)))
}

/// Returns whether a relation is true; `None` if it reads beyond the frame or divides by zero.
fn holds(relation: &Relation, frame: &[u8], wire_len: u32) -> Option<bool> {
    let mut stack = [0u32; STACK];
    let mut top = 0;
    for op in &relation.ops {
        let value = match *op {
            Op::Push(value) => value,
            Op::Field(test) => field(&test, frame, wire_len)? & test.mask,
            Op::Load { base, size } => load(frame, u64::from(base) + u64::from(pop(&stack, &mut top)?), size)?,
            Op::LoadTransport { ip, size } => {
                // BPF adds the header length and the index in 32 bits: a negative index reads
                // within the header.
                let index = pop(&stack, &mut top)?.wrapping_add(header_len(frame, ip)? as u32);
                load(frame, u64::from(ip) + u64::from(index), size)?
            }
            Op::Negate => pop(&stack, &mut top)?.wrapping_neg(),
            Op::With(op, right) => op.apply(pop(&stack, &mut top)?, right)?,
            Op::Binary(op) => {
                let right = pop(&stack, &mut top)?;
                op.apply(pop(&stack, &mut top)?, right)?
            }
        };
        *stack.get_mut(top)? = value;
        top += 1;
    }
    let right = pop(&stack, &mut top)?;
    let left = pop(&stack, &mut top)?;
    Some(relation.compare.holds(left, right))
}

#[inline(always)]
fn pop(stack: &[u32; STACK], top: &mut usize) -> Option<u32> {
    *top = top.checked_sub(1)?;
    stack.get(*top).copied()
}
