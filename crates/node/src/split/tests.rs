//! Two stacks and their dispatcher, all run by the thread of the test. A host with one stack is at
//! the other end of the pair.

use super::*;
use crate::config::IfaceConfig;
use crate::run::build_sharded;
use crate::{Host, isr};
use clock::{Clock, SimClock};
use lock::Up;
use port::Pairs;
use std::net::{Ipv4Addr, SocketAddr};

const HERE: Ipv4Addr = Ipv4Addr::new(10, 0, 0, 2);

fn config(name: &str, addr: &str, stacks: usize) -> HostConfig {
    let mut config = HostConfig { name: name.to_string(), seed: Some(7), stacks, ..HostConfig::default() };
    config.ifaces.push(IfaceConfig { name: Some("eth0".to_string()), ..IfaceConfig::on("pair(slots=1024):ab") });
    config.set_iface("addresses", addr).unwrap();
    config
}

/// A peer with one stack, and a split host.
struct Both {
    peer: Host<Up>,
    dispatcher: Dispatcher,
    stacks: Vec<Host<Up>>,
    clock: SimClock,
}

impl Both {
    fn new(split: &HostConfig) -> Both {
        let (clock, pairs) = (SimClock::new(), Pairs::new());
        assert_eq!(split.check(), Ok(()));
        let (dispatcher, shards) = Dispatcher::open(split, &pairs, Clock::sim(&clock)).unwrap();
        let build = |(part, shard): (&HostConfig, Shard)| build_sharded(part, Clock::sim(&clock), shard).unwrap();
        let parts = parts(split);
        let stacks = parts.iter().zip(shards).map(build).collect();
        let peer = crate::build(&config("a", "10.0.0.1/24", 1), &pairs, Clock::sim(&clock)).unwrap();
        Both { peer, dispatcher, stacks, clock }
    }

    fn turn(&mut self) {
        self.peer.step();
        self.dispatcher.turn(true);
        self.stacks.iter().for_each(|stack| _ = stack.step());
        self.dispatcher.turn(true);
        self.clock.advance(clock::Duration::from_micros(100));
    }

    fn turns(&mut self, n: usize) {
        (0..n).for_each(|_| self.turn());
    }

    fn counts(&self, name: &str) -> Vec<u64> {
        self.stacks.iter().map(|stack| stack.stack.counter(name)).collect()
    }

    fn balanced(&self) {
        for host in self.stacks.iter().chain([&self.peer]) {
            let report = host.audit();
            assert_eq!((report.imbalance(), host.port_imbalance(&report)), (0, (0, 0)), "{report:?}");
        }
        let report = self.dispatcher.audit();
        assert_eq!((report.imbalance(), self.dispatcher.port_imbalance()), (0, (0, 0)), "{report:?}");
    }

    /// Sets a sysctl of netisr at one stack, as `sysctl NAME=VALUE` does.
    fn set(&self, at: usize, name: &str, value: &str) -> Result<(), String> {
        let value = isr::sysctl::check(name, value).unwrap().map_err(|why| why.to_string())?;
        self.stacks[at].set_isr_sysctl(name, value).map_err(|why| why.to_string())
    }

    /// Sends datagrams to each stack's socket on port 9. Returns the source ports from which each
    /// stack received datagrams.
    fn heard(&mut self, from: std::ops::Range<u16>, times: u32) -> Vec<Vec<(u16, u32)>> {
        let fds: Vec<_> = self
            .stacks
            .iter()
            .map(|stack| {
                let calls = stack.shared_calls();
                let fd = calls.socket().unwrap();
                calls.bind(fd, SocketAddr::from((HERE, 9))).unwrap();
                calls.set_option(fd, socket::Opt::NonBlocking(true)).unwrap();
                fd
            })
            .collect();
        let mut heard = vec![Vec::new(); self.stacks.len()];
        for n in 0..times {
            for port in from.clone() {
                let calls = self.peer.shared_calls();
                let fd = calls.socket().unwrap();
                calls.bind(fd, SocketAddr::from(([10, 0, 0, 1], port))).unwrap();
                calls.send_to(fd, &n.to_be_bytes(), &SocketAddr::from((HERE, 9))).unwrap();
                calls.close(fd).unwrap();
                self.turns(if n == 0 { 8 } else { 2 });
                for ((stack, fd), heard) in self.stacks.iter().zip(&fds).zip(&mut heard) {
                    let mut buffer = [0; 8];
                    while let Ok((4, from)) = stack.shared_calls().recv_from(*fd, &mut buffer) {
                        heard.push((from.port(), u32::from_be_bytes(buffer[..4].try_into().unwrap())));
                    }
                }
            }
        }
        for (stack, fd) in self.stacks.iter().zip(fds) {
            stack.shared_calls().close(fd).unwrap();
        }
        heard
    }
}

