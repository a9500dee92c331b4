//! Checks of a whole configuration, which may be read from a file or built by a program. They
//! detect values out of range, keys without effect, and keys that exclude each other.

use super::{HostConfig, IfaceConfig, RouteConfig};
use crate::{address, isr, sysctl};
use grammar::CommandError;
use inet::tunnel::Kind;
use lock::How;
use port::spec::Spec;
use std::net::IpAddr;
use std::ops::RangeInclusive;

/// Range of an iface's MTU in bytes; 68 is the minimum of RFC 791 3.2.
pub(super) const MTU: RangeInclusive<i64> = 68..=65_535;
/// Range of the key `burst`.
pub(super) const BURST: RangeInclusive<i64> = 1..=buf::BURST_MAX as i64;
/// Range of the key `threads`.
pub(super) const THREADS: RangeInclusive<i64> = 1..=32;
/// Range of the key `pool.buffers`.
pub(super) const POOL_BUFFERS: RangeInclusive<i64> = 16..=1 << 22;
/// Range of the key `series_max`. A sample takes about 100 bytes of an answer.
pub(super) const SERIES: RangeInclusive<i64> = 1..=100_000;
/// Range of the key `pool.data`, in bytes; the longest IP packet with its link headers fits.
pub(super) const POOL_DATA: RangeInclusive<i64> = 256..=131_072;

/// Checks a number against the range of its key.
fn within(name: &str, value: usize, range: &RangeInclusive<i64>) -> Result<(), String> {
    let good = i64::try_from(value).is_ok_and(|value| range.contains(&value));
    good.then_some(())
        .ok_or_else(|| format!("{name} = {value}: expected a number from {} to {}", range.start(), range.end()))
}

impl IfaceConfig {
    /// Checks the values that ifaces with ports and tunnels have in common: MTU and addresses.
    fn check_values(&self) -> Result<(), String> {
        if let Some(mtu) = self.mtu {
            within("mtu", mtu.into(), &MTU)?;
        }
        for at in &self.addresses {
            let word = format!("{}/{}", at.addr, at.len);
            address::own_address(&word).map_err(|why| format!("addresses = '{word}': {why}"))?;
        }
        let all: Vec<IpAddr> = self.addresses.iter().map(|own| own.addr.into()).collect();
        let all: Vec<IpAddr> = all.into_iter().chain(self.addresses6.iter().map(|own| own.addr.into())).collect();
        if let Some((_, twice)) = all.iter().enumerate().find(|(at, addr)| all.iter().take(*at).any(|of| of == *addr)) {
            return Err(format!("addresses: {twice} is given twice"));
        }
        for at in &self.addresses6 {
            let word = format!("{}/{}", at.addr, at.len);
            address::six::own_address(&word).map_err(|why| format!("addresses = '{word}': {why}"))?;
        }
        Ok(())
    }

    /// Checks an iface with a port.
    ///
    /// # Errors
    /// Returns a message about an invalid value, or about a tunnel key, which would have no effect.
    pub(crate) fn check_on_port(&self) -> Result<(), String> {
        self.check_values()?;
        let set = self.tunnel_keys();
        match set.first() {
            None => Ok(()),
            Some(key) => Err(format!("'{key}' has no effect on an iface with a port: it is a key of tunnels")),
        }
    }

