//! Fuzz target of the bridge: invariants that must be true for every byte string. The tests run it
//! too.
//!
//! The first bytes set up a bridge of four ports; the rest changes settings, advances time and
//! sends frames.
#![allow(
    clippy::unwrap_used,
    clippy::indexing_slicing,
    clippy::panic,
    reason = "broken invariants must panic; built for tests and fuzzing only"
)]

use crate::{
    Action, Admit, Bridge, BridgeConfig, Direction, Key, Leave, Member, PortNo, PortState, PortVlan, Querier, Rate,
    Reserved, RouterPort, Rule, Rules, Running, SnoopConfig, SnoopPort, Stacked, Storm, Unknown, VlanSet,
};
use buf::{Burst, Pool, PoolConfig};
use clock::{Duration, Instant};
use std::net::{Ipv4Addr, Ipv6Addr};
use wire::Mac;
use wire::eth::EtherType;

const PORTS: u8 = 4;
const BUFFERS: usize = 64;

struct Bytes<'a>(&'a [u8]);

impl Bytes<'_> {
    fn next(&mut self) -> Option<u8> {
        let (first, rest) = self.0.split_first()?;
        self.0 = rest;
        Some(*first)
    }

    fn port(&mut self) -> Option<PortNo> {
        Some(PortNo::from(self.next()? % PORTS))
    }

    fn take(&mut self, n: usize) -> &[u8] {
        let (these, rest) = self.0.split_at(n.min(self.0.len()));
        self.0 = rest;
        these
    }
}

/// Runs the fuzz target `bridge_input`. For any sequence of frames and settings, all frames must be
/// accounted for, the tables must remain within their bounds, and no buffer may be lost.
pub fn input(data: &[u8]) {
    let pool = Pool::new(&PoolConfig { buffers: BUFFERS, ..PoolConfig::default() }).unwrap();
    let mut bridge = Bridge::new(BridgeConfig::default());
    (0..PORTS).for_each(|_| assert!(bridge.add(Member::default()).is_some()));
    let (mut bytes, mut now) = (Bytes(data), Instant::ZERO);
    let mut out: Vec<Burst> = (0..PORTS).map(|_| Burst::new()).collect();
    while let Some(op) = bytes.next() {
        match op {
            0..128 => frames(&mut bridge, &pool, &mut bytes, now, &mut out),
            128..160 => now = now.after(Duration::from_millis(1 << (op - 128).min(18))),
            _ => drop(set(&mut bridge, op, &mut bytes, now)),
        }
        bridge.poll(now);
        answers(&mut bridge, &pool, &mut out);
        check(&bridge, now);
        out.iter_mut().for_each(Burst::clear);
    }
    while bridge.take_local().is_some() {}
    assert_eq!(pool.stats().live(), 0);
}

/// Sends a burst of up to four frames: raw bytes, or frames with valid source addresses, which pass
/// more checks.
fn frames(bridge: &mut Bridge, pool: &Pool, bytes: &mut Bytes<'_>, now: Instant, out: &mut [Burst]) {
    let (Some(from), Some(n)) = (bytes.port(), bytes.next()) else { return };
    let mut burst = Burst::new();
    for _ in 0..=n % 4 {
        let (Some(len), Some(mut frame)) = (bytes.next(), pool.get()) else { break };
        frame.extend(bytes.take(usize::from(len))).unwrap();
        if n & 4 != 0
            && let Some(head) = frame.bytes_mut().first_chunk_mut::<12>()
        {
            head[6..].copy_from_slice(&[2, 0, 0, 0, 0, n >> 4]);
        }
        burst.push(frame).unwrap();
    }
    bridge.input(from, &mut burst, now, out);
    assert!(burst.is_empty());
}

/// Takes local frames and queries from the bridge, and sends the queries.
fn answers(bridge: &mut Bridge, pool: &Pool, out: &mut [Burst]) {
    drop(bridge.take_local());
    while let Some(query) = bridge.take_query() {
        let Some(mut frame) = pool.get() else { return };
        frame.extend(query.bytes()).unwrap();
        bridge.send_all(frame, query.vid, out);
    }
    while bridge.take_move().is_some() {}
}

fn check(bridge: &Bridge, now: Instant) {
    assert!(bridge.audit().holds(), "{:?}", bridge.audit());
    for counts in bridge.counts() {
        assert_eq!(counts.received, counts.forwarded + counts.flooded + counts.dropped + counts.local);
    }
    let shares: u32 = (0..PORTS).map(|port| bridge.fdb().addresses(port.into())).sum();
    assert!(shares as usize <= bridge.fdb().len());
    assert!(bridge.mdb(None, usize::MAX, now).listeners.len() <= 8);
}

