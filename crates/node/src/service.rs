//! Small services over UDP on the host's own sockets: echo (RFC 862) and discard (RFC 863).

use crate::config::{ServiceConfig, ServiceKind};
use lock::Locks;
use socket::{Ancillary, Calls, Domain, Errno, Fd, Message, Opt};
use std::net::{Ipv6Addr, SocketAddr};

/// Datagrams taken before others have their turn.
const TURN: usize = 256;
/// The longest datagram.
pub const LONGEST: usize = 65_507;

/// A service with its socket.
#[derive(Clone, Copy, Debug)]
pub struct Service {
    /// What and where.
    pub config: ServiceConfig,
    fd: Fd,
}

impl Service {
    /// Opens its socket.
    ///
    /// # Errors
    /// Those of `socket` and `bind`.
    pub fn open<L: Locks>(calls: &Calls<'_, L>, config: ServiceConfig) -> Result<Service, Errno> {
        debug_assert!(config.kind.is_datagrams());
        let fd = calls.socket_of(Domain::Inet6)?; // bound to no address: of both families
        calls.set_option(fd, Opt::NonBlocking(true))?;
        calls.set_option(fd, Opt::RecvPacketInfo(true))?;
        calls.bind(fd, SocketAddr::from((Ipv6Addr::UNSPECIFIED, config.port.0)))?;
        Ok(Service { config, fd })
    }

    /// Its socket.
    pub fn fd(&self) -> Fd {
        self.fd
    }

    /// Serves what is there, without waiting; `buffer` holds one datagram. Says how many there were.
    ///
    /// A datagram that comes from another service is not answered: two echoes, or an echo and a chargen, would never stop
    /// (CVE-1999-0103). Services are what has this service's own port, or one of the system ports (RFC 6335 6): who asks
    /// has a port above those.
    pub fn serve<L: Locks>(&self, calls: &Calls<'_, L>, buffer: &mut [u8]) -> usize {
        for served in 0..TURN {
            match calls.recv_msg(self.fd, buffer) {
                Ok(message) => {
                    let Message { len, from, .. } = message;
                    let from_service = from.port() < 1024 || from.port() == self.config.port.0;
                    let answers = self.config.kind == ServiceKind::Echo && !from_service;
                    if let Some(payload) = buffer.get(..len).filter(|_| answers) {
                        // An answer that finds no buffer or no route is lost, as datagrams are; the stack has counted it.
                        let _ = calls.send_msg(self.fd, payload, Some(&from), &Ancillary::source(message.to()));
                    }
                }
                Err(Errno::EAGAIN) => return served,
                Err(_) => {} // what an earlier answer met: it is nobody's here
            }
        }
        TURN
    }
}

#[cfg(test)]
mod tests;
