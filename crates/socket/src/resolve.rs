//! Stub resolver: resolves names to addresses through the host's name servers (RFC 1034 5.3.1, RFC
//! 1123 6.1.3).
//!
//! ```text
//!  candidates of the search list ──> name servers, ATTEMPTS times each ──> A and AAAA queries
//!        NXDOMAIN: next candidate      timeout, refused, SERVFAIL: next server      truncated: TCP
//! ```
//!
//! [`Lookup`] never blocks. Its caller calls [`Lookup::turn`] whenever the host has received input,
//! and at the time that [`Lookup::next`] returns. A lookup can therefore run in the thread of a
//! host, and with virtual time. [`lookup`](crate::net::lookup) runs a `Lookup` and waits for its
//! result. Queries have unpredictable identifiers and source ports, and an answer must repeat the
//! question (RFC 5452). Other datagrams are ignored.

mod exchange;

pub use exchange::TIMEOUT;

use crate::{Calls, Errno};
use clock::Instant;
use exchange::{Exchange, Progress};
use inet::zone;
use lock::Locks;
use std::fmt;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, SocketAddrV6};
use wire::dns::{self, Answer, ty};

/// Number of times that each name server is queried (`attempts` in resolv.conf(5)).
pub const ATTEMPTS: usize = 2;
/// Maximum number of name servers queried.
pub const SERVERS_MAX: usize = 3;
/// Maximum number of additional queries when an answer contains only aliases (CNAME) and no
/// address.
const ALIASES_MAX: usize = 8;

/// Address families to look up.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Families {
    /// The families in which the host has addresses (AI_ADDRCONFIG).
    #[default]
    Any,
    /// IPv4 only (flag `-4`).
    V4,
    /// IPv6 only (flag `-6`).
    V6,
}

impl Families {
    /// Returns the families that the flags `-4` and `-6` select. At most one of the flags may be
    /// set.
    pub fn of(v4: bool, v6: bool) -> Families {
        match (v4, v6) {
            (true, false) => Families::V4,
            (false, true) => Families::V6,
            _ => Families::Any,
        }
    }

    /// Checks that the family of `ip` is selected. The user gave `ip` for the flag or argument
    /// `what`.
    ///
    /// # Errors
    /// A message that names the address, its family and the conflicting flag.
    pub fn check(self, what: &str, ip: IpAddr) -> Result<(), String> {
        match (self, ip) {
            (Families::V6, IpAddr::V4(_)) => Err(format!("{what} {ip} is an IPv4 address, but -6 selects IPv6")),
            (Families::V4, IpAddr::V6(_)) => Err(format!("{what} {ip} is an IPv6 address, but -4 selects IPv4")),
            _ => Ok(()),
        }
    }

    /// Returns whether the family of `addr` is selected.
    pub fn permits(self, addr: SocketAddr) -> bool {
        match self {
            Families::Any => true,
            Families::V4 => addr.is_ipv4(),
            Families::V6 => addr.is_ipv6(),
        }
    }
}

/// Reason why a lookup returned no address.
#[derive(Clone, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub enum LookupError {
    /// The text is neither an address nor a valid domain name.
    BadName(String),
    /// The zone of a link-local address is not the name of an interface.
    BadZone(String),
    /// A link-local address is given without a zone.
    NoZone(String),
    /// The address belongs to the family that is not selected.
    OtherFamily(String, &'static str),
    /// The host has no name servers.
    NoServers(String),
    /// The name does not exist (NXDOMAIN).
    NotFound(String),
    /// The name exists, but has no address of the selected families.
    NoAddress(String),
    /// All name servers that were queried refused or failed.
    Failed {
        /// Name that was looked up.
        name: String,
        /// The name server that was queried last.
        server: SocketAddr,
        /// Response code of that server (RFC 1035 4.1.1).
        rcode: u8,
    },
    /// No name server answered in time.
    TimedOut {
        /// Name that was looked up.
        name: String,
        /// The name server that was queried last.
        server: SocketAddr,
    },
    /// No name server could be reached.
    Unreachable {
        /// Name that was looked up.
        name: String,
        /// The name server that was queried last.
        server: SocketAddr,
        /// Socket error of the query to that server.
        why: Errno,
    },
    /// The host was stopped during the lookup.
    Interrupted(String),
    /// The lookup would have to wait, which is not possible on a simulated host.
    Simulated(String),
}

