//! An IP prefix, written `10.0.0.0/8` (RFC 4632 3.1) or `2001:db8::/32` (RFC 4291 2.3).

use std::fmt::{self, Debug, Display};
use std::hash::Hash;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::ops::{BitAnd, BitOr, BitXor};
use std::str::FromStr;

/// The bits of an address as an integer: [`u32`] for IPv4, [`u128`] for IPv6.
pub trait AddrBits:
    Copy + Ord + Hash + Default + Debug + BitAnd<Output = Self> + BitOr<Output = Self> + BitXor<Output = Self>
{
    /// The address type of the standard library.
    type Addr: Copy + Eq + Hash + Debug + Display + FromStr + Into<IpAddr>;
    /// Number of bits in an address.
    const BITS: u8;
    /// Examples for error messages: a prefix, and the suffix with the prefix length of a single
    /// address.
    const EXAMPLES: [&'static str; 2];

    /// Returns the address as an integer.
    fn of(addr: Self::Addr) -> Self;
    /// Returns the address with these bits.
    fn to_addr(self) -> Self::Addr;
    /// Returns a mask of `len` leading ones; `len` is at most [`AddrBits::BITS`].
    fn mask(len: u8) -> Self;
    /// Returns the number of leading zeros.
    fn zeros(self) -> u8;
    /// Returns the bits widened to 128. An IPv4 address is in the low 32 bits.
    fn to_wide(self) -> u128;
    /// Returns the address in the low bits of a 128-bit value; the inverse of
    /// [`AddrBits::to_wide`].
    fn from_wide(bits: u128) -> Self;
}

macro_rules! addr_bits {
    ($bits:ty, $addr:ty, $examples:expr) => {
        impl AddrBits for $bits {
            type Addr = $addr;
            const BITS: u8 = <$bits>::BITS as u8;
            const EXAMPLES: [&'static str; 2] = $examples;

            #[inline(always)]
            fn of(addr: $addr) -> $bits {
                addr.to_bits()
            }

            #[inline(always)]
            fn to_addr(self) -> $addr {
                <$addr>::from_bits(self)
            }

            #[inline(always)]
            fn mask(len: u8) -> $bits {
                <$bits>::MAX.checked_shl(<$bits>::BITS - u32::from(len)).unwrap_or(0) // for /0 all bits are shifted out
            }

            #[inline(always)]
            fn zeros(self) -> u8 {
                self.leading_zeros() as u8
            }

            #[inline(always)]
            fn to_wide(self) -> u128 {
                self.into()
            }

            #[inline(always)]
            fn from_wide(bits: u128) -> $bits {
                bits as $bits
            }
        }
    };
}

addr_bits!(u32, Ipv4Addr, ["10.0.0.0/8", "/32"]);
addr_bits!(u128, Ipv6Addr, ["2001:db8::/32", "/128"]);

/// An IP prefix: the first `len` bits of `addr`, all others zero.
///
/// Prefixes are ordered by address, then by length, so a prefix comes before the longer ones inside
/// it.
#[derive(Copy, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct IpPrefix<A> {
    addr: A,
    len: u8,
}

/// An IPv4 prefix.
pub type Prefix = IpPrefix<u32>;
/// An IPv6 prefix.
pub type Prefix6 = IpPrefix<u128>;

impl Prefix {
    /// The default route, 0.0.0.0/0.
    pub const DEFAULT: Prefix = Prefix { addr: 0, len: 0 };

    /// Returns the netmask as an address, for example 255.0.0.0 for a /8.
    pub fn netmask(self) -> Ipv4Addr {
        u32::mask(self.len).to_addr()
    }
}

impl Prefix6 {
    /// The default route, `::/0`.
    pub const DEFAULT: Prefix6 = Prefix6 { addr: 0, len: 0 };
}

impl<A: AddrBits> IpPrefix<A> {
    /// Returns the prefix of `len` bits that contains `addr`; the bits of `addr` after the first
    /// `len` are cleared.
    ///
    /// # Errors
    /// [`PrefixFault::Length`] if `len` exceeds the number of bits in an address.
    pub fn new(addr: A::Addr, len: u8) -> Result<IpPrefix<A>, PrefixError<A>> {
        if len > A::BITS {
            return Err(PrefixError::new(PrefixFault::Length));
        }
        Ok(IpPrefix::masked(A::of(addr), len))
    }

    /// Returns the prefix that contains only `addr`: a /32 for IPv4, a /128 for IPv6.
    pub fn host(addr: A::Addr) -> IpPrefix<A> {
        IpPrefix { addr: A::of(addr), len: A::BITS }
    }

    /// Returns the prefix of `len` bits that contains `addr`; `len` is at most [`AddrBits::BITS`].
    pub fn masked(addr: A, len: u8) -> IpPrefix<A> {
        IpPrefix { addr: addr & A::mask(len), len }
    }

    /// Returns the first address of the prefix.
    pub fn addr(self) -> A::Addr {
        self.addr.to_addr()
    }

    /// Returns the prefix length in bits.
    #[expect(clippy::len_without_is_empty, reason = "a number of bits, not of elements")]
    pub const fn len(self) -> u8 {
        self.len
    }

    /// Returns whether `addr` is in the prefix.
    pub fn contains(self, addr: A::Addr) -> bool {
        self.covers(IpPrefix::host(addr))
    }

    /// Returns whether all of `other` is in the prefix.
    pub fn covers(self, other: IpPrefix<A>) -> bool {
        self.len <= other.len && other.addr & A::mask(self.len) == self.addr
    }

    /// Returns the longest prefix that covers both prefixes.
    pub(super) fn common(self, other: IpPrefix<A>) -> IpPrefix<A> {
        let same = (self.addr ^ other.addr).zeros();
        IpPrefix::masked(self.addr, same.min(self.len).min(other.len))
    }

    pub(super) const fn bits(self) -> A {
        self.addr
    }
}

impl<A: AddrBits> Display for IpPrefix<A> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.addr(), self.len)
    }
}

