use super::*;
use clock::Duration;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use wire::{Proto, checksum, igmp, ip4, ip6};

pub const GROUP: Ipv4Addr = Ipv4Addr::new(239, 1, 2, 3);
const ROUTER: Ipv4Addr = Ipv4Addr::new(10, 0, 0, 1);
const HOST: Ipv4Addr = Ipv4Addr::new(10, 0, 0, 9);
const GROUP6: Ipv6Addr = Ipv6Addr::new(0xff05, 0, 0, 0, 0, 0, 0, 0x123);
const LOCAL6: Ipv6Addr = Ipv6Addr::new(0xfe80, 0, 0, 0, 0, 0, 0, 9);

fn secs(n: u64) -> Instant {
    Instant::from_millis(1000 * n)
}

fn four(src: Ipv4Addr, dst: Ipv4Addr, proto: Proto, payload: &[u8]) -> Vec<u8> {
    let mut frame = [&Mac::multicast4(dst).0[..], &station(1), &[8, 0], &[0; 20], payload].concat();
    ip4::Header::new(src, dst, proto, payload.len()).unwrap().emit(frame[14..].first_chunk_mut().unwrap());
    frame.resize(frame.len().max(60), 0);
    frame
}

pub fn report(group: Ipv4Addr) -> Vec<u8> {
    four(HOST, group, Proto::IGMP, &igmp::Message::Report { group }.emit())
}

pub fn leave(group: Ipv4Addr) -> Vec<u8> {
    four(HOST, Ipv4Addr::new(224, 0, 0, 2), Proto::IGMP, &igmp::Message::Leave { group }.emit())
}

pub fn query(src: Ipv4Addr, group: Ipv4Addr) -> Vec<u8> {
    four(src, Ipv4Addr::new(224, 0, 0, 1), Proto::IGMP, &igmp::v3::query(group, 10, 2, 125))
}

pub fn data(group: Ipv4Addr) -> Vec<u8> {
    four(HOST, group, Proto::UDP, &[0; 20])
}

pub fn v3(records: &[u8], n: u8) -> Vec<u8> {
    let mut message = [&[0x22, 0, 0, 0, 0, 0, 0, n][..], records].concat();
    let sum = checksum::sum(&message).finish();
    message[2..4].copy_from_slice(&sum.to_be_bytes());
    four(HOST, Ipv4Addr::new(224, 0, 0, 22), Proto::IGMP, &message)
}

fn six(src: Ipv6Addr, dst: Ipv6Addr, hop_limit: u8, next: Proto, payload: &[u8]) -> Vec<u8> {
    let [.., a, b, c, d] = dst.octets();
    let mut frame = [&[0x33, 0x33, a, b, c, d][..], &station(1), &[0x86, 0xdd], &[0; 40], payload].concat();
    let payload_len = payload.len() as u16;
    ip6::Header { traffic_class: 0, flow_label: 0, payload_len, next, hop_limit, src, dst }
        .emit(frame[14..].first_chunk_mut().unwrap());
    frame
}

fn mld(ty: u8, src: Ipv6Addr, dst: Ipv6Addr, hop_limit: u8, group: Ipv6Addr) -> Vec<u8> {
    let mut message = [&[ty, 0, 0, 0, 0x03, 0xe8, 0, 0][..], &group.octets()].concat();
    let pseudo = checksum::Partial::pseudo6(src, dst, Proto::IPV6_ICMP, message.len() as u32);
    let sum = pseudo.add_at(0, checksum::sum(&message)).finish();
    message[2..4].copy_from_slice(&sum.to_be_bytes());
    six(src, dst, hop_limit, Proto::IPV6_ICMP, &message)
}

/// Returns a bridge with four ports and a router on port 3.
fn lan(config: SnoopConfig) -> Lan {
    let mut lan = Lan::new(&[Member::default(); 4], 64);
    lan.bridge.set_mute(None);
    lan.bridge.set_snooping(Some(config), secs(0));
    assert_eq!(at(&mut lan, 3, query(ROUTER, Ipv4Addr::UNSPECIFIED), 0), [1, 1, 1, 0]);
    lan
}

fn at(lan: &mut Lan, from: PortNo, frame: Vec<u8>, now: u64) -> Vec<usize> {
    lan.bridge.poll(secs(now));
    lan.send(from, &[frame], secs(now));
    lan.left()
}

