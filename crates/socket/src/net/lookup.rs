//! Name lookups that block until the result is known.

use super::Net;
use crate::resolve::{Families, Lookup, LookupError};
use crate::{Calls, Errno, Poller};
use lock::Locks;
use std::net::SocketAddr;

/// Resolves `host` (an address, an address with a zone, or a name) through the host's name servers,
/// and waits for the result. Returns socket addresses with the port `port`, the preferred one first
/// (RFC 6724).
///
/// # Errors
/// The [`LookupError`] that gives the reason why no address was found.
pub fn lookup<N: Net>(net: &N, host: &str, port: u16, families: Families) -> Result<Vec<SocketAddr>, LookupError> {
    let mut lookup = net.with(|calls| Lookup::new(calls, host, port, families));
    let poller = Poller::default();
    loop {
        let turn = |calls: &Calls<'_, N::Locks>| match lookup.turn(calls) {
            Some(found) => Some(found),
            None if wait(calls, &poller, &lookup) => None,
            None => {
                lookup.close(calls);
                let refusal = calls.driver.map(|driver| driver.refusal());
                let why =
                    if refusal == Some(Errno::EDEADLK) { LookupError::Simulated } else { LookupError::Interrupted };
                Some(Err(why(host.to_string())))
            }
        };
        if let Some(found) = net.with(turn) {
            return found;
        }
    }
}

/// Waits for an event on the socket of `lookup`, or until [`Lookup::turn`] must be called again.
/// Returns `false` if the lookup must end, for example because the host is being stopped.
fn wait<L: Locks>(calls: &Calls<'_, L>, poller: &Poller<L>, lookup: &Lookup) -> bool {
    let until = lookup.next();
    match calls.driver {
        Some(driver) => driver.drive(until).inspect(|now| calls.set_now(*now)).is_some(),
        None => {
            if let Some(fd) = lookup.fd() {
                let _ = calls.watch(poller, fd); // the descriptor is open
                poller.wait(calls, Some(until.since(calls.cx().now)));
            }
            !calls.stack().is_stopped()
        }
    }
}
