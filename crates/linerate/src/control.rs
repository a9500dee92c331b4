//! State of a running host, and changes to it.

use crate::builder::{address, route};
use crate::{Capture, Error, Host, LocalHost};
use grammar::CommandError;
use inet::counters::AuditReport;
use lock::Locks;
use node::PortInfo;
use node::config::IfaceConfig;
use node::policy::Policy;
use std::net::{IpAddr, SocketAddr};

use wire::filter::Filter;

pub use tcp::State;

/// A counter of a host.
#[derive(Clone, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub struct Counter {
    /// Dotted name, such as `inet.ip4.received`.
    pub name: String,
    /// Description of the counter.
    pub about: &'static str,
    /// Value of the counter.
    pub value: u64,
}

/// Balance of a host's frames. Each frame that was received or created has been sent, consumed or
/// dropped, or is held.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub struct Audit {
    /// Frames received from ports.
    pub received: u64,
    /// Frames created by the host.
    pub made: u64,
    /// Frames passed to ports.
    pub sent: u64,
    /// Frames consumed by the host, such as read datagrams and acknowledged segments.
    pub consumed: u64,
    /// Frames dropped, for all reasons.
    pub dropped: u64,
    /// Frames in queues and tables.
    pub held: u64,
    /// Frames that are not accounted for: 0 whenever the host is idle.
    pub unaccounted: i64,
}

impl From<AuditReport> for Audit {
    fn from(report: AuditReport) -> Audit {
        Audit {
            received: report.received,
            made: report.made,
            sent: report.sent,
            consumed: report.consumed,
            dropped: report.dropped,
            held: report.held,
            unaccounted: report.imbalance(),
        }
    }
}

/// A TCP connection or listener of a host.
#[derive(Clone, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub struct Connection {
    /// Local address and port.
    pub local: SocketAddr,
    /// Address and port of the peer; unspecified for a listener.
    pub peer: SocketAddr,
    /// State of the connection (RFC 9293 3.3.2); `None` for a listener.
    pub state: Option<State>,
    /// Number of received bytes that were not read yet; for a listener, number of connections that
    /// were not accepted yet.
    pub unread: usize,
    /// Number of written bytes that were not acknowledged yet; for a listener, its backlog.
    pub unacknowledged: usize,
}

/// Converts the error of the change `what`.
fn rejected(what: String) -> impl FnOnce(CommandError) -> Error {
    |why| Error::rejected(what, why)
}

fn add_port<L: Locks>(node: &node::Host<L>, spec: &str, addrs: &[&str], policy: Option<&Policy>) -> Result<(), Error> {
    let mut config = IfaceConfig::on(spec);
    for text in addrs {
        let (addr, len) = address(text)?;
        config.add_address(addr, len);
    }
    let added = node.add_port_with(&config, crate::port::pairs(), policy);
    added.map(drop).map_err(|why| Error::Port { port: spec.to_owned(), why: Box::new(why) })
}

fn add_addr<L: Locks>(node: &node::Host<L>, iface: &str, text: &str) -> Result<(), Error> {
    let (addr, len) = address(text)?;
    node.add_addr(iface, addr, len).map_err(rejected(format!("address {text} of {iface}")))
}

fn remove_addr<L: Locks>(node: &node::Host<L>, iface: &str, text: &str) -> Result<(), Error> {
    let (addr, _) = address(text)?;
    node.remove_addr(iface, addr).map_err(rejected(format!("address {text} of {iface}")))
}

fn set_policy<L: Locks>(node: &node::Host<L>, iface: &str, policy: Option<&Policy>) -> Result<(), Error> {
    let id = node.stack.iface_named(iface).map(|iface| iface.id);
    let is_set = id.is_some_and(|id| node.set_policy(id, policy));
    let why = "there is no interface of this name with a port";
    is_set.then_some(()).ok_or_else(|| Error::rejected(format!("policy of {iface}"), why))
}

