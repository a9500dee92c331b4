//! Two replicas of a bridge that exchange events.

use super::snooping::{GROUP, data, leave, query, report, v3};
use super::*;
use std::net::Ipv4Addr;

fn secs(n: u64) -> Instant {
    Instant::from_millis(1000 * n)
}

fn replica(ports: usize) -> Lan {
    let mut lan = Lan::new(&vec![Member::default(); ports], 1100);
    lan.bridge.announce();
    lan
}

fn events(lan: &mut Lan) -> Vec<SyncEvent> {
    std::iter::from_fn(|| lan.bridge.take_event()).collect()
}

fn lookup(lan: &Lan, n: u8, now: u64) -> Option<PortNo> {
    lan.bridge.fdb().lookup(Key::new(0, Mac(station(n))), secs(now))
}

#[test]
fn a_replica_applies_moves_in_any_order() {
    let [mut slept, mut second, mut third] = [(); 3].map(|()| replica(3));
    third.send(1, &[bytes(ALL, station(9))], secs(10));
    second.send(2, &[bytes(ALL, station(9))], secs(200));
    for events in events(&mut second).iter().chain(&events(&mut third)) {
        slept.bridge.apply_event(events, secs(201));
    }
    assert_eq!(lookup(&slept, 9, 201), Some(2));
    assert_eq!(slept.bridge.fdb().counts().moved, 0);
    let mut late = replica(3);
    third.send(1, &[bytes(ALL, station(8))], secs(300));
    events(&mut third).iter().for_each(|events| late.bridge.apply_event(events, secs(900)));
    assert_eq!(lookup(&late, 8, 900), None, "ten minutes old");
}

#[test]
fn only_the_receiving_replica_announces_an_address() {
    let (mut seer, mut hearer) = (replica(2), replica(2));
    seer.send(1, &[bytes(ALL, station(9))], secs(10));
    events(&mut seer).iter().for_each(|events| hearer.bridge.apply_event(events, secs(10)));
    for replica in [&mut seer, &mut hearer] {
        replica.bridge.announce_again(secs(80));
    }
    let at = |events: &SyncEvent| match events {
        SyncEvent::At(_, port, at) => (*port, at.nanos() / 1_000_000_000),
        _ => panic!("{events:?}"),
    };
    assert_eq!(events(&mut seer).iter().map(at).collect::<Vec<_>>(), [(1, 10)], "time of reception in units of 67 ms");
    assert_eq!(events(&mut hearer), []);
}

#[test]
fn a_late_carrier_event_does_not_restore_a_removed_port() {
    let [mut lan, mut other] = [(); 2].map(|()| replica(3));
    lan.bridge.remove(2, secs(1));
    other.send(2, &[bytes(ALL, station(9))], secs(2));
    let events = events(&mut other);
    for carrier in [Carrier::Down, Carrier::Up] {
        lan.bridge.set_carrier(2, carrier);
        events.iter().for_each(|events| lan.bridge.apply_event(events, secs(3)));
        assert_eq!(lookup(&lan, 9, 3), None, "{carrier:?}");
    }
}

#[test]
fn an_expired_mute_is_ignored() {
    let mut lan = replica(2);
    lan.bridge.apply_event(&SyncEvent::Muted(1, secs(20)), secs(20));
    assert_eq!(lan.bridge.muted(1), None);
    lan.bridge.apply_event(&SyncEvent::Muted(1, secs(21)), secs(20));
    assert_eq!(lan.bridge.muted(1), Some(secs(21)));
}

/// After more than a thousand addresses, the event of a report still gets through, and the events
/// that did not fit are counted.
#[test]
fn reports_are_announced_before_addresses() {
    let mut lan = replica(2);
    lan.bridge.set_snooping(Some(SnoopConfig::default()), secs(0));
    let strangers: Vec<_> = (0..1100_u16).map(|n| bytes(ALL, [2, 1, 0, 0, (n >> 8) as u8, n as u8])).collect();
    for burst in strangers.chunks(250) {
        lan.send(0, burst, secs(1));
        lan.left();
    }
    lan.send(1, &[report(GROUP)], secs(1));
    let reported = events(&mut lan);
    assert!(matches!(reported[0], SyncEvent::Said(_)), "the report comes before all addresses: {:?}", reported[0]);
    assert_eq!(
        (reported.len(), reported[0].kind(), reported[1].kind()),
        (1025, EventKind::Ports, EventKind::Addresses)
    );
    assert_eq!(lan.bridge.take_lost_events(EventKind::Addresses), 1100 + 1 - 1024);
    assert_eq!(
        (lan.bridge.take_lost_events(EventKind::Addresses), lan.bridge.take_lost_events(EventKind::Ports)),
        (0, 0)
    );
}

