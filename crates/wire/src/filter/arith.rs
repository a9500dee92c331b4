//! Arithmetic: `ip[2:2] - 4 * (ip[0] & 15) > len / 2` as operations on a small stack.
//!
//! Values are 32 bits and wrap. A load beyond the frame, or a division by zero, ends the whole
//! filter with no match, wherever it occurs, as in BPF.

use super::program::Test;
use super::protocol::Word;
use alloc::boxed::Box;
use alloc::vec;
use alloc::vec::Vec;

/// Maximum number of values on the stack, equal to the number of registers in libpcap.
pub(super) const STACK: usize = 16;

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Binary {
    Add,
    Sub,
    Mul,
    Div,
    Mod,
    And,
    Or,
    Xor,
    ShiftLeft,
    ShiftRight,
}

impl Binary {
    fn commutes(self) -> bool {
        matches!(self, Binary::Add | Binary::Mul | Binary::And | Binary::Or | Binary::Xor)
    }

    /// Applies the operator to `a` and `b`. Returns `None` for a division by zero.
    pub fn apply(self, a: u32, b: u32) -> Option<u32> {
        Some(match self {
            Binary::Add => a.wrapping_add(b),
            Binary::Sub => a.wrapping_sub(b),
            Binary::Mul => a.wrapping_mul(b),
            Binary::Div => a.checked_div(b)?,
            Binary::Mod => a.checked_rem(b)?,
            Binary::And => a & b,
            Binary::Or => a | b,
            Binary::Xor => a ^ b,
            Binary::ShiftLeft => a.checked_shl(b).unwrap_or(0),
            Binary::ShiftRight => a.checked_shr(b).unwrap_or(0),
        })
    }
}

/// One operation of the stack machine: takes its operands from the stack and pushes its result.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Op {
    Push(u32),
    /// Pushes the number that a test reads: the length, or a field at a fixed offset.
    Field(Test),
    /// Replaces the index on the stack by the `size` bytes at `base` plus the index.
    Load {
        base: u32,
        size: u8,
    },
    /// Like `Load`, but the offset is relative to the end of the IPv4 header that begins at `ip`.
    LoadTransport {
        ip: u32,
        size: u8,
    },
    Negate,
    Binary(Binary),
    /// A binary operation with this constant as the right operand.
    With(Binary, u32),
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Compare {
    Equal,
    Unequal,
    Greater,
    GreaterEqual,
    Less,
    LessEqual,
}

impl Compare {
    pub fn holds(self, left: u32, right: u32) -> bool {
        match self {
            Compare::Equal => left == right,
            Compare::Unequal => left != right,
            Compare::Greater => left > right,
            Compare::GreaterEqual => left >= right,
            Compare::Less => left < right,
            Compare::LessEqual => left <= right,
        }
    }
}

/// A comparison of two values.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) struct Relation {
    /// Operations that leave the left value on the stack, and the right value on top of it.
    pub ops: Box<[Op]>,
    pub compare: Compare,
}

/// Condition on the frame that must be true before a value is loaded from it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Guard {
    /// The payload of the link layer has this protocol.
    Carries(Word),
    /// The payload of the IPv4 packet has this protocol, and the packet is not a later fragment.
    FirstOf(u8),
    /// The Next Header field of the IPv6 packet contains this protocol.
    Next(u8),
}

/// A parsed arithmetic expression: its operations, and the conditions on the frame that they
/// require.
#[derive(Clone, Debug, Default)]
pub(super) struct Arith {
    pub guards: Vec<Guard>,
    pub ops: Vec<Op>,
    /// Maximum number of values that the operations have on the stack at once.
    pub depth: usize,
}

impl Arith {
    pub fn number(value: u32) -> Arith {
        Arith { guards: Vec::new(), ops: vec![Op::Push(value)], depth: 1 }
    }

    pub fn wire_len() -> Arith {
        Arith { guards: Vec::new(), ops: vec![Op::Field(Test::wire_len())], depth: 1 }
    }

    /// Returns the value of the expression if it does not depend on the frame.
    pub fn constant(&self) -> Option<u32> {
        match self.ops.as_slice() {
            [Op::Push(value)] => Some(*value),
            _ => None,
        }
    }

    pub fn negate(self) -> Arith {
        match self.constant() {
            Some(value) => Arith::number(value.wrapping_neg()),
            None => self.then(Op::Negate),
        }
    }

    /// Combines two operands. Two constants are folded into one. As in libpcap, only the guards of
    /// the left operand are kept: `ip[0] + tcp[0]` only requires IPv4.
    pub fn binary(self, op: Binary, mut right: Arith) -> Arith {
        if let (Some(a), Some(b)) = (self.constant(), right.constant())
            && let Some(value) = op.apply(a, b)
        {
            return Arith::number(value);
        }
        right.guards.clear();
        match (self.constant(), right.constant()) {
            (_, Some(value)) => self.then(Op::With(op, value)),
            (Some(value), None) if op.commutes() => right.then(Op::With(op, value)),
            _ => self.beside(right).then(Op::Binary(op)),
        }
    }

    pub fn then(mut self, op: Op) -> Arith {
        self.ops.push(op);
        self
    }

    /// Concatenates the operations of two expressions. They leave both values on the stack, the
    /// value of `right` on top. The guards of `self` are checked first.
    pub fn beside(mut self, right: Arith) -> Arith {
        self.guards.extend(right.guards);
        self.ops.extend(right.ops);
        self.depth = self.depth.max(right.depth + 1);
        self
    }
}
