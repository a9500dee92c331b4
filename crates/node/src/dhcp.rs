//! DHCP clients of a host's interfaces: IPv4 leases (RFC 2131), and name servers by stateless
//! DHCPv6 (RFC 8415) where router advertisements announce it.
//!
//! The clients ([`v4`], [`v6`]) are state machines without sockets. [`Dhcp`] owns one socket per
//! address family, runs as part of the host's rounds, and configures the stack: address, routes,
//! MTU, name servers. It works on a live clock and on virtual time.

mod lease;
#[cfg(test)]
mod tests;
pub(crate) mod v4;
pub(crate) mod v6;

use clock::Instant;
use dhcproto::v4::{CLIENT_PORT, SERVER_PORT};
use inet::Stack;
use inet::iface::IfaceId;
use inet::resolvers::ResolverSource;
use inet::route::Via;
use lease::Lease;
use lock::{Cx, Locks};
use socket::{Ancillary, Calls, Domain, Errno, Fd, Opt, PacketInfo};
use std::net::{Ipv4Addr, Ipv6Addr, SocketAddr, SocketAddrV6};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};
use v4::{Action, To};

/// Maximum number of datagrams read from each socket per turn.
const DATAGRAMS_MAX: usize = 64;

/// The DHCP clients of a host.
#[derive(Default)]
pub struct Dhcp {
    /// Set when the first client is started. While it is unset, a round skips DHCP without taking
    /// the lock.
    any: AtomicBool,
    state: Mutex<Clients>,
}

#[derive(Default)]
struct Clients {
    /// IPv4 and IPv6 sockets bound to the client ports.
    fds: [Option<Fd>; 2],
    v4: Vec<Client4>,
    v6: Vec<(IfaceId, v6::Client)>,
}

struct Client4 {
    iface: IfaceId,
    client: v4::Client,
    configured: Option<Configured>,
}

/// Configuration that a lease added, to be removed when the lease ends.
struct Configured {
    lease: Lease,
    /// Set if the lease added the address; unset if the address was configured before.
    has_added_addr: bool,
    routes: Vec<(inet::fib::Prefix, Via)>,
    /// MTU of the iface before the lease; `None` if the lease did not change the MTU.
    mtu: Option<u16>,
}

/// Configuration that a lease has added, apart from name servers.
pub(crate) struct Leased {
    /// Address that the lease has added; `None` if the iface had it before.
    pub(crate) addr: Option<Ipv4Addr>,
    /// Routes that the lease has added.
    pub(crate) routes: Vec<(inet::fib::Prefix, Via)>,
    /// MTU of the iface before the lease; `None` if the lease did not change it.
    pub(crate) mtu: Option<u16>,
}

/// State of a client, for listings.
#[derive(Clone, Debug)]
pub struct Status {
    pub iface: IfaceId,
    pub state: &'static str,
    pub lease: Option<Lease>,
}

impl Dhcp {
    fn lock(&self) -> MutexGuard<'_, Clients> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns whether there are clients.
    #[inline(always)]
    pub(crate) fn any(&self) -> bool {
        self.any.load(Ordering::Relaxed)
    }

    /// Starts a client on `iface`, or renews its lease.
    ///
    /// # Errors
    /// Returns a message if the interface is not Ethernet, or port 68 is in use.
    pub fn start<L: Locks>(&self, calls: &Calls<'_, L>, iface: IfaceId) -> Result<(), String> {
        let (stack, cx) = (calls.stack(), calls.cx());
        let mut clients = self.lock();
        if let Some(entry) = clients.v4.iter_mut().find(|entry| entry.iface == iface) {
            entry.client.start_renewal(cx.now, stack.draw(cx, u64::from(iface.0)));
            stack.end_probe(iface);
            return Ok(());
        }
        let found = stack.iface(iface).filter(|iface| iface.kind == inet::iface::IfaceKind::Ethernet);
        let mac = found.ok_or("DHCP needs an Ethernet interface")?.mac;
        let opened = clients.open(calls, Domain::Inet, CLIENT_PORT);
        opened.map_err(|why| format!("DHCP: UDP port {}: {why}", CLIENT_PORT))?;
        let client = v4::Client::new(mac, &stack.name);
        clients.v4.push(Client4 { iface, client, configured: None });
        self.any.store(true, Ordering::Relaxed);
        Ok(())
    }

