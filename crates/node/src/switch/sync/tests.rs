use super::*;
use bridge::{BridgeConfig, Key, Member, PortNo, SnoopConfig};
use buf::{Burst, Pool, PoolConfig};
use clock::Duration;
use wire::Mac;

/// Bridge replicas of several threads, each with its event exchange.
struct Threads {
    threads: Vec<(Bridge, SyncExchange)>,
    pool: Pool,
}

fn secs(n: u64) -> Instant {
    Instant::from_millis(1000 * n)
}

fn key(n: u16) -> Key {
    Key::new(0, Mac([2, 0, 0, 0, (n >> 8) as u8, n as u8]))
}

fn from_station(n: u16) -> Vec<u8> {
    [&[0xff; 6][..], &key(n).mac().0, &[0x88, 0xb5], &[0; 46]].concat()
}

impl Threads {
    fn new(threads: usize) -> Threads {
        let replica = |sync| {
            let mut bridge = Bridge::new(BridgeConfig::default());
            (0..3).for_each(|_| assert!(bridge.add(Member::default()).is_some()));
            bridge.announce();
            (bridge, sync)
        };
        Threads {
            threads: SyncExchange::among(threads).into_iter().map(replica).collect(),
            pool: Pool::new(&PoolConfig::default()).unwrap(),
        }
    }

    fn exchange(&mut self, thread: usize, now: Instant) {
        let (bridge, sync) = &mut self.threads[thread];
        sync.exchange(bridge, now);
    }

    /// Passes a received frame to the bridge of thread 0, and sends the resulting events.
    fn sees(&mut self, port: PortNo, bytes: &[u8], now: Instant) {
        self.thread_receives(0, port, bytes, now);
    }

    fn thread_receives(&mut self, thread: usize, port: PortNo, bytes: &[u8], now: Instant) {
        let (mut burst, mut out) = (Burst::new(), [(); 3].map(|()| Burst::new()));
        let mut frame = self.pool.get().unwrap();
        frame.extend(bytes).unwrap();
        burst.push(frame).unwrap();
        self.threads[thread].0.input(port, &mut burst, now, &mut out);
        self.exchange(thread, now);
    }

    fn sees_stations(&mut self, port: PortNo, stations: std::ops::Range<u16>, now: Instant) {
        for n in stations {
            self.sees(port, &from_station(n), now);
        }
    }

    fn known(&self, thread: usize, n: u16, now: Instant) -> Option<PortNo> {
        self.threads[thread].0.fdb().lookup(key(n), now)
    }
}

#[test]
fn a_thread_that_missed_events_floods_until_they_are_resent() {
    let mut two = Threads::new(2);
    two.sees_stations(0, 0..10, secs(0));
    two.exchange(1, secs(0));
    assert_eq!(two.known(1, 5, secs(0)), Some(0));
    // Thread 1 sleeps. More events are sent than fit the ring, and the move of station 5 is among
    // the lost events.
    two.sees_stations(0, 100..1200, secs(10));
    two.sees_stations(2, 5..6, secs(11));
    assert_eq!(two.threads[0].1.counts.lost.get(), 1100 + 1 - 1024);
    two.exchange(1, secs(12));
    assert_eq!(two.known(1, 5, secs(12)), None, "frames are not sent to the former port");
    assert_eq!((two.threads[1].1.counts.missed_addresses.get(), two.threads[1].1.counts.missed_ports.get()), (1, 0));
    // One turn per page of addresses.
    for turn in 0..40 {
        for thread in [0, 1] {
            two.exchange(thread, secs(13).after(Duration::from_millis(turn)));
        }
    }
    assert_eq!([5, 9, 100, 1199].map(|n| two.known(1, n, secs(14))), [Some(2), Some(0), Some(0), Some(0)]);
    assert_eq!(two.threads[1].1.counts.missed_addresses.get(), 1, "once");
    assert_eq!(two.threads[0].1.counts.lost.get(), 77, "events are repeated slowly enough");
}

#[test]
fn a_thread_that_flushed_events_receives_all_again() {
    let mut three = Threads::new(3);
    three.thread_receives(2, 1, &from_station(7), secs(0));
    three.exchange(1, secs(0));
    assert_eq!(three.known(1, 7, secs(0)), Some(1));
    three.sees_stations(0, 100..1200, secs(1));
    three.exchange(1, secs(2));
    assert_eq!(three.known(1, 7, secs(2)), None, "the address is flushed, regardless of which thread sent it");
    [2, 1].into_iter().for_each(|thread| three.exchange(thread, secs(3)));
    assert_eq!(three.known(1, 7, secs(3)), Some(1));
}

/// While the other thread sleeps, no events are sent repeatedly into its full ring.
#[test]
fn sleeping_threads_receive_no_resent_events() {
    let mut two = Threads::new(2);
    two.sees_stations(0, 0..1100, secs(1));
    let lost = two.threads[0].1.counts.lost.get();
    (2..60).for_each(|n| two.exchange(0, secs(n)));
    assert_eq!((lost, two.threads[0].1.counts.lost.get()), (1100 - 1024, lost));
}

/// Returns an IGMP version 2 query.
fn query() -> Vec<u8> {
    let mut packet = vec![0x45, 0, 0, 28, 0, 0, 0, 0, 1, 2, 0, 0, 10, 0, 0, 1, 224, 0, 0, 1];
    let sum = wire::checksum::sum(&packet).finish();
    packet[10..12].copy_from_slice(&sum.to_be_bytes());
    let mut message = [0x11, 100, 0, 0, 0, 0, 0, 0];
    let sum = wire::checksum::sum(&message).finish();
    message[2..4].copy_from_slice(&sum.to_be_bytes());
    [&[1, 0, 0x5e, 0, 0, 1][..], &[2, 0, 0, 0, 0, 9], &[8, 0], &packet, &message, &[0; 18]].concat()
}

#[test]
fn port_events_arrive_despite_a_full_address_ring() {
    let mut two = Threads::new(2);
    two.threads.iter_mut().for_each(|(bridge, _)| bridge.set_snooping(Some(SnoopConfig::default()), secs(0)));
    two.sees_stations(0, 0..1100, secs(1));
    two.sees(2, &query(), secs(1));
    two.threads[0].0.apply_event(&SyncEvent::Muted(1, secs(30)), secs(1));
    two.exchange(1, secs(1));
    assert_eq!(two.threads[1].0.router_ports(secs(1)).map(|(_, port, _)| port).collect::<Vec<_>>(), [2]);
    // More messages are sent than fit the ring. The repetition begins with the muted ports.
    assert_eq!(two.threads[1].0.muted(1), None);
    (0..300).for_each(|_| two.sees(2, &query(), secs(2)));
    two.exchange(1, secs(3));
    assert_eq!(two.threads[1].1.counts.missed_ports.get(), 1);
    two.exchange(0, secs(3));
    two.exchange(1, secs(3));
    assert_eq!(two.threads[1].0.muted(1), Some(secs(30)));
}