fn set(bridge: &mut Bridge, op: u8, bytes: &mut Bytes<'_>, now: Instant) -> Option<()> {
    let (port, value) = (bytes.port()?, bytes.next()?);
    let bit = |n: u8| value >> n & 1 != 0;
    match op % 10 {
        0 => bridge.set_vlan_filtering([None, Some(EtherType::VLAN), Some(EtherType::QINQ)][usize::from(value % 3)]),
        1 => bridge.set_port_vlan(port, vlan(value, bytes.next()?, bytes.next()?)),
        2 => {
            let states = [PortState::Disabled, PortState::Discarding, PortState::Learning, PortState::Forwarding];
            bridge.set_state(port, states[usize::from(value % 4)]);
        }
        3 => {
            bridge.set_reserved(if bit(0) { Reserved::Local } else { Reserved::Drop });
            bridge
                .set_running([Running::Up, Running::Monitor, Running::Down, Running::Up][usize::from(value >> 1 & 3)]);
            bridge.set_spanned(port, bit(3));
            if bit(4) {
                bridge.set_address(Mac([2, 0, 0, 0, 0, value & 15]), now);
            }
        }
        4 => {
            let rate = Some(Rate { per_second: value.into(), burst: 2 }).filter(|_| !bit(7));
            bridge.set_storm(port, Storm { broadcast: rate, multicast: rate, unknown: rate });
        }
        5 => bridge.set_snooping(bit(0).then(|| snooping(value)), now),
        6 => {
            let leave = if bit(0) { Leave::Fast } else { Leave::Asked };
            let router = [RouterPort::Learned, RouterPort::Always, RouterPort::Never][usize::from(value % 3)];
            bridge.set_snoop_port(port, SnoopPort { leave, router });
        }
        7 => {
            let rule = Rule::new("vlan or multicast", Action::Drop).unwrap();
            let direction = if bit(0) { Direction::In } else { Direction::Out };
            bridge.set_rules(port, direction, Rules::new(vec![rule], Action::Pass).filter(|_| bit(1)));
        }
        8 => {
            let (span, private, sticky) = (bit(0), bit(1), bit(2));
            let (multicast, broadcast, discover, learn) = (bit(3), bit(4), bit(5), bit(6));
            let cluster = u16::from(bit(7));
            let member =
                Member { learn, discover, multicast, broadcast, sticky, private, span, cluster, carrier: true };
            bridge.set_member(port, member);
        }
        _ => {
            let key = Key::new(u16::from(value >> 6), Mac([2, 0, 0, 0, 0, value & 15]));
            match value >> 4 & 3 {
                0 => drop(bridge.fdb_mut().insert_local(key, now)),
                1 => drop(bridge.fdb_mut().insert_static(key, port, now)),
                2 => bridge.fdb_mut().set_limit(port, Some(u32::from(value & 15))),
                _ => drop(bridge.fdb_mut().flush(|entry| entry.port == port, now)),
            }
        }
    }
    Some(())
}

/// Returns VLAN settings of a port; the bits of `member` and `untagged` represent VLANs 0 to 7.
fn vlan(pvid: u8, member: u8, untagged: u8) -> PortVlan {
    let set = |bits: u8| (0..8).filter(|n| bits >> n & 1 != 0).collect::<VlanSet>();
    PortVlan {
        pvid: u16::from(pvid & 7),
        member: set(member),
        untagged: set(untagged),
        admit: [Admit::All, Admit::All, Admit::Tagged, Admit::Untagged][usize::from(pvid >> 3 & 3)],
        ingress_filter: pvid & 32 == 0,
        stacked: if pvid & 64 == 0 { Stacked::Refuse } else { Stacked::Pass },
    }
}

fn snooping(value: u8) -> SnoopConfig {
    let querier = Querier {
        mac: Mac([2, 0, 0, 0, 0, 15]),
        v4: Some(Ipv4Addr::new(10, 0, 0, value)),
        v6: Some(Ipv6Addr::new(0xfe80, 0, 0, 0, 0, 0, 0, 1)),
        vids: vec![0, 1],
        interval: Duration::from_secs(value.into()),
    };
    let unknown = if value & 2 != 0 { Unknown::Routers } else { Unknown::Flood };
    SnoopConfig { most: 8, unknown, querier: Some(querier).filter(|_| value & 4 != 0), ..SnoopConfig::default() }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn the_corpus() {
        let dir = std::path::PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../fuzz/corpus/bridge_input");
        let mut seeds = 0;
        for file in std::fs::read_dir(dir).unwrap() {
            input(&std::fs::read(file.unwrap().path()).unwrap());
            seeds += 1;
        }
        assert!(seeds > 0);
    }

    proptest! {
        #[test]
        fn junk(data in prop::collection::vec(prop_oneof![any::<u8>(), 0..16_u8, 128..200_u8], 0..400)) {
            input(&data);
        }
    }
}
