//! IPv6 state of an interface.

use super::advertise::Advertiser;
use super::autoconf::Autoconf;
use super::ifaddr::IfaceAddr6;
use clock::Instant;

/// IPv6 state of an interface.
pub(crate) struct Six {
    pub(crate) addrs: Vec<IfaceAddr6>,
    /// Time of the next MLD report of all groups, which answers a query (RFC 3810 6.2).
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
