//! One loop that dispatches frames, workers that forward them, and the events that replicas of a
//! bridge exchange, with loops or workers.

use super::*;
use std::sync::atomic::{AtomicBool, Ordering};

fn crew(n: usize, workers: usize) -> Lan {
    Lan::with(n, 1, workers, Clock::sim(&SimClock::new()))
}

/// Returns a UDP datagram of `flow` between two stations, which contains `number`.
fn numbered(flow: u8, number: u32) -> Vec<u8> {
    let mut bytes = frame(2, 1);
    bytes[12] = 8;
    bytes[14] = 0x45;
    bytes[23] = 17;
    bytes[35] = flow;
    bytes[50..54].copy_from_slice(&number.to_be_bytes());
    bytes
}

#[test]
fn frames_reach_their_port_through_any_worker() {
    for workers in 1..=3 {
        let mut lan = crew(3, workers);
        lan.send(0, &frame(2, 1));
        lan.turn();
        assert_eq!(lan.received(), [0, 1, 1]);
        lan.send(1, &frame(1, 2));
        lan.turn();
        assert_eq!(lan.receive(0), [frame(1, 2)]);
        let polling = lan.json("show polling");
        assert_eq!(polling[0]["counters"]["dataflow.post.posted"], 2);
        assert_eq!(polling[0]["ports"].as_array().unwrap().len(), 3);
        assert_eq!(polling.as_array().unwrap().len(), 1 + workers, "a loop and its workers");
        let audit = lan.switch.audit();
        assert!(audit.holds() && audit.posted.done == 2 && audit.sent == 3, "{audit:?}");
        assert_eq!(lan.json("audit")["posted"]["offered"], 2);
    }
}

#[test]
fn flows_stay_in_order_across_workers_and_losses_are_counted() {
    const FLOWS: u8 = 40;
    const EACH: u32 = 500;
    let mut lan = Lan::with(2, 1, 3, Clock::live(Strategy::TscScaled));
    let (mut into, mut from) = (lan.ends.remove(0).tx, lan.ends.remove(0).rx);
    let (switch, pool, stop) = (&lan.switch, lan.pool.clone(), AtomicBool::new(false));
    let mut next = [0; FLOWS as usize];
    let (mut came, mut uneven) = (0, None);
    std::thread::scope(|scope| {
        let ran = scope.spawn(|| switch.run(None, node::switch::run::Until::Stopped, || stop.load(Ordering::Relaxed)));
        let mut frames = (0..EACH).flat_map(|number| (0..FLOWS).map(move |flow| numbered(flow, number)));
        let (mut sent, mut burst, began) = (0, Burst::new(), std::time::Instant::now());
        while came + dropped(switch) < u64::from(EACH) * u64::from(FLOWS) && began.elapsed().as_secs() < 60 {
            while sent < came + dropped(switch) + 200
                && let Some(mut frame) = pool.get()
                && let Some(bytes) = frames.next()
            {
                frame.extend(&bytes).unwrap();
                assert!(into.tx_one(frame, Instant::ZERO).is_ok(), "200 under way at most");
                sent += 1;
            }
            uneven = uneven.or(Some(switch.audit()).filter(|audit| !audit.holds()));
            from.rx_burst(&mut burst, 256, Instant::ZERO);
            for frame in burst.drain() {
                let bytes = frame.bytes();
                let (flow, number) = (usize::from(bytes[35]), u32::from_be_bytes(bytes[50..54].try_into().unwrap()));
                assert!(number >= next[flow], "flow {flow}: {number} after {}", next[flow]);
                next[flow] = number + 1;
                came += 1;
            }
        }
        stop.store(true, Ordering::Relaxed);
        ran.join().unwrap().unwrap();
    });
    assert_eq!(uneven, None, "the audit is balanced while the switch runs");
    let audit = switch.audit();
    assert!(audit.holds() && audit.held == 0, "{audit:?}");
    assert_eq!(came + dropped(switch), u64::from(EACH) * u64::from(FLOWS));
    let flow = switch.dataflow().unwrap();
    assert!(flow.posted.bursts.get() < u64::from(EACH) * u64::from(FLOWS), "more than one frame per burst");
    assert!(flow.posted.locks.get() <= flow.posted.bursts.get(), "at most one lock per burst");
}

