//! Table of tunnels. It is searched linearly, since the number of tunnels is limited by the number
//! of interfaces.

use super::config::{Config, Kind, Unchecked};
use super::quote::{Quote, key_in};
use crate::iface::IfaceId;
use clock::Instant;
use stats::DropReason;
use std::net::{IpAddr, Ipv4Addr};
use wire::{L4Port, Mac, Proto, udp};

/// A tunnel and its state.
pub(super) struct Tunnel {
    pub(super) iface: IfaceId,
    pub(super) config: Config,
    /// MTU that was set explicitly; `None` if the MTU is derived from the path.
    pub(super) fixed_mtu: Option<u16>,
    /// Time until which the tunnel's MTU stays lowered; `None` if it is not lowered.
    pub(super) narrowed: Option<Instant>,
    /// Sequence number of the next packet that is sent.
    pub(super) sent: u32,
    /// Lowest sequence number that is accepted from the peer (RFC 2890 2.2); `None` before the
    /// first packet.
    pub(super) expected: Option<u32>,
    /// Cached route to the remote address; `None` if it is not cached.
    pub(super) way: Option<OuterRoute>,
    /// Point-to-point addresses: pairs of this host's address and the peer's.
    pub(super) peers: Vec<(Ipv4Addr, Ipv4Addr)>,
}

/// Route to a tunnel's remote address. It is valid while the stack's epoch is unchanged.
#[derive(Clone, Copy)]
pub(super) struct OuterRoute {
    /// Epoch of the stack at the time of the lookup.
    pub(super) epoch: u64,
    pub(super) iface: IfaceId,
    /// Path MTU in bytes.
    pub(super) path: usize,
    /// MAC address of the next hop, if it is known.
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

/// Tunnels of a stack.
#[derive(Default)]
pub(crate) struct Tunnels(Vec<Tunnel>);

impl Tunnels {
    pub(super) fn get(&self, id: IfaceId) -> Option<&Tunnel> {
        self.0.iter().find(|tunnel| tunnel.iface == id)
    }

    pub(super) fn get_mut(&mut self, id: IfaceId) -> Option<&mut Tunnel> {
        self.0.iter_mut().find(|tunnel| tunnel.iface == id)
    }

    /// Returns another tunnel whose received packets could not be distinguished from the packets of
    /// a tunnel with `config`.
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

    /// Returns the configuration of tunnel `id`, the sequence number for the packet to be sent, and
    /// the cached route. Returns `None` if an outer address of the tunnel is not set.
    pub(super) fn leaving(&mut self, id: IfaceId) -> Option<(Config, u32, Option<OuterRoute>)> {
        let tunnel = self.get_mut(id).filter(|tunnel| tunnel.config.is_whole())?;
        let sequence = tunnel.sent;
        tunnel.sent = sequence.wrapping_add(u32::from(tunnel.config.sequence));
        Some((tunnel.config, sequence, tunnel.way))
    }

    /// Returns whether there is a tunnel of this kind with the local address `dst` and, for VXLAN,
    /// with this L4 port.
    pub(super) fn has(&self, kind: Kind, dst: IpAddr, l4port: L4Port) -> bool {
        let of_kind = self.0.iter().filter(|tunnel| tunnel.config.kind == kind && tunnel.config.is_whole());
        of_kind.into_iter().any(|t| t.config.local == dst && (kind != Kind::Vxlan || t.config.l4port == l4port))
    }

    /// Returns whether a VXLAN tunnel with this local address and L4 port accepts IPv6 datagrams
    /// without a checksum.
    pub(super) fn accepts_unchecked(&self, dst: IpAddr, l4port: L4Port) -> bool {
        self.0.iter().any(|tunnel| {
            let config = &tunnel.config;
            (config.kind, config.local, config.l4port) == (Kind::Vxlan, dst, l4port)
                && config.unchecked == Unchecked::Accepted
        })
    }

    /// Returns the tunnel for a received packet. The source of the packet must be the tunnel's
    /// remote address, and the key or VNI must match.
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

    /// Returns the tunnel that sent the packet quoted in an ICMP error. If the quote includes only
    /// 8 bytes of payload, it does not include a VNI; any VXLAN tunnel with these outer addresses
    /// is then returned.
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

    /// Returns the tunnels whose MTU need no longer be lowered, and clears `narrowed` in them.
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
