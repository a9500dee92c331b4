//! An IPv4 prefix, written `10.0.0.0/8` (RFC 4632 3.1).

use std::fmt;
use std::net::Ipv4Addr;
use std::str::FromStr;

/// An address block: the first `len` bits of `addr`, all others zero.
///
/// Ordered by address, then length, so a block comes before the blocks inside it.
#[derive(Copy, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct Prefix {
    addr: u32,
    len: u8,
}

impl Prefix {
    /// Every address.
    pub const DEFAULT: Prefix = Prefix { addr: 0, len: 0 };

    /// The block of `len` bits that `addr` is in; bits beyond `len` are dropped.
    ///
    /// # Errors
    /// [`PrefixError::Length`] above 32.
    pub const fn new(addr: Ipv4Addr, len: u8) -> Result<Prefix, PrefixError> {
        if len > 32 {
            return Err(PrefixError::Length);
        }
        Ok(Prefix::masked(addr.to_bits(), len))
    }

    /// One address.
    pub const fn host(addr: Ipv4Addr) -> Prefix {
        Prefix { addr: addr.to_bits(), len: 32 }
    }

    /// `len` is at most 32.
    pub(super) const fn masked(addr: u32, len: u8) -> Prefix {
        Prefix { addr: addr & mask(len), len }
    }

    /// The first address.
    pub const fn addr(self) -> Ipv4Addr {
        Ipv4Addr::from_bits(self.addr)
    }

    /// Leading bits that count, 0 to 32.
    #[expect(clippy::len_without_is_empty, reason = "a number of bits, not of elements")]
    pub const fn len(self) -> u8 {
        self.len
    }

    /// The mask as an address: 255.0.0.0 for a /8.
    pub const fn netmask(self) -> Ipv4Addr {
        Ipv4Addr::from_bits(mask(self.len))
    }

    /// Whether `addr` is in the block.
    pub const fn contains(self, addr: Ipv4Addr) -> bool {
        addr.to_bits() & mask(self.len) == self.addr
    }

    /// Whether all of `other` is in the block.
    pub const fn covers(self, other: Prefix) -> bool {
        self.len <= other.len && other.addr & mask(self.len) == self.addr
    }

    /// The longest block that covers both.
    pub(super) fn common(self, other: Prefix) -> Prefix {
        let same = (self.addr ^ other.addr).leading_zeros() as u8;
        Prefix::masked(self.addr, same.min(self.len).min(other.len))
    }

    pub(super) const fn bits(self) -> u32 {
        self.addr
    }
}

/// A shift by 32 has no answer for /0, so it gets one.
pub(super) const fn mask(len: u8) -> u32 {
    match len {
        0 => 0,
        len => u32::MAX << (32 - len),
    }
}

impl fmt::Display for Prefix {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.addr(), self.len)
    }
}

impl FromStr for Prefix {
    type Err = PrefixError;

    /// `a.b.c.d/len`, the length in decimal without sign. Bits beyond it are dropped, as `new` does.
    fn from_str(text: &str) -> Result<Prefix, PrefixError> {
        let (addr, len) = text.split_once('/').ok_or(PrefixError::NoLength)?;
        let addr = addr.parse().map_err(|_| PrefixError::Address)?;
        if len.is_empty() || !len.bytes().all(|digit| digit.is_ascii_digit()) {
            return Err(PrefixError::Length);
        }
        Prefix::new(addr, len.parse().map_err(|_| PrefixError::Length)?)
    }
}

/// Why something is not a prefix.
#[derive(Copy, Clone, PartialEq, Eq, Debug)]
pub enum PrefixError {
    /// No slash.
    NoLength,
    /// Not four numbers with dots before the slash.
    Address,
    /// Not a number of bits from 0 to 32.
    Length,
}

impl fmt::Display for PrefixError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            PrefixError::NoLength => "a prefix needs a length: 10.0.0.0/8, or /32 for one address",
            PrefixError::Address => "a prefix starts with an IPv4 address: 10.0.0.0/8",
            PrefixError::Length => "a prefix length is a number from 0 to 32",
        })
    }
}

impl std::error::Error for PrefixError {}
