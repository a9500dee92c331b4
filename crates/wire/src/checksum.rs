//! The Internet checksum: one's-complement sums of 16-bit words (RFC 1071), mended in place (RFC 1624).
//!
//! [`sum`] turns bytes into a [`Partial`]; partial sums add up in any order and [`Partial::finish`] gives the field. Nothing
//! here knows where a checksum lives in a header. Words are loaded as the machine stores them and the result is turned
//! once, at the end: the sum commutes with byte order (RFC 1071 2 (B)).
//!
//! Below [`SHORT`] bytes the sum is inlined at the caller, with no dispatch; above, the best [`Kind`] of the
//! machine is found on first use and kept in an atomic.

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

/// Below this many bytes [`sum`] is inlined and does not dispatch. At 64 bytes the inlined loop, words and 512-bit vectors
/// cost 9, 10 and 12 ticks; at 128 the vectors are level and from there on ahead (examples/checksum_speed.rs, 2.0 GHz TSC).
pub const SHORT: usize = 64;

/// A one's-complement sum under way: of 16-bit words in the machine's byte order, carries kept up to 64 bits.
#[derive(Clone, Copy, Debug, Default)]
pub struct Partial(u64);

impl Partial {
    /// The sum of nothing.
    pub const ZERO: Partial = Partial(0);

    /// The sum of an IPv4 pseudo header; `len` counts transport header and payload (RFC 768, RFC 9293 3.1).
    #[inline]
    pub fn pseudo4(src: Ipv4Addr, dst: Ipv4Addr, proto: Proto, len: u16) -> Partial {
        let addresses = u64::from(u32::from_ne_bytes(src.octets())) + u64::from(u32::from_ne_bytes(dst.octets()));
        Partial(addresses + u64::from(u16::from(proto.0).to_be()) + u64::from(len.to_be()))
    }

    /// [`Partial::pseudo4`] of addresses that have been loaded together: the source in the upper half.
    #[inline(always)]
    pub const fn pseudo4_of(addresses: u64, proto: Proto, len: u16) -> Partial {
        Partial(scalar::halves(addresses.to_be()) + (proto.0 as u16).to_be() as u64 + len.to_be() as u64)
    }

    /// The sum of an IPv6 pseudo header; `len` counts transport header and payload (RFC 8200 8.1).
    #[inline]
    pub fn pseudo6(src: Ipv6Addr, dst: Ipv6Addr, proto: Proto, len: u32) -> Partial {
        let addresses = scalar::sum_16(&src.octets()).wrapping_add(scalar::sum_16(&dst.octets()));
        Partial(addresses + u64::from(u32::from(proto.0).to_be()) + u64::from(len.to_be()))
    }

    /// Both sums. `other` must start at an even offset of the whole; for an odd one see [`Partial::add_at`].
    #[inline]
    #[must_use]
    #[allow(clippy::should_implement_trait, reason = "a chain of named steps reads better than operators here")]
    pub const fn add(self, other: Partial) -> Partial {
        // If it carries, the sum is at most 2^64 - 2: the carry always fits.
        let (sum, carry) = self.0.overflowing_add(other.0);
        Partial(sum + carry as u64)
    }

    /// One more 16-bit word, in host order.
    #[inline]
    #[must_use]
    pub const fn add_u16(self, word: u16) -> Partial {
        self.add(Partial(word.to_be() as u64))
    }

    /// Both sums, where `other` was taken over bytes that start at `offset` of the whole: an odd offset swaps its bytes.
    #[inline]
    #[must_use]
    pub const fn add_at(self, offset: usize, other: Partial) -> Partial {
        // Modulo 2^64 - 1 a rotation by 8 multiplies by 256, which modulo 2^16 - 1 swaps the bytes.
        self.add(if offset.is_multiple_of(2) { other } else { Partial(other.0.rotate_left(8)) })
    }

    /// The checksum field in host order: folded and complemented.
    #[inline]
    #[must_use]
    pub const fn finish(self) -> u16 {
        u16::from_be(!self.fold())
    }

    /// As [`Partial::finish`], with 0 turned to 0xffff as UDP sends it (RFC 768).
    #[inline]
    #[must_use]
    pub const fn finish_nonzero(self) -> u16 {
        match self.finish() {
            0 => 0xffff,
            field => field,
        }
    }

    /// Whether a sum that includes the checksum field verifies: all ones (RFC 1071 1).
    #[inline]
    #[must_use]
    pub const fn verifies(self) -> bool {
        self.fold() == 0xffff
    }

    /// The same sum in 16 bits, for whoever keeps many.
    #[inline]
    #[must_use]
    pub const fn folded(self) -> u16 {
        self.fold()
    }

    /// From [`Partial::folded`].
    #[inline]
    #[must_use]
    pub const fn from_folded(sum: u16) -> Partial {
        Partial(sum as u64)
    }

    /// 64 to 32 to 16 bits, adding the halves and bringing the carry round each time.
    #[inline]
    const fn fold(self) -> u16 {
        let (sum, carry) = ((self.0 >> 32) as u32).overflowing_add(self.0 as u32);
        let sum = sum + carry as u32;
        let (sum, carry) = ((sum >> 16) as u16).overflowing_add(sum as u16);
        sum + carry as u16
    }
}

/// Equal when they finish alike.
impl PartialEq for Partial {
    fn eq(&self, other: &Partial) -> bool {
        self.finish() == other.finish()
    }
}

impl Eq for Partial {}

/// The sum of `bytes`; an odd last byte is padded with zero (RFC 1071 4.1).
#[inline(always)]
pub fn sum(bytes: &[u8]) -> Partial {
    if bytes.len() < SHORT { Partial(scalar::short(bytes)) } else { kind::sum_long(bytes) }
}

/// The sum of a header of 20 bytes: five independent loads, no carries; 2.7 ticks with `finish` where [`sum`] has 5.4.
#[inline(always)]
pub fn header20(header: &[u8; 20]) -> Partial {
    Partial(scalar::sum_20(header))
}

/// The sum of words of 8 bytes, in host order as numbers are.
#[inline(always)]
pub fn words<const N: usize>(words: [u64; N]) -> Partial {
    words.iter().fold(Partial::ZERO, |sum, word| sum.add(Partial(word.to_be())))
}

/// [`header20`] of a header that has been loaded: two words of 8 bytes and one of 4, little-endian.
#[inline(always)]
pub(crate) const fn words20(first: u64, second: u64, third: u32) -> Partial {
    Partial(first.to_le()).add(Partial(second.to_le())).add(Partial(third.to_le() as u64))
}

/// The checksum after one 16-bit word of the covered bytes changed from `old` to `new` (RFC 1624 3, equation 3).
#[inline]
#[must_use]
pub const fn update16(old_sum: u16, old: u16, new: u16) -> u16 {
    let sum = !old_sum as u32 + !old as u32 + new as u32;
    let sum = (sum & 0xffff) + (sum >> 16);
    !((sum & 0xffff) + (sum >> 16)) as u16
}

/// As [`update16`] for an aligned 32-bit field such as an address.
#[inline]
#[must_use]
pub const fn update32(old_sum: u16, old: u32, new: u32) -> u16 {
    update16(update16(old_sum, (old >> 16) as u16, (new >> 16) as u16), old as u16, new as u16)
}
