//! BFD sessions of a routing engine that have failed and have not come up again.

use crate::iface::IfaceId;
use clock::{Duration, Instant};
use std::net::IpAddr;

/// Time for which a gateway is avoided after its session has failed.
pub(crate) const REPAIR: Duration = Duration::from_secs(60);
/// Maximum number of failed sessions. If no repair of them is over, further ones have no effect.
const FAILED_MAX: usize = 256;

/// The other end of a session: the interface to it, and its address.
pub(crate) type Gateway = (IfaceId, IpAddr);

/// The failed sessions.
#[derive(Debug, Default)]
pub(crate) struct FailedSessions(Vec<Failed>);

#[derive(Debug)]
struct Failed {
    gateway: Gateway,
    /// End of the time for which the gateway is avoided; `None` once it is over.
    until: Option<Instant>,
}

impl FailedSessions {
    /// Notes that a session is down because of a failure. Returns whether its gateway is to be
    /// avoided: from the first time on, for [`REPAIR`].
    pub(crate) fn fail(&mut self, gateway: Gateway, now: Instant) -> bool {
        match self.0.iter().find(|of| of.gateway == gateway) {
            Some(known) => known.until.is_some(),
            None => {
                if self.0.len() >= FAILED_MAX {
                    // The oldest whose time is over: its session may have ended.
                    let Some(over) = self.0.iter().position(|of| of.until.is_none()) else { return false };
                    self.0.remove(over);
                }
                self.0.push(Failed { gateway, until: Some(now.after(REPAIR)) });
                true
            }
        }
    }

    /// Notes that a session is up, or was ended by an operator. Returns whether it had failed.
    pub(crate) fn recover(&mut self, gateway: Gateway) -> bool {
        let at = self.0.iter().position(|of| of.gateway == gateway);
        at.map(|at| self.0.swap_remove(at)).is_some()
    }

    /// Returns whether a gateway is avoided.
    pub(crate) fn has(&self, gateway: Gateway) -> bool {
        self.0.iter().any(|of| of.gateway == gateway && of.until.is_some())
    }

    /// Returns the gateways that are no longer to be avoided since their time is over, and the time
    /// of the next call.
    pub(crate) fn expire(&mut self, now: Instant) -> (Vec<Gateway>, Instant) {
        let (mut over, mut next) = (Vec::new(), Instant::NEVER);
        for of in &mut self.0 {
            match of.until {
                Some(until) if until <= now => {
                    of.until = None;
                    over.push(of.gateway);
                }
                Some(until) => next = next.min(until),
                None => {}
            }
        }
        (over, next)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::net::Ipv4Addr;

    fn gateway(n: u32) -> Gateway {
        (IfaceId(1), Ipv4Addr::from_bits(n).into())
    }

    #[test]
    fn a_gateway_is_avoided_once_for_the_time_of_repair() {
        let (mut failed, now) = (FailedSessions::default(), Instant::from_millis(5));
        assert!(failed.fail(gateway(1), now) && failed.fail(gateway(1), now));
        assert_eq!(failed.expire(now), (Vec::new(), now.after(REPAIR)));
        assert_eq!(failed.expire(now.after(REPAIR)), (vec![gateway(1)], Instant::NEVER));
        assert!(!failed.fail(gateway(1), now.after(REPAIR)), "the time is over until it has recovered");
        assert!(failed.recover(gateway(1)) && !failed.recover(gateway(1)));
        assert!(failed.fail(gateway(1), now));
    }

    #[test]
    fn the_sessions_are_bounded() {
        let mut failed = FailedSessions::default();
        let count = (0..1000).filter(|n| failed.fail(gateway(*n), Instant::ZERO)).count();
        assert_eq!(count, FAILED_MAX);
        failed.expire(Instant::ZERO.after(REPAIR));
        assert!(failed.fail(gateway(2000), Instant::ZERO.after(REPAIR)), "their sessions may have ended");
        assert_eq!(failed.0.len(), FAILED_MAX);
    }
}
