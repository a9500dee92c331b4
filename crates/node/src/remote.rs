//! Addresses of peers as users write them: an IPv4 or IPv6 address, a link-local IPv6 address with
//! its interface as in `fe80::1%tap0` (RFC 4007 11), or a host name.

use crate::Host;
use crate::config::HostConfig;
use inet::iface::IfaceId;
use inet::zone;
use lock::Locks;
pub use socket::resolve::{Families, LookupError};
use std::fmt;
use std::net::{IpAddr, SocketAddr, SocketAddrV6};
use std::str::FromStr;

/// Address of a peer: `10.0.0.1`, `fd00::1`, `fe80::1%tap0`, or a host name.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Remote(Kind);

#[derive(Clone, PartialEq, Eq, Debug)]
enum Kind {
    Ip { ip: IpAddr, zone: Option<String> },
    Name(String),
}

impl FromStr for Remote {
    type Err = String;

    fn from_str(word: &str) -> Result<Remote, String> {
        let expected = || "expected an address such as 10.0.0.1, fd00::1 or fe80::1%tap0, or a host name".to_owned();
        let (text, zone) = word.split_once('%').map_or((word, None), |(text, zone)| (text, Some(zone)));
        let ip: IpAddr = match text.parse() {
            Ok(ip) => ip,
            Err(_) if socket::resolve::is_host_name(word) => return Ok(Remote(Kind::Name(word.to_owned()))),
            Err(_) => return Err(expected()),
        };
        match zone {
            Some("") => Err(expected()),
            Some(_) if !is_link_local(ip) => {
                Err("only a link-local IPv6 address can have an interface after '%'".to_owned())
            }
            _ => Ok(Remote(Kind::Ip { ip, zone: zone.map(str::to_owned) })),
        }
    }
}

impl From<IpAddr> for Remote {
    fn from(ip: IpAddr) -> Remote {
        Remote(Kind::Ip { ip, zone: None })
    }
}

impl fmt::Display for Remote {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.0 {
            Kind::Ip { ip, zone: Some(zone) } => write!(f, "{ip}%{zone}"),
            Kind::Ip { ip, zone: None } => ip.fmt(f),
            Kind::Name(name) => f.write_str(name),
        }
    }
}

fn is_link_local(ip: IpAddr) -> bool {
    matches!(ip, IpAddr::V6(ip) if wire::ip6::is_link_local(ip))
}

impl Remote {
    /// Returns the IP address without its interface; `None` for a host name.
    pub fn ip(&self) -> Option<IpAddr> {
        match self.0 {
            Kind::Ip { ip, .. } => Some(ip),
            Kind::Name(_) => None,
        }
    }

    /// Returns the socket address with L4 port `port`; `None` for a host name. `number` returns the
    /// scope identifier for the name of an interface.
    ///
    /// # Errors
    /// Returns an error if the interface does not exist, or if a link-local address has no
    /// interface.
    pub fn at(&self, port: u16, number: impl FnOnce(&str) -> Option<u32>) -> Result<Option<SocketAddr>, String> {
        let Kind::Ip { ip, zone } = &self.0 else { return Ok(None) };
        let IpAddr::V6(v6) = ip else { return Ok(Some(SocketAddr::new(*ip, port))) };
        if !is_link_local(*ip) {
            return Ok(Some(SocketAddr::new(*ip, port)));
        }
        let missing = || format!("{ip} is link-local: give its interface, as in {ip}%tap0");
        let name = zone.as_deref().ok_or_else(missing)?;
        let scope = number(name).ok_or_else(|| format!("{self}: there is no interface '{name}'"))?;
        Ok(Some(SocketAddr::V6(SocketAddrV6::new(*v6, port, 0, scope))))
    }
}

impl HostConfig {
    /// Returns the socket address of `address`, as a host built from this configuration uses it.
    /// Returns `None` for a host name, which only the running host can resolve.
    ///
    /// # Errors
    /// Returns an error as [`Remote::at`] does.
    pub fn socket_addr(&self, address: &Remote, port: u16) -> Result<Option<SocketAddr>, String> {
        address.at(port, |name| {
            // Ifaces are numbered in the order of the configuration, after lo0.
            let at = self.ifaces.iter().position(|iface| iface.is_named(name))?;
            u16::try_from(at + 1).ok().map(|at| zone::scope_id(IfaceId(at)))
        })
    }
}

impl<L: Locks> Host<L> {
    /// Returns the socket address of `address`, as this host uses it. If `address` is a host name,
    /// waits for the reply of a name server.
    ///
    /// # Errors
    /// Returns a [`LookupError`].
    pub fn resolve(&self, address: &Remote, port: u16, families: Families) -> Result<SocketAddr, LookupError> {
        let text = address.to_string();
        let found = socket::net::lookup(self, &text, port, families)?;
        found.first().copied().ok_or(LookupError::NoAddress(text))
    }

    /// Returns an IP address as text; a link-local address includes the name of its iface.
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
    fn remotes_parse_and_only_link_local_ones_take_an_interface() {
        let of = |word: &str| word.parse::<Remote>();
        for word in ["10.0.0.1", "fd00::1", "fe80::1%tap0", "fe80::1", "www.example.org"] {
            assert_eq!(of(word).unwrap().to_string(), word);
        }
        assert_eq!(of("www").unwrap().ip(), None);
        for (word, why) in [
            ("10.0.0", "expected"),
            ("a..b", "expected"),
            ("www%tap0", "expected"),
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
            let before = config.socket_addr(&address, 7).map(|at| at.unwrap());
            let after = host.resolve(&address, 7, Families::Any);
            assert_eq!(before.clone().ok(), after.ok(), "{word}: before and after the host is built");
            before
        };
        assert_eq!(at("fe80::1%a").unwrap().to_string(), "[fe80::1%2]:7");
        assert_eq!(at("fe80::1%em0").unwrap().to_string(), "[fe80::1%3]:7");
        assert_eq!(host.ip_text(at("fe80::1%em0").unwrap()), "fe80::1%em0");
        assert_eq!(at("fd00::1").unwrap().to_string(), "[fd00::1]:7");
        assert!(at("fe80::1%b").unwrap_err().contains("no interface 'b'"));
        assert!(at("fe80::1").unwrap_err().contains("is link-local"));
        let name = of("www").unwrap();
        assert_eq!(config.socket_addr(&name, 7), Ok(None));
        assert!(host.resolve(&name, 7, Families::Any).unwrap_err().to_string().contains("no name server"));
    }
}
