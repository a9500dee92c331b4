//! IPv6 address of an interface.

use crate::fib::Prefix6;
use clock::Instant;
use std::net::Ipv6Addr;

/// Maximum number of addresses of an interface.
pub const ADDRS_MAX: usize = 64;

/// State of duplicate address detection.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum AddrState {
    /// Duplicate address detection is in progress. The values are the time of the next probe and
    /// the number of probes left.
    Tentative(Instant, u32),
    /// The address is in use; no duplicate was found.
    Valid,
    /// Another node has the address; it is not used.
    Duplicated,
}

impl AddrState {
    /// Returns whether the address may be used.
    pub fn is_valid(self) -> bool {
        self == AddrState::Valid
    }
}

/// Source of an interface address.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Origin {
    /// The address was configured, or is the link-local address.
    Manual,
    /// Autoconfigured from an advertised prefix (RFC 4862 5.5).
    Advertised {
        /// Number of duplicates found with this prefix before (RFC 7217 5, DAD_Counter).
        dad_counter: u8,
        /// End of the preferred lifetime. The address is deprecated afterwards.
        preferred_until: Instant,
        /// End of the valid lifetime. The address is removed afterwards.
        valid_until: Instant,
    },
}

/// An IPv6 address of an interface.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct IfaceAddr6 {
    /// Address of this host.
    pub addr: Ipv6Addr,
    /// Length of the on-link prefix in bits.
    pub len: u8,
    /// Remote address of a point-to-point link.
    pub peer: Option<Ipv6Addr>,
    /// State of duplicate address detection.
    pub state: AddrState,
    /// Source of the address.
    pub origin: Origin,
}

impl IfaceAddr6 {
    /// Creates a valid, configured address with its prefix length.
    pub fn new(addr: Ipv6Addr, len: u8) -> IfaceAddr6 {
        IfaceAddr6 { addr, len: len.min(128), peer: None, state: AddrState::Valid, origin: Origin::Manual }
    }

    /// Returns the prefix of the address.
    pub fn prefix(self) -> Prefix6 {
        Prefix6::masked(self.addr.to_bits(), self.len)
    }

    /// Returns the on-link prefix of a configured address. An autoconfigured address has none:
    /// on-link prefixes are advertised separately (RFC 5942 4).
    pub(super) fn on_link(self) -> Option<Prefix6> {
        (self.origin == Origin::Manual).then(|| self.prefix())
    }

    /// Returns whether the preferred lifetime has ended (RFC 4862 5.5.4).
    pub fn is_deprecated(self, now: Instant) -> bool {
        matches!(self.origin, Origin::Advertised { preferred_until, .. } if preferred_until <= now)
    }
}

/// Reason why an address was not added.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Refused6 {
    /// The address is not that of a single host: a group, ::, ::1 on a link, or an IPv4-mapped
    /// address.
    NotAHost,
    /// The MTU is below 1280 bytes, which every IPv6 link must carry (RFC 8200 5).
    MtuTooSmall,
    /// The interface has [`ADDRS_MAX`] addresses, or the FIB is full.
    NoRoom,
}