fn addrs<L: Locks>(node: &node::Host<L>) -> Vec<(String, IpAddr, u8)> {
    let cx = node.cx();
    let mut all = Vec::new();
    for iface in node.stack.ifaces() {
        let four = iface.addrs(cx).into_iter().map(|own| (IpAddr::V4(own.addr), own.len));
        let six = iface.addrs6(cx).into_iter().map(|own| (IpAddr::V6(own.addr), own.len));
        all.extend(four.chain(six).map(|(addr, len)| (iface.name.clone(), addr, len)));
    }
    all
}

fn counters<L: Locks>(node: &node::Host<L>) -> Vec<Counter> {
    let entries = node.stack.snapshot().into_iter();
    entries.map(|entry| Counter { name: entry.name, about: entry.sentence, value: entry.value }).collect()
}

fn port_counters<L: Locks>(node: &node::Host<L>, iface: &str) -> Vec<Counter> {
    let id = node.stack.iface_named(iface).map(|iface| iface.id);
    let ports = node.ports().into_iter().find(|port| Some(port.iface) == id);
    let entries = ports.iter().flat_map(PortInfo::counters);
    entries.map(|entry| Counter { name: entry.name, about: entry.sentence, value: entry.value }).collect()
}

fn drops<L: Locks>(node: &node::Host<L>) -> Vec<Counter> {
    let reasons = node.stack.audit(node.cx()).reasons.into_iter().filter(|reason| reason.value > 0);
    reasons.map(|entry| Counter { name: entry.name, about: entry.sentence, value: entry.value }).collect()
}

fn connections<L: Locks>(node: &node::Host<L>) -> Vec<Connection> {
    let mut all = Vec::new();
    node.stack.for_each_sock(node.cx(), |_, sock| {
        let tuple = sock.tuple();
        let state = sock.tcb().map(tcp::Tcb::state);
        let (unread, unacknowledged) = sock.queues();
        all.push(Connection { local: tuple.local_addr(), peer: tuple.remote_addr(), state, unread, unacknowledged });
    });
    all
}