fn dropped(switch: &Switch) -> u64 {
    let audit = switch.audit();
    audit.posted.dropped + audit.late + audit.full + audit.failed
}

#[test]
fn frames_beyond_the_queue_are_dropped_with_a_reason() {
    let mut lan = crew(2, 1);
    for round in 0..3 {
        (0..200).for_each(|number| lan.send(0, &numbered(1, round * 200 + number)));
        // Only the loop runs.
        (0..8).for_each(|_| _ = lan.switch.thread(0).unwrap().turn());
    }
    let audit = lan.switch.audit();
    assert_eq!((audit.posted.offered, audit.posted.held, audit.posted.dropped), (600, 256, 344));
    assert!(lan.say("show drops").unwrap().starts_with("dataflow.post.lane_full                           344  "));
    lan.turn();
    assert!(lan.switch.audit().holds());
    lan.switch.remove(0);
    lan.send(1, &frame(1, 2));
    lan.turn();
    assert!(lan.switch.audit().holds(), "{:?}", lan.switch.audit());
}

#[test]
fn a_switch_with_workers_has_at_most_64_ports_and_one_loop() {
    let mut lan = crew(64, 2);
    let (ours, _theirs) = pair("p64", 256, Caps::PLAIN);
    let refused = lan.switch.attach(ours, None).unwrap_err().to_string();
    assert_eq!(refused, "too many ports: a bridge has at most 64");
    assert_eq!((lan.switch.loops(), lan.switch.workers()), (1, 2));
    let (ours, _theirs) = pair("q", 256, Caps::PLAIN);
    assert_eq!(
        lan.switch.attach(ours, Some(1)).unwrap_err().to_string(),
        "no loop 1: the switch has 1, numbered from 0"
    );
    lan.send(63, &frame(1, 2));
    lan.turn();
    assert_eq!(lan.received().iter().sum::<usize>(), 63);
}

/// Returns an IGMP version 2 message for `group` from `station`. It is sent to the group, or to all
/// hosts if it is a query.
fn igmp(kind: u8, group: [u8; 4], station: u8) -> Vec<u8> {
    let to = if kind == 0x11 { [224, 0, 0, 1] } else { group };
    let mut bytes = vec![1, 0, 0x5e, to[1] & 0x7f, to[2], to[3], 2, 0, 0, 0, 0, station, 8, 0];
    let mut header = vec![0x46, 0, 0, 32, 0, 0, 0, 0, 1, 2, 0, 0, 10, 0, 0, station];
    header.extend(to);
    header.extend([0x94, 4, 0, 0]);
    let sum = wire::checksum::sum(&header).finish();
    header[10..12].copy_from_slice(&sum.to_be_bytes());
    let mut message = vec![kind, 100, 0, 0];
    message.extend(group);
    let sum = wire::checksum::sum(&message).finish();
    message[2..4].copy_from_slice(&sum.to_be_bytes());
    bytes.extend(header);
    bytes.extend(message);
    bytes.resize(60, 0);
    bytes
}

fn to_group(group: [u8; 4], station: u8) -> Vec<u8> {
    let mut bytes = igmp(0x16, group, station);
    bytes[23] = 17;
    bytes[24..26].fill(0);
    let sum = wire::checksum::sum(&bytes[14..38]).finish();
    bytes[24..26].copy_from_slice(&sum.to_be_bytes());
    bytes
}

/// After a query on port 0 and a report on port 1, frames for the group from port 2 go to those two
/// ports, regardless of which thread forwards them.
fn hears_of_listeners(mut lan: Lan) {
    let group = [239, 1, 2, 3];
    lan.say("ifconfig bridge0 snoop").unwrap();
    lan.send(0, &igmp(0x11, [0; 4], 1));
    lan.turn();
    lan.send(1, &igmp(0x16, group, 2));
    lan.turn();
    lan.received();
    for from in [2, 3] {
        lan.send(from, &to_group(group, 3 + from as u8));
        lan.turn();
        assert_eq!(lan.received(), [1, 1, 0, 0], "to the router and to the listener, not to the other port");
    }
    assert!(lan.switch.audit().holds());
}

#[test]
fn all_loops_and_workers_learn_group_listeners() {
    for loops in 1..=4 {
        hears_of_listeners(Lan::new(4, loops));
    }
    for workers in 1..=3 {
        hears_of_listeners(crew(4, workers));
    }
}

