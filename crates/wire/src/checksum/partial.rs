//! Unfinished sums: pseudo headers, addition and the checksum field.

use super::scalar;
use crate::Proto;
use core::net::{Ipv4Addr, Ipv6Addr};

/// Unfinished one's-complement sum of 16-bit words in the machine's byte order. It has up to 64
/// bits, which include the carries.
#[derive(Clone, Copy, Debug, Default)]
pub struct Partial(pub(super) u64);

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
