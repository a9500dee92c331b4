//! Replacement for the DHCP clients in builds without the cargo feature `dhcp`.

use clock::Instant;
use inet::fib::Prefix;
use inet::iface::IfaceId;
use inet::route::Via;
use lock::Locks;
use socket::Calls;
use std::net::Ipv4Addr;

/// Replacement for the list of DHCP clients; it is always empty.
#[derive(Default)]
pub struct Dhcp {}

/// Configuration that a lease has added; there is none.
pub(crate) struct Leased {
    pub(crate) addr: Option<Ipv4Addr>,
    pub(crate) routes: Vec<(Prefix, Via)>,
    pub(crate) mtu: Option<u16>,
}

impl Dhcp {
    #[inline(always)]
    pub(crate) fn any(&self) -> bool {
        false
    }

    /// Returns an error that names the missing feature.
    pub fn start<L: Locks>(&self, _: &Calls<'_, L>, _: IfaceId) -> Result<(), String> {
        Err("this build has no DHCP client: enable the cargo feature 'dhcp'".to_string())
    }

    pub(crate) fn release_all<L: Locks>(&self, _: &Calls<'_, L>) {}

    pub(crate) fn turn<L: Locks>(&self, _: &Calls<'_, L>) -> Instant {
        Instant::NEVER
    }

    /// Returns `false`, since there are no clients.
    pub(crate) fn release<L: Locks>(&self, _: &Calls<'_, L>, _: IfaceId) -> bool {
        false
    }

    pub(crate) fn has_client(&self, _: IfaceId) -> bool {
        false
    }

    pub(crate) fn leased(&self, _: IfaceId) -> Option<Leased> {
        None
    }

    pub(crate) fn forget_mtu(&self, _: IfaceId) {}

    pub(crate) fn awaiting(&self) -> Option<IfaceId> {
        None
    }
}