impl<A: AddrBits> FromStr for IpPrefix<A> {
    type Err = PrefixError<A>;

    /// Parses `address/len`, where the length is a decimal number without a sign. Address bits
    /// after the first `len` are cleared, as in [`IpPrefix::new`].
    fn from_str(text: &str) -> Result<IpPrefix<A>, PrefixError<A>> {
        let (addr, len) = text.split_once('/').ok_or(PrefixError::new(PrefixFault::NoLength))?;
        let addr = addr.parse().map_err(|_| PrefixError::new(PrefixFault::Address))?;
        if len.is_empty() || !len.bytes().all(|digit| digit.is_ascii_digit()) {
            return Err(PrefixError::new(PrefixFault::Length));
        }
        IpPrefix::new(addr, len.parse().map_err(|_| PrefixError::new(PrefixFault::Length))?)
    }
}

/// Reason why a text is not a prefix of the family `A`.
#[derive(Copy, Clone, PartialEq, Eq, Debug)]
pub struct PrefixError<A> {
    /// The part of the text that is missing or wrong.
    pub fault: PrefixFault,
    family: std::marker::PhantomData<A>,
}

/// The invalid part of a text that is not a prefix.
#[derive(Copy, Clone, PartialEq, Eq, Debug)]
pub enum PrefixFault {
    /// There is no slash.
    NoLength,
    /// There is no address before the slash.
    Address,
    /// The length is not a number from 0 to the number of bits in an address.
    Length,
}

impl<A> PrefixError<A> {
    fn new(fault: PrefixFault) -> PrefixError<A> {
        PrefixError { fault, family: std::marker::PhantomData }
    }
}

/// Formats the missing or invalid part for an error message that begins with "expected".
impl<A: AddrBits> Display for PrefixError<A> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let [example, host] = A::EXAMPLES;
        match self.fault {
            PrefixFault::NoLength => write!(f, "an address with a prefix length: {example}, or {host} for one address"),
            PrefixFault::Address => write!(f, "an address before the slash: {example}"),
            PrefixFault::Length => write!(f, "a prefix length from 0 to {}", A::BITS),
        }
    }
}

impl<A: AddrBits> std::error::Error for PrefixError<A> {}
