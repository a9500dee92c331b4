//! Compares the bridge, frame by frame, with a simple model that follows the clauses of the
//! standard and is built on maps and vectors.

use super::*;
use std::collections::HashMap;

const PORTS: usize = 4;

#[derive(Debug, Clone)]
struct Port {
    state: PortState,
    vlan: PortVlan,
    private: bool,
    limit: Option<u32>,
}

#[derive(Debug, Clone)]
struct Setup {
    filtering: bool,
    local: bool,
    ports: Vec<Port>,
}

#[derive(Debug, Clone)]
struct Sent {
    from: u16,
    dst: u8,
    src: u8,
    tag: Option<u16>,
    inner: bool,
}

impl Sent {
    fn address(n: u8) -> [u8; 6] {
        match n {
            6 => ALL,
            7 => [1, 0, 0x5e, 0, 0, 9],
            8 => [1, 0x80, 0xc2, 0, 0, 2],
            n => station(n),
        }
    }

    fn bytes(&self) -> Vec<u8> {
        let mut frame = [Sent::address(self.dst), Sent::address(self.src)].concat();
        if let Some(control) = self.tag {
            frame.extend([0x81, 0]);
            frame.extend(control.to_be_bytes());
            if self.inner {
                frame.extend([0x81, 0, 0, 2]);
            }
        }
        frame.extend([0x88, 0xb5]);
        frame.resize(frame.len() + 46, 0);
        frame
    }
}

#[derive(Default)]
struct Model {
    known: HashMap<(u16, [u8; 6]), usize>,
    local: usize,
    dropped: u64,
}

impl Model {
    fn open(setup: &Setup, port: usize) -> bool {
        setup.ports[port].state == PortState::Forwarding
    }

    fn input(&mut self, setup: &Setup, sent: &Sent) -> Vec<Vec<Vec<u8>>> {
        let mut out = vec![Vec::new(); PORTS];
        if self.pass(setup, sent, &mut out).is_none() {
            self.dropped += 1;
        }
        out
    }

    fn pass(&mut self, setup: &Setup, sent: &Sent, out: &mut [Vec<Vec<u8>>]) -> Option<()> {
        let (from, dst, src) = (usize::from(sent.from), Sent::address(sent.dst), Sent::address(sent.src));
        let port = &setup.ports[from];
        if src[0] & 1 != 0 {
            return None;
        }
        if sent.dst == 8 {
            if port.state == PortState::Disabled || !setup.local {
                return None;
            }
            self.local += 1;
            return Some(());
        }
        if matches!(port.state, PortState::Disabled | PortState::Discarding) {
            return None;
        }
        let vid = if setup.filtering { Model::vid(&port.vlan, sent)? } else { 0 };
        let here = self.known.values().filter(|at| **at == from).count() as u32;
        let full = port.limit.is_some_and(|limit| here >= limit);
        if self.known.get(&(vid, src)) != Some(&from) {
            if full {
                return None;
            }
            self.known.insert((vid, src), from);
        }
        if port.state == PortState::Learning {
            return None;
        }
        let apart = |to: usize| port.private && setup.ports[to].private;
        let takes = |to: usize| {
            to != from
                && !apart(to)
                && Model::open(setup, to)
                && (!setup.filtering || setup.ports[to].vlan.member.contains(vid))
        };
        let known = self.known.get(&(vid, dst)).copied().filter(|_| dst[0] & 1 == 0);
        let ports: Vec<usize> =
            known.map_or((0..PORTS).collect(), |at| vec![at]).into_iter().filter(|to| takes(*to)).collect();
        for to in &ports {
            out[*to].push(Model::leaving(setup, *to, vid, sent));
        }
        (!ports.is_empty()).then_some(())
    }

    fn vid(vlan: &PortVlan, sent: &Sent) -> Option<u16> {
        let said = sent.tag.map_or(0, |control| control & 0xfff);
        if said == 0xfff || (sent.tag.is_some() && sent.inner && vlan.stacked == Stacked::Refuse) {
            return None;
        }
        let admitted = match vlan.admit {
            Admit::All => true,
            Admit::Tagged => said != 0,
            Admit::Untagged => said == 0,
        };
        let vid = if said == 0 { vlan.pvid } else { said };
        (admitted && vid != 0 && (!vlan.ingress_filter || vlan.member.contains(vid))).then_some(vid)
    }

    fn leaving(setup: &Setup, to: usize, vid: u16, sent: &Sent) -> Vec<u8> {
        let mut frame = sent.bytes();
        if !setup.filtering {
            return frame;
        }
        if sent.tag.is_some() {
            frame.drain(12..16);
        }
        if !setup.ports[to].vlan.untagged.contains(vid) {
            let [a, b] = (sent.tag.unwrap_or(0) & 0xf000 | vid).to_be_bytes();
            frame.splice(12..12, [0x81, 0, a, b]);
        }
        frame
    }
}