#[test]
fn each_flow_stays_in_order_on_one_stack() {
    let mut both = Both::new(&config("web", "10.0.0.2/24", 3));
    let heard = both.heard(5000..5030, 4);
    assert_eq!(heard.iter().map(Vec::len).sum::<usize>(), 120, "{heard:?}");
    for port in 5000..5030 {
        let of = |heard: &Vec<(u16, u32)>| heard.iter().filter(|(from, _)| *from == port).map(|(_, n)| *n).collect();
        let by_stack: Vec<Vec<u32>> = heard.iter().map(of).filter(|heard: &Vec<u32>| !heard.is_empty()).collect();
        assert_eq!(by_stack, [[0, 1, 2, 3]], "{port}: all datagrams arrive at one stack, in order");
    }
    assert!(heard.iter().all(|heard| heard.len() >= 12), "each stack has a share of the flows: {heard:?}");
    both.balanced();
    // All flows of a peer go to one stack.
    for stack in 0..3 {
        both.set(stack, "net.isr.proto.ip.policy", "cpu").unwrap(); // one netisr for all
    }
    let heard = both.heard(6000..6010, 1);
    assert_eq!(heard.iter().filter(|heard| !heard.is_empty()).count(), 1, "{heard:?}");
    both.balanced();
}

#[test]
fn one_stack_answers_arp_and_all_learn() {
    let mut both = Both::new(&config("web", "10.0.0.2/24", 2));
    let macs: Vec<String> =
        both.stacks.iter().map(|stack| stack.stack.iface_named("eth0").unwrap().mac.to_string()).collect();
    assert_eq!(macs[0], macs[1]);
    both.turns(3);
    let before = both.counts("inet.arp.replies_sent");
    let heard = both.heard(5000..5001, 1);
    assert_eq!(heard.iter().map(Vec::len).sum::<usize>(), 1);
    let after = both.counts("inet.arp.replies_sent");
    assert_eq!((after[0] - before[0], after[1] - before[1]), (1, 0));
    assert_eq!(both.counts("inet.arp.requests_received")[1], both.counts("inet.arp.requests_received")[0]);
    for at in 0..2 {
        let known = both.stacks[at].stack.neighbors(both.stacks[at].cx());
        assert!(known.iter().any(|neighbor| neighbor.addr == Ipv4Addr::new(10, 0, 0, 1)), "stack {at}");
    }
    assert!(both.counts("inet.arp.conflicts").iter().all(|n| *n == 0), "the stacks do not conflict with each other");
    let counters = both.stacks[1].dispatch_counters().unwrap();
    assert!(counters[0].name == "node.split.received" && counters[0].value > 0, "{counters:?}");
    both.balanced();
}

/// The figures of the dispatcher are those of the ports and the queues, and each stack has its own
/// workstream.
#[test]
fn the_dispatcher_has_figures() {
    let mut both = Both::new(&config("web", "10.0.0.2/24", 2));
    both.heard(5000..5020, 2);
    let figures = both.dispatcher.figures();
    let value = |name: &str| figures.counters.iter().find(|entry| entry.name == name).unwrap().value;
    assert_eq!((figures.node.as_str(), figures.unaccounted), ("web", 0));
    assert_eq!((value("node.split.queue_full"), value("dispatch.netisr.queue_full")), (0, 0));
    let [port] = &figures.ports[..] else { panic!("{:?}", figures.ports) };
    let rx = port.counters.iter().find(|entry| entry.name == "port.rx.frames").unwrap().value;
    assert_eq!((port.name.as_str(), rx), ("eth0", value("node.split.received")));
    let (names, frames): (Vec<_>, Vec<_>) = figures.dispatched.iter().cloned().unzip();
    assert_eq!(names, ["web.0", "web.1"]);
    assert_eq!(frames.iter().sum::<u64>(), value("node.split.received") + value("node.split.copied"));
    for (at, stack) in both.stacks.iter().enumerate() {
        let rows = crate::figures::Figures::of_host(stack).isr;
        assert!(rows.len() == 4 && rows.iter().all(|row| row.workstream == at), "{rows:?}");
        assert_eq!(rows.iter().map(|row| row.queued).sum::<u64>(), frames[at], "{rows:?}");
    }
    both.balanced();
}

