//! What an iface has of IPv6.

use super::advertise::Advertiser;
use super::autoconf::Autoconf;
use super::ifaddr::IfaceAddr6;
use clock::Instant;

/// What an iface has of IPv6.
pub(crate) struct Six {
    pub(crate) addrs: Vec<IfaceAddr6>,
    /// When it says again to which groups it listens (RFC 3810 6.2).
    pub(crate) report_due: Instant,
    /// Autoconfiguration state; `None` if router advertisements are ignored.
    pub(crate) autoconf: Option<Autoconf>,
    /// Advertising state; `None` if no router advertisements are sent.
    pub(crate) advertiser: Option<Advertiser>,
}

impl Default for Six {
    fn default() -> Six {
        Six { addrs: Vec::new(), report_due: Instant::NEVER, autoconf: None, advertiser: None }
    }
}