#[test]
fn groups_are_forwarded_to_members_only() {
    let mut lan = lan(SnoopConfig::default());
    assert_eq!(at(&mut lan, 0, data(GROUP), 1), [0, 1, 1, 1], "no known listener: flooded");
    assert_eq!(at(&mut lan, 1, report(GROUP), 1), [0, 0, 0, 1], "a report goes to router ports");
    assert_eq!(at(&mut lan, 0, data(GROUP), 2), [0, 1, 0, 1]);
    assert_eq!(at(&mut lan, 1, data(GROUP), 2), [0, 0, 0, 1]);
    assert_eq!(at(&mut lan, 0, data(Ipv4Addr::new(239, 1, 2, 4)), 2), [0, 1, 1, 1]);
    let v1 = igmp::Message::ReportV1 { group: GROUP }.emit();
    assert_eq!(at(&mut lan, 2, four(HOST, GROUP, Proto::IGMP, &v1), 3), [0, 0, 0, 1]);
    assert_eq!(at(&mut lan, 0, data(GROUP), 3), [0, 1, 1, 1]);
    // The router queries the group, and only port 1 answers.
    assert_eq!(at(&mut lan, 2, leave(GROUP), 10), [0, 0, 0, 1]);
    assert_eq!(at(&mut lan, 3, query(ROUTER, GROUP), 10), [1, 1, 1, 0]);
    assert_eq!(at(&mut lan, 1, report(GROUP), 11), [0, 0, 0, 1]);
    assert_eq!(at(&mut lan, 0, data(GROUP), 12), [0, 1, 0, 1]);
    // With `Leave::Fast` the leave takes effect at once.
    lan.bridge.set_snoop_port(1, SnoopPort { leave: Leave::Fast, ..SnoopPort::default() });
    at(&mut lan, 2, report(GROUP), 13);
    at(&mut lan, 1, leave(GROUP), 13);
    assert_eq!(at(&mut lan, 0, data(GROUP), 13), [0, 0, 1, 1]);
    let page = lan.bridge.mdb(None, 10, secs(13));
    let only = Listener { vid: 0, group: GROUP.into(), port: 2, left: Duration::from_secs(260) };
    assert_eq!((page.listeners, page.next), (vec![only], None));
    at(&mut lan, 3, query(ROUTER, Ipv4Addr::UNSPECIFIED), 200);
    assert_eq!(at(&mut lan, 0, data(GROUP), 274), [0, 1, 1, 1], "forgotten");
    let counts = lan.bridge.snoop_counts();
    assert_eq!((counts.reports, counts.leaves, counts.queries, counts.malformed), (4, 2, 3, 0));
}

#[test]
fn version_3_reports_are_applied() {
    let mut lan = lan(SnoopConfig::default());
    let exclude = |kind: u8, last: u8| [kind, 0, 0, 0, 239, 1, 2, last];
    let sources = [5, 0, 0, 1, 239, 1, 2, 5, 10, 0, 0, 1];
    let records = [&exclude(4, 3)[..], &sources, &exclude(2, 4)].concat();
    assert_eq!(at(&mut lan, 1, v3(&records, 3), 1), [0, 0, 0, 1]);
    for last in 3..6 {
        assert_eq!(at(&mut lan, 0, data(Ipv4Addr::new(239, 1, 2, last)), 1), [0, 1, 0, 1]);
    }
    lan.bridge.set_snoop_port(1, SnoopPort { leave: Leave::Fast, ..SnoopPort::default() });
    at(&mut lan, 1, v3(&[exclude(3, 3), exclude(6, 4)].concat(), 2), 1);
    assert_eq!(at(&mut lan, 0, data(GROUP), 1), [0, 1, 1, 1], "left");
    assert_eq!(at(&mut lan, 0, data(Ipv4Addr::new(239, 1, 2, 4)), 1), [0, 1, 0, 1], "listens to some sources");
    assert_eq!(at(&mut lan, 1, v3(&records, 4), 1), [0; 4], "fewer records than the header states");
    assert_eq!((lan.dropped(DropReason::BridgeSnoopMalformed), lan.bridge.snoop_counts().malformed), (1, 1));
}