    /// Returns the tunnel keys that are set.
    fn tunnel_keys(&self) -> Vec<&'static str> {
        let (ends, none) = (&self.ends, inet::tunnel::Config::default());
        let keys = [
            (self.tunnel.is_some(), "tunnel"),
            (ends.local != none.local, "local"),
            (ends.remote != none.remote, "remote"),
            (ends.key != none.key, "key"),
            (ends.checksum != none.checksum, "checksum"),
            (ends.sequence != none.sequence, "sequence"),
            (ends.vni != none.vni, "vni"),
            (ends.l4port != none.l4port, "dstport"),
            (ends.ttl != none.ttl, "ttl"),
            (self.peer.is_some(), "peer"),
        ];
        keys.into_iter().filter(|(set, _)| *set).map(|(_, key)| key).collect()
    }

    /// Checks a tunnel iface. Rejects keys of other tunnel kinds and keys of ports.
    fn check_tunnel(&self, kind: Kind) -> Result<(), String> {
        self.check_values()?;
        let set = self.tunnel_keys();
        let of = |key: &str| match key {
            "key" | "checksum" | "sequence" => kind == Kind::Gre,
            "vni" | "dstport" => kind == Kind::Vxlan,
            "peer" => !kind.is_ethernet(),
            _ => true,
        };
        if let Some(key) = set.into_iter().find(|key| !of(key)) {
            return Err(format!("'{key}' has no effect on a tunnel of this kind"));
        }
        let ports = [
            (self.ip4csum, "ip4csum"),
            (self.udp4csum.is_some(), "udp4csum"),
            (self.tso4.is_some(), "tso4"),
            (self.rxcsum.is_some(), "rxcsum"),
            (self.mac.is_some() && !kind.is_ethernet(), "mac"),
            (self.accept_rtadv, "addresses = auto"),
            (self.dhcp, "addresses = dhcp"),
            (self.advertise, "advertise"),
            (self.mirror.is_some(), "mirror"),
        ];
        match ports.into_iter().find(|(set, _)| *set) {
            None => Ok(()),
            Some((_, key)) => Err(format!("'{key}' has no effect on a tunnel of this kind: a tunnel has no port")),
        }
    }
}

impl HostConfig {
    /// Checks the values of the host itself and its sysctls, but not its ifaces and routes.
    ///
    /// # Errors
    /// Returns an error message.
    pub(crate) fn check_own(&self) -> Result<(), String> {
        let own = || {
            if !matches!(self.locks.as_str(), "up" | "light" | "heavy") {
                return Err(format!("locks = '{}': expected up, light or heavy", self.locks));
            }
            within("burst", self.burst, &BURST)?;
            within("threads", self.threads, &THREADS)?;
            within("stacks", self.stacks, &(1..=isr::WORKSTREAMS_MAX as i64))?;
            within("pool.buffers", self.pool_buffers, &POOL_BUFFERS)?;
            within("pool.data", self.pool_data, &POOL_DATA)?;
            if self.stacks > 1 && self.ifaces.iter().any(|iface| iface.dhcp) {
                return Err("addresses = 'dhcp' needs stacks = 1: each stack would lease its own address".into());
            }
            if self.stacks > 1 && self.ifaces.iter().any(|iface| iface.accept_rtadv) {
                return Err("addresses = 'auto' needs stacks = 1: each stack would configure its own address".into());
            }
            if self.stacks > 1 && self.ifaces.iter().any(|iface| iface.advertise) {
                return Err("advertise = true needs stacks = 1: each stack would send its own advertisements".into());
            }
            if let Some(at) = self.fpm.listen.filter(|_| self.stacks > 1) {
                return Err(format!("fpm.listen = '{at}' needs stacks = 1: a routing engine connects to one stack"));
            }
            if self.stacks > 1 && self.has_mirrors() {
                return Err("mirror needs stacks = 1: a routing engine is the control plane of one stack".into());
            }
            for (name, value) in &self.sysctl {
                sysctl::check_number(name, *value).map_err(|why| why.to_string())?;
            }
            Ok(())
        };
        own().map_err(|why| format!("host {}: {why}", self.name))
    }

    /// Checks the values of the host itself, and that no key is set that only [`crate::build`]
    /// applies.
    pub(crate) fn check_bare(&self) -> Result<(), String> {
        self.check_own()?;
        let parts = [
            (!self.ifaces.is_empty(), "ifaces"),
            (!self.routes.is_empty(), "routes"),
            (!self.neighbors.is_empty(), "neighbors"),
            (!self.services.is_empty(), "services"),
            (self.stacks > 1, "stacks"),
            (self.isr.workstreams > 0, "isr.workstreams"),
            (self.fpm.listen.is_some(), "fpm.listen"),
            (self.sysctl.keys().any(|name| name.starts_with("net.isr.")), "sysctl net.isr"),
        ];
        match parts.into_iter().find(|(set, _)| *set) {
            None => Ok(()),
            Some((_, part)) => Err(format!("host {}: {part} have no effect here: use node::build", self.name)),
        }
    }

