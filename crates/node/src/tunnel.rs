//! Tunnel ifaces of a host, created by a command or from the configuration.

use crate::config::IfaceConfig;
use crate::host::AddPortError;
use crate::{Host, address};
use inet::iface::IfaceId;
use inet::tunnel::{Kind, Refused};
use lock::Locks;
use wire::{Mac, vxlan};

/// Names of tunnel types in BSD, and in iproute2 where they differ.
pub const TYPES: &[(&str, Kind)] =
    &[("ipip", Kind::Gif), ("gif", Kind::Gif), ("gre", Kind::Gre), ("vxlan", Kind::Vxlan), ("etherip", Kind::EtherIp)];

/// Returns the kind of tunnel that `word` denotes.
pub fn kind_of(word: &str) -> Option<Kind> {
    TYPES.iter().find(|(name, _)| *name == word).map(|(_, kind)| *kind)
}

/// Returns iproute2's name of a kind of tunnel.
pub fn type_of(kind: Kind) -> &'static str {
    TYPES.iter().find(|(_, other)| *other == kind).map_or("", |(name, _)| name)
}

/// Returns the error message for a rejected tunnel configuration.
pub fn refused<L: Locks>(host: &Host<L>, why: Refused) -> String {
    match why {
        Refused::NotATunnel => "not a tunnel of this kind".to_string(),
        Refused::BadEnd(addr) => format!("{addr}: must be a unicast address"),
        Refused::BadFamily => "both outer addresses must be of one family".to_string(),
        Refused::BadVni => format!("VNI: must be at most {}", vxlan::VNI_MAX),
        Refused::Taken(other) => {
            let name = host.stack.iface(other).map_or("another", |iface| &iface.name);
            format!("{name} has the same outer addresses and the same key or VNI")
        }
    }
}

impl<L: Locks> Host<L> {
    /// Creates a tunnel iface without endpoints. `mac` is the MAC address of a tunnel that
    /// transports Ethernet frames; `None` for a random one.
    ///
    /// # Errors
    /// Returns an [`AddPortError`] if the name is in use, or if there are too many ifaces.
    #[inline(never)]
    pub fn add_tunnel(&self, name: &str, kind: Kind, mac: Option<Mac>) -> Result<IfaceId, AddPortError> {
        if self.stack.iface_named(name).is_some() {
            return Err(AddPortError::Exists(name.to_string()));
        }
        let mac = mac.unwrap_or_else(|| self.mac_of(name));
        self.stack.add_tunnel(self.cx(), name, kind, mac).ok_or(AddPortError::TooMany)
    }

    /// Creates the tunnel iface of `config`, with its endpoints and addresses.
    ///
    /// # Errors
    /// Returns an [`AddPortError`], and adds nothing.
    pub(crate) fn configure_tunnel(&self, config: &IfaceConfig, kind: Kind) -> Result<IfaceId, AddPortError> {
        let name = config.name.clone().unwrap_or_default(); // set: the configuration was checked
        let id = self.add_tunnel(&name, kind, config.mac)?;
        let failed = |why: String| AddPortError::Address { iface: name.clone(), why };
        let made = self.fill_tunnel(config, id, kind).map_err(failed);
        match made {
            Ok(()) => self.note_iface(id, config),
            Err(_) => drop(self.stack.remove_tunnel(self.cx(), id)),
        }
        made.map(|()| id)
    }

    fn fill_tunnel(&self, config: &IfaceConfig, id: IfaceId, kind: Kind) -> Result<(), String> {
        let (stack, cx) = (&self.stack, self.cx());
        let ends = inet::tunnel::Config { kind, ..config.ends };
        stack.set_tunnel(cx, id, ends).map_err(|why| refused(self, why))?;
        if let Some(mtu) = config.mtu {
            stack.set_tunnel_mtu(cx, id, mtu);
        }
        if config.down {
            stack.set_up(cx, id, false);
        }
        for addr in &config.addresses {
            let added = match config.peer {
                Some(peer) => stack.add_peer(cx, id, addr.addr, peer),
                None => stack.add_addr(cx, id, *addr),
            };
            added.map_err(|why| format!("{}/{}: {why:?}", addr.addr, addr.len))?;
        }
        for addr in &config.addresses6 {
            let added = stack.add_addr6(cx, id, *addr);
            added.map_err(|why| format!("{}/{}: {}", addr.addr, addr.len, address::six::refused(why)))?;
        }
        Ok(())
    }
}