#[test]
fn an_icmp_error_reaches_the_stack_of_its_flow() {
    let mut both = Both::new(&config("web", "10.0.0.2/24", 2));
    let heard = both.heard(5000..5016, 1);
    assert!(heard.iter().all(|heard| !heard.is_empty()));
    // ICMP errors for closed sockets: each stack receives the errors about its own datagrams.
    for (at, heard) in heard.iter().enumerate() {
        let calls = both.stacks[at].shared_calls();
        let fd = calls.socket().unwrap();
        calls.bind(fd, SocketAddr::from((HERE, 9))).unwrap();
        for (port, _) in heard {
            calls.send_to(fd, b"late", &SocketAddr::from(([10, 0, 0, 1], *port))).unwrap();
        }
        calls.close(fd).unwrap();
    }
    both.turns(20);
    let errors = both.counts("inet.icmp4.received");
    assert_eq!(errors, heard.iter().map(|heard| heard.len() as u64).collect::<Vec<_>>());
    both.balanced();
}

#[test]
fn drops_of_a_full_queue_and_at_shutdown_have_reasons() {
    let mut both = Both::new(&config("web", "10.0.0.2/24", 2));
    both.heard(5000..5002, 1);
    both.set(0, "net.isr.proto.ip.qlimit", "5").unwrap();
    let settings = isr::snapshot(&both.stacks[1]);
    assert_eq!(settings.protocols.iter().find(|proto| proto.name == "ip").map(|ip| ip.qlimit), Some(5));
    let calls = both.peer.shared_calls();
    let fd = calls.socket().unwrap();
    for n in 0..40u8 {
        calls.send_to(fd, &[n], &SocketAddr::from((HERE, 9))).unwrap();
    }
    both.peer.step();
    (0..2).for_each(|_| _ = both.dispatcher.turn(true)); // one burst each
    // A single flow: 5 frames are queued for its stack, and 35 are dropped at the full queue.
    let dispatched = both.dispatcher.dispatched.queue_full.get();
    let rows = both.stacks[0].isr.as_ref().unwrap().netisr.snapshot();
    let ip: Vec<_> = rows.work.iter().filter(|row| row.name == "ip").map(|row| (row.len, row.qdrops)).collect();
    assert!(dispatched == 35 && (ip == [(5, 35), (0, 0)] || ip == [(0, 0), (5, 35)]), "{dispatched} {ip:?}");
    both.balanced();
    let held = both.dispatcher.audit().held;
    let outcome = both.dispatcher.end();
    assert_eq!((held, outcome.imbalance), (5, [0, 0, 0]), "{}", outcome.audit);
    assert!(outcome.audit.contains("35  dispatch.netisr.queue_full") && outcome.audit.contains("5  node.shutdown"));
}

#[test]
fn split_hosts_reject_other_modes_and_settings() {
    let both = Both::new(&config("web", "10.0.0.2/24", 2));
    for (name, value, says) in [
        ("net.isr.dispatch", "direct", "only mode deferred is available (EINVAL)"),
        ("net.isr.dispatch", "hybrid", "only mode deferred is available (EINVAL)"),
        ("net.isr.direct", "1", "only mode deferred is available (EINVAL)"),
        ("net.isr.proto.arp.dispatch", "direct", "only mode deferred is available (EINVAL)"),
        ("net.isr.proto.ip.qlimit", "10241", "must be at most 10240 (net.isr.maxqlimit)"),
    ] {
        let said = both.set(1, name, value).unwrap_err();
        assert!(said.contains(says), "{name}={value}: {said}");
    }
    let settings = isr::snapshot(&both.stacks[0]).settings;
    assert_eq!((settings.mode, settings.threads), (dispatch::netisr::Mode::Deferred, 2));
    let fault = |change: &dyn Fn(&mut HostConfig)| {
        let mut requested = config("web", "10.0.0.2/24", 2);
        change(&mut requested);
        requested.check().unwrap_err()
    };
    assert!(fault(&|c| c.set("locks", "light").unwrap()).contains("host web: stacks = 2"));
    assert!(fault(&|c| c.isr.workstreams = 2).contains("one workstream per stack"));
    assert!(fault(&|c| c.ifaces.clear()).contains("no port"));
    assert!(fault(&|c| c.set("net.isr.dispatch", "direct").unwrap()).contains("only mode deferred is available"));
    assert!(
        fault(&|c| c.ifaces.push(IfaceConfig { tunnel: Some(inet::tunnel::Kind::Gif), ..IfaceConfig::default() }))
            .contains("tunnel")
    );
    let one = crate::build::<Up>(&config("web", "10.0.0.2/24", 2), &Pairs::new(), Clock::sim(&SimClock::new()));
    assert!(one.unwrap_err().to_string().contains("stacks = 2: several stacks are not supported here"));
    let on_one = config("web", "10.0.0.2/24", 2).on_one_thread();
    assert_eq!((on_one.config.stacks, on_one.warning.is_some()), (1, true));
}