#[test]
fn unknown_groups_go_to_routers_and_link_local_ones_to_all() {
    let mut lan = lan(SnoopConfig { unknown: Unknown::Routers, ..SnoopConfig::default() });
    assert_eq!(at(&mut lan, 0, data(GROUP), 1), [0, 0, 0, 1]);
    let mdns = Ipv4Addr::new(224, 0, 0, 251);
    assert_eq!(at(&mut lan, 1, report(mdns), 1), [0, 0, 0, 1]);
    assert_eq!(at(&mut lan, 0, data(mdns), 1), [0, 1, 1, 1], "link-local groups are flooded");
    assert_eq!(at(&mut lan, 0, bytes(ALL, station(1)), 1), [0, 1, 1, 1]);
    assert_eq!(at(&mut lan, 0, bytes([1, 0, 0x5e, 1, 2, 3], station(1)), 1), [0, 1, 1, 1], "not IP");
    assert_eq!(
        at(&mut lan, 0, four(HOST, GROUP, Proto::IGMP, &[0x13, 0, 0xec, 0xff, 0, 0, 0, 0]), 1),
        [0, 1, 1, 1],
        "DVMRP"
    );
    let mut wrong = report(GROUP);
    wrong[37] ^= 1;
    assert_eq!(at(&mut lan, 1, wrong, 1), [0; 4]);
    let mut wrong = report(GROUP);
    wrong[24] ^= 1;
    assert_eq!(at(&mut lan, 1, wrong, 1), [0; 4]);
    assert_eq!(at(&mut lan, 1, report(HOST), 1), [0, 0, 1, 1].map(|_| 0), "no group");
    assert_eq!(lan.dropped(DropReason::BridgeSnoopMalformed), 3);
    assert!(lan.bridge.mdb(None, 10, secs(1)).listeners.is_empty());
    // Without a querier, stations do not repeat their reports, so everything is flooded.
    assert_eq!(at(&mut lan, 0, data(GROUP), 254), [0, 0, 0, 1]);
    assert_eq!(at(&mut lan, 0, data(GROUP), 255), [0, 1, 1, 1]);
}

#[test]
fn router_ports_are_learned_or_configured() {
    let mut lan = Lan::new(&[Member::default(); 4], 64);
    lan.bridge.set_snooping(Some(SnoopConfig { unknown: Unknown::Routers, ..SnoopConfig::default() }), secs(0));
    at(&mut lan, 0, query(Ipv4Addr::UNSPECIFIED, Ipv4Addr::UNSPECIFIED), 0);
    assert_eq!(at(&mut lan, 1, report(GROUP), 1), [0; 4], "a querier without an address is not a router");
    assert_eq!(lan.dropped(DropReason::BridgeNowhere), 1);
    assert_eq!(
        at(&mut lan, 2, four(ROUTER, Ipv4Addr::new(224, 0, 0, 13), Proto(103), &[0x20, 0, 0, 0]), 1),
        [1, 1, 0, 1]
    );
    assert_eq!(at(&mut lan, 1, report(GROUP), 1), [0, 0, 1, 0]);
    let ports: Vec<_> = lan.bridge.router_ports(secs(2)).collect();
    assert_eq!(ports, [(0, 2, Duration::from_secs(254))]);
    let port = |router| SnoopPort { router, ..SnoopPort::default() };
    lan.bridge.set_snoop_port(2, port(RouterPort::Never));
    lan.bridge.set_snoop_port(3, port(RouterPort::Always));
    assert_eq!(at(&mut lan, 1, report(GROUP), 1), [0, 0, 0, 1]);
    assert_eq!(at(&mut lan, 0, data(GROUP), 1), [0, 1, 0, 1]);
    // A port with multicast flooding disabled gets only groups that it has joined.
    lan.bridge.set_snooping(Some(SnoopConfig::default()), secs(2));
    lan.bridge.set_member(2, Member { multicast: false, ..Member::default() });
    assert_eq!(at(&mut lan, 0, query(ROUTER, Ipv4Addr::UNSPECIFIED), 2), [0, 1, 1, 1], "but queries are sent to it");
    assert_eq!(at(&mut lan, 1, data(GROUP), 2), [1, 0, 0, 1]);
}