    /// Releases the lease of `iface` and ends its client. Returns `false` if the iface has no
    /// client.
    pub fn release<L: Locks>(&self, calls: &Calls<'_, L>, iface: IfaceId) -> bool {
        let (stack, cx) = (calls.stack(), calls.cx());
        let mut clients = self.lock();
        let Some(at) = clients.v4.iter().position(|entry| entry.iface == iface) else { return false };
        let mut entry = clients.v4.remove(at);
        let actions = entry.client.release(cx.now, stack.draw(cx, u64::from(iface.0)));
        clients.act(calls, &mut entry, actions);
        stack.end_probe(iface);
        true
    }

    /// Releases all leases, before the host shuts down.
    pub(crate) fn release_all<L: Locks>(&self, calls: &Calls<'_, L>) {
        if self.any() {
            let ifaces: Vec<_> = self.lock().v4.iter().map(|entry| entry.iface).collect();
            ifaces.into_iter().for_each(|iface| _ = self.release(calls, iface));
        }
    }

    /// Runs the clients: receives datagrams, processes timers, sends messages. Returns the time of
    /// the next turn.
    #[cold]
    #[inline(never)]
    pub(crate) fn turn<L: Locks>(&self, calls: &Calls<'_, L>) -> Instant {
        let (stack, cx) = (calls.stack(), calls.cx());
        let clients = &mut *self.lock();
        clients.v4.retain(|entry| {
            let is_there = stack.iface(entry.iface).is_some();
            if !is_there {
                stack.remove_resolvers(cx, ResolverSource::Dhcp(entry.iface));
            }
            is_there
        });
        if stack.may_want_dhcp6() {
            clients.start_v6(calls);
        }
        clients.read_v4(calls);
        clients.read_v6(calls);
        let mut entries = std::mem::take(&mut clients.v4);
        for entry in &mut entries {
            if entry.client.state() == v4::State::Checking && stack.is_probed_addr_taken(entry.iface) {
                stack.end_probe(entry.iface);
                let actions = entry.client.decline(cx.now);
                clients.act(calls, entry, actions);
            }
            let is_up = stack.iface(entry.iface).is_some_and(|iface| iface.is_up());
            if is_up && entry.client.next() <= cx.now {
                let random = stack.draw(cx, u64::from(entry.iface.0) << 8 | 4);
                let actions = entry.client.poll(cx.now, random);
                clients.act(calls, entry, actions);
            }
        }
        clients.v4 = entries;
        clients.poll_v6(calls);
        let next = clients.v4.iter().map(|entry| entry.client.next());
        next.chain(clients.v6.iter().map(|(_, client)| client.next())).min().unwrap_or(Instant::NEVER)
    }

    /// Returns the first interface whose client has not obtained a lease yet.
    pub(crate) fn awaiting(&self) -> Option<IfaceId> {
        if !self.any() {
            return None;
        }
        let clients = self.lock();
        let waits = |entry: &&Client4| {
            matches!(entry.client.state(), v4::State::Selecting | v4::State::Requesting | v4::State::Checking)
        };
        clients.v4.iter().find(waits).map(|entry| entry.iface)
    }

    /// Returns whether an iface has an IPv4 client.
    pub(crate) fn has_client(&self, iface: IfaceId) -> bool {
        self.any() && self.lock().v4.iter().any(|entry| entry.iface == iface)
    }

    /// Returns what the lease of an iface has configured; `None` if there is no lease.
    pub(crate) fn leased(&self, iface: IfaceId) -> Option<Leased> {
        if !self.any() {
            return None;
        }
        let clients = self.lock();
        let Configured { lease, has_added_addr, routes, mtu } =
            clients.v4.iter().find(|entry| entry.iface == iface)?.configured.as_ref()?;
        let addr = has_added_addr.then_some(lease.addr.addr);
        Some(Leased { addr, routes: routes.clone(), mtu: *mtu })
    }

    /// Forgets the MTU of an iface before its lease, since it has been given another one.
    pub(crate) fn forget_mtu(&self, iface: IfaceId) {
        if self.any() {
            let mut clients = self.lock();
            let configured = clients.v4.iter_mut().filter(|entry| entry.iface == iface);
            configured.filter_map(|entry| entry.configured.as_mut()).for_each(|configured| configured.mtu = None);
        }
    }

    /// Returns the state of each IPv4 client.
    pub fn list(&self) -> Vec<Status> {
        let of = |entry: &Client4| Status {
            iface: entry.iface,
            state: entry.client.state().name(),
            lease: entry.client.lease().cloned(),
        };
        self.lock().v4.iter().map(of).collect()
    }
}

