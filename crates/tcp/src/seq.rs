//! Sequence numbers: 32 bits with wrap-around (RFC 9293 3.4).
//!
//! Comparisons use the sign of the distance, so they are valid only for numbers less than 2^31
//! apart. Windows are at most 2^30 (RFC 7323 2.3), so all numbers that a connection compares are
//! close enough. All arithmetic wraps.

use core::fmt;

/// TCP sequence number.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Default)]
pub struct SeqNum(pub u32);

impl SeqNum {
    /// Returns whether this number comes before `other`.
    #[inline]
    pub const fn before(self, other: SeqNum) -> bool {
        (self.0.wrapping_sub(other.0) as i32) < 0
    }

    /// Returns whether this number comes after `other`.
    #[inline]
    pub const fn after(self, other: SeqNum) -> bool {
        other.before(self)
    }

    /// Returns whether this number equals `other` or comes before it.
    #[inline]
    pub const fn at_or_before(self, other: SeqNum) -> bool {
        !other.before(self)
    }

    /// Returns whether this number equals `other` or comes after it.
    #[inline]
    pub const fn at_or_after(self, other: SeqNum) -> bool {
        !self.before(other)
    }

    /// Returns whether this number lies in `from..to`.
    #[inline]
    pub const fn within(self, from: SeqNum, to: SeqNum) -> bool {
        self.0.wrapping_sub(from.0) < to.0.wrapping_sub(from.0)
    }

    /// Distance from `earlier` to this number, with wrap-around.
    #[inline]
    pub const fn since(self, earlier: SeqNum) -> u32 {
        self.0.wrapping_sub(earlier.0)
    }

    /// Distance from `earlier` to this number; 0 if `earlier` comes after it.
    #[inline]
    pub const fn since_or_zero(self, earlier: SeqNum) -> u32 {
        if self.before(earlier) { 0 } else { self.since(earlier) }
    }

    /// Returns this number plus `bytes`, with wrap-around.
    #[inline]
    #[must_use]
    pub const fn plus(self, bytes: u32) -> SeqNum {
        SeqNum(self.0.wrapping_add(bytes))
    }

    /// Returns this number minus `bytes`, with wrap-around.
    #[inline]
    #[must_use]
    pub const fn minus(self, bytes: u32) -> SeqNum {
        SeqNum(self.0.wrapping_sub(bytes))
    }

    /// Returns the later of the two numbers.
    #[inline]
    #[must_use]
    pub const fn later(self, other: SeqNum) -> SeqNum {
        if self.before(other) { other } else { self }
    }

    /// Returns the earlier of the two numbers.
    #[inline]
    #[must_use]
    pub const fn earlier(self, other: SeqNum) -> SeqNum {
        if other.before(self) { other } else { self }
    }
}

impl fmt::Display for SeqNum {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

impl fmt::Debug for SeqNum {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn order_is_the_sign_of_the_distance_across_the_wrap() {
        for base in [0, 1, 0x7fff_ffff, 0x8000_0000, u32::MAX] {
            let (a, b) = (SeqNum(base), SeqNum(base).plus(5));
            assert!(a.before(b) && b.after(a) && a.at_or_before(b) && b.at_or_after(a));
            assert!(!b.before(a) && !a.after(b) && a.at_or_before(a) && a.at_or_after(a) && !a.before(a));
            assert_eq!((b.since(a), a.since_or_zero(b), b.since_or_zero(a)), (5, 0, 5));
            assert_eq!((a.later(b), a.earlier(b), b.later(a), b.earlier(a), b.minus(5)), (b, a, b, a, a));
        }
    }

    #[test]
    fn within_is_half_open_and_empty_when_empty() {
        let a = SeqNum(u32::MAX - 1);
        assert!(a.within(a, a.plus(1)) && a.plus(2).within(a, a.plus(3)));
        assert!(!a.plus(3).within(a, a.plus(3)) && !a.within(a, a) && !a.minus(1).within(a, a.plus(3)));
    }
}