#[test]
fn listeners_of_ipv6() {
    let mut lan = Lan::new(&[Member::default(); 4], 64);
    lan.bridge.set_snooping(Some(SnoopConfig::default()), secs(0));
    let all = Ipv6Addr::new(0xff02, 0, 0, 0, 0, 0, 0, 1);
    let udp = |dst| six(LOCAL6, dst, 9, Proto::UDP, &[0; 8]);
    assert_eq!(at(&mut lan, 3, mld(130, LOCAL6, all, 1, Ipv6Addr::UNSPECIFIED), 0), [1, 1, 1, 0]);
    assert_eq!(at(&mut lan, 1, mld(131, LOCAL6, GROUP6, 1, GROUP6), 1), [0, 0, 0, 1]);
    assert_eq!(at(&mut lan, 0, udp(GROUP6), 1), [0, 1, 0, 1]);
    assert_eq!(at(&mut lan, 0, udp(all), 1), [0, 1, 1, 1]);
    assert_eq!(at(&mut lan, 0, data(GROUP), 1), [0, 1, 1, 1], "no querier for IPv4");
    for bad in [
        mld(131, LOCAL6, GROUP6, 2, GROUP6),
        mld(131, GROUP6, GROUP6, 1, GROUP6),
        mld(130, Ipv6Addr::UNSPECIFIED, all, 1, all),
    ] {
        assert_eq!(at(&mut lan, 1, bad, 1), [0; 4]);
    }
    assert_eq!(at(&mut lan, 2, mld(131, Ipv6Addr::UNSPECIFIED, GROUP6, 1, GROUP6), 2), [0, 0, 0, 1]);
    assert_eq!(at(&mut lan, 0, udp(GROUP6), 2), [0, 1, 1, 1]);
    lan.bridge.set_snoop_port(1, SnoopPort { leave: Leave::Fast, ..SnoopPort::default() });
    at(&mut lan, 1, mld(132, LOCAL6, Ipv6Addr::new(0xff02, 0, 0, 0, 0, 0, 0, 2), 1, GROUP6), 2);
    assert_eq!(at(&mut lan, 0, udp(GROUP6), 2), [0, 0, 1, 1]);
    assert_eq!(lan.bridge.snoop_counts().malformed, 3);
}

fn asking() -> SnoopConfig {
    let querier = Querier {
        mac: Mac(station(0x77)),
        v4: Some(Ipv4Addr::new(10, 0, 0, 5)),
        v6: Some(LOCAL6),
        vids: vec![0],
        interval: Duration::from_secs(125),
    };
    SnoopConfig { querier: Some(querier), ..SnoopConfig::default() }
}

#[test]
fn the_querier_sends_queries_and_yields() {
    let mut lan = Lan::new(&[Member::default(); 3], 64);
    lan.bridge.set_snooping(Some(asking()), secs(0));
    let mut requested = Vec::new();
    for now in 0..300 {
        lan.bridge.poll(secs(now));
        while let Some(query) = lan.bridge.take_query() {
            requested.push((now, query.bytes()[12] == 8));
            let mut frame = lan.pool.get().unwrap();
            frame.extend(query.bytes()).unwrap();
            lan.bridge.send_all(frame, query.vid, &mut lan.out);
            // Another bridge accepts the query.
            let mut other = Lan::new(&[Member::default(); 2], 4);
            other.bridge.set_snooping(Some(SnoopConfig::default()), secs(0));
            assert_eq!(at(&mut other, 0, query.bytes().to_vec(), 1), [0, 1]);
            assert_eq!((other.bridge.snoop_counts().queries, other.bridge.router_ports(secs(1)).count()), (1, 1));
            assert_eq!(lan.left(), [1, 1, 1]);
        }
    }
    assert_eq!(requested.iter().filter(|(_, four)| *four).map(|(at, _)| *at).collect::<Vec<_>>(), [0, 32, 157, 282]);
    assert_eq!(requested.iter().filter(|(_, four)| !four).count(), 4);
    assert_eq!(lan.bridge.snoop_counts().requested, 8);
    // After a leave, the group is queried twice; listeners that do not answer expire.
    for port in [0, 1] {
        at(&mut lan, port, report(GROUP), 300);
    }
    at(&mut lan, 0, leave(GROUP), 301);
    at(&mut lan, 0, leave(GROUP), 301);
    let about = |lan: &mut Lan, now| {
        lan.bridge.poll(secs(now));
        std::iter::from_fn(|| lan.bridge.take_query()).map(|query| query.bytes()[42..46].to_vec()).collect::<Vec<_>>()
    };
    assert_eq!([301, 302].map(|now| about(&mut lan, now).len()), [1, 1]);
    assert_eq!(at(&mut lan, 2, data(GROUP), 302), [1, 1, 0]);
    assert_eq!(about(&mut lan, 303).len(), 0);
    assert_eq!(at(&mut lan, 2, data(GROUP), 303), [0, 1, 0]);
    // A querier with a lower address is elected, one with a higher address is not.
    for (last, asks) in [(9, 1), (2, 0)] {
        lan.bridge.set_snooping(Some(asking()), secs(400));
        at(&mut lan, 2, query(Ipv4Addr::new(10, 0, 0, last), Ipv4Addr::UNSPECIFIED), 399);
        lan.bridge.poll(secs(400));
        let requested = std::iter::from_fn(|| lan.bridge.take_query()).filter(|query| query.bytes()[12] == 8).count();
        assert_eq!(requested, asks);
    }
}

