//! The Internet checksum: one's-complement sums of 16-bit words (RFC 1071), with incremental
//! updates (RFC 1624).
//!
//! [`sum`] turns bytes into a [`Partial`]. Partial sums add up in any order, and
//! [`Partial::finish`] returns the checksum field. The caller knows where a header has its
//! checksum; this module does not. Words are loaded in the machine's byte order and the result is
//! swapped once, at the end: the sum is independent of byte order (RFC 1071 2 (B)).
//!
//! Below [`SHORT`] bytes the sum is inlined at the caller. For longer inputs, the best [`Kind`] for
//! the machine is selected on first use and kept in an atomic.

use crate::Proto;
use std::net::{Ipv4Addr, Ipv6Addr};

pub use copy::{copy, copy_and_sum};
pub use kind::{Kind, Unavailable, kind, select, sum_with};

mod copy;
mod kind;
mod scalar;
#[cfg(any(target_arch = "x86_64", target_arch = "aarch64"))]
mod simd;
#[cfg(test)]
mod tests;

/// Length in bytes below which [`sum`] is inlined and does not select an implementation. For 64
/// bytes, the inlined loop, the loop over 64-bit words and 512-bit vectors take 9, 10 and 12 ticks.
/// From 128 bytes on, vectors are as fast or faster (`linerate bench parts`, 2.0 GHz TSC).
pub const SHORT: usize = 64;

/// Unfinished one's-complement sum of 16-bit words in the machine's byte order. It has up to 64
/// bits, which include the carries.
#[derive(Clone, Copy, Debug, Default)]
pub struct Partial(u64);

impl Partial {
    /// Sum of no bytes.
    pub const ZERO: Partial = Partial(0);

    /// Returns the sum of an IPv4 pseudo header. `len` is the length in bytes of transport header
    /// and payload (RFC 768, RFC 9293 3.1).
    #[inline]
    pub fn pseudo4(src: Ipv4Addr, dst: Ipv4Addr, proto: Proto, len: u16) -> Partial {
        let addresses = u64::from(u32::from_ne_bytes(src.octets())) + u64::from(u32::from_ne_bytes(dst.octets()));
        Partial(addresses + u64::from(u16::from(proto.0).to_be()) + u64::from(len.to_be()))
    }

    /// Returns the same sum as [`Partial::pseudo4`], for addresses loaded as one word, with the
    /// source in the upper half.
    #[inline(always)]
    pub const fn pseudo4_of(addresses: u64, proto: Proto, len: u16) -> Partial {
        Partial(scalar::halves(addresses.to_be()) + (proto.0 as u16).to_be() as u64 + len.to_be() as u64)
    }

    /// Returns the sum of an IPv6 pseudo header. `len` is the length in bytes of transport header
    /// and payload (RFC 8200 8.1).
    #[inline]
    pub fn pseudo6(src: Ipv6Addr, dst: Ipv6Addr, proto: Proto, len: u32) -> Partial {
        let addresses = scalar::sum_16(&src.octets()).wrapping_add(scalar::sum_16(&dst.octets()));
        Partial(addresses + u64::from(u32::from(proto.0).to_be()) + u64::from(len.to_be()))
    }

    /// Adds two sums. The bytes of `other` must start at an even offset of the summed data. For an
    /// odd offset see [`Partial::add_at`].
    #[inline]
    #[must_use]
    #[allow(clippy::should_implement_trait, reason = "a chain of named steps reads better than operators here")]
    pub const fn add(self, other: Partial) -> Partial {
        // After a carry the sum is at most 2^64 - 2, so adding the carry cannot overflow.
        let (sum, carry) = self.0.overflowing_add(other.0);
        Partial(sum + carry as u64)
    }

    /// Adds one 16-bit word in host order.
    #[inline]
    #[must_use]
    pub const fn add_u16(self, word: u16) -> Partial {
        self.add(Partial(word.to_be() as u64))
    }