#[test]
fn a_querier_sends_one_query_with_any_number_of_loops() {
    for loops in 1..=3 {
        let mut lan = Lan::new(3, loops);
        lan.say("ifconfig bridge0 querier 10.0.0.9").unwrap();
        lan.turn();
        assert_eq!(lan.received(), [1, 1, 1], "{loops} loops");
    }
}

#[test]
fn a_storm_is_limited_across_all_workers() {
    let mut lan = crew(2, 3);
    lan.say("ifconfig bridge0 storm p0 broadcast 1000 5").unwrap();
    for station in 1..=30 {
        let mut bytes = frame(0, station);
        bytes[..6].fill(0xff);
        lan.send(0, &bytes);
    }
    lan.turn();
    assert_eq!(lan.received(), [0, 5]);
    let polled = lan.json("show polling");
    let tasks = |n: usize| polled[n]["counters"]["dataflow.work.tasks"].as_u64().unwrap();
    assert!((1..=3).filter(|n| tasks(*n) > 0).count() > 1, "more than one worker processed frames: {polled}");
}

#[test]
fn a_port_muted_by_one_loop_is_muted_in_all() {
    let mut lan = Lan::new(3, 3);
    lan.say("ifconfig bridge0 mute 2 10").unwrap();
    for _ in 0..3 {
        for port in [0, 1] {
            lan.send(port, &frame(9, 1));
            lan.turn();
        }
    }
    let muted: Vec<Vec<bool>> = (0..3)
        .map(|number| (0..3).map(|port| lan.switch.thread(number).unwrap().bridge.muted(port).is_some()).collect())
        .collect();
    assert!(muted[0].iter().any(|muted| *muted), "{muted:?}");
    assert!(muted.iter().all(|of| *of == muted[0]), "{muted:?}");
}

#[test]
fn addresses_from_events_age_like_learned_ones() {
    let clock = SimClock::new();
    let key = ::bridge::Key::new(0, wire::Mac([0, 0, 0, 0, 0, 1]));
    let mut lan = Lan::with(2, 2, 0, Clock::sim(&clock));
    let timeout = lan.switch.thread(0).unwrap().bridge.fdb().timeout();
    let known = |lan: &Lan, number: usize| {
        let thread = lan.switch.thread(number).unwrap();
        thread.bridge.fdb().lookup(key, thread.now()).is_some()
    };
    let step = timeout / 20;
    for turn in 0..100 {
        if turn < 60 {
            lan.send(0, &frame(9, 1));
        }
        lan.turn();
        lan.received();
        let expected = match turn {
            0..79 => [true, true], // a timeout after the last sighting
            79..82 => [known(&lan, 0), known(&lan, 1)],
            _ => [false, false],
        };
        assert_eq!([known(&lan, 0), known(&lan, 1)], expected, "turn {turn}, of 20 in a timeout");
        clock.advance(step);
    }
}

#[test]
fn frames_of_a_removed_port_do_not_reach_its_successor() {
    let mut lan = crew(3, 2);
    (0..20).for_each(|flow| lan.send(0, &numbered(flow, 0)));
    // Only the loop runs.
    (0..8).for_each(|_| _ = lan.switch.thread(0).unwrap().turn());
    assert_eq!(lan.switch.audit().posted.held, 20);
    lan.switch.remove(0);
    let audit = lan.switch.audit();
    assert_eq!((audit.posted.held, audit.posted.dropped), (0, 20));
    let (ours, theirs) = pair("next", 256, Caps::PLAIN);
    assert_eq!(lan.switch.attach(ours, None).unwrap(), 0, "the lowest free number");
    lan.ends[0] = theirs;
    lan.turn();
    assert_eq!((lan.received(), lan.switch.counts(0).bridge.received), (vec![0; 3], 0));
    let drops = lan.say("show drops").unwrap();
    assert!(drops.contains("dataflow.post.discarded                            20  "), "{drops}");
    // The threads of the switch are still usable.
    lan.send(0, &numbered(1, 0));
    lan.turn();
    assert_eq!(lan.received(), [0, 1, 1]);
    assert!(lan.switch.audit().holds(), "{:?}", lan.switch.audit());
}
