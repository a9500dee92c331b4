//! Connection of a host with a routing engine.

use super::Host;
use crate::fpm::{FpmConfig, FpmServer, FpmStatus, Links, NextHopStatus, Target};
use clock::Duration;
use lock::Locks;
use std::io;
use std::net::{IpAddr, SocketAddr};

impl<L: Locks> Host<L> {
    /// Listens for a routing engine as configured, and returns the address. Does nothing if
    /// [`FpmConfig::listen`] is `None`, or if the host listens already. A host with mirrors listens
    /// in their network namespace, in which the engine runs.
    ///
    /// # Errors
    /// Returns errors of the system: the address is in use, or no thread or descriptor is
    /// available.
    pub fn listen_fpm(&self, config: FpmConfig) -> io::Result<Option<SocketAddr>> {
        let Some(address) = config.listen.filter(|_| self.fpm.get().is_none()) else { return Ok(None) };
        let open = || FpmServer::new(address, config, self.clock.now());
        let server = match self.has_mirrors() {
            false => open()?,
            true => port::mirror::within(&self.netns(), open).map_err(io::Error::other)??,
        };
        let address = server.address();
        // Only the caller's thread configures the host, so the value is unset.
        Ok(self.fpm.set(server).is_ok().then_some(address))
    }

    /// Returns the server for a routing engine; `None` if the host accepts none.
    pub fn fpm(&self) -> Option<&FpmServer> {
        self.fpm.get()
    }

    /// Returns the state of the connection with a routing engine; `None` if the host accepts none.
    pub fn fpm_status(&self) -> Option<FpmStatus> {
        Some(self.fpm.get()?.status(&self.fpm_target()))
    }

    /// Returns the next hops of a routing engine, ordered by number; none if the host accepts none.
    pub fn fpm_next_hops(&self) -> Vec<NextHopStatus> {
        self.fpm.get().map_or_else(Vec::new, |server| server.next_hops(&self.fpm_target()))
    }

    /// Returns the number of the next hop of the route to the first `len` bits of `dst`, and
    /// whether the route is stale; `None` if the host accepts no routing engine. `generation` is
    /// that of the route's origin.
    pub fn fpm_route(&self, dst: IpAddr, len: u8, generation: u8) -> Option<(Option<u32>, bool)> {
        let server = self.fpm.get()?;
        Some((server.next_hop_of(&self.fpm_target(), dst, len), server.is_stale(generation)))
    }

    /// Applies what a routing engine has sent, for about `most`. Calls `notice` with a message when
    /// an engine connects or disconnects. Returns the number of applied frames.
    pub fn serve_fpm(&self, most: Duration, notice: &mut dyn FnMut(String)) -> usize {
        self.fpm.get().map_or(0, |server| server.serve(&self.fpm_target(), most, notice))
    }

    fn fpm_target(&self) -> Target<'_, L> {
        let ports = self.ports();
        let links: Links = match self.has_mirrors() {
            false => ports.iter().filter_map(|port| Some((port.counts.link.ifindex()?, port.iface))).collect(),
            true => self.mirrors().iter().map(|mirror| (mirror.index(), mirror.iface)).collect(),
        };
        Target { stack: &self.stack, clock: &self.clock, how: self.how, links }
    }
}
