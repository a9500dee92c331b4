use super::*;
use crate::Host;
use crate::config::{HostConfig, IfaceConfig};
use clock::{Clock, SimClock};
use dispatch::netisr::{Items, ProtoId, WorkRow};
use lock::{Locks, Up};
use port::Pairs;
use std::net::{Ipv4Addr, SocketAddr};

fn config(name: &str, addr: &str, workstreams: usize) -> HostConfig {
    let mut config = HostConfig { name: name.to_string(), seed: Some(7), ..HostConfig::default() };
    config.isr.workstreams = workstreams;
    config.ifaces.push(IfaceConfig { name: Some("eth0".to_string()), ..IfaceConfig::on("pair:ab") });
    config.set_iface("addresses", addr).unwrap();
    config
}

/// Sets a sysctl of netisr, as `sysctl NAME=VALUE` does.
fn set<L: Locks>(host: &Host<L>, name: &str, value: &str) {
    host.set_isr_sysctl(name, sysctl::check(name, value).unwrap().unwrap()).unwrap();
}

fn row<L: Locks>(host: &Host<L>, workstream: usize, name: &str) -> WorkRow {
    snapshot(host).row(workstream, name).unwrap().clone()
}

const B: Ipv4Addr = Ipv4Addr::new(10, 0, 0, 2);

/// Two connected hosts on virtual time. The second one has workstreams.
struct Two {
    a: Host<Up>,
    b: Host<Up>,
    clock: SimClock,
}

impl Two {
    fn new(b: HostConfig) -> Two {
        let (clock, pairs) = (SimClock::new(), Pairs::new());
        let host = |config: &HostConfig| crate::build(config, &pairs, Clock::sim(&clock)).unwrap();
        Two { a: host(&config("a", "10.0.0.1/24", 0)), b: host(&b), clock }
    }

    fn turn(&self) {
        self.a.step();
        self.b.step();
        self.clock.advance(clock::Duration::from_micros(100));
    }

    /// Sends datagrams from a to b. Returns how many arrived in order from the first one, without
    /// gaps.
    fn datagrams(&self, n: u32) -> u32 {
        let (from, to) = (self.a.shared_calls(), self.b.shared_calls());
        let (tx, rx) = (from.socket().unwrap(), to.socket().unwrap());
        to.bind(rx, SocketAddr::from((B, 9))).unwrap();
        to.set_option(rx, socket::Opt::NonBlocking(true)).unwrap();
        let mut next = 0;
        for sent in 0..n {
            from.send_to(tx, &sent.to_be_bytes(), &SocketAddr::from((B, 9))).unwrap();
            self.turn();
            let mut got = [0; 4];
            while to.recv(rx, &mut got) == Ok(4) {
                assert_eq!(u32::from_be_bytes(got), next, "each datagram arrives, in order");
                next += 1;
            }
        }
        to.close(rx).unwrap();
        from.close(tx).unwrap();
        next
    }

    fn balanced(&self) {
        for host in [&self.a, &self.b] {
            let report = host.audit();
            assert_eq!((report.imbalance(), host.port_imbalance(&report)), (0, (0, 0)), "{report:?}");
        }
    }
}

#[test]
fn the_mode_decides_when_a_loop_runs_its_queue() {
    let two = Two::new(config("b", "10.0.0.2/24", 1));
    for (mode, counts) in [
        ("direct", |row: &WorkRow| (row.dispatched, row.hybrid_dispatched + row.queued)),
        ("hybrid", |row: &WorkRow| (row.hybrid_dispatched, row.queued)),
        ("deferred", |row: &WorkRow| (row.queued, 0)),
    ] as [(_, fn(&WorkRow) -> (u64, u64)); 3]
    {
        set(&two.b, "net.isr.dispatch", mode);
        let before = counts(&row(&two.b, 0, "ip"));
        assert_eq!(two.datagrams(20), 20);
        let after = counts(&row(&two.b, 0, "ip"));
        assert_eq!((after.0 - before.0, after.1 - before.1), (20, 0), "{mode}");
        two.balanced();
    }
    let (ip, arp) = (row(&two.b, 0, "ip"), row(&two.b, 0, "arp"));
    assert_eq!((ip.handled, ip.dispatched, ip.hybrid_dispatched, ip.queued, ip.len), (60, 20, 20, 20, 0));
    assert!(arp.handled > 0 && arp.qdrops == 0);
}