/// Implements the same methods for each type of host.
macro_rules! controls {
    ($($host:ty),+) => { $(
        /// State and changes while the host runs.
        impl $host {
            /// Adds an interface on the port `spec`, with addresses such as `10.0.0.2/24`.
            ///
            /// # Errors
            /// Returns an [`Error`], and adds nothing.
            pub fn add_port(&self, spec: &str, addrs: &[&str]) -> Result<(), Error> {
                add_port(self.node(), spec, addrs, None)
            }

            /// Adds an interface as [`add_port`](Self::add_port) does, with a policy for the
            /// stations behind the port ([`policy`](crate::policy)).
            ///
            /// # Errors
            /// Returns an [`Error`], and adds nothing.
            pub fn add_port_with_policy(&self, spec: &str, addrs: &[&str], policy: &Policy) -> Result<(), Error> {
                add_port(self.node(), spec, addrs, Some(policy))
            }

            /// Removes an interface with its addresses and routes, and closes its port. Returns
            /// `false` if there is no interface of that name, or if it has no port.
            pub fn remove_port(&self, iface: &str) -> bool {
                let found = self.node().stack.iface_named(iface).map(|iface| iface.id);
                found.is_some_and(|id| self.node().remove_port(id))
            }

            /// Adds an address, such as `10.0.0.3/24`, to an interface.
            ///
            /// # Errors
            /// Returns an [`Error`] if the address is not valid or the interface does not exist.
            pub fn add_addr(&self, iface: &str, addr: &str) -> Result<(), Error> {
                add_addr(self.node(), iface, addr)
            }

            /// Removes an address, such as `10.0.0.3/24`, from an interface.
            ///
            /// # Errors
            /// Returns an [`Error`] if the interface does not have the address.
            pub fn remove_addr(&self, iface: &str, addr: &str) -> Result<(), Error> {
                remove_addr(self.node(), iface, addr)
            }

            /// Returns the addresses of the host: interface, address and prefix length.
            pub fn addrs(&self) -> Vec<(String, IpAddr, u8)> {
                addrs(self.node())
            }

            /// Adds or replaces a route to `to` (`10.0.0.0/8` or `default`) through the gateway
            /// `via`.
            ///
            /// # Errors
            /// Returns an [`Error`] if the gateway cannot be reached.
            pub fn add_route(&self, to: &str, via: &str) -> Result<(), Error> {
                let done = self.node().replace_route(&route(to, via)?);
                done.map_err(rejected(format!("route {to} via {via}")))
            }

            /// Removes the route to `to` (`10.0.0.0/8` or `default`) through the gateway `via`.
            ///
            /// # Errors
            /// Returns an [`Error`] if there is no such route.
            pub fn remove_route(&self, to: &str, via: &str) -> Result<(), Error> {
                let done = self.node().remove_route(&route(to, via)?);
                done.map_err(rejected(format!("route {to} via {via}")))
            }

            /// Receives the packets for all addresses of a prefix, such as `0.0.0.0/0` or `::/0`,
            /// as if they were the host's own. Addresses of interfaces and more specific routes
            /// take precedence. Senders need a route through this host, since it answers neither
            /// ARP requests nor neighbor solicitations for the prefix.
            ///
            /// # Errors
            /// Returns an [`Error`] if the prefix is not valid.
            pub fn add_local(&self, prefix: &str) -> Result<(), Error> {
                self.node().add_local(prefix).map_err(rejected(format!("local route {prefix}")))
            }

            /// Sets or removes the policy for the stations behind the port of an interface
            /// ([`policy`](crate::policy)).
            ///
            /// # Errors
            /// Returns [`Error::Rejected`] if there is no interface of that name, or if it has no
            /// port.
            pub fn set_policy(&self, iface: &str, policy: Option<&Policy>) -> Result<(), Error> {
                set_policy(self.node(), iface, policy)
            }

            /// Copies the frames that pass the ports and match `filter`, until the capture is
            /// dropped. At most 4 captures may be open.
            ///
            /// # Errors
            /// Returns [`Error::Rejected`] if 4 captures are open.
            pub fn capture(&self, filter: &Filter) -> Result<Capture, Error> {
                Capture::open(self.node(), filter)
            }

            /// Runs a control command, such as `["sysctl", "net.inet.ip.ttl=32"]`, and returns its
            /// output (feature `commands`). The commands are those of `linerate ctl`; `linerate
            /// ifconfig --help` and others describe them.
            ///
            /// # Errors
            /// Returns [`Error::Rejected`].
            #[cfg(feature = "commands")]
            pub fn command(&self, words: &[&str]) -> Result<String, Error> {
                let done = commands::host::run(self.node(), crate::port::pairs(), words, false);
                done.map_err(rejected(words.join(" ")))
            }

            /// Returns all counters of the host's stack.
            pub fn counters(&self) -> Vec<Counter> {
                counters(self.node())
            }

            /// Returns the counter called `name`, such as `inet.ip4.received`; `None` if there is
            /// no such counter.
            pub fn counter(&self, name: &str) -> Option<u64> {
                counters(self.node()).into_iter().find(|counter| counter.name == name).map(|counter| counter.value)
            }

            /// Returns the counters of the port of an interface, such as `port.rx.frames`; none if
            /// there is no interface of that name, or if it has no port.
            pub fn port_counters(&self, iface: &str) -> Vec<Counter> {
                port_counters(self.node(), iface)
            }

            /// Returns the reasons for which frames were dropped, with their numbers.
            pub fn drops(&self) -> Vec<Counter> {
                drops(self.node())
            }

            /// Returns the balance of the host's frames.
            pub fn audit(&self) -> Audit {
                self.node().stack.audit(self.node().cx()).into()
            }

            /// Returns the TCP connections and listeners.
            pub fn connections(&self) -> Vec<Connection> {
                connections(self.node())
            }
        }
    )+ };
}

controls!(Host, LocalHost);