impl Clients {
    /// Opens the socket of an address family, unless it is already open.
    fn open<L: Locks>(&mut self, calls: &Calls<'_, L>, domain: Domain, port: u16) -> Result<(), Errno> {
        let [four, six] = &mut self.fds;
        let (fd, any) = match domain {
            Domain::Inet => (four, SocketAddr::from((Ipv4Addr::UNSPECIFIED, port))),
            Domain::Inet6 => (six, SocketAddr::from((Ipv6Addr::UNSPECIFIED, port))),
        };
        if fd.is_some() {
            return Ok(());
        }
        let opened = calls.socket_of(domain)?;
        let options = [Opt::NonBlocking(true), Opt::Broadcast(true), Opt::V6Only(true)];
        let wanted = if domain == Domain::Inet { 2 } else { 3 };
        let set = options.into_iter().take(wanted).try_for_each(|opt| calls.set_option(opened, opt));
        match set.and_then(|()| calls.bind(opened, any)) {
            Ok(_) => *fd = Some(opened),
            Err(why) => {
                let _ = calls.close(opened); // cannot fail: it is open
                return Err(why);
            }
        }
        Ok(())
    }

    /// Starts a DHCPv6 client on each interface where a router advertisement announces DHCPv6.
    fn start_v6<L: Locks>(&mut self, calls: &Calls<'_, L>) {
        let (stack, cx) = (calls.stack(), calls.cx());
        for iface in stack.ifaces().filter(|iface| iface.has_other_config(cx)) {
            let is_new = !self.v6.iter().any(|(id, _)| *id == iface.id);
            if is_new && self.open(calls, Domain::Inet6, v6::CLIENT_PORT).is_ok() {
                self.v6.push((iface.id, v6::Client::new(iface.mac)));
            }
        }
        self.v6.retain(|(id, _)| {
            let is_wanted = stack.iface(*id).is_some_and(|iface| iface.has_other_config(cx));
            if !is_wanted {
                stack.remove_resolvers(cx, ResolverSource::Dhcp6(*id));
            }
            is_wanted
        });
    }

    fn read_v4<L: Locks>(&mut self, calls: &Calls<'_, L>) {
        let [Some(fd), _] = self.fds else { return };
        let mut datagram = [0; v4::MESSAGE_MAX as usize];
        for _ in 0..DATAGRAMS_MAX {
            let Ok((len, from)) = calls.recv_from(fd, &mut datagram) else { break };
            if from.port() != SERVER_PORT {
                continue;
            }
            let mut entries = std::mem::take(&mut self.v4);
            for entry in &mut entries {
                let actions = entry.client.input(datagram.get(..len).unwrap_or_default(), calls.cx().now);
                self.act(calls, entry, actions);
            }
            self.v4 = entries;
        }
    }

    fn read_v6<L: Locks>(&mut self, calls: &Calls<'_, L>) {
        let [_, Some(fd)] = self.fds else { return };
        let mut datagram = [0; v4::MESSAGE_MAX as usize];
        for _ in 0..DATAGRAMS_MAX {
            let Ok((len, _)) = calls.recv_from(fd, &mut datagram) else { break };
            for (iface, client) in &mut self.v6 {
                let reply = client.input(datagram.get(..len).unwrap_or_default(), calls.cx().now);
                let Some(reply) = reply else { continue };
                let source = ResolverSource::Dhcp6(*iface);
                let v6::Reply { name_servers, domains } = &reply;
                calls.stack().set_resolvers(calls.cx(), source, name_servers, domains, Instant::NEVER);
            }
        }
    }

    fn poll_v6<L: Locks>(&mut self, calls: &Calls<'_, L>) {
        let [_, Some(fd)] = self.fds else { return };
        let (stack, cx) = (calls.stack(), calls.cx());
        for (iface, client) in &mut self.v6 {
            let random = stack.draw(cx, u64::from(iface.0) << 8 | 6);
            if let Some(message) = client.poll(cx.now, random) {
                let scope = inet::zone::scope_id(*iface);
                let to = SocketAddr::V6(SocketAddrV6::new(v6::SERVERS, v6::SERVER_PORT, 0, scope));
                let _ = calls.send_to(fd, &message, &to); // retransmitted when due
            }
        }
    }

