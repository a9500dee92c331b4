//! Two routers with a link between them: the cost of a tunnel per frame, at both ends together.

use super::route::{PACKETS, few_left, iface};
use crate::subject::{Reading, Subject, measure};
use anyhow::{Context, anyhow};
use clock::{Clock, Strategy};
use inet::fib::Prefix;
use inet::iface::{IfaceAddr, IfaceId};
use inet::route::Via;
use inet::tunnel::{Config, Kind};
use lock::{Locks, Up};
use node::Host;
use node::config::HostConfig;
use port::Pairs;
use std::net::Ipv4Addr;
use std::sync::Arc;
use wire::Mac;

/// Number of turns of the far router without a frame, after which no more frames are expected.
const MOST_EMPTY: u32 = 1_000;
/// Addresses of the ends of the tunnel, and of the link between the routers.
const INSIDE: [Ipv4Addr; 2] = [Ipv4Addr::new(172, 16, 0, 1), Ipv4Addr::new(172, 16, 0, 2)];
const BETWEEN: [Ipv4Addr; 2] = [Ipv4Addr::new(2, 0, 0, 1), Ipv4Addr::new(2, 0, 0, 2)];
/// Default gateway of the far router.
const GATEWAY: Ipv4Addr = Ipv4Addr::new(3, 0, 0, 10);
/// MAC addresses of the ends of an Ethernet tunnel.
const MACS: [Mac; 2] = [Mac([2, 0, 0, 0, 9, 1]), Mac([2, 0, 0, 0, 9, 2])];

/// Rig with a pktgen source, a router, a link or a tunnel over it, a second router, and a pktgen
/// sink, all on one thread.
pub struct TunnelRig {
    id: String,
    routers: [Host<Up>; 2],
    out: Arc<port::PortCounts>,
}

impl TunnelRig {
    /// Creates a rig with a tunnel of this kind, or with the bare link for `None`.
    ///
    /// # Errors
    /// Memory cannot be allocated, or a router rejected an address or a route.
    pub fn new(id: &str, kind: Option<Kind>) -> anyhow::Result<TunnelRig> {
        let pairs = Pairs::new();
        let (near, far) = (router("near")?, router("far")?);
        near.add_port(&iface("pktgen(random_dst=on,id=off,ttl=64):pg0", Ipv4Addr::new(1, 0, 0, 1)), &pairs)?;
        let to_far = near.add_port(&iface("pair:t", BETWEEN[0]), &pairs)?;
        let from_near = far.add_port(&iface("pair:t", BETWEEN[1]), &pairs)?;
        let out = far.add_port(&iface("pktgen(source=off):pg1", Ipv4Addr::new(3, 0, 0, 1)), &pairs)?;
        near.stack.set_neighbor(near.cx(), to_far, BETWEEN[1], far.mac_of("t"));
        far.stack.set_neighbor(far.cx(), from_near, BETWEEN[0], near.mac_of("t"));
        far.stack.set_neighbor(far.cx(), out, GATEWAY, Mac([0x12, 0x23, 0x34, 0x45, 0x57, 1]));
        default_route(&far, Via::Gateway(out, GATEWAY))?;
        match kind {
            None => default_route(&near, Via::Gateway(to_far, BETWEEN[1]))?,
            Some(kind) => {
                let into = tunnel(&near, kind, 0)?;
                tunnel(&far, kind, 1)?;
                default_route(&near, Via::Gateway(into, INSIDE[1]))?;
            }
        }
        let out = far.ports()[1].counts.clone();
        Ok(TunnelRig { id: id.to_owned(), routers: [near, far], out })
    }
}

fn router(name: &str) -> anyhow::Result<Host<Up>> {
    let config = HostConfig { name: name.to_owned(), ..HostConfig::default() };
    let host: Host<Up> = Host::new(&config, Clock::live(Strategy::TscScaled))?;
    host.stack.sysctls.forwarding.set(1);
    Ok(host)
}

fn default_route<L: Locks>(host: &Host<L>, via: Via) -> anyhow::Result<()> {
    let refused = |error| anyhow!("{error:?}");
    host.stack.add_route(host.cx(), Prefix::DEFAULT, via).map(drop).map_err(refused)
}

/// Adds end number `end` of the tunnel.
fn tunnel<L: Locks>(host: &Host<L>, kind: Kind, end: usize) -> anyhow::Result<IfaceId> {
    let (cx, name) = (host.cx(), format!("{}0", kind.name()));
    let id = host.stack.add_tunnel(cx, &name, kind, MACS[end]).context("cannot add the tunnel")?;
    let vni = u32::from(kind == Kind::Vxlan);
    let config = Config { local: BETWEEN[end].into(), remote: BETWEEN[1 - end].into(), vni, ..Config::new(kind) };
    host.stack.set_tunnel(cx, id, config).map_err(|refused| anyhow!("{refused:?}"))?;
    host.stack.add_addr(cx, id, IfaceAddr { addr: INSIDE[end], len: 30 }).map_err(|error| anyhow!("{error:?}"))?;
    if kind.is_ethernet() {
        host.stack.set_neighbor(cx, id, INSIDE[1 - end], MACS[1 - end]);
    }
    Ok(id)
}

impl Subject for TunnelRig {
    fn id(&self) -> &str {
        &self.id
    }

    fn trial(&mut self) -> anyhow::Result<Reading> {
        let before = self.out.tx.frames.get();
        let [near, far] = &self.routers;
        let (mut taken, mut empty) = (0, 0);
        let mut reading = measure(PACKETS, || {
            while taken < PACKETS {
                taken += near.step().frames as u64;
                far.step();
            }
            while self.out.tx.frames.get() - before < taken && empty < MOST_EMPTY {
                empty += u32::from(far.step().frames == 0);
            }
        });
        reading.ops = self.out.tx.frames.get() - before;
        self.routers.iter().try_for_each(|router| few_left(&self.id, router, reading.ops, taken))?;
        Ok(reading)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn frames_arrive_with_a_tunnel_and_without() {
        for kind in std::iter::once(None).chain(Kind::ALL.map(Some)) {
            let mut rig = TunnelRig::new("x", kind).unwrap();
            let ops = rig.trial().unwrap().ops;
            assert!(ops >= PACKETS * 999 / 1000);
            let decapsulated = rig.routers[1].stack.counter("inet.tunnel.decapsulated");
            assert_eq!(decapsulated >= ops, kind.is_some(), "{kind:?}");
        }
    }
}
