//! Replacement for the DHCP clients in builds without the cargo feature `dhcp`.

use clock::Instant;
use inet::iface::IfaceId;
use lock::Locks;
use socket::Calls;

/// Replacement for the list of DHCP clients; it is always empty.
#[derive(Default)]
pub struct Dhcp {}

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

    pub(crate) fn awaiting(&self) -> Option<IfaceId> {
        None
    }
}