impl fmt::Display for LookupError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            LookupError::BadName(name) => write!(f, "'{name}' is neither an IP address nor a domain name"),
            LookupError::BadZone(name) => write!(f, "'{name}': the host has no interface of that name"),
            LookupError::NoZone(name) => {
                write!(f, "'{name}' is a link-local address: give its interface, as in {name}%tap0")
            }
            LookupError::OtherFamily(name, family) => write!(f, "'{name}' is not an {family} address"),
            LookupError::NoServers(name) => write!(
                f,
                "'{name}': no name server is configured; set one with --dns ADDRESS, or use --dhcp or --addr auto"
            ),
            LookupError::NotFound(name) => write!(f, "'{name}': no such name"),
            LookupError::NoAddress(name) => write!(f, "'{name}': the name has no address"),
            LookupError::Failed { name, server, rcode } => {
                write!(f, "'{name}': name server {server} answered {}", dns::rcode_name(*rcode))
            }
            LookupError::TimedOut { name, server } => write!(f, "'{name}': no answer from name server {server}"),
            LookupError::Unreachable { name, server, why } => {
                write!(f, "'{name}': cannot reach name server {server}: {why}")
            }
            LookupError::Interrupted(name) => write!(f, "'{name}': lookup interrupted"),
            LookupError::Simulated(name) => write!(
                f,
                "'{name}': a lookup cannot wait on a simulated host: use net::tasks::lookup in a task of its world"
            ),
        }
    }
}

impl std::error::Error for LookupError {}

/// Result of a lookup: socket addresses in order of preference (RFC 6724), or the reason why there
/// are none.
pub type Found = Result<Vec<SocketAddr>, LookupError>;

/// A lookup of the addresses of a host name, in progress.
#[derive(Debug)]
pub struct Lookup {
    /// The name as the caller gave it.
    name: String,
    port: u16,
    /// Result that is known without any query, such as the result for a numeric address.
    known: Option<Found>,
    /// Names still to be queried, in reverse order: the current name is the last.
    candidates: Vec<String>,
    servers: Vec<SocketAddr>,
    /// Record types to query, each with its answer for the current candidate.
    answers: Vec<(u16, Option<Answer>)>,
    /// Number of exchanges with name servers for the current candidate.
    tries: usize,
    aliases: usize,
    exchange: Option<Exchange>,
    /// Error that is returned if no candidate has an address.
    failure: LookupError,
}

impl Lookup {
    /// Prepares a lookup of `host`, which is an address, an address with a zone (`fe80::1%tap0`),
    /// or a domain name. The resulting addresses have the port `port`.
    #[inline(never)]
    pub fn new<L: Locks>(calls: &Calls<'_, L>, host: &str, port: u16, families: Families) -> Lookup {
        let resolvers = calls.stack().resolvers(calls.cx());
        let domains: Vec<String> = resolvers.domains.into_iter().map(|entry| entry.value).collect();
        let mut lookup = Lookup {
            name: host.to_string(),
            port,
            known: literal(calls, host, port, families),
            candidates: candidates(host, &domains),
            servers: resolvers.servers.into_iter().map(|entry| entry.value).take(SERVERS_MAX).collect(),
            answers: types(calls, families).into_iter().map(|ty| (ty, None)).collect(),
            tries: 0,
            aliases: 0,
            exchange: None,
            failure: LookupError::NotFound(host.to_string()),
        };
        if lookup.known.is_none() && !is_host_name(host) {
            lookup.known = Some(Err(LookupError::BadName(host.to_string())));
        } else if lookup.known.is_none() && lookup.servers.is_empty() {
            lookup.known = Some(Err(LookupError::NoServers(host.to_string())));
        }
        lookup
    }

    /// Sends queries and reads answers, without waiting. Returns the result once it is known.
    #[inline(never)]
    pub fn turn<L: Locks>(&mut self, calls: &Calls<'_, L>) -> Option<Found> {
        if let Some(known) = &self.known {
            return Some(known.clone());
        }
        let found = self.progress(calls)?;
        self.close(calls);
        self.known = Some(found.clone());
        Some(found)
    }

    fn progress<L: Locks>(&mut self, calls: &Calls<'_, L>) -> Option<Found> {
        loop {
            let Some(name) = self.candidates.last().cloned() else { return Some(Err(self.failure.clone())) };
            let Some(exchange) = &mut self.exchange else {
                if let Some(found) = self.start(calls, &name) {
                    return Some(found);
                }
                continue;
            };
            let server = exchange.server();
            match exchange.turn(calls, &mut self.answers)? {
                Progress::Complete => {
                    self.close(calls);
                    if let Some(found) = self.take_answers(calls, &name) {
                        return Some(found);
                    }
                }
                failed => {
                    self.close(calls);
                    self.fail(match failed {
                        Progress::Rcode(rcode) => LookupError::Failed { name, server, rcode },
                        Progress::Socket(why) => LookupError::Unreachable { name, server, why },
                        _ => LookupError::TimedOut { name, server },
                    });
                }
            }
        }
    }

