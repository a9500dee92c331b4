//! Opening and closing of connections.

use super::{CONNECTIONS, Domain, Link, Two};
use crate::subject::{Reading, Subject, measure};
use anyhow::{Context, ensure};
use socket::Fd;

/// Rig that opens and closes connections.
pub struct ConnectRig {
    id: String,
    two: Two,
    listener: Fd,
}

impl ConnectRig {
    /// Creates the rig. TIME-WAIT lasts 2 ms here, so that ports are reused soon; its entries are
    /// created and time out as usual.
    ///
    /// # Errors
    /// A socket call failed, or the port could not be added.
    pub fn new(id: &str, family: Domain) -> anyhow::Result<ConnectRig> {
        let two = Two::new(Link::plain(family), &[("net.inet.tcp.msl", 1)])?;
        let listener = two.listen(5001)?;
        // The first SYN waits for neighbor resolution.
        let (client, server) = (two.begin(5001)?, two.accept(listener)?);
        two.calls(0).close(client)?;
        two.calls(1).close(server)?;
        while two.step() > 0 {}
        Ok(ConnectRig { id: id.to_owned(), two, listener })
    }

    #[cfg(test)]
    pub(super) fn hosts(&self) -> &[node::Host<lock::Up>; 2] {
        &self.two.hosts
    }

    fn once(&self) -> anyhow::Result<()> {
        let [client_host, server_host] = &self.two.hosts;
        let client = self.two.begin(5001)?; // SYN
        server_host.step(); // SYN-ACK
        let client_calls = client_host.calls_at(client_host.step().now); // ACK
        let (server, _) = server_host.calls_at(server_host.step().now).accept(self.listener).context("accept")?;
        client_calls.close(client).context("close")?; // FIN
        let server_calls = server_host.calls_at(server_host.step().now); // ACK
        let end = server_calls.recv(server, &mut [0; 1]).context("cannot receive the end of stream")?;
        ensure!(end == 0, "{}: received data instead of the end of stream", self.id);
        server_calls.close(server)?; // FIN
        client_host.step(); // ACK
        server_host.step();
        Ok(())
    }
}

impl Subject for ConnectRig {
    fn id(&self) -> &str {
        &self.id
    }

    fn trial(&mut self) -> anyhow::Result<Reading> {
        let mut done = Ok(());
        let reading = measure(CONNECTIONS, || {
            for _ in 0..CONNECTIONS {
                done = self.once();
                if done.is_err() {
                    break;
                }
            }
        });
        done?;
        self.two.balanced(&self.id)?;
        Ok(reading)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn connections_open_and_close() {
        let rig = ConnectRig::new("connect_close", Domain::Inet).unwrap();
        for _ in 0..20_000 {
            rig.once().unwrap();
        }
        rig.two.balanced("connect_close").unwrap();
    }
}