    /// Adds `other`, the sum over bytes that start at `offset` of the summed data. If the offset is
    /// odd, the two bytes of each word of `other` are swapped.
    #[inline]
    #[must_use]
    pub const fn add_at(self, offset: usize, other: Partial) -> Partial {
        // Modulo 2^64 - 1, a rotation by 8 multiplies by 256; modulo 2^16 - 1 that swaps the bytes.
        self.add(if offset.is_multiple_of(2) { other } else { Partial(other.0.rotate_left(8)) })
    }

    /// Returns the checksum field in host order: folded and complemented.
    #[inline]
    #[must_use]
    pub const fn finish(self) -> u16 {
        u16::from_be(!self.fold())
    }

    /// Returns the same field as [`Partial::finish`], except that 0xffff replaces 0, as UDP
    /// requires (RFC 768).
    #[inline]
    #[must_use]
    pub const fn finish_nonzero(self) -> u16 {
        match self.finish() {
            0 => 0xffff,
            field => field,
        }
    }

    /// Returns whether the checksum is correct, for a sum that includes the checksum field: the
    /// folded sum must be all ones (RFC 1071 1).
    #[inline]
    #[must_use]
    pub const fn verifies(self) -> bool {
        self.fold() == 0xffff
    }

    /// Returns the same sum in 16 bits, for compact storage.
    #[inline]
    #[must_use]
    pub const fn folded(self) -> u16 {
        self.fold()
    }

    /// Restores a sum from [`Partial::folded`].
    #[inline]
    #[must_use]
    pub const fn from_folded(sum: u16) -> Partial {
        Partial(sum as u64)
    }

    /// Folds 64 to 32 to 16 bits: adds the halves with end-around carry each time.
    #[inline]
    const fn fold(self) -> u16 {
        let (sum, carry) = ((self.0 >> 32) as u32).overflowing_add(self.0 as u32);
        let sum = sum + carry as u32;
        let (sum, carry) = ((sum >> 16) as u16).overflowing_add(sum as u16);
        sum + carry as u16
    }
}

/// Two sums are equal if they finish to the same field.
impl PartialEq for Partial {
    fn eq(&self, other: &Partial) -> bool {
        self.finish() == other.finish()
    }
}

impl Eq for Partial {}

/// Returns the sum of `bytes`; an odd last byte is padded with zero (RFC 1071 4.1).
#[inline(always)]
pub fn sum(bytes: &[u8]) -> Partial {
    if bytes.len() < SHORT { Partial(scalar::short(bytes)) } else { kind::sum_long(bytes) }
}

/// Returns the sum of a 20-byte header, with five independent loads and no carries. This takes 2.7
/// ticks including `finish`, against 5.4 with [`sum`].
#[inline(always)]
pub fn header20(header: &[u8; 20]) -> Partial {
    Partial(scalar::sum_20(header))
}

/// Returns the sum of 8-byte words, given in host order.
#[inline(always)]
pub fn words<const N: usize>(words: [u64; N]) -> Partial {
    words.iter().fold(Partial::ZERO, |sum, word| sum.add(Partial(word.to_be())))
}

/// Returns the same sum as [`header20`], for a header already loaded as two words of 8 bytes and
/// one of 4, little-endian.
#[inline(always)]
pub(crate) const fn words20(first: u64, second: u64, third: u32) -> Partial {
    Partial(first.to_le()).add(Partial(second.to_le())).add(Partial(third.to_le() as u64))
}

/// Returns the checksum after one 16-bit word of the covered bytes changed from `old` to `new` (RFC
/// 1624 3, equation 3).
#[inline]
#[must_use]
pub const fn update16(old_sum: u16, old: u16, new: u16) -> u16 {
    let sum = !old_sum as u32 + !old as u32 + new as u32;
    let sum = (sum & 0xffff) + (sum >> 16);
    !((sum & 0xffff) + (sum >> 16)) as u16
}

/// Returns the checksum after an aligned 32-bit field, such as an address, changed from `old` to
/// `new`. See [`update16`].
#[inline]
#[must_use]
pub const fn update32(old_sum: u16, old: u32, new: u32) -> u16 {
    update16(update16(old_sum, (old >> 16) as u16, (new >> 16) as u16), old as u16, new as u16)
}