    /// Records the reason why the current candidate has no address. The error that a name exists
    /// but has no address takes precedence over the errors of other candidates.
    fn fail(&mut self, why: LookupError) {
        if !matches!(self.failure, LookupError::NoAddress(_)) {
            self.failure = why;
        }
    }

    /// Starts to query the next name server. If all have been queried, returns the result.
    fn start<L: Locks>(&mut self, calls: &Calls<'_, L>, name: &str) -> Option<Found> {
        let server = self.servers.get(self.tries % self.servers.len().max(1)).copied();
        let Some(server) = server.filter(|_| self.tries < ATTEMPTS * self.servers.len()) else {
            // The query for one address family may have been answered, but not the query for the
            // other.
            let found = self.addresses(calls, name).0;
            return Some(if found.is_empty() { Err(self.failure.clone()) } else { Ok(found) });
        };
        self.tries += 1;
        match Exchange::start(calls, server, name, &self.answers) {
            Ok(exchange) => self.exchange = Some(exchange),
            Err(why) => self.fail(LookupError::Unreachable { name: name.to_string(), server, why }),
        }
        None
    }

    /// Returns the addresses of `name` in the answers, and the name at the end of its aliases.
    fn addresses<L: Locks>(&self, calls: &Calls<'_, L>, name: &str) -> (Vec<SocketAddr>, String) {
        let (mut found, mut owner) = (Vec::new(), name.to_string());
        for (_, answer) in &self.answers {
            let Some(answer) = answer else { continue };
            let (addrs, end) = answer.addresses(name);
            found.extend(addrs.into_iter().filter(is_host).map(|addr| SocketAddr::new(addr, self.port)));
            if end != name {
                owner = end;
            }
        }
        calls.stack().sort_destinations(calls.cx(), &mut found);
        (found, owner)
    }

    /// Evaluates the answers for `name`. If they have no address, continues with the next
    /// candidate.
    fn take_answers<L: Locks>(&mut self, calls: &Calls<'_, L>, name: &str) -> Option<Found> {
        let (found, owner) = self.addresses(calls, name);
        if !found.is_empty() {
            return Some(Ok(found));
        }
        let exists = self.answers.iter().flat_map(|(_, answer)| answer).any(|answer| answer.rcode == 0);
        let why = if exists { LookupError::NoAddress } else { LookupError::NotFound };
        self.fail(why(self.name.clone()));
        self.candidates.pop();
        if owner != name && exists && self.aliases < ALIASES_MAX {
            self.aliases += 1;
            self.candidates.push(owner);
        }
        self.tries = 0;
        self.answers.iter_mut().for_each(|(_, answer)| *answer = None);
        None
    }

    /// Returns the time at which the next turn is due even if no input arrives.
    pub fn next(&self) -> Instant {
        match (&self.known, &self.exchange) {
            (None, Some(exchange)) => exchange.deadline(),
            _ => Instant::ZERO,
        }
    }

    /// Returns the descriptor of the socket on which the lookup waits for an answer; `None` if it
    /// does not wait.
    pub(crate) fn fd(&self) -> Option<crate::Fd> {
        self.exchange.as_ref().map(Exchange::fd)
    }

    /// Closes the socket of the lookup. Must be called if the lookup is abandoned before it has a
    /// result.
    pub fn close<L: Locks>(&mut self, calls: &Calls<'_, L>) {
        if let Some(exchange) = self.exchange.take() {
            let _ = calls.close(exchange.fd()); // the descriptor is open
        }
    }
}

/// Returns whether `host` is a valid host name. No top-level domain is numeric (RFC 1123 2.1), so
/// `10.0.2` is not a name but a mistyped address.
pub fn is_host_name(host: &str) -> bool {
    let bare = host.strip_suffix('.').unwrap_or(host);
    let last = bare.rsplit('.').next().unwrap_or(bare);
    dns::is_host_name(host) && !last.bytes().all(|byte| byte.is_ascii_digit())
}

/// Returns whether an address can belong to a host: it is neither unspecified, multicast nor
/// broadcast.
fn is_host(addr: &IpAddr) -> bool {
    !(addr.is_unspecified() || addr.is_multicast() || matches!(addr, IpAddr::V4(v4) if v4.is_broadcast()))
}

