//! Applies changes to a running host, all or none.

use super::{Change, Plan, ReloadError, locked};
use crate::Host;
use crate::change::AddrChange;
use crate::config::{HostConfig, IfaceConfig};
use crate::host::AddPortError;
use crate::run::check_iface;
use crate::sysctl;
use clock::{Duration, Instant};
use inet::iface::IfaceKind;
use inet::ip6::{Advertising, Refused6};
use inet::resolvers::ResolverSource;
use lock::Locks;
use port::Pairs;
use std::error::Error;
use std::io;
use std::net::{IpAddr, SocketAddr};

/// Number of further attempts to open a device that is in use, and the time between them.
const BUSY_TRIES: usize = 50;
const BUSY_PAUSE: Duration = Duration::from_millis(2);

fn is_busy(why: &AddPortError) -> bool {
    let mut source: Option<&(dyn Error + 'static)> = Some(why);
    while let Some(error) = source {
        if error.downcast_ref::<io::Error>().is_some_and(|error| error.kind() == io::ErrorKind::ResourceBusy) {
            return true;
        }
        source = error.source();
    }
    false
}

/// Minimum MTU for IPv6 in bytes (RFC 8200 5).
const IP6_MTU_MIN: u16 = 1280;

impl<L: Locks> Host<L> {
    /// Changes the running configuration to `to`. Returns the changes. `pairs` connects ports that
    /// are opened.
    ///
    /// # Errors
    /// Returns [`ReloadError::Restart`] if a difference needs a restart, and
    /// [`ReloadError::Change`] if a change fails. Nothing has changed then, unless the error
    /// reports changes that could not be undone.
    pub fn change_to(&self, to: &HostConfig, pairs: &Pairs) -> Result<Vec<Change>, ReloadError> {
        let before = self.running_config().config;
        let Plan { changes, restart } = Plan::new(&before, to);
        if !restart.is_empty() {
            return Err(ReloadError::Restart(restart));
        }
        for change in &changes {
            if let Err(why) = self.apply(change, to, pairs) {
                let left = self.undo(&before, pairs);
                return Err(ReloadError::Change { change: change.to_string(), why, left });
            }
        }
        for config in &to.ifaces {
            if let Some(iface) = self.stack.iface_named(&config.known_name()) {
                self.note_iface(iface.id, config);
            }
        }
        let mut base = locked(&self.origin.base);
        let control = to.control.clone().or(base.control.take());
        *base = HostConfig { control, ..to.clone() };
        Ok(changes)
    }

    /// Returns the difference from the host as it runs to `to`.
    pub fn plan_to(&self, to: &HostConfig) -> Plan {
        Plan::new(&self.running_config().config, to)
    }

    /// Returns to the configuration `before`. Returns the changes that failed, with the reasons.
    fn undo(&self, before: &HostConfig, pairs: &Pairs) -> Vec<String> {
        let changes = Plan::new(&self.running_config().config, before).changes;
        let failed = |change: &Change| Some(format!("{change}: {}", self.apply(change, before, pairs).err()?));
        changes.iter().filter_map(failed).collect()
    }

    /// Applies one change of a plan that leads to `to`. Returns the reason for a failure.
    fn apply(&self, change: &Change, to: &HostConfig, pairs: &Pairs) -> Result<(), String> {
        let cx = self.cx();
        match change {
            Change::RemoveRoute(route) => self.remove_route(route).map_err(|why| why.to_string()),
            Change::RemoveNeighbor(neighbor) => {
                let dev = neighbor.dev.as_deref().and_then(|dev| self.stack.iface_named(dev)).map(|iface| iface.id);
                let was_there = dev.is_some_and(|dev| match neighbor.addr {
                    IpAddr::V4(addr) => self.stack.remove_neighbor(cx, dev, addr),
                    IpAddr::V6(addr) => self.stack.remove_neighbor6(cx, dev, addr),
                });
                if was_there { Ok(()) } else { Err("there is no such neighbor".to_string()) }
            }
            Change::RemoveAddr(own) => self.remove_addr(&own.iface, own.addr).map_err(|why| why.to_string()),
            Change::RemoveIface(config) => self.remove_iface(&config.known_name()),
            Change::SetIface { iface, key, config, .. } => self.set_iface(iface, key, config),
            Change::AddIface(config) => self.add_iface(config, pairs),
            Change::AddAddr(own) => {
                // The iface may have the address by autoconfiguration or a lease.
                let replaced = self.change_addr_of(AddrChange::Replace, &own.iface, own.addr, own.len);
                replaced.map_err(|why| why.to_string())
            }
            Change::AddNeighbor(neighbor) => self.set_neighbor(neighbor).map_err(|why| why.to_string()),
            Change::AddRoute { to, .. } => self.replace_route(to).map_err(|why| why.to_string()),
            Change::Set { .. } => {
                let servers: Vec<_> = to.dns.iter().map(|addr| SocketAddr::new(*addr, 0)).collect();
                self.stack.set_resolvers(cx, ResolverSource::Configured, &servers, &to.search, Instant::NEVER);
                Ok(())
            }
            Change::SetSysctl { name, to, .. } => {
                sysctl::apply(&self.stack.sysctls, name, *to);
                Ok(())
            }
        }
    }

    fn remove_iface(&self, name: &str) -> Result<(), String> {
        let iface = self.iface(name).map_err(|why| why.to_string())?;
        let (id, is_tunnel) = (iface.id, iface.tunnel.is_some());
        self.dhcp().release(&self.shared_calls(), id);
        let removed = if is_tunnel { self.stack.remove_tunnel(self.cx(), id) } else { self.remove_port(id) };
        if removed { Ok(()) } else { Err("it has no port".to_string()) }
    }

    fn add_iface(&self, config: &IfaceConfig, pairs: &Pairs) -> Result<(), String> {
        let add = || match config.tunnel {
            Some(kind) => self.configure_tunnel(config, kind),
            None => self.add_port(config, pairs),
        };
        let mut added = add();
        // A thread that sleeps may still hold the descriptor of a device that was just closed.
        for _ in 0..BUSY_TRIES {
            if !added.as_ref().is_err_and(is_busy) {
                break;
            }
            std::thread::sleep(BUSY_PAUSE);
            added = add();
        }
        let id = added.map_err(|why| why.to_string())?;
        check_iface(&self.stack.name, config, self, id).map_err(|why| why.to_string())
    }

    /// Sets a key of an iface to its value in `config`.
    fn set_iface(&self, name: &str, key: &str, config: &IfaceConfig) -> Result<(), String> {
        let cx = self.cx();
        let iface = self.iface(name).map_err(|why| why.to_string())?;
        let refused = |why| crate::address::six::refused(why);
        match key {
            "up" => self.stack.set_up(cx, iface.id, !config.down),
            "mtu" => {
                let port = self.ports().into_iter().find(|port| port.iface == iface.id);
                let mtu = config.mtu.or(port.map(|port| crate::host::default_mtu(config, port.caps)));
                let mtu = mtu.ok_or("a tunnel keeps its MTU")?;
                if iface.has_ip6() && iface.kind == IfaceKind::Ethernet && mtu < IP6_MTU_MIN {
                    return Err(refused(Refused6::MtuTooSmall).to_string());
                }
                self.dhcp().forget_mtu(iface.id);
                match iface.tunnel {
                    Some(_) => self.stack.set_tunnel_mtu(cx, iface.id, mtu),
                    None => self.stack.set_mtu(iface.id, mtu),
                }
            }
            "auto" => self.stack.set_accept_rtadv(cx, iface.id, config.accept_rtadv).map_err(refused)?,
            "dhcp" if config.dhcp => self.dhcp().start(&self.shared_calls(), iface.id)?,
            "dhcp" => drop(self.dhcp().release(&self.shared_calls(), iface.id)),
            "advertise" => {
                let advertising = config.advertise.then(Advertising::default);
                self.stack.set_advertising(cx, iface.id, advertising).map_err(refused)?;
            }
            _ => {
                self.stack.set_offload(iface.id, config.offload(iface.capable));
            }
        }
        check_iface(&self.stack.name, config, self, iface.id).map_err(|why| why.to_string())
    }
}