#[test]
fn refused_frames_are_counted_and_queued_frames_are_held() {
    let two = Two::new(config("b", "10.0.0.2/24", 1));
    two.datagrams(1); // resolves the neighbors
    (0..5).for_each(|_| two.turn());
    set(&two.b, "net.isr.dispatch", "deferred");
    set(&two.b, "net.isr.proto.ip.qlimit", "0");
    assert_eq!(two.datagrams(10), 0);
    assert_eq!((two.b.stack.counter("dispatch.netisr.queue_full"), row(&two.b, 0, "ip").qdrops), (10, 10));
    two.balanced();
    set(&two.b, "net.isr.proto.ip.qlimit", "5");
    let calls = two.a.shared_calls();
    let fd = calls.socket().unwrap();
    // Without a worker, frames stay queued, and they are counted as held.
    two.b.release_isr(0);
    for n in 0..7u8 {
        calls.send_to(fd, &[n], &SocketAddr::from((B, 9))).unwrap();
        two.turn();
    }
    let report = two.b.audit();
    assert!(report.held >= 5 && row(&two.b, 0, "ip").len == 5 && row(&two.b, 0, "ip").qdrops == 12, "{report:?}");
    two.balanced();
    two.b.discard();
    let report = two.b.audit();
    assert_eq!((report.held, two.b.stack.counter("node.shutdown")), (0, 5));
    two.balanced();
}

#[test]
fn packets_to_the_host_are_queued_in_every_mode() {
    for workstreams in [0, 1] {
        let two = Two::new(config("b", "10.0.0.2/24", workstreams));
        let calls = two.b.shared_calls();
        let fd = calls.socket().unwrap();
        calls.bind(fd, SocketAddr::from((B, 9))).unwrap();
        for n in 0..10u8 {
            calls.send_to(fd, &[n], &SocketAddr::from((B, 9))).unwrap();
        }
        assert_eq!(row(&two.b, 0, "ip").len, 10);
        two.turn();
        let ip = row(&two.b, 0, "ip");
        assert_eq!((ip.dispatched, ip.queued, ip.handled, ip.len, ip.watermark), (0, 10, 10, 0, 10), "{workstreams}");
        calls.close(fd).unwrap();
        assert_eq!(two.datagrams(3), 3);
        assert_eq!((row(&two.b, 0, "ip").dispatched, row(&two.b, 0, "ip").queued), (3, 10));
        two.balanced();
    }
}

#[test]
fn invalid_isr_configurations_are_rejected_with_a_message() {
    let fault = |change: &dyn Fn(&mut HostConfig)| {
        let mut requested = config("h", "10.0.0.1/24", 2);
        change(&mut requested);
        requested.check().unwrap_err()
    };
    assert!(fault(&|_| {}).contains("host h: isr.workstreams = 2 needs locks = 'light' or 'heavy'"));
    assert!(fault(&|c| (c.isr.workstreams, c.isr.bind) = (1, true)).contains("isr.bind"));
    assert!(
        fault(&|c| c.set("isr.workstreams", "0").and(c.set("net.isr.dispatch", "0")).unwrap())
            .contains("no workstreams")
    );
    let long = |c: &mut HostConfig| {
        (c.isr.workstreams, c.isr.max_qlimit) = (1, 100);
        c.set("net.isr.proto.ip.qlimit", "101").unwrap();
    };
    assert!(fault(&long).contains("queue limit 101: must be at most 100 (net.isr.maxqlimit)"));
    let mut light = config("h", "10.0.0.1/24", 3);
    light.set("locks", "light").unwrap();
    assert_eq!(light.check(), Ok(()));
    let up = crate::build::<Up>(&light, &Pairs::new(), Clock::sim(&SimClock::new()));
    assert!(up.unwrap_err().to_string().contains("needs locks = 'light' or 'heavy'"), "the type of the locks decides");
}

/// Frames that a worker left unprocessed are counted as drops with a reason, so that the host's
/// audit balances.
#[test]
fn frames_left_by_a_worker_are_in_the_audit() {
    let mut b = config("b", "10.0.0.2/24", 1);
    b.set("net.isr.dispatch", "deferred").unwrap();
    let two = Two::new(b);
    two.b.release_isr(0); // its own loop does not process them
    let calls = two.a.shared_calls();
    let tx = calls.socket().unwrap();
    calls.send_to(tx, b"x", &SocketAddr::from((B, 9))).unwrap();
    two.turn();
    two.turn();
    let held = two.b.isr_held();
    assert!(held > 0, "ARP requests for its address are queued");
    two.balanced();
    let mut worker = two.b.isr.as_ref().unwrap().netisr.worker(0).unwrap();
    worker.turn(&mut |_: ProtoId, _: &mut Items<'_, Received>| {});
    let report = two.b.audit();
    let lost = report.reasons.iter().find(|reason| reason.name == "net.isr.lost").map(|reason| reason.value);
    assert_eq!((report.dropped, lost, two.b.isr_held()), (held, Some(held), 0));
    two.balanced();
}