#[test]
fn a_full_table_falls_back_to_flooding() {
    let mut lan = lan(SnoopConfig { most: 3, ..SnoopConfig::default() });
    let group = |n: u8| Ipv4Addr::new(239, 0, 0, n);
    for n in 0..5 {
        at(&mut lan, 1, report(group(n)), 1);
    }
    assert_eq!(at(&mut lan, 0, data(group(2)), 1), [0, 1, 0, 1]);
    assert_eq!(at(&mut lan, 0, data(group(4)), 1), [0, 1, 1, 1]);
    at(&mut lan, 2, report(group(2)), 1);
    assert_eq!(at(&mut lan, 0, data(group(2)), 1), [0, 1, 1, 1], "one listener more than fits into the table");
    assert_eq!(lan.bridge.snoop_counts().full, 3);
    let first = lan.bridge.mdb(None, 2, secs(1));
    assert_eq!((first.listeners.len(), first.next), (2, Some((0, IpAddr::V4(group(1))))));
    let rest = lan.bridge.mdb(first.next, 2, secs(1));
    assert_eq!((rest.listeners.len(), rest.next), (1, None));
}

#[test]
fn groups_are_separate_per_vlan() {
    let mut lan = Lan::new(&[Member::default(); 4], 64);
    lan.bridge.set_vlan_filtering(Some(EtherType::VLAN));
    for port in 0..3 {
        lan.bridge.set_port_vlan(port, PortVlan::access(10 + port / 2));
    }
    lan.bridge.set_port_vlan(3, PortVlan::trunk("10-11".parse().unwrap()));
    lan.bridge.set_snooping(Some(SnoopConfig { unknown: Unknown::Routers, ..SnoopConfig::default() }), secs(0));
    let tagged = |mut frame: Vec<u8>, vid: u8| {
        frame.splice(12..12, [0x81, 0, 0, vid]);
        frame
    };
    for vid in [10, 11] {
        let reached = at(&mut lan, 3, tagged(query(ROUTER, Ipv4Addr::UNSPECIFIED), vid), 0);
        assert_eq!(reached.iter().sum::<usize>(), if vid == 10 { 2 } else { 1 });
    }
    at(&mut lan, 2, report(GROUP), 1);
    assert_eq!(at(&mut lan, 0, data(GROUP), 1), [0, 0, 0, 1], "the listener is in another VLAN");
    at(&mut lan, 1, report(GROUP), 1);
    assert_eq!(at(&mut lan, 3, tagged(data(GROUP), 10), 1), [0, 1, 0, 0]);
    assert_eq!(at(&mut lan, 3, tagged(data(GROUP), 11), 1), [0, 0, 1, 0]);
}

proptest! {
    /// Checks that with random input the totals balance, the tables are bounded, and only invalid
    /// messages are dropped as malformed.
    #[test]
    fn junk(frames in prop::collection::vec((0..4_u16, 0..7_u8, prop::collection::vec(any::<u8>(), 0..80), any::<u8>(), any::<u8>()), 1..40)) {
        let mut lan = Lan::new(&[Member::default(); 4], 256);
        lan.bridge.set_mute(None);
        lan.bridge.set_snooping(Some(SnoopConfig { most: 4, ..asking() }), secs(0));
        for (n, (from, kind, junk, at_byte, value)) in frames.into_iter().enumerate() {
            let mut frame = match kind {
                0 => four(HOST, GROUP, Proto::IGMP, &junk),
                1 => v3(&junk, value % 8),
                2 => six(LOCAL6, GROUP6, 1, Proto::IPV6_ICMP, &junk),
                3 => report(Ipv4Addr::new(239, 0, 0, value)),
                4 => mld(130 + value % 3, LOCAL6, GROUP6, 1, GROUP6),
                5 => query(ROUTER, GROUP),
                _ => [&[1, 0, 0x5e, 0, 0, 1][..], &station(1), &junk].concat(),
            };
            if kind % 2 == 0 && let Some(byte) = frame.get_mut(usize::from(at_byte) + 12) {
                *byte ^= value;
            }
            at(&mut lan, from, frame, n as u64);
            prop_assert!(lan.bridge.mdb(None, 99, secs(0)).listeners.len() <= 4);
        }
        let malformed = lan.bridge.snoop_counts().malformed;
        prop_assert_eq!(malformed, lan.dropped(DropReason::BridgeSnoopMalformed));
        prop_assert_eq!(lan.pool.stats().live(), 0);
    }
}
