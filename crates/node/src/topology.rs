//! Topology of a configuration file: the two ends of each link between the file's hosts, known
//! before any port is opened.
//!
//! A link is a name that two ports share: `pair:NAME`, or the wire in `nic(wire=NAME):em0`.
//! [`Topology::check`] finds links with one end or with three ends, and `show topology` prints the
//! topology. Ports that commands add later are not included.

#[cfg(test)]
mod tests;

use crate::config::{HostConfig, Network};
use inet::iface::IfaceAddr;
use port::spec::{Kind, Spec};
use std::collections::HashMap;
use std::fmt;

/// A link between two ports.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub enum Link {
    /// The pair `pair:NAME`, which is opened twice.
    Pair(String),
    /// The wire that connects two ports `nic(wire=NAME)`.
    Wire(String),
}

impl Link {
    /// Returns the link of the port `spec`; `None` if the port connects to something outside of the
    /// process, or to nothing.
    pub fn of(spec: &Spec) -> Option<Link> {
        match spec.port.kind {
            Kind::Pair => Some(Link::Pair(spec.name.clone())),
            Kind::Nic => spec.port.get_text("wire").map(Link::Wire),
            _ => None,
        }
    }
}

impl fmt::Display for Link {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Link::Pair(name) => write!(f, "pair:{name}"),
            Link::Wire(name) => write!(f, "nic(wire={name})"),
        }
    }
}

/// One end of a link: an iface with a port, or a port of a switch.
#[derive(Clone, Debug)]
pub struct End {
    /// Name of the host or switch.
    pub host: String,
    /// Name of the iface or of the switch's port.
    pub iface: String,
    /// Full specification of the port.
    pub port: String,
    /// IPv4 addresses of the iface.
    pub addresses: Vec<IfaceAddr>,
    /// Link of the port; `None` if the port does not connect two nodes of the file.
    pub link: Option<Link>,
    /// Index of this port among all ports of the file.
    at: usize,
}

/// Error for a link that does not connect exactly two ports.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum LinkError {
    /// The link has only one end.
    Dangling {
        /// Name of the host.
        host: String,
        /// Name of the iface.
        iface: String,
        /// Specification of the port.
        port: String,
        /// Specification of the port that is missing at the other end.
        link: String,
    },
    /// The link has a third end.
    Crowded {
        /// Host of the third end.
        host: String,
        /// Name of the iface.
        iface: String,
        /// Specification of the port.
        port: String,
        /// Name of the link.
        link: String,
        /// Owners of the first two ends, as `HOST:IFACE and HOST:IFACE`.
        taken: String,
    },
}

impl fmt::Display for LinkError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            LinkError::Dangling { host, iface, port, link } => write!(
                f,
                "host {host}: {iface}: {port}: the other end is missing; give a second iface the port {link}, or use a \
                 port without another end, such as null:"
            ),
            LinkError::Crowded { host, iface, port, link, taken } => write!(
                f,
                "host {host}: {iface}: {port}: {link} already has two ends, {taken}; choose another name, or connect \
                 the three through a host with three ports"
            ),
        }
    }
}

impl std::error::Error for LinkError {}

impl LinkError {
    /// Returns the names of the host and the port to which the error refers.
    pub fn place(&self) -> (&str, &str) {
        match self {
            LinkError::Dangling { host, port, .. } | LinkError::Crowded { host, port, .. } => (host, port),
        }
    }
}

/// Hosts, their ports, and the links between them.
#[derive(Clone, Debug, Default)]
pub struct Topology {
    hosts: Vec<String>,
    ends: Vec<End>,
    /// Indices of the ends of each link, in the order of the file.
    links: HashMap<Link, Vec<usize>>,
}

impl Topology {
    /// Returns the topology of `hosts`. A port with an invalid specification is omitted; the error
    /// is reported when the port is opened.
    pub fn of(hosts: &[HostConfig]) -> Topology {
        let mut topology =
            Topology { hosts: hosts.iter().map(|host| host.name.clone()).collect(), ..Topology::default() };
        let ifaces = hosts.iter().flat_map(|host| host.ifaces.iter().map(move |iface| (host, iface)));
        for (host, iface) in ifaces {
            let Ok(spec) = Spec::parse(&iface.port) else { continue };
            let (at, link) = (topology.ends.len(), Link::of(&spec));
            if let Some(link) = &link {
                topology.links.entry(link.clone()).or_default().push(at);
            }
            topology.ends.push(End {
                host: host.name.clone(),
                iface: iface.name.clone().unwrap_or(spec.name),
                port: iface.port.clone(),
                addresses: iface.addresses.clone(),
                link,
                at,
            });
        }
        topology
    }

    /// Returns the topology of hosts and switches. A switch is listed like a host, and its ports
    /// have no addresses.
    pub fn of_network(network: &Network) -> Topology {
        let mut topology = Topology::of(&network.hosts);
        for switch in &network.switches {
            topology.hosts.push(switch.name.clone());
            for port in &switch.ports {
                let Ok(spec) = Spec::parse(port) else { continue };
                let (at, link) = (topology.ends.len(), Link::of(&spec));
                if let Some(link) = &link {
                    topology.links.entry(link.clone()).or_default().push(at);
                }
                let (host, iface, port) = (switch.name.clone(), spec.name, port.clone());
                topology.ends.push(End { host, iface, port, addresses: Vec::new(), link, at });
            }
        }
        topology
    }

    /// Returns the ports of all ifaces and switches, in the order of the file.
    pub fn ends(&self) -> &[End] {
        &self.ends
    }

    /// Returns the ends of a link, in the order of the file.
    fn joined(&self, link: &Link) -> impl Iterator<Item = &End> {
        self.links.get(link).into_iter().flatten().filter_map(|at| self.ends.get(*at))
    }

    /// Returns the names of the hosts and switches, in the order of the file.
    pub fn hosts(&self) -> &[String] {
        &self.hosts
    }

    /// Returns the other end of the link to which `end` belongs; `None` if there is none.
    pub fn far(&self, end: &End) -> Option<&End> {
        self.joined(end.link.as_ref()?).find(|other| other.at != end.at)
    }

    /// Checks that each link has exactly two ends.
    ///
    /// # Errors
    /// Returns a [`LinkError`] for the first link that does not have two ends.
    pub fn check(&self) -> Result<(), LinkError> {
        let mut own = self.ends.iter().filter_map(|end| Some((end, end.link.as_ref()?)));
        own.try_for_each(|(end, link)| self.check_link(end, link))
    }

    fn check_link(&self, end: &End, link: &Link) -> Result<(), LinkError> {
        let name = |end: &End| format!("{}:{}", end.host, end.iface);
        let mut joined = self.joined(link);
        let (first, second, third) = (joined.next(), joined.next(), joined.next());
        let of = |end: &End| (end.host.clone(), end.iface.clone(), end.port.clone(), link.to_string());
        match (first, second, third) {
            (Some(first), Some(second), Some(third)) => {
                let (host, iface, port, link) = of(third); // the last in the file is reported
                Err(LinkError::Crowded {
                    host,
                    iface,
                    port,
                    link,
                    taken: format!("{} and {}", name(first), name(second)),
                })
            }
            (Some(_), Some(_), None) => Ok(()),
            _ => {
                let (host, iface, port, link) = of(end);
                Err(LinkError::Dangling { host, iface, port, link })
            }
        }
    }
}
