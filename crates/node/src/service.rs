//! UDP services on the host's own sockets: echo (RFC 862) and discard (RFC 863).

use crate::config::{ServiceConfig, ServiceKind};
use lock::Locks;
use socket::{Ancillary, Calls, Domain, Errno, Fd, Message, Opt};
use std::net::{Ipv6Addr, SocketAddr};

/// Maximum number of datagrams that a service processes in one turn.
const TURN: usize = 256;
/// Maximum UDP payload of an IPv4 packet, in bytes.
pub const LONGEST: usize = 65_507;

/// A service with its socket.
#[derive(Clone, Copy, Debug)]
pub struct Service {
    /// Kind and port of the service.
    pub config: ServiceConfig,
    fd: Fd,
}

impl Service {
    /// Opens the socket of the service `config`.
    ///
    /// # Errors
    /// Returns the errors of `socket` and `bind`.
    pub fn open<L: Locks>(calls: &Calls<'_, L>, config: ServiceConfig) -> Result<Service, Errno> {
        debug_assert!(config.kind.is_datagrams());
        let fd = calls.socket_of(Domain::Inet6)?; // bound to no address: serves both families
        calls.set_option(fd, Opt::NonBlocking(true))?;
        calls.set_option(fd, Opt::RecvPacketInfo(true))?;
        calls.bind(fd, SocketAddr::from((Ipv6Addr::UNSPECIFIED, config.port.0)))?;
        Ok(Service { config, fd })
    }

    /// Returns the socket of the service.
    pub fn fd(&self) -> Fd {
        self.fd
    }

    /// Processes the received datagrams without blocking. `buffer` must be large enough for one
    /// datagram. Returns the number of datagrams.
    ///
    /// A datagram from another service gets no reply: two echo services, or echo and chargen, would
    /// reply to each other forever (CVE-1999-0103). A source port is treated as a service if it is
    /// this service's own port or a system port (RFC 6335 6), because clients use higher ports.
    pub fn serve<L: Locks>(&self, calls: &Calls<'_, L>, buffer: &mut [u8]) -> usize {
        for served in 0..TURN {
            match calls.recv_msg(self.fd, buffer) {
                Ok(message) => {
                    let Message { len, from, .. } = message;
                    let from_service = from.port() < 1024 || from.port() == self.config.port.0;
                    let answers = self.config.kind == ServiceKind::Echo && !from_service;
                    if let Some(payload) = buffer.get(..len).filter(|_| answers) {
                        // A reply without a buffer or route is lost, as UDP permits. The stack has
                        // counted it.
                        let _ = calls.send_msg(self.fd, payload, Some(&from), &Ancillary::source(message.to()));
                    }
                }
                Err(Errno::EAGAIN) => return served,
                Err(_) => {} // an ICMP error for an earlier answer: ignored
            }
        }
        TURN
    }
}

#[cfg(test)]
mod tests;
