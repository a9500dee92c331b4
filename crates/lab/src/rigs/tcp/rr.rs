//! A request and a response of one byte each, with or without idle connections on the same hosts.

use super::{Domain, Link, TRANSACTIONS, Two, addr};
use crate::subject::{Reading, Subject, measure};
use lock::Up;
use socket::{Calls, Errno, Fd, Opt};
use std::net::SocketAddr;

/// Rig that exchanges one byte in each direction.
pub struct RrRig {
    id: String,
    two: Two,
    fds: [Fd; 2],
}

impl RrRig {
    /// Creates the rig over a TCP connection, with `idle` idle connections on the same hosts.
    ///
    /// # Errors
    /// A socket call failed, or the port could not be added.
    pub fn tcp(id: &str, family: Domain, idle: usize) -> anyhow::Result<RrRig> {
        let two = Two::new(Link::plain(family), &[])?;
        two.connect_many(&mut vec![[Fd(0); 2]; idle])?;
        let listener = two.listen(5001)?;
        let client = two.begin(5001)?;
        let server = two.accept(listener)?;
        two.calls(0).set_option(client, Opt::NoDelay(true))?;
        Ok(RrRig { id: id.to_owned(), two, fds: [client, server] })
    }

    /// Creates the rig over a pair of UDP sockets.
    ///
    /// # Errors
    /// A socket call failed, or the port could not be added.
    pub fn udp(id: &str, family: Domain) -> anyhow::Result<RrRig> {
        let two = Two::new(Link::plain(family), &[])?;
        let open = |at: usize| -> anyhow::Result<Fd> {
            let calls = two.calls(at);
            let fd = calls.socket_of(family)?;
            calls.set_option(fd, Opt::NonBlocking(true))?;
            calls.bind(fd, SocketAddr::new(addr(family, at as u8 + 1), 7000))?;
            calls.connect(fd, SocketAddr::new(addr(family, 2 - at as u8), 7000))?;
            Ok(fd)
        };
        let fds = [open(0)?, open(1)?];
        // The first datagram waits for neighbor resolution.
        two.calls(0).send(fds[0], b"?")?;
        while two.step() > 0 {}
        while two.calls(1).recv(fds[1], &mut [0; 16]).is_ok() {}
        Ok(RrRig { id: id.to_owned(), two, fds })
    }

    #[cfg(test)]
    pub(super) fn hosts(&self) -> &[node::Host<Up>; 2] {
        &self.two.hosts
    }

    fn transact(&self, times: u64) -> anyhow::Result<()> {
        let mut client = self.two.calls(0);
        for _ in 0..times {
            client.send(self.fds[0], b"?")?;
            self.receive(1, b'?')?.send(self.fds[1], b"!")?;
            client = self.receive(0, b'!')?;
        }
        Ok(())
    }

    /// Runs one host until the byte arrives. Returns the socket calls at the time of that round, as
    /// an event loop would use them.
    fn receive(&self, at: usize, expected: u8) -> anyhow::Result<Calls<'_, Up>> {
        let mut byte = [0; 16];
        let host = &self.two.hosts[at];
        for _ in 0..100_000 {
            let calls = host.calls_at(host.step().now);
            match calls.recv(self.fds[at], &mut byte) {
                Ok(1) if byte[0] == expected => return Ok(calls),
                Ok(n) => anyhow::bail!("{}: received {n} unexpected bytes: {:?}", self.id, &byte[..n]),
                Err(Errno::EAGAIN) => {}
                Err(error) => return Err(error.into()),
            }
        }
        anyhow::bail!("{}: no response", self.id)
    }
}

impl Subject for RrRig {
    fn id(&self) -> &str {
        &self.id
    }

    fn trial(&mut self) -> anyhow::Result<Reading> {
        let mut done = Ok(());
        let reading = measure(TRANSACTIONS, || done = self.transact(TRANSACTIONS));
        done?;
        self.two.balanced(&self.id)?;
        Ok(reading)
    }
}
