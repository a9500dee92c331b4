//! Addresses as the users of clients write them: of either family, a link-local one with its interface
//! (RFC 4007 11), as in `fe80::1%tap0`.

use crate::Host;
use crate::config::HostConfig;
use inet::iface::IfaceId;
use inet::zone;
use lock::Locks;
pub use socket::resolve::Families;
use std::fmt;
use std::net::{IpAddr, SocketAddr, SocketAddrV6};
use std::str::FromStr;

/// Address of a peer: `10.0.0.1`, `fd00::1`, or `fe80::1%tap0`.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Address {
    ip: IpAddr,
    zone: Option<String>,
}

impl FromStr for Address {
    type Err = String;

    fn from_str(word: &str) -> Result<Address, String> {
        let expected = || "expected an address such as 10.0.0.1, fd00::1 or fe80::1%tap0".to_owned();
        let (text, zone) = word.split_once('%').map_or((word, None), |(text, zone)| (text, Some(zone)));
        let ip: IpAddr = text.parse().map_err(|_| expected())?;
        let address = Address { ip, zone: zone.map(str::to_owned) };
        match zone {
            Some("") => Err(expected()),
            Some(_) if !address.is_link_local() => Err("only a link-local IPv6 address has an interface".to_owned()),
            _ => Ok(address),
        }
    }
}

impl From<IpAddr> for Address {
    fn from(ip: IpAddr) -> Address {
        Address { ip, zone: None }
    }
}

impl fmt::Display for Address {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.zone {
            Some(zone) => write!(f, "{}%{zone}", self.ip),
            None => self.ip.fmt(f),
        }
    }
}

impl Address {
    /// Returns the address without its interface.
    pub fn ip(&self) -> IpAddr {
        self.ip
    }

    /// Returns the name of its interface.
    pub fn zone(&self) -> Option<&str> {
        self.zone.as_deref()
    }

    /// Returns the text of the address with an L4 port: `10.0.0.1:80`, `[fe80::1%tap0]:80`.
    pub fn with_port(&self, port: u16) -> String {
        if self.ip.is_ipv6() { format!("[{self}]:{port}") } else { format!("{self}:{port}") }
    }

    fn is_link_local(&self) -> bool {
        matches!(self.ip, IpAddr::V6(ip) if wire::ip6::is_link_local(ip))
    }

    /// Returns the socket address with L4 port `port`; `number` returns the scope id of an interface.
    ///
    /// # Errors
    /// No such interface; a link-local address without one.
    pub fn at(&self, port: u16, number: impl FnOnce(&str) -> Option<u32>) -> Result<SocketAddr, String> {
        let (IpAddr::V6(ip), true) = (self.ip, self.is_link_local()) else {
            return Ok(SocketAddr::new(self.ip, port));
        };
        let missing = || format!("{ip} is on every link: give its interface, as in {ip}%tap0");
        let name = self.zone().ok_or_else(missing)?;
        let scope = number(name).ok_or_else(|| format!("{self}: there is no interface '{name}'"))?;
        Ok(SocketAddr::V6(SocketAddrV6::new(ip, port, 0, scope)))
    }
}

impl HostConfig {
    /// Returns the socket address of `address` on a host made from this configuration.
    ///
    /// # Errors
    /// As [`Address::at`].
    pub fn socket_addr(&self, address: &Address, port: u16) -> Result<SocketAddr, String> {
        address.at(port, |name| {
            // Ifaces are numbered in the order of the configuration, after lo0.
            let at = self.ifaces.iter().position(|iface| iface.is_named(name))?;
            u16::try_from(at + 1).ok().map(|at| zone::scope_id(IfaceId(at)))
        })
    }
}

impl<L: Locks> Host<L> {
    /// Returns the socket address of `address` on this host.
    ///
    /// # Errors
    /// As [`Address::at`].
    pub fn socket_addr(&self, address: &Address, port: u16) -> Result<SocketAddr, String> {
        address.at(port, |name| self.stack.iface_named(name).map(|iface| zone::scope_id(iface.id)))
    }

    /// Returns the text of an address without its L4 port; of a link-local one with the name of its iface.
    pub fn ip_text(&self, at: SocketAddr) -> String {
        let scope = match at {
            SocketAddr::V6(v6) => zone::iface_of(v6.scope_id()),
            SocketAddr::V4(_) => None,
        };
        match scope.and_then(|id| self.stack.iface(id)) {
            Some(iface) => format!("{}%{}", at.ip(), iface.name),
            None => at.ip().to_string(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::IfaceConfig;

    #[test]
    fn addresses_are_of_either_family_and_link_local_ones_have_an_interface() {
        let of = |word: &str| word.parse::<Address>();
        for word in ["10.0.0.1", "fd00::1", "fe80::1%tap0", "fe80::1"] {
            assert_eq!(of(word).unwrap().to_string(), word);
        }
        for (word, why) in [
            ("10.0.0", "expected"),
            ("", "expected"),
            ("fe80::1%", "expected"),
            ("10.0.0.1%tap0", "only a link-local"),
            ("fd00::1%tap0", "only a link-local"),
        ] {
            assert!(of(word).unwrap_err().contains(why), "{word}");
        }
        let config = HostConfig {
            ifaces: vec![
                IfaceConfig::on("null:a"),
                IfaceConfig { name: Some("em0".into()), ..IfaceConfig::on("null:b") },
            ],
            ..HostConfig::default()
        };
        let host = crate::build::<lock::Up>(&config, &port::Pairs::new(), clock::Clock::live(config.clock)).unwrap();
        let at = |word: &str| {
            let address = of(word).unwrap();
            let (before, after) = (config.socket_addr(&address, 7), host.socket_addr(&address, 7));
            assert_eq!(before, after, "{word}: before and after the host is built");
            before
        };
        assert_eq!(at("fe80::1%a").unwrap().to_string(), "[fe80::1%2]:7");
        assert_eq!(at("fe80::1%em0").unwrap().to_string(), "[fe80::1%3]:7");
        assert_eq!(host.ip_text(at("fe80::1%em0").unwrap()), "fe80::1%em0");
        assert_eq!(at("fd00::1").unwrap().to_string(), "[fd00::1]:7");
        assert!(at("fe80::1%b").unwrap_err().contains("no interface 'b'"));
        assert!(at("fe80::1").unwrap_err().contains("on every link"));
    }
}
