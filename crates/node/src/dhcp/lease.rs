//! DHCPv4 leases: an address with its network settings, read from a server's message and checked.

use clock::{Duration, Instant};
use dhcproto::v4::{DhcpOption, Message, OptionCode};
use inet::fib::Prefix;
use inet::iface::IfaceAddr;
use std::net::Ipv4Addr;

/// Minimum lease time in seconds. A shorter lease time is raised to this value, so that the
/// interval between renewals is at least half of this value.
const LEASE_MIN: u32 = 20;
/// Minimum accepted MTU in bytes: the packet size that every host accepts (RFC 1122 3.3.2).
const MTU_MIN: u16 = 576;
/// Maximum number of classless static routes that are used from one message.
const ROUTES_MAX: usize = 32;

/// A lease of an address.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Lease {
    /// Address with the length of its prefix.
    pub addr: IfaceAddr,
    pub server: Ipv4Addr,
    /// Destinations with their gateways. An unspecified gateway means that the destination is
    /// on-link (RFC 3442).
    pub routes: Vec<(Prefix, Ipv4Addr)>,
    pub name_servers: Vec<Ipv4Addr>,
    pub domains: Vec<String>,
    /// MTU of the link; `None` if the server sent none.
    pub mtu: Option<u16>,
    /// Time from which the client requests renewal from the server of the lease (T1).
    pub renew_at: Instant,
    /// Time from which the client requests renewal from any server (T2).
    pub rebind_at: Instant,
    /// End of the lease.
    pub until: Instant,
}

impl Lease {
    /// Reads the lease from an offer or acknowledgment. Returns `None` if the address is not a host
    /// address, or a lease time or server identifier is missing.
    pub(crate) fn of(message: &Message, now: Instant) -> Option<Lease> {
        let addr = Some(message.yiaddr()).filter(|addr| is_host(*addr))?;
        let server = match option(message, OptionCode::ServerIdentifier)? {
            DhcpOption::ServerIdentifier(server) => Some(*server).filter(|server| is_host(*server))?,
            _ => return None,
        };
        let seconds = |code| match option(message, code) {
            Some(DhcpOption::AddressLeaseTime(n) | DhcpOption::Renewal(n) | DhcpOption::Rebinding(n)) => Some(*n),
            _ => None,
        };
        let time = seconds(OptionCode::AddressLeaseTime)?.max(LEASE_MIN);
        // RFC 2131 4.4.5: T1 is half and T2 seven eighths of the lease time, unless the server
        // sends other values.
        let (renewal, rebinding) = (seconds(OptionCode::Renewal), seconds(OptionCode::Rebinding));
        let (renewal, rebinding) = match (renewal, rebinding) {
            (Some(t1), Some(t2)) if t1 >= LEASE_MIN / 2 && t1 < t2 && t2 < time => (t1, t2),
            _ => (time / 2, time / 8 * 7),
        };
        let at = |seconds: u32| match time {
            u32::MAX => Instant::NEVER, // infinity (RFC 2131 3.3)
            _ => now.after(Duration::from_secs(u64::from(seconds))),
        };
        let addr = IfaceAddr { addr, len: prefix_len(message, addr) };
        Some(Lease {
            addr,
            server,
            routes: routes(message, addr),
            name_servers: name_servers(message),
            domains: domains(message),
            mtu: match option(message, OptionCode::InterfaceMtu) {
                Some(DhcpOption::InterfaceMtu(mtu)) => Some(*mtu).filter(|mtu| *mtu >= MTU_MIN),
                _ => None,
            },
            renew_at: at(renewal),
            rebind_at: at(rebinding),
            until: at(time),
        })
    }
}

fn option(message: &Message, code: OptionCode) -> Option<&DhcpOption> {
    message.opts().get(code)
}

/// Returns whether an address can belong to a host.
fn is_host(addr: Ipv4Addr) -> bool {
    let [first, ..] = addr.octets();
    first != 0 && first != 127 && first < 224
}

/// Returns the prefix length of the subnet mask. Without a valid mask, returns the prefix length of
/// the address class.
fn prefix_len(message: &Message, addr: Ipv4Addr) -> u8 {
    let mask = match option(message, OptionCode::SubnetMask) {
        Some(DhcpOption::SubnetMask(mask)) => mask.to_bits(),
        _ => 0,
    };
    if mask != 0 && mask.leading_ones() + mask.trailing_zeros() == 32 || mask == u32::MAX {
        return mask.leading_ones() as u8;
    }
    match addr.octets() {
        [0..128, ..] => 8,
        [128..192, ..] => 16,
        _ => 24,
    }
}

/// Returns the classless static routes, which replace the router option (RFC 3442). If there are
/// none, returns a default route via the first router.
fn routes(message: &Message, own: IfaceAddr) -> Vec<(Prefix, Ipv4Addr)> {
    let is_gateway = |gateway: Ipv4Addr| is_host(gateway) && gateway != own.addr;
    if let Some(DhcpOption::ClasslessStaticRoute(routes)) = option(message, OptionCode::ClasslessStaticRoute)
        && !routes.is_empty()
    {
        let usable = routes.iter().filter_map(|(net, gateway)| {
            let to = Prefix::new(net.network(), net.prefix_len()).ok()?;
            (gateway.is_unspecified() || is_gateway(*gateway)).then_some((to, *gateway))
        });
        return usable.take(ROUTES_MAX).collect();
    }
    let routers = match option(message, OptionCode::Router) {
        Some(DhcpOption::Router(routers)) => routers.as_slice(),
        _ => &[],
    };
    let first = routers.iter().copied().find(|router| is_gateway(*router));
    first.map(|router| (Prefix::DEFAULT, router)).into_iter().collect()
}

fn name_servers(message: &Message) -> Vec<Ipv4Addr> {
    match option(message, OptionCode::DomainNameServer) {
        Some(DhcpOption::DomainNameServer(servers)) => servers.iter().copied().filter(|addr| is_host(*addr)).collect(),
        _ => Vec::new(),
    }
}

/// Returns the domain search list (RFC 3397); if there is none, the domain name.
fn domains(message: &Message) -> Vec<String> {
    if let Some(DhcpOption::DomainSearch(names)) = option(message, OptionCode::DomainSearch)
        && !names.is_empty()
    {
        return names.iter().map(|name| name.to_ascii()).collect();
    }
    match option(message, OptionCode::DomainName) {
        Some(DhcpOption::DomainName(name)) => vec![name.trim_end_matches('\0').to_string()],
        _ => Vec::new(),
    }
}