#[test]
fn stacks_have_numbered_names_and_the_hosts_settings() {
    let mut split = config("web", "10.0.0.2/24", 2);
    split.set("control", "/tmp/x/web.sock").unwrap();
    split.set("isr.bind", "on").unwrap();
    split.set("net.inet.ip.ttl", "9").unwrap();
    split.set("net.isr.proto.ip.qlimit", "9").unwrap();
    let parts = parts(&split);
    let of = |at: usize| (parts[at].name.as_str(), parts[at].control.clone().unwrap().display().to_string());
    assert_eq!([of(0).0, of(1).0], ["web.0", "web.1"]);
    assert_eq!([of(0).1, of(1).1], ["/tmp/x/web.0.sock", "/tmp/x/web.1.sock"]);
    assert_eq!(parts[1].core, Some(dispatch::core_at(1)));
    let sysctl: Vec<Vec<&str>> = parts.iter().map(|part| part.sysctl.keys().map(String::as_str).collect()).collect();
    assert_eq!(sysctl, [vec!["net.inet.ip.ttl"], vec!["net.inet.ip.ttl", "net.link.ether.inet.answer"]]);
    parts.iter().for_each(|part| assert_eq!(part.check(), Ok(())));
}

/// A capture on a stack's port contains the frames of that stack, in both directions.
#[test]
fn a_capture_contains_the_frames_of_its_stack() {
    let mut both = Both::new(&config("web", "10.0.0.2/24", 2));
    both.heard(5000..5001, 1); // resolves the neighbors
    let captures = [0, 1].map(|at| both.stacks[at].capture(wire::filter::Filter::compile("").unwrap()).unwrap());
    let heard = both.heard(5000..5016, 1);
    for at in 0..2 {
        let batch = captures[at].read();
        let came = batch
            .frames
            .iter()
            .filter(|frame| frame.fate == crate::capture::Fate::Passed(port::pcap::Direction::Inbound))
            .count();
        assert!(came == heard[at].len() && came > 0 && batch.missed == 0, "stack {at}: {came} of {}", heard[at].len());
    }
    both.balanced();
}

/// Stacks as clients: the local L4 port is selected so that the answer returns to the stack, for
/// datagrams and connections.
#[test]
fn a_connecting_stack_receives_the_answers() {
    let mut both = Both::new(&config("web", "10.0.0.2/24", 3));
    let there = SocketAddr::from(([10, 0, 0, 1], 9));
    let far = both.peer.shared_calls();
    let (echo, listener) = (far.socket().unwrap(), far.stream_socket().unwrap());
    for fd in [echo, listener] {
        far.bind(fd, there).unwrap();
        far.set_option(fd, socket::Opt::NonBlocking(true)).unwrap();
    }
    far.listen(listener, 64).unwrap();
    let mut requested = Vec::new();
    for at in 0..3 {
        for _ in 0..8 {
            let calls = both.stacks[at].shared_calls();
            let (datagrams, stream) = (calls.socket().unwrap(), calls.stream_socket().unwrap());
            for fd in [datagrams, stream] {
                calls.set_option(fd, socket::Opt::NonBlocking(true)).unwrap();
            }
            calls.connect(datagrams, there).unwrap();
            calls.send(datagrams, b"who").unwrap();
            assert_eq!(calls.connect(stream, there), Err(socket::Errno::EINPROGRESS));
            requested.push((at, datagrams, stream));
            both.turns(4); // the first one sends an ARP request
        }
    }
    for _ in 0..40 {
        both.turns(1);
        let calls = both.peer.shared_calls();
        let mut buffer = [0; 8];
        while let Ok((n, from)) = calls.recv_from(echo, &mut buffer) {
            calls.send_to(echo, &buffer[..n], &from).unwrap();
        }
    }
    for (at, datagrams, stream) in requested {
        let (calls, mut buffer) = (both.stacks[at].shared_calls(), [0; 8]);
        assert_eq!(calls.recv(datagrams, &mut buffer), Ok(3), "stack {at}");
        assert_eq!(calls.peer_addr(stream), Ok(there), "stack {at}");
        calls.close(datagrams).unwrap();
        calls.close(stream).unwrap();
    }
    assert_eq!(both.counts("tcp.out.resets"), [0; 3]);
    both.turns(20);
    both.balanced();
    // With this policy, all flows of the peer go to one stack. No local L4 port can direct its
    // answers to another stack.
    both.set(0, "net.isr.proto.ip.policy", "cpu").unwrap();
    let can = |stack: &Host<Up>| {
        let calls = stack.shared_calls();
        let fd = calls.socket().unwrap();
        let done = calls.connect(fd, there);
        calls.close(fd).unwrap();
        done.is_ok()
    };
    assert_eq!(both.stacks.iter().filter(|stack| can(stack)).count(), 1);
}
