//! The table of tunnels: at most as many as there are ifaces, so it is walked.

use super::config::{Config, Kind, Unchecked};
use super::quote::{Quote, key_in};
use crate::iface::IfaceId;
use clock::Instant;
use stats::DropReason;
use std::net::{IpAddr, Ipv4Addr};
use wire::{L4Port, Mac, Proto, udp};

/// A tunnel and what it remembers.
pub(super) struct Tunnel {
    pub(super) iface: IfaceId,
    pub(super) config: Config,
    /// The MTU that was set by hand.
    pub(super) fixed_mtu: Option<u16>,
    /// Until when its MTU is lower than it would be.
    pub(super) narrowed: Option<Instant>,
    /// The next sequence number that leaves.
    pub(super) sent: u32,
    /// The first sequence number that is not late (RFC 2890 2.2); none has come yet.
    pub(super) expected: Option<u32>,
    /// The way to its far end that the packet before took.
    pub(super) way: Option<Way>,
    /// Point-to-point addresses: ours, the peer's.
    pub(super) peers: Vec<(Ipv4Addr, Ipv4Addr)>,
}

/// The way to a tunnel's far end, good while nothing has changed.
#[derive(Clone, Copy)]
pub(super) struct Way {
    /// The stack's epoch when it was found.
    pub(super) epoch: u64,
    /// The iface by which packets leave.
    pub(super) iface: IfaceId,
    /// The longest packet that the path takes.
    pub(super) path: usize,
    /// The next hop's MAC address, if it is known.
    pub(super) station: Option<Mac>,
}

/// Outer addresses, kind and L4 port of a received packet.
#[derive(Clone, Copy)]
pub(super) struct Arrival {
    pub(super) kind: Kind,
    pub(super) src: IpAddr,
    pub(super) dst: IpAddr,
    pub(super) l4port: L4Port,
}

/// The tunnels of one stack.
#[derive(Default)]
pub(crate) struct Tunnels(Vec<Tunnel>);

impl Tunnels {
    pub(super) fn get(&self, id: IfaceId) -> Option<&Tunnel> {
        self.0.iter().find(|tunnel| tunnel.iface == id)
    }

    pub(super) fn get_mut(&mut self, id: IfaceId) -> Option<&mut Tunnel> {
        self.0.iter_mut().find(|tunnel| tunnel.iface == id)
    }

    /// Another tunnel that nothing tells from `config`.
    pub(super) fn rival(&self, id: IfaceId, config: &Config) -> Option<IfaceId> {
        let same = |other: &Config| {
            (other.kind, other.local, other.remote) == (config.kind, config.local, config.remote)
                && other.key() == config.key()
                && (config.kind != Kind::Vxlan || other.l4port == config.l4port)
        };
        let others = self.0.iter().filter(|tunnel| tunnel.iface != id);
        others.into_iter().find(|tunnel| config.is_whole() && same(&tunnel.config)).map(|tunnel| tunnel.iface)
    }

    pub(super) fn set(&mut self, id: IfaceId, config: Config) {
        match self.get_mut(id) {
            Some(tunnel) => (tunnel.config, tunnel.expected, tunnel.way) = (config, None, None),
            None => self.0.push(Tunnel::new(id, config)),
        }
    }

    pub(super) fn remove(&mut self, id: IfaceId) {
        self.0.retain(|tunnel| tunnel.iface != id);
    }

    /// Returns the configuration of tunnel `id`, the next packet's sequence number, and the way of the packet before; `None`:
    /// the tunnel has no ends yet.
    pub(super) fn leaving(&mut self, id: IfaceId) -> Option<(Config, u32, Option<Way>)> {
        let tunnel = self.get_mut(id).filter(|tunnel| tunnel.config.is_whole())?;
        let sequence = tunnel.sent;
        tunnel.sent = sequence.wrapping_add(u32::from(tunnel.config.sequence));
        Some((tunnel.config, sequence, tunnel.way))
    }

