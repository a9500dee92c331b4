//! The bridge's address table while hosts send: addresses age and move, and there may be too many.

use super::lan::Kind::{Packet, Tap};
use super::lan::{Host, Kind, Lan, fdb, ok, until};
use crate::common::isolated;
use buf::{Burst, Pool, PoolConfig};
use clock::{Clock, Strategy};
use port::{Env, Pairs, Port, Spec};
use std::sync::atomic::{AtomicBool, Ordering};
use wire::Mac;

/// A station without a protocol stack at the far end of a port of the bridge. It sends arbitrary
/// frames.
struct Station {
    port: Port,
    pool: Pool,
    clock: Clock,
}

impl Station {
    /// Creates a station at the TAP device of a running bridge.
    fn at(device: &str) -> Station {
        ok(&format!("echo 1 > /proc/sys/net/ipv6/conf/{device}/disable_ipv6; ip link set {device} up"));
        let pool = Pool::new(&PoolConfig { buffers: 4096, ..PoolConfig::default() }).unwrap();
        let spec = Spec::parse(&format!("packet:{device}")).unwrap();
        let env = Env { pool: pool.clone(), pairs: &Pairs::new(), mac: Mac::ZERO, unit: 0 };
        Station { port: port::open(&spec, &env).unwrap(), pool, clock: Clock::live(Strategy::default()) }
    }

    /// Sends a broadcast from the source `src`.
    fn send(&mut self, src: [u8; 6]) {
        let mut frame = self.pool.get().unwrap();
        frame.extend(&[0xff; 6]).unwrap();
        frame.extend(&src).unwrap();
        frame.extend(&[0x88, 0xb5]).unwrap();
        frame.extend(&[0; 46]).unwrap();
        let mut burst = Burst::new();
        burst.push(frame).unwrap();
        until("the device takes a frame", 5, || self.port.tx.tx_burst(&mut burst, self.clock.now()) == 1);
    }
}

/// Creates two hosts, and a third port `tap:p3` in the test's namespace.
fn with_a_third(kind: Kind, flags: &[&str]) -> (Lan, Station) {
    let lan = Lan::new(&[kind, kind], &[flags, &["tap:p3"]].concat());
    let station = Station::at("p3");
    (lan, station)
}

fn mac(host: &Host) -> [u8; 6] {
    [2, 0, 0, 0, 0, host.n as u8]
}

fn port_of(lan: &Lan, host: &Host) -> Option<String> {
    lan.port_of(&host.mac())
}

#[test]
fn silent_stations_age_out() {
    isolated("silent_stations_age_out", || {
        let lan = Lan::new(&[Tap, Tap], &["--age", "1s"]);
        lan.ping_all(2);
        lan.all_known();
        let took = until("both are forgotten", 5, || fdb(&lan.bridge) == serde_json::json!([]));
        println!("forgotten after {took:.1?}");
        lan.ping_all(2);
        lan.all_known();
        lan.end();
    });
}

/// A static address stays at its port, even if another port receives frames from it. A learned
/// address moves.
fn moves(kind: Kind, flags: &[&str]) {
    let (lan, mut station) = with_a_third(kind, flags);
    let (one, two) = (&lan.hosts[0], &lan.hosts[1]);
    lan.ping_all(2);
    lan.bridge.ok(&format!("bridge fdb add {} dev p2 static", two.mac()));
    station.send(mac(one));
    station.send(mac(two));
    until("it is seen elsewhere", 5, || port_of(&lan, one).as_deref() == Some("p3"));
    assert_eq!(port_of(&lan, two).as_deref(), Some("p2"));
    assert_eq!(one.ping(two, 2), 2, "it is back with its first frame");
    lan.all_known();
    assert_eq!(super::lan::dropped(&lan.bridge, "bridge.in.bound"), 1);
    let (_, err) = lan.end();
    assert!(err.contains(" addresses known, 2 moved"), "{err}");
}

#[test]
fn moved_stations_are_relearned() {
    isolated("moved_stations_are_relearned", || moves(Tap, &[]));
}

#[test]
fn moved_stations_are_relearned_at_packet_ports() {
    isolated("moved_stations_are_relearned_at_packet_ports", || moves(Packet, &[]));
}

/// With twenty times as many addresses as the table can store, the table keeps its maximum size,
/// and the addresses of active hosts stay in it.
#[test]
fn a_flood_of_addresses_evicts_no_active_station() {
    isolated("a_flood_of_addresses_evicts_no_active_station", || {
        let (lan, mut station) = with_a_third(Tap, &["--table", "1024"]);
        let (one, two) = (&lan.hosts[0], &lan.hosts[1]);
        lan.ping_all(2);
        let received = || lan.bridge.json("audit")["received"].as_u64();
        let come = |sent: u32| {
            until("the bridge has them", 10, || received() >= Some(u64::from(sent)));
        };
        let is_over = AtomicBool::new(false);
        std::thread::scope(|scope| {
            // On a busy machine, the flood takes longer than 20 pings.
            let pings = scope.spawn(|| {
                while !is_over.load(Ordering::Relaxed) {
                    assert_eq!(one.ping(two, 20), 20);
                }
            });
            for n in 0..20_480_u32 {
                let [_, b, c, d] = n.to_be_bytes();
                station.send([2, 1, 0, b, c, d]);
                // The device can queue 500 frames, and a bridge on a busy machine may be late.
                if (n + 1) % 256 == 0 {
                    come(n + 1);
                }
            }
            let ports = [one, two].map(|host| lan.port_of(&host.mac()));
            is_over.store(true, Ordering::Relaxed);
            pings.join().unwrap();
            assert_eq!(ports, ["p1", "p2"].map(|port| Some(port.to_owned())));
        });
        let known = fdb(&lan.bridge).as_array().unwrap().len();
        assert!((900..=1024).contains(&known), "{known}");
        lan.all_known();
        let (_, err) = lan.end();
        let full = err.lines().find_map(|line| line.split(", ").nth(2)?.strip_suffix(" not learned: table full"));
        assert!(full.unwrap().parse::<u32>().unwrap() > 10_000, "{err}");
    });
}