/// Returns the result for a numeric address or for `localhost` (RFC 6761 6.3); `None` if queries
/// are needed.
fn literal<L: Locks>(calls: &Calls<'_, L>, host: &str, port: u16, families: Families) -> Option<Found> {
    if host.eq_ignore_ascii_case("localhost") || host.eq_ignore_ascii_case("localhost.") {
        let all = [IpAddr::from(Ipv4Addr::LOCALHOST), IpAddr::from(Ipv6Addr::LOCALHOST)];
        let mut all: Vec<_> = all.map(|addr| SocketAddr::new(addr, port)).into();
        all.retain(|addr| families.permits(*addr));
        calls.stack().sort_destinations(calls.cx(), &mut all);
        return Some(Ok(all));
    }
    let bare = host.strip_prefix('[').and_then(|rest| rest.strip_suffix(']')).unwrap_or(host);
    let (text, name) = bare.split_once('%').map_or((bare, None), |(text, name)| (text, Some(name)));
    let addr = match (text.parse().ok()?, name) {
        (IpAddr::V6(v6), Some(name)) => {
            let named = calls.stack().iface_named(name).map(|iface| zone::scope_id(iface.id));
            let by_number = || name.parse().ok().filter(|id| zone::iface_of(*id).is_some());
            match named.or_else(by_number) {
                Some(scope) => SocketAddr::V6(SocketAddrV6::new(v6, port, 0, scope)),
                None => return Some(Err(LookupError::BadZone(host.to_string()))),
            }
        }
        (IpAddr::V4(_), Some(_)) => return Some(Err(LookupError::BadName(host.to_string()))),
        (addr, None) => SocketAddr::new(addr, port),
    };
    let is_zoned = matches!(addr, SocketAddr::V6(v6) if v6.scope_id() != 0 || !wire::ip6::is_link_local(*v6.ip()));
    if addr.is_ipv6() && !is_zoned && port > 0 {
        // Without a port, the missing zone is no error: ping, which has no port, selects the
        // interface with -I.
        return Some(Err(LookupError::NoZone(host.to_string())));
    }
    let family = if families == Families::V4 { "IPv4" } else { "IPv6" };
    Some(match families.permits(addr) {
        true => Ok(vec![addr]),
        false => Err(LookupError::OtherFamily(host.to_string(), family)),
    })
}

/// Returns the names to query, in reverse order (resolv.conf(5), ndots:1). A name with a dot is
/// tried before the names of the search list, and a name without a dot after them. For a name that
/// ends with a dot, the search list is not used.
fn candidates(host: &str, domains: &[String]) -> Vec<String> {
    if let Some(name) = host.strip_suffix('.') {
        return vec![name.to_string()];
    }
    let mut all: Vec<String> = domains.iter().map(|domain| format!("{host}.{domain}")).collect();
    all.retain(|name| dns::is_name(name));
    let at = if host.contains('.') { 0 } else { all.len() };
    all.insert(at, host.to_string());
    all.reverse();
    all
}

/// Returns the types of DNS records to query (A, AAAA).
fn types<L: Locks>(calls: &Calls<'_, L>, families: Families) -> Vec<u16> {
    let (stack, cx) = (calls.stack(), calls.cx());
    let has_v4 = || {
        let addrs = stack.ifaces().flat_map(|iface| iface.addrs(cx));
        addrs.into_iter().any(|own| !own.addr.is_loopback())
    };
    let has_v6 = || {
        let addrs = stack.ifaces().flat_map(|iface| iface.addrs6(cx));
        addrs.into_iter().any(|own| !(own.addr.is_loopback() || wire::ip6::is_link_local(own.addr)))
    };
    match families {
        Families::V4 => vec![ty::A],
        Families::V6 => vec![ty::AAAA],
        Families::Any => match (has_v4(), has_v6()) {
            (true, false) => vec![ty::A],
            (false, true) => vec![ty::AAAA],
            _ => vec![ty::A, ty::AAAA],
        },
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn flags_select_a_family() {
        let (four, six) = (IpAddr::from([10, 0, 0, 1]), IpAddr::from([0xfd00, 0, 0, 0, 0, 0, 0, 1]));
        assert!(Families::of(false, false).check("-H", four).is_ok());
        assert!(Families::of(true, false).check("-H", four).is_ok() && Families::V6.check("-H", six).is_ok());
        assert_eq!(Families::V6.check("-H", four).unwrap_err(), "-H 10.0.0.1 is an IPv4 address, but -6 selects IPv6");
        assert!(Families::V4.check("-H", six).unwrap_err().contains("-4 selects IPv4"));
    }

    #[test]
    fn the_search_list_applies_as_in_resolv_conf() {
        let domains = ["example.org".to_string(), "test".to_string()];
        for (host, expected) in [
            ("www", &["www.example.org", "www.test", "www"][..]),
            ("www.lab", &["www.lab", "www.lab.example.org", "www.lab.test"]),
            ("www.", &["www"]),
            ("www.lab.", &["www.lab"]),
        ] {
            let names: Vec<_> = candidates(host, &domains).into_iter().rev().collect();
            assert_eq!(names, expected, "{host}");
        }
        let long = format!("{}.{}", "a".repeat(63), "b".repeat(63));
        let long = format!("{long}.{long}");
        let all = candidates(&long[..246], &domains);
        assert_eq!(all.len(), 2, "names that the search list makes too long are left out");
    }
}
