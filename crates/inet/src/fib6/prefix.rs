//! An IPv6 prefix, written `2001:db8::/32` (RFC 4291 2.3).

use std::fmt;
use std::net::Ipv6Addr;
use std::str::FromStr;

/// An address block: the first `len` bits of `addr`, all others zero.
///
/// Ordered by address, then length, so a block comes before the blocks inside it.
#[derive(Copy, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct Prefix6 {
    addr: Ipv6Addr,
    len: u8,
}

impl Prefix6 {
    /// Every address.
    pub const DEFAULT: Prefix6 = Prefix6 { addr: Ipv6Addr::UNSPECIFIED, len: 0 };

    /// The block of `len` bits that `addr` is in; bits beyond `len` are dropped.
    ///
    /// # Errors
    /// [`PrefixError6::Length`] above 128.
    pub const fn new(addr: Ipv6Addr, len: u8) -> Result<Prefix6, PrefixError6> {
        if len > 128 {
            return Err(PrefixError6::Length);
        }
        Ok(Prefix6::masked(addr, len))
    }

    /// One address.
    pub const fn host(addr: Ipv6Addr) -> Prefix6 {
        Prefix6 { addr, len: 128 }
    }

    /// `len` is at most 128.
    pub(crate) const fn masked(addr: Ipv6Addr, len: u8) -> Prefix6 {
        let mask = if len == 0 { 0 } else { u128::MAX << (128 - len as u32) };
        Prefix6 { addr: Ipv6Addr::from_bits(addr.to_bits() & mask), len }
    }

    /// The first address.
    pub const fn addr(self) -> Ipv6Addr {
        self.addr
    }

    /// Leading bits that count, 0 to 128.
    #[expect(clippy::len_without_is_empty, reason = "a number of bits, not of elements")]
    pub const fn len(self) -> u8 {
        self.len
    }

    /// Whether `addr` is in the block.
    pub fn contains(self, addr: Ipv6Addr) -> bool {
        Prefix6::masked(addr, self.len) == self
    }
}

impl fmt::Display for Prefix6 {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.addr, self.len)
    }
}

impl FromStr for Prefix6 {
    type Err = PrefixError6;

    /// `address/len`, the length in decimal without sign. Bits beyond it are dropped, as `new` does.
    fn from_str(text: &str) -> Result<Prefix6, PrefixError6> {
        let (addr, len) = text.split_once('/').ok_or(PrefixError6::NoLength)?;
        let addr = addr.parse().map_err(|_| PrefixError6::Address)?;
        if len.is_empty() || !len.bytes().all(|digit| digit.is_ascii_digit()) {
            return Err(PrefixError6::Length);
        }
        Prefix6::new(addr, len.parse().map_err(|_| PrefixError6::Length)?)
    }
}

/// Why something is not a prefix.
#[derive(Copy, Clone, PartialEq, Eq, Debug)]
pub enum PrefixError6 {
    /// No slash.
    NoLength,
    /// No IPv6 address before the slash.
    Address,
    /// Not a number of bits from 0 to 128.
    Length,
}

impl fmt::Display for PrefixError6 {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            PrefixError6::NoLength => "a prefix needs a length: 2001:db8::/32, or /128 for one address",
            PrefixError6::Address => "a prefix starts with an IPv6 address: 2001:db8::/32",
            PrefixError6::Length => "a prefix length is a number from 0 to 128",
        })
    }
}

impl std::error::Error for PrefixError6 {}