fn port() -> impl Strategy<Value = Port> {
    let state = prop_oneof![
        6 => Just(PortState::Forwarding),
        1 => Just(PortState::Learning),
        1 => Just(PortState::Discarding),
        1 => Just(PortState::Disabled),
    ];
    let admit = prop_oneof![3 => Just(Admit::All), 1 => Just(Admit::Tagged), 1 => Just(Admit::Untagged)];
    let vids = || prop::collection::vec(1..4_u16, 0..4).prop_map(|vids| vids.into_iter().collect::<VlanSet>());
    let stacked = prop_oneof![Just(Stacked::Pass), Just(Stacked::Refuse)];
    let vlan = (0..4_u16, vids(), vids(), admit, prop::bool::weighted(0.7), stacked).prop_map(
        |(pvid, member, untagged, admit, ingress_filter, stacked)| PortVlan {
            pvid,
            member,
            untagged,
            admit,
            ingress_filter,
            stacked,
        },
    );
    (state, vlan, prop::bool::weighted(0.3), prop::option::weighted(0.2, 0..4_u32))
        .prop_map(|(state, vlan, private, limit)| Port { state, vlan, private, limit })
}

fn traffic() -> impl Strategy<Value = Vec<Sent>> {
    let tag =
        prop::option::of((0..5_u16, 0..16_u16).prop_map(|(vid, top)| top << 12 | if vid == 4 { 0xfff } else { vid }));
    let sent = (0..PORTS as u16, 0..9_u8, 0..7_u8, tag, prop::bool::weighted(0.2))
        .prop_map(|(from, dst, src, tag, inner)| Sent { from, dst, src, tag, inner });
    prop::collection::vec(sent, 1..80)
}

fn build(setup: &Setup) -> Lan {
    let members: Vec<Member> =
        setup.ports.iter().map(|port| Member { private: port.private, ..Member::default() }).collect();
    let mut lan = Lan::new(&members, 2048);
    lan.bridge.set_mute(None);
    lan.bridge.set_vlan_filtering(setup.filtering.then_some(EtherType::VLAN));
    lan.bridge.set_reserved(if setup.local { Reserved::Local } else { Reserved::Drop });
    for (number, port) in (0..).zip(&setup.ports) {
        lan.bridge.set_state(number, port.state);
        lan.bridge.set_port_vlan(number, port.vlan.clone());
        lan.bridge.fdb_mut().set_limit(number, port.limit);
    }
    lan
}

fn left(lan: &mut Lan) -> Vec<Vec<Vec<u8>>> {
    let out =
        lan.out.iter().map(|burst| burst.as_slice().iter().map(|frame| frame.bytes().to_vec()).collect()).collect();
    lan.left();
    out
}

proptest! {
    #[test]
    fn the_bridge_agrees_with_the_model(
        filtering: bool, local: bool, ports in prop::collection::vec(port(), PORTS), traffic in traffic(),
    ) {
        let setup = Setup { filtering, local, ports };
        let (mut lan, mut model) = (build(&setup), Model::default());
        for sent in &traffic {
            lan.send(sent.from, &[sent.bytes()], Instant::ZERO);
            prop_assert_eq!(left(&mut lan), model.input(&setup, sent), "{:?}", sent);
        }
        let locals = std::iter::from_fn(|| lan.bridge.take_local()).count();
        prop_assert_eq!((locals, lan.bridge.drops().total()), (model.local, model.dropped));
        prop_assert_eq!(lan.bridge.fdb().len(), model.known.len());
        prop_assert_eq!(lan.pool.stats().live(), 0);
        for counts in lan.bridge.counts() {
            prop_assert_eq!(counts.received, counts.forwarded + counts.flooded + counts.dropped + counts.local);
        }
    }

    /// Sends the frames of one port as one burst, or one by one.
    #[test]
    fn a_burst_equals_its_single_frames_in_all_setups(
        filtering: bool, ports in prop::collection::vec(port(), PORTS), traffic in prop::collection::vec((0..PORTS as u16, traffic()), 1..5),
    ) {
        let setup = Setup { filtering, local: false, ports };
        let (mut together, mut apart) = (build(&setup), build(&setup));
        for (from, sent) in traffic {
            let frames: Vec<Vec<u8>> = sent.iter().map(Sent::bytes).collect();
            together.send(from, &frames, Instant::ZERO);
            frames.iter().for_each(|frame| apart.send(from, std::slice::from_ref(frame), Instant::ZERO));
            prop_assert_eq!(left(&mut together), left(&mut apart));
        }
        prop_assert_eq!(together.bridge.audit(), apart.bridge.audit());
        prop_assert_eq!(together.bridge.drops().nonzero(), apart.bridge.drops().nonzero());
    }
}