    /// Checks the whole configuration: values, ifaces, and keys that exclude each other.
    ///
    /// # Errors
    /// Returns an error message.
    pub fn check(&self) -> Result<(), String> {
        self.check_own()?;
        if self.threads > 1 && self.locks == "up" {
            let name = &self.name;
            let threads = self.threads;
            return Err(format!(
                "host {name}: threads = {threads} needs locks = 'light' or 'heavy': locks = 'up' supports one thread"
            ));
        }
        if self.locks == "up" && self.context != How::Register {
            let (name, context) = (&self.name, self.context);
            return Err(format!(
                "host {name}: context = '{context}' has no effect with locks = 'up': remove it, or choose locks = \
                 'light' or 'heavy'"
            ));
        }
        isr::check(self, self.locks != "up").map_err(|why| format!("host {}: {why}", self.name))?;
        let names = self.check_ifaces()?;
        let devs = self.routes.iter().map(|route| &route.dev).chain(self.neighbors.iter().map(|n| &n.dev));
        if let Some(dev) = devs.flatten().find(|dev| !names.contains(dev)) {
            let what = CommandError::unknown("iface", dev, names.iter().map(String::as_str));
            return Err(format!("host {}: {what}", self.name));
        }
        if let Some(neighbor) = self.neighbors.iter().find(|n| n.addr.is_ipv6() && n.dev.is_none()) {
            let (name, addr) = (&self.name, neighbor.addr);
            return Err(format!("host {name}: neighbor {addr}: an IPv6 neighbor needs 'dev', its iface"));
        }
        for (i, route) in self.routes.iter().enumerate() {
            let prefix = |route: &RouteConfig| (route.is_v4(), route.to, route.to6);
            if self.routes.iter().take(i).any(|other| prefix(other) == prefix(route)) {
                let to = route.to6.map_or_else(|| route.to.to_string(), |to| to.to_string());
                return Err(format!("host {}: two routes to {to}", self.name));
            }
        }
        let most = inet::resolvers::PER_SOURCE_MAX;
        if self.dns.len() > most || self.search.len() > most {
            return Err(format!("host {}: dns and search: at most {most} entries each", self.name));
        }
        for (i, service) in self.services.iter().enumerate() {
            if self.services.iter().take(i).any(|other| other.port == service.port) {
                return Err(format!("host {}: two services on port {}", self.name, service.port.0));
            }
        }
        Ok(())
    }

    /// Checks the ifaces and returns their names.
    fn check_ifaces(&self) -> Result<Vec<String>, String> {
        let mut names: Vec<String> = vec!["lo0".to_string()];
        for iface in &self.ifaces {
            if iface.port.is_empty() == iface.tunnel.is_none() {
                return Err(match iface.tunnel {
                    None => format!("host {}: an iface has no port and no tunnel: set one of them", self.name),
                    Some(_) => format!("host {}: an iface has both port and tunnel: set one of them", self.name),
                });
            }
            if iface.tunnel.is_some() && iface.name.is_none() {
                return Err(format!("host {}: a tunnel needs a name such as gif0", self.name));
            }
            let name = match &iface.name {
                Some(name) => name.clone(),
                None => Spec::parse(&iface.port).map_err(|why| why.to_string())?.name,
            };
            let checked = match iface.tunnel {
                None => iface.check_on_port(),
                Some(kind) => iface.check_tunnel(kind),
            };
            checked.map_err(|why| format!("host {}: {name}: {why}", self.name))?;
            if names.contains(&name) {
                return Err(format!("host {}: there are two ifaces called '{name}'", self.name));
            }
            let mirror = iface.mirror.as_ref().map(|_| format!("{name}-mirror"));
            names.extend([Some(name), mirror].into_iter().flatten());
        }
        let mirrors: Vec<_> = self.ifaces.iter().filter_map(|iface| iface.mirror.as_ref()).collect();
        if let Some((_, twice)) =
            mirrors.iter().enumerate().find(|(at, of)| mirrors.iter().take(*at).any(|other| other == *of))
        {
            return Err(format!("host {}: two ifaces have the mirror '{twice}'", self.name));
        }
        Ok(names)
    }
}
