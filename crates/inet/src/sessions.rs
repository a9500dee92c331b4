//! BFD sessions of a routing engine, as far as the stack keeps them.

use crate::iface::IfaceId;
use clock::Instant;
use std::net::IpAddr;

/// A session that has failed and has not come up again.
#[derive(Debug)]
pub(crate) struct Failed {
    /// Interface of the session.
    pub(crate) iface: IfaceId,
    /// Other end of the session.
    pub(crate) gateway: IpAddr,
    /// End of the time for which the gateway is avoided.
    pub(crate) until: Instant,
    /// True once this time is over.
    pub(crate) is_over: bool,
}