    /// Is there a tunnel of this kind at our address `dst`, and of VXLAN's at that L4 port?
    pub(super) fn has(&self, kind: Kind, dst: IpAddr, l4port: L4Port) -> bool {
        let of_kind = self.0.iter().filter(|tunnel| tunnel.config.kind == kind && tunnel.config.is_whole());
        of_kind.into_iter().any(|t| t.config.local == dst && (kind != Kind::Vxlan || t.config.l4port == l4port))
    }

    /// Returns whether a VXLAN tunnel at our address and L4 port accepts datagrams of IPv6 without a checksum.
    pub(super) fn accepts_unchecked(&self, dst: IpAddr, l4port: L4Port) -> bool {
        self.0.iter().any(|tunnel| {
            let config = &tunnel.config;
            (config.kind, config.local, config.l4port) == (Kind::Vxlan, dst, l4port)
                && config.unchecked == Unchecked::Accepted
        })
    }

    /// Whose is it? Its far end must have sent it, with its key or VNI.
    pub(super) fn find(&mut self, came: &Arrival, key: Option<u32>) -> Result<&mut Tunnel, DropReason> {
        let from_far_end = |config: &Config| {
            (config.kind, config.local, config.remote) == (came.kind, came.dst, came.src)
                && (came.kind != Kind::Vxlan || config.l4port == came.l4port)
        };
        let mut why = DropReason::TunnelBadSource;
        for tunnel in self.0.iter_mut().filter(|tunnel| from_far_end(&tunnel.config)) {
            if tunnel.config.key() == key {
                return Ok(tunnel);
            }
            why = DropReason::TunnelBadKey;
        }
        Err(why)
    }

    /// Which tunnel has sent the packet that an ICMP error quotes? Of its payload there may be 8 bytes only, in which a
    /// VNI is not: any tunnel between these ends is told then.
    pub(super) fn quoted(&self, quote: &Quote<'_>) -> Option<(IfaceId, Config)> {
        let (payload, ends) = (quote.payload(), quote.ends());
        let kind = match quote.proto() {
            Proto::IPIP | Proto::IPV6 => Kind::Gif,
            Proto::GRE => Kind::Gre,
            Proto::ETHERIP => Kind::EtherIp,
            Proto::UDP => Kind::Vxlan,
            _ => return None,
        };
        let ours = |config: &Config| {
            (config.kind, config.local, config.remote) == (kind, ends.0, ends.1)
                && (config.kind != Kind::Vxlan || to_port(payload) == Some(config.l4port))
        };
        let mut between = self.0.iter().filter(|tunnel| ours(&tunnel.config));
        let exact = between.clone().find(|tunnel| key_in(tunnel.config.kind, payload) == Some(tunnel.config.key()));
        exact.or_else(|| between.find(|t| key_in(t.config.kind, payload).is_none())).map(|t| (t.iface, t.config))
    }

    pub(super) fn narrowed(&mut self, id: IfaceId, until: Instant) {
        if let Some(tunnel) = self.get_mut(id) {
            tunnel.narrowed = Some(until);
        }
    }

    /// Those whose MTU has been low for long enough.
    pub(super) fn take_due(&mut self, now: Instant) -> Vec<IfaceId> {
        let due = self.0.iter_mut().filter(|tunnel| tunnel.narrowed.is_some_and(|until| until <= now));
        let due = due.map(|tunnel| {
            tunnel.narrowed = None;
            tunnel.iface
        });
        due.collect()
    }

    pub(super) fn next_deadline(&self) -> Instant {
        self.0.iter().filter_map(|tunnel| tunnel.narrowed).min().unwrap_or(Instant::NEVER)
    }
}

fn to_port(datagram: &[u8]) -> Option<L4Port> {
    datagram.first_chunk::<{ udp::HEADER_LEN }>().map(|header| udp::Header::read(header).dst)
}
