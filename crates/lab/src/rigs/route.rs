//! Forwarding: pktgen to pktgen through a host with many routes.

use crate::subject::{Reading, Subject, measure};
use anyhow::{anyhow, ensure};
use clock::{Clock, Strategy};
use inet::fib::Prefix;
use inet::iface::{IfaceAddr, IfaceId};
use inet::route::Via;
use lock::Up;
use node::Host;
use node::config::{HostConfig, IfaceConfig};
use port::Pairs;
use std::net::Ipv4Addr;
use wire::Mac;

const PACKETS: u64 = 20_000;
const GATEWAYS: u8 = 16;

/// Pseudo-random prefixes with the lengths of the Internet's table: three of five are /24, most others /16 to /23.
pub(crate) fn prefixes(n: usize) -> impl Iterator<Item = Prefix> {
    let mut state = 0x9e37_79b9_7f4a_7c15u64;
    let mut draw = move || {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        (state >> 32) as u32
    };
    let mut seen = std::collections::HashSet::new();
    std::iter::repeat_with(move || {
        let len = match draw() % 100 {
            0..60 => 24,
            60..97 => 16 + (draw() % 8) as u8,
            97..99 => 9 + (draw() % 7) as u8,
            _ => 25 + (draw() % 8) as u8,
        };
        // 3.0.0.0 to 223.255.255.255 without 127/8: not the rig's own networks, not martian.
        let addr = 0x0300_0000 + draw() % 0xdd00_0000;
        Prefix::new(Ipv4Addr::from(addr), len).ok()
    })
    .flatten()
    .filter(|prefix| {
        let first = prefix.addr().octets()[0];
        (3..224).contains(&first) && first != 127
    })
    .filter(move |prefix| seen.insert((prefix.addr(), prefix.len())))
    .take(n)
}

/// One router.
pub struct RouteRig {
    id: String,
    host: Host<Up>,
    out: std::sync::Arc<port::PortCounts>,
}

impl RouteRig {
    /// With `routes` routes through sixteen gateways; destinations are random over all unicast addresses.
    ///
    /// # Errors
    /// The port's, or a table refused an entry.
    pub fn new(id: &str, routes: usize) -> anyhow::Result<RouteRig> {
        let config = HostConfig { name: "router".to_owned(), ..HostConfig::default() };
        let host: Host<Up> = Host::new(&config, Clock::live(Strategy::TscScaled))?;
        let iface = |spec: &str, first: u8| IfaceConfig {
            addresses: vec![IfaceAddr { addr: Ipv4Addr::new(first, 0, 0, 1), len: 24 }],
            rxcsum: Some(false),
            ..IfaceConfig::on(spec)
        };
        host.add_port(&iface("pktgen(random_dst=on,id=off,ttl=64):pg0", 1), &Pairs::new())?;
        let out = host.add_port(&iface("pktgen(source=off):pg1", 2), &Pairs::new())?;
        let cx = host.cx();
        host.stack.knobs.forwarding.set(1);
        for g in 0..GATEWAYS {
            host.stack.set_neighbor(cx, out, gateway(g), Mac([0x12, 0x23, 0x34, 0x45, 0x57, g]));
        }
        fill(&host, out, routes)?;
        let counts = host.ports()[1].counts.clone();
        Ok(RouteRig { id: id.to_owned(), host, out: counts })
    }
}

fn gateway(g: u8) -> Ipv4Addr {
    Ipv4Addr::new(2, 0, 0, 10 + g)
}

fn fill(host: &Host<Up>, out: IfaceId, routes: usize) -> anyhow::Result<()> {
    let via = |i: usize| Via::Gateway(out, gateway((i % usize::from(GATEWAYS)) as u8));
    host.stack.with_routes(host.cx(), |table| {
        table.insert(Prefix::DEFAULT, via(0)).map_err(|error| anyhow!("{error:?}"))?;
        for (i, prefix) in prefixes(routes.saturating_sub(1)).enumerate() {
            table.insert(prefix, via(i)).map_err(|error| anyhow!("{error:?}"))?;
        }
        Ok(())
    })
}

impl Subject for RouteRig {
    fn id(&self) -> &str {
        &self.id
    }

    fn trial(&mut self) -> anyhow::Result<Reading> {
        let before = self.out.tx.frames.get();
        let mut forwarded = 0;
        let mut reading = measure(PACKETS, || {
            while forwarded < PACKETS {
                forwarded += self.host.step().frames as u64;
            }
        });
        reading.ops = self.out.tx.frames.get() - before;
        let audit = self.host.stack.audit(self.host.cx());
        // A few random destinations lie in the router's own networks; they are not forwarded, and counted.
        ensure!(audit.imbalance() == 0 && reading.ops * 1000 >= forwarded * 999, "{}: {audit:?}", self.id);
        Ok(reading)
    }
}