    /// Performs the actions that a client requests.
    #[inline(never)]
    fn act<L: Locks>(&self, calls: &Calls<'_, L>, entry: &mut Client4, actions: Vec<Action>) {
        for action in actions {
            match action {
                // If sending fails, the client retransmits the message when its timer expires.
                Action::Send(message, to) => drop(self.send(calls, entry.iface, &message, to)),
                Action::Probe(addr) => calls.stack().probe_addr(calls.cx(), entry.iface, addr),
                Action::Configure(lease) => configure(calls, entry, lease.map(|lease| *lease)),
            }
        }
    }

    fn send<L: Locks>(&self, calls: &Calls<'_, L>, iface: IfaceId, message: &[u8], to: To) -> Result<(), Errno> {
        let [Some(fd), _] = self.fds else { return Ok(()) };
        let to = match to {
            To::Broadcast => Ipv4Addr::BROADCAST,
            To::Server(server) => server,
        };
        let info = PacketInfo { addr: Ipv4Addr::UNSPECIFIED.into(), iface: Some(iface) };
        let ancillary = Ancillary { info: Some(info), ..Ancillary::default() };
        calls.send_msg(fd, message, Some(&SocketAddr::from((to, SERVER_PORT))), &ancillary).map(drop)
    }
}

/// Removes the configuration of the previous lease, and applies `lease` if it is not `None`.
fn configure<L: Locks>(calls: &Calls<'_, L>, entry: &mut Client4, lease: Option<Lease>) {
    let (stack, cx, id) = (calls.stack(), calls.cx(), entry.iface);
    stack.end_probe(id);
    // If a renewed lease has the same address and routes, they stay configured, so that connections
    // survive.
    if let (Some(configured), Some(lease)) = (&mut entry.configured, &lease)
        && (configured.lease.addr, &configured.lease.routes) == (lease.addr, &lease.routes)
    {
        configured.lease = lease.clone();
        return set_resolvers(stack, cx, id, lease);
    }
    if let Some(before) = entry.configured.take() {
        deconfigure(stack, cx, id, &before);
    }
    if let Some(lease) = lease {
        entry.configured = apply(stack, cx, id, lease);
    }
}

fn set_resolvers<L: Locks>(stack: &Stack<L>, cx: Cx, id: IfaceId, lease: &Lease) {
    let servers: Vec<_> = lease.name_servers.iter().map(|addr| SocketAddr::from((*addr, 0))).collect();
    stack.set_resolvers(cx, ResolverSource::Dhcp(id), &servers, &lease.domains, lease.until);
}

/// Configures address, routes, MTU and name servers. Existing own routes are not replaced. Returns
/// `None` if the address cannot be added.
fn apply<L: Locks>(stack: &Stack<L>, cx: Cx, id: IfaceId, lease: Lease) -> Option<Configured> {
    let iface = stack.iface(id)?;
    let has_added_addr = !iface.addrs(cx).iter().any(|own| own.addr == lease.addr.addr);
    if has_added_addr {
        stack.add_addr(cx, id, lease.addr).ok()?;
    }
    let mut routes = Vec::new();
    let mut add = |to, via| {
        if stack.route_at(cx, to).is_none() && stack.add_route(cx, to, via).is_ok() {
            routes.push((to, via));
        }
    };
    for (to, gateway) in &lease.routes {
        if gateway.is_unspecified() {
            add(*to, Via::Link(id));
            continue;
        }
        // A gateway outside the prefix is treated as on-link. With a prefix of 32 bits, every
        // gateway is outside.
        if !lease.addr.contains(*gateway)
            && let Ok(host) = inet::fib::Prefix::new(*gateway, 32)
        {
            add(host, Via::Link(id));
        }
        add(*to, Via::Gateway(id, *gateway));
    }
    let before = iface.mtu() as u16;
    let mtu = lease.mtu.filter(|mtu| *mtu < before && !(iface.has_ip6() && *mtu < 1280));
    if let Some(mtu) = mtu {
        stack.set_mtu(id, mtu);
    }
    set_resolvers(stack, cx, id, &lease);
    Some(Configured { lease, has_added_addr, routes, mtu: mtu.map(|_| before) })
}

fn deconfigure<L: Locks>(stack: &Stack<L>, cx: Cx, id: IfaceId, before: &Configured) {
    stack.remove_resolvers(cx, ResolverSource::Dhcp(id));
    for (to, via) in before.routes.iter().rev() {
        if stack.route_at(cx, *to) == Some(*via) {
            stack.remove_route(cx, *to);
        }
    }
    if let Some(mtu) = before.mtu {
        stack.set_mtu(id, mtu);
    }
    if before.has_added_addr {
        stack.remove_addr(cx, id, before.lease.addr.addr);
    }
}
