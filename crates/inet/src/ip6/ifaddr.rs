//! IPv6 addresses of an interface, with their state and origin.

use clock::Instant;
use fib::Prefix6;
use std::net::Ipv6Addr;

/// Maximum number of IPv6 addresses of an interface.
pub const ADDRS_MAX: usize = 64;

/// State of duplicate address detection for an address.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum AddrState {
    /// Duplicate address detection is in progress. The values are the time of the next probe and
    /// the number of probes left.
    Tentative(Instant, u32),
    /// The address is in use; no duplicate was found.
    Valid,
    /// Another node uses the address, so this host does not.
    Duplicated,
}

impl AddrState {
    /// Returns whether the address may be used.
    pub fn is_valid(self) -> bool {
        self == AddrState::Valid
    }
}

/// Origin of an interface address.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Origin {
    /// The address was configured manually, or is the automatic link-local address.
    Manual,
    /// The address was created from an advertised prefix (RFC 4862 5.5).
    Advertised {
        /// Number of earlier addresses with this prefix that turned out to be duplicates (RFC 7217
        /// 5, DAD_Counter).
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
    /// Remote address of a point-to-point link; `None` on any other link.
    pub peer: Option<Ipv6Addr>,
    /// State of duplicate address detection.
    pub state: AddrState,
    /// Origin of the address.
    pub origin: Origin,
}

impl IfaceAddr6 {
    /// Creates a manually configured address in the state valid, with a prefix length of `len`
    /// bits.
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

    /// Returns whether the preferred lifetime of the address has ended (RFC 4862 5.5.4).
    pub fn is_deprecated(self, now: Instant) -> bool {
        matches!(self.origin, Origin::Advertised { preferred_until, .. } if preferred_until <= now)
    }
}

/// Reason why an address was not added.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Refused6 {
    /// The address cannot belong to a single host: it is a multicast address, ::, ::1 on an
    /// interface other than loopback, or IPv4-mapped.
    NotAHost,
    /// The MTU of the interface is below 1280 bytes, the minimum for IPv6 (RFC 8200 5).
    MtuTooSmall,
    /// The interface already has [`ADDRS_MAX`] addresses, or the FIB is full.
    NoRoom,
}
