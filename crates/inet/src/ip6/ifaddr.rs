//! An IPv6 address of an iface.

use crate::fib::Prefix6;
use clock::Instant;
use std::net::Ipv6Addr;

/// Addresses of an iface at most.
pub const ADDRS_MAX: usize = 64;

/// State of duplicate address detection.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum AddrState {
    /// Probed for duplicates: time of the next probe, number of probes left.
    Tentative(Instant, u32),
    /// Assigned to this interface; no duplicate was found.
    Valid,
    /// Another node has the address; it is not used.
    Duplicated,
}

impl AddrState {
    /// Returns whether it may be used.
    pub fn is_valid(self) -> bool {
        self == AddrState::Valid
    }
}

/// Source of an interface address.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Origin {
    /// Configured, or the link-local address.
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

/// An IPv6 address of an iface.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct IfaceAddr6 {
    /// The address.
    pub addr: Ipv6Addr,
    /// Length of the on-link prefix in bits.
    pub len: u8,
    /// The far end, of a point-to-point address.
    pub peer: Option<Ipv6Addr>,
    /// State of duplicate address detection.
    pub state: AddrState,
    /// Source of the address.
    pub origin: Origin,
}

impl IfaceAddr6 {
    /// An address with its prefix.
    pub fn new(addr: Ipv6Addr, len: u8) -> IfaceAddr6 {
        IfaceAddr6 { addr, len: len.min(128), peer: None, state: AddrState::Valid, origin: Origin::Manual }
    }

    /// Its prefix.
    pub fn prefix(self) -> Prefix6 {
        Prefix6::masked(self.addr.to_bits(), self.len)
    }

    /// Returns the on-link prefix of a configured address. An autoconfigured one has none: the
    /// advertisement lists on-link prefixes by themselves (RFC 5942 4).
    pub(super) fn on_link(self) -> Option<Prefix6> {
        (self.origin == Origin::Manual).then(|| self.prefix())
    }

    /// Returns whether the preferred lifetime has ended (RFC 4862 5.5.4).
    pub fn is_deprecated(self, now: Instant) -> bool {
        matches!(self.origin, Origin::Advertised { preferred_until, .. } if preferred_until <= now)
    }
}

/// Reason for which an address was not added.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Refused6 {
    /// Not the address of a host: a group, ::, ::1 on a link, or an IPv4-mapped address.
    NotAHost,
    /// Every link of IPv6 carries 1280 bytes (RFC 8200 5).
    MtuTooSmall,
    /// The iface has [`ADDRS_MAX`], or the FIB is full.
    NoRoom,
}