#[test]
fn a_replica_that_missed_an_address_floods_until_it_is_announced_again() {
    let (mut seer, mut hearer) = (replica(3), replica(3));
    seer.send(1, &[bytes(ALL, station(9))], secs(10));
    events(&mut seer).iter().for_each(|events| hearer.bridge.apply_event(events, secs(10)));
    hearer.send(2, &[bytes(ALL, station(8))], secs(10));
    hearer.bridge.on_events_lost(EventKind::Addresses, secs(11));
    assert_eq!([8, 9].map(|n| lookup(&hearer, n, 11)), [Some(2), None]);
    seer.bridge.announce_again(secs(12));
    assert_eq!(events(&mut seer), [], "too early: a quarter of the timeout is 75 s");
    seer.bridge.announce_all();
    seer.bridge.announce_again(secs(12));
    events(&mut seer).iter().for_each(|events| hearer.bridge.apply_event(events, secs(12)));
    assert_eq!([8, 9].map(|n| lookup(&hearer, n, 12)), [Some(2), Some(1)]);
}

#[test]
fn a_replica_that_missed_reports_floods_groups_until_they_are_announced_again() {
    let mut lan = replica(4);
    lan.bridge.set_snooping(Some(SnoopConfig::default()), secs(0));
    let mut at = |from, frame, now| {
        lan.bridge.poll(secs(now));
        lan.send(from, &[frame], secs(now));
        if now == 10 {
            lan.bridge.on_events_lost(EventKind::Ports, secs(now));
        }
        lan.left()
    };
    at(3, query(Ipv4Addr::new(10, 0, 0, 1), Ipv4Addr::UNSPECIFIED), 1);
    at(1, report(GROUP), 2);
    assert_eq!(at(0, data(GROUP), 3), [0, 1, 0, 1]);
    assert_eq!(at(0, data(GROUP), 10), [0, 1, 0, 1]);
    assert_eq!(at(0, data(GROUP), 11), [0, 1, 1, 1]);
    at(3, query(Ipv4Addr::new(10, 0, 0, 1), Ipv4Addr::UNSPECIFIED), 130);
    at(1, report(GROUP), 131);
    assert_eq!(at(0, data(GROUP), 269), [0, 1, 1, 1], "listeners may not have reported again yet");
    assert_eq!(at(0, data(GROUP), 271), [0, 1, 0, 1]);
}

/// The other replica received a join and a leave of a group; later, this replica received a join.
#[test]
fn announcements_are_applied_with_their_original_time() {
    let (mut first, mut other) = (replica(4), replica(4));
    for lan in [&mut first, &mut other] {
        lan.bridge.set_mute(None);
        lan.bridge.set_snooping(Some(SnoopConfig::default()), secs(0));
        lan.bridge.set_snoop_port(1, SnoopPort { leave: Leave::Fast, ..SnoopPort::default() });
        lan.send(3, &[query(Ipv4Addr::new(10, 0, 0, 1), Ipv4Addr::UNSPECIFIED)], secs(1));
        events(lan);
    }
    other.send(1, &[report(GROUP), leave(GROUP)], secs(2));
    first.send(1, &[report(GROUP)], secs(100));
    first.left();
    let said = events(&mut other).into_iter().filter(|events| events.kind() == EventKind::Ports);
    said.for_each(|events| first.bridge.apply_event(&events, secs(101)));
    let left: Vec<_> = first.bridge.mdb(None, 9, secs(101)).listeners.iter().map(|one| one.left.as_secs()).collect();
    assert_eq!(left, [259], "the listener is kept, with its full lifetime");
}

#[test]
fn announcements_omit_padding_and_are_at_most_a_frame_long() {
    let mut lan = replica(2);
    lan.bridge.set_snooping(Some(SnoopConfig::default()), secs(0));
    let mut padded = report(GROUP);
    padded.resize(1500, 0xee);
    let mut long = v3(&[0; 8 * 200], 200);
    long.resize(1700, 0);
    lan.send(0, &[padded, long], secs(1));
    let said: Vec<_> = events(&mut lan)
        .into_iter()
        .filter_map(|events| if let SyncEvent::Said(said) = events { Some(said) } else { None })
        .collect();
    assert_eq!(said.iter().map(|said| said.packet.len()).collect::<Vec<_>>(), [28]);
    assert_eq!(lan.bridge.take_lost_events(EventKind::Ports), 1);
}
