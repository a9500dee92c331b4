//! Streams and datagrams through netisr between two hosts, in every dispatch mode, and while the
//! mode changes under load.

use clock::{Clock, Strategy};
use lock::{Light, Locks, Up};
use node::Host;
use node::config::{HostConfig, IfaceConfig};
use port::Pairs;
use serde_json::Value;
use socket::net::{TcpListener, TcpStream, UdpSocket};
use std::io::{Read, Write};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

fn config<L: Locks>(name: &str, addr: &str, workstreams: usize) -> HostConfig {
    let mut config = HostConfig { name: name.to_string(), locks: L::NAME.to_string(), ..HostConfig::default() };
    config.isr.workstreams = workstreams;
    // The queues are long enough that no frame is dropped in these tests.
    config.set("isr.maxqlimit", "20000").unwrap();
    config.ifaces.push(IfaceConfig { name: Some("eth0".to_string()), ..IfaceConfig::on("pair(slots=1024):ab") });
    config.set_iface("addresses", addr).unwrap();
    if workstreams > 0 {
        config.set("net.isr.defaultqlimit", "20000").unwrap();
    }
    config
}

fn host<L: Locks>(name: &str, addr: &str, workstreams: usize, pairs: &Pairs) -> Host<L> {
    node::build(&config::<L>(name, addr, workstreams), pairs, Clock::live(Strategy::TscScaled)).unwrap()
}

fn say<L: Locks>(host: &Host<L>, line: &str) -> Value {
    let words: Vec<&str> = line.split(' ').collect();
    let said =
        linerate_commands::host::run(host, &Pairs::new(), &words, true).unwrap_or_else(|why| panic!("{line}: {why}"));
    serde_json::from_str(&said).unwrap_or(Value::String(said))
}

/// Returns the sum of one column of `netstat -Q`.
fn column<L: Locks>(host: &Host<L>, name: &str) -> u64 {
    say(host, "netstat -Q")["workstreams"].as_array().unwrap().iter().map(|row| row[name].as_u64().unwrap()).sum()
}

/// Runs `body` while threads run the hosts' loops and netisr's workers. Then checks that all frames
/// are accounted for, and that none was lost or dropped at a queue.
fn beside(hosts: [&Host<Light>; 2], body: impl FnOnce()) {
    beside_workers(hosts, |host, at| host.run_isr(at).unwrap(), body);
    for host in hosts {
        assert_eq!((column(host, "queue-drops"), column(host, "lost")), (0, 0));
    }
}

/// Runs `body` like [`beside`], with `work` on netisr's threads. Frames may be dropped or lost.
fn beside_workers(hosts: [&Host<Light>; 2], work: fn(&Host<Light>, usize), body: impl FnOnce()) {
    let over = AtomicBool::new(false);
    std::thread::scope(|scope| {
        for host in hosts {
            for at in 0..host.isr_threads() {
                dispatch::spawn_scoped(scope, "isr", move || work(host, at)).unwrap();
            }
            let over = &over;
            let run = move || host.run(|| over.load(Ordering::SeqCst));
            dispatch::spawn_scoped(scope, "loop", run).unwrap();
        }
        struct End<'a>(&'a AtomicBool, [&'a Host<Light>; 2]);
        impl Drop for End<'_> {
            fn drop(&mut self) {
                self.0.store(true, Ordering::SeqCst);
                self.1.iter().for_each(|host| host.finish_isr());
            }
        }
        let _end = End(&over, hosts);
        body();
        std::thread::sleep(Duration::from_millis(30)); // the last ACKs
    });
    for host in hosts {
        let audit = say(host, "audit");
        let zero = Value::from(0);
        assert_eq!(
            (&audit["imbalance"], &audit["ports"]["rx_imbalance"], &audit["ports"]["tx_imbalance"]),
            (&zero, &zero, &zero)
        );
    }
}

/// Transmit half with which netisr's threads panic at every 10th frame or burst that they send, at
/// most `lives` times.
struct Deadly {
    half: Box<dyn port::TxHalf>,
    sent: u32,
    lives: u32,
}

impl Deadly {
    /// Panics at every 10th call while it owns a frame, which unwinding then frees.
    fn may_kill(&mut self, take: impl FnOnce() -> Option<buf::Frame>) {
        if std::thread::current().name() == Some("isr") {
            self.sent += 1;
            if self.sent.is_multiple_of(10) && self.lives > 0 {
                self.lives -= 1;
                let _in_hand = take();
                panic!("deliberate panic of a netisr worker");
            }
        }
    }
}

impl port::TxHalf for Deadly {
    fn tx_burst(&mut self, from: &mut buf::Burst, now: clock::Instant) -> usize {
        self.may_kill(|| from.pop());
        self.half.tx_burst(from, now)
    }

    fn tx_one(&mut self, frame: buf::Frame, now: clock::Instant) -> Result<(), buf::Frame> {
        self.may_kill(|| None);
        self.half.tx_one(frame, now)
    }
}

/// Returns a host with one workstream, whose worker panics `lives` times.
fn mortal(pairs: &Pairs, lives: u32) -> Host<Light> {
    let config = config::<Light>("b", "10.0.0.2/24", 1);
    let none = HostConfig { ifaces: Vec::new(), ..config.clone() };
    let host: Host<Light> = node::build(&none, pairs, Clock::live(Strategy::TscScaled)).unwrap();
    let (iface, mac) = (&config.ifaces[0], host.mac_of("eth0"));
    let spec = port::Spec::parse(&iface.port).unwrap();
    let mut port = port::open(&spec, &port::Env { pool: host.stack.pool.clone(), pairs, mac, unit: 0 }).unwrap();
    let half = std::mem::replace(&mut port.tx, Box::new(Nothing));
    port.tx = Box::new(Deadly { half, sent: 0, lives });
    host.attach("eth0", mac, port, iface).unwrap();
    say(&host, "sysctl net.isr.dispatch=deferred");
    host
}

struct Nothing;

impl port::TxHalf for Nothing {
    fn tx_burst(&mut self, _: &mut buf::Burst, _: clock::Instant) -> usize {
        0
    }
}

#[test]
fn a_panicked_worker_is_restarted_and_the_audit_balances() {
    let pairs = Pairs::new();
    let (a, b) = (host("a", "10.0.0.1/24", 0, &pairs), mortal(&pairs, 5));
    beside_workers(
        [&a, &b],
        |host, at| host.run_isr(at).unwrap(),
        || {
            for port in 80..90 {
                stream(&a, &b, port, 1_000_000);
            }
            round_trips(&a, &b, 7, 50);
        },
    );
    let table = say(&b, "netstat -Q");
    assert_eq!((table["restarts"].as_u64(), column(&b, "queue-drops")), (Some(5), 0));
    let audit = say(&b, "audit");
    assert_eq!(audit["drops"]["net.isr.lost"].as_u64(), Some(5), "one frame per panic is lost: {audit}");
    assert_eq!(column(&b, "queued"), column(&b, "handled") + column(&b, "lost"), "{table}");
    let words = ["show", "isr"];
    let shown = linerate_commands::host::run(&b, &Pairs::new(), &words, false).unwrap();
    assert!(shown.contains("frames lost, 5 restarts"), "{shown}");
}

/// A worker that panics more than 8 times is not restarted. Frames for its workstream then stay
/// queued, frames for its full queue are dropped with a reason, and the host keeps running.
#[test]
fn a_worker_that_panics_too_often_is_not_restarted() {
    let pairs = Pairs::new();
    let (a, b) = (host::<Light>("a", "10.0.0.1/24", 0, &pairs), mortal(&pairs, u32::MAX));
    say(&b, "sysctl net.isr.proto.ip.qlimit=30");
    let died = |host: &Host<Light>, at: usize| {
        let end = host.run_isr(at);
        assert!(host.stack.name == "a" || end.is_err_and(|why| why.to_string().contains("panicked more than 8 times")));
    };
    beside_workers([&a, &b], died, || {
        let listener = TcpListener::bind(&&b, "10.0.0.2:80").unwrap();
        let mut client = TcpStream::connect(&&a, "10.0.0.2:80").unwrap();
        client.set_write_timeout(Some(Duration::from_millis(100))).unwrap();
        let (mut server, _) = listener.accept().unwrap();
        let until = Instant::now() + Duration::from_secs(60);
        let mut buffer = vec![0; 1 << 16];
        server.set_nonblocking(true).unwrap();
        while say(&b, "netstat -Q")["restarts"].as_u64() < Some(9) {
            assert!(Instant::now() < until, "{}", say(&b, "netstat -Q"));
            let _ = (client.write(&[7; 4000]), server.read(&mut buffer));
        }
        let socket = UdpSocket::bind(&&a, "10.0.0.1:0").unwrap();
        while column(&b, "queue-drops") == 0 || column(&b, "length") < 30 {
            assert!(Instant::now() < until, "{}", say(&b, "netstat -Q"));
            socket.send_to(b"for a stopped queue", ("10.0.0.2", 9)).unwrap();
        }
    });
    let held = say(&b, "audit")["held"].as_u64().unwrap();
    assert!(held >= 30, "the queue is full: {held}");
    b.discard();
    let audit = say(&b, "audit");
    assert_eq!((&audit["imbalance"], &audit["held"]), (&0.into(), &0.into()));
    assert!(audit["drops"]["dispatch.netisr.queue_full"].as_u64() > Some(0), "{audit}");
}

fn pattern(at: usize) -> u8 {
    (at % 251) as u8
}

/// Sends a stream from `a` to `b` over a connection, and compares every byte.
fn stream(a: &Host<Light>, b: &Host<Light>, port: u16, bytes: usize) {
    let listener = TcpListener::bind(&b, ("10.0.0.2", port)).unwrap();
    std::thread::scope(|scope| {
        let server = move || {
            let (mut stream, _) = listener.accept().unwrap();
            let mut got = Vec::new();
            stream.read_to_end(&mut got).unwrap();
            assert_eq!(got.len(), bytes);
            assert!(got.iter().enumerate().all(|(at, byte)| *byte == pattern(at)));
        };
        let server = dispatch::spawn_scoped(scope, "server", server).unwrap();
        let mut client = TcpStream::connect(&a, ("10.0.0.2", port)).unwrap();
        let all: Vec<u8> = (0..bytes).map(pattern).collect();
        client.write_all(&all).unwrap();
        drop(client);
        server.join().unwrap();
    });
}

/// Exchanges `n` requests and answers over UDP, and checks that each arrives.
fn round_trips(a: &Host<Light>, b: &Host<Light>, port: u16, n: u32) {
    let server = UdpSocket::bind(&b, ("10.0.0.2", port)).unwrap();
    let over = AtomicBool::new(false);
    std::thread::scope(|scope| {
        let over = &over;
        let serve = move || {
            let mut buffer = [0; 64];
            server.set_read_timeout(Some(Duration::from_millis(20))).unwrap();
            while !over.load(Ordering::SeqCst) {
                if let Ok((len, from)) = server.recv_from(&mut buffer) {
                    server.send_to(&buffer[..len], from).unwrap();
                }
            }
        };
        dispatch::spawn_scoped(scope, "server", serve).unwrap();
        let client = UdpSocket::bind(&a, "10.0.0.1:0").unwrap();
        client.set_read_timeout(Some(Duration::from_secs(20))).unwrap();
        let mut buffer = [0; 64];
        for number in 0..n {
            client.send_to(&number.to_be_bytes(), ("10.0.0.2", port)).unwrap();
            let (len, _) = client.recv_from(&mut buffer).unwrap();
            assert_eq!(buffer[..len], number.to_be_bytes());
        }
        over.store(true, Ordering::SeqCst);
    });
}

#[test]
fn streams_and_datagrams_work_in_every_mode() {
    for (workstreams, mode) in [(1, "direct"), (1, "deferred"), (2, "deferred"), (2, "hybrid"), (1, "hybrid")] {
        let pairs = Pairs::new();
        let (a, b) = (host("a", "10.0.0.1/24", 0, &pairs), host("b", "10.0.0.2/24", workstreams, &pairs));
        say(&b, &format!("sysctl net.isr.dispatch={mode}"));
        beside([&a, &b], || {
            stream(&a, &b, 80, 2_000_000);
            round_trips(&a, &b, 7, 200);
        });
        let counts = ["dispatched", "hybrid-dispatched", "queued", "handled"].map(|name| column(&b, name));
        assert_eq!(counts[0] + counts[1] + counts[2], counts[3], "{mode}: {counts:?}");
        let ip = |name: &str| {
            let rows = say(&b, "netstat -Q")["workstreams"].as_array().unwrap().clone();
            rows.iter().filter(|row| row["name"] == "ip").map(|row| row[name].as_u64().unwrap()).sum::<u64>()
        };
        match mode {
            "direct" => assert_eq!(ip("dispatched"), ip("handled")),
            "deferred" => assert_eq!(ip("queued"), ip("handled")),
            _ => assert_eq!(ip("dispatched"), 0),
        }
        assert!(ip("handled") > 1000);
    }
}

/// Runs for $SWITCH_SECONDS seconds, by default 2; .ci/run sets 6.
#[test]
fn switches_under_load_lose_no_frame() {
    let seconds = std::env::var("SWITCH_SECONDS").map_or(2, |said| said.parse().unwrap());
    let pairs = Pairs::new();
    let (a, b) = (host("a", "10.0.0.1/24", 1, &pairs), host("b", "10.0.0.2/24", 2, &pairs));
    beside([&a, &b], || {
        let over = AtomicBool::new(false);
        std::thread::scope(|scope| {
            let switch = || {
                for n in 0.. {
                    let mode = ["direct", "deferred", "hybrid"][n % 3];
                    say(&b, &format!("sysctl net.isr.dispatch={mode}"));
                    say(&a, &format!("sysctl net.isr.dispatch={}", ["hybrid", "direct", "deferred"][n % 3]));
                    say(&b, &format!("sysctl net.isr.proto.ip.policy={}", ["flow", "source", "cpu"][n % 3]));
                    std::thread::sleep(Duration::from_millis(10));
                    if over.load(Ordering::SeqCst) {
                        return;
                    }
                }
            };
            dispatch::spawn_scoped(scope, "switch", switch).unwrap();
            let until = Instant::now() + Duration::from_secs(seconds);
            for port in (1000..60_000).cycle().take_while(|_| Instant::now() < until) {
                stream(&a, &b, port, 1_000_000);
                round_trips(&a, &b, port, 50);
            }
            over.store(true, Ordering::SeqCst);
        });
    });
    assert!(column(&b, "dispatched") > 0 && column(&b, "queued") > 0);
}

/// Runs a server on a host of one thread, whose blocking calls run its rounds. Uses each of `modes`
/// for an equal share of the requests. Returns counters of netisr.
fn server_alone(pairs: &Pairs, modes: &[&str], ready: &AtomicBool, requests: usize) -> [u64; 4] {
    let host = host::<Up>("b", "10.0.0.2/24", 1, pairs);
    let listener = TcpListener::bind(&&host, "10.0.0.2:80").unwrap();
    ready.store(true, Ordering::SeqCst);
    let (mut stream, _) = listener.accept().unwrap();
    let (mut request, mut n) = ([0; 1000], 0);
    while stream.read_exact(&mut request).is_ok() {
        stream.write_all(&request).unwrap();
        n += 1;
        say(&host, &format!("sysctl net.isr.dispatch={}", modes[n * modes.len() / (requests + 1)]));
    }
    drop((stream, listener));
    host.discard();
    assert_eq!(n, requests);
    assert_eq!((say(&host, "audit")["imbalance"].as_i64(), column(&host, "queue-drops")), (Some(0), 0));
    ["dispatched", "hybrid-dispatched", "queued", "handled"].map(|name| column(&host, name))
}

#[test]
fn unshared_hosts_queue_on_their_own_threads() {
    let pairs = Pairs::new();
    let ready = AtomicBool::new(false);
    let counts = std::thread::scope(|scope| {
        let modes = &["direct", "deferred", "hybrid", "deferred", "direct"];
        let serve = || server_alone(&pairs, modes, &ready, 500);
        let server = dispatch::spawn_scoped(scope, "b", serve).unwrap();
        while !ready.load(Ordering::SeqCst) {
            std::thread::yield_now();
        }
        let host = host::<Up>("a", "10.0.0.1/24", 1, &pairs);
        say(&host, "sysctl net.isr.dispatch=deferred");
        let mut client = TcpStream::connect(&&host, "10.0.0.2:80").unwrap();
        for n in 0..500u32 {
            let request: Vec<u8> = (0..1000).map(|at| pattern(n as usize + at)).collect();
            client.write_all(&request).unwrap();
            let mut answer = [0; 1000];
            client.read_exact(&mut answer).unwrap();
            assert_eq!(answer[..], request[..]);
        }
        drop(client);
        while !server.is_finished() {
            host.step(); // the peer's FIN is to be answered
        }
        assert_eq!(column(&host, "queued"), column(&host, "handled"));
        server.join().unwrap()
    });
    let [dispatched, hybrid, queued, handled] = counts;
    assert!(dispatched > 100 && hybrid > 50 && queued > 100, "{counts:?}");
    assert_eq!(dispatched + hybrid + queued, handled);
}

#[test]
fn a_light_host_without_threads_runs_its_own_queues() {
    let pairs = Pairs::new();
    let (a, b) = (host("a", "10.0.0.1/24", 0, &pairs), host("b", "10.0.0.2/24", 3, &pairs));
    say(&b, "sysctl net.isr.dispatch=deferred");
    let over = AtomicBool::new(false);
    std::thread::scope(|scope| {
        for host in [&a, &b] {
            let run = || host.run(|| over.load(Ordering::SeqCst));
            dispatch::spawn_scoped(scope, "loop", run).unwrap();
        }
        stream(&a, &b, 80, 500_000);
        over.store(true, Ordering::SeqCst);
    });
    assert!(column(&b, "queued") > 300 && column(&b, "queue-drops") == 0);
    assert_eq!(say(&b, "audit")["imbalance"], 0);
}

/// Creates `depth` nested tunnels from `local` to `remote`, which are the last octets of the
/// addresses. The outermost tunnel has the outer addresses 10.0.0.x, and tunnel `n` has the inner
/// addresses 172.16.n.x/30.
fn tunnels(host: &Host<Light>, local: u8, remote: u8, depth: u8) {
    let outer = |n: u8, end: u8| if n == 0 { format!("10.0.0.{end}") } else { format!("172.16.{}.{end}", n - 1) };
    for n in 0..depth {
        let (from, to) = (outer(n, local), outer(n, remote));
        say(host, &format!("ifconfig gif{n} create tunnel {from} {to} inet 172.16.{n}.{local}/30"));
    }
}

/// Returns the received numbers, until there are `n` or until none arrives for two seconds.
fn numbers(socket: &UdpSocket<&Host<Light>>, n: usize) -> Vec<u32> {
    socket.set_read_timeout(Some(Duration::from_secs(2))).unwrap();
    let mut buffer = [0; 4];
    std::iter::from_fn(|| socket.recv_from(&mut buffer).is_ok().then(|| u32::from_be_bytes(buffer))).take(n).collect()
}

// More frames than a chunk wait in the queue of a tunnel and in the host's own queue, from which
// workers and the loop take frames.
#[test]
fn tunneled_and_local_flows_stay_in_order() {
    const GROUP: u32 = 100;
    let pairs = Pairs::new();
    let (a, b) = (host("a", "10.0.0.1/24", 0, &pairs), host("b", "10.0.0.2/24", 2, &pairs));
    say(&b, "sysctl net.isr.dispatch=deferred");
    tunnels(&a, 1, 2, 1);
    tunnels(&b, 2, 1, 1);
    beside([&a, &b], || {
        round_trips(&a, &b, 7, 20);
        let (inside, own) =
            (UdpSocket::bind(&&b, "172.16.0.2:9").unwrap(), UdpSocket::bind(&&b, "10.0.0.2:10").unwrap());
        let (far, near) = (UdpSocket::bind(&&a, "172.16.0.1:9").unwrap(), UdpSocket::bind(&&b, "10.0.0.2:11").unwrap());
        for group in 0..60 {
            let sent: Vec<u32> = (group * GROUP..(group + 1) * GROUP).collect();
            for n in &sent {
                far.send_to(&n.to_be_bytes(), "172.16.0.2:9").unwrap();
                near.send_to(&n.to_be_bytes(), "10.0.0.2:10").unwrap();
            }
            assert_eq!(numbers(&inside, sent.len()), sent);
            assert_eq!(numbers(&own, sent.len()), sent);
        }
    });
}

// A decapsulated packet may belong to another tunnel. The worker that received it also processes
// it, without a round of the loop at each level.
#[test]
fn a_worker_processes_nested_tunnels_alone() {
    const DEPTH: u8 = 6;
    let pairs = Pairs::new();
    let (a, b) = (host::<Light>("a", "10.0.0.1/24", 0, &pairs), host::<Light>("b", "10.0.0.2/24", 2, &pairs));
    say(&b, "sysctl net.isr.dispatch=deferred");
    let mac = say(&b, "ip link show eth0")[0]["address"].as_str().unwrap().to_string();
    say(&a, &format!("arp -s 10.0.0.2 {mac}"));
    tunnels(&a, 1, 2, DEPTH);
    tunnels(&b, 2, 1, DEPTH);
    let (far, near) = (UdpSocket::bind(&&a, "0.0.0.0:9").unwrap(), UdpSocket::bind(&&b, "0.0.0.0:9").unwrap());
    let got = std::thread::scope(|scope| {
        for at in 0..b.isr_threads() {
            let b = &b;
            dispatch::spawn_scoped(scope, "isr", move || b.run_isr(at).unwrap()).unwrap();
        }
        far.send_to(&7u32.to_be_bytes(), (format!("172.16.{}.2", DEPTH - 1).as_str(), 9)).unwrap();
        b.step(); // from the port to the worker, and never again
        let got = numbers(&near, 1);
        b.finish_isr();
        got
    });
    assert_eq!(got, [7]);
    assert_eq!(say(&b, "audit")["imbalance"], 0);
}

/// Transmit half that takes 500 us per frame on threads with the given name, which are those that
/// process received frames.
struct Slow(Box<dyn port::TxHalf>, &'static str);

impl port::TxHalf for Slow {
    fn tx_burst(&mut self, from: &mut buf::Burst, now: clock::Instant) -> usize {
        if std::thread::current().name() == Some(self.1) {
            std::thread::sleep(Duration::from_micros(500) * from.len() as u32);
        }
        self.0.tx_burst(from, now)
    }
}

/// Returns two hosts connected by cards. The second one sends answers slowly. Each datagram to a
/// closed L4 port causes one answer, an ICMP error.
fn overloaded(pairs: &Pairs, mode: &str) -> (Host<Light>, Host<Light>) {
    let on_card = |name: &str, addr: &str, workstreams: usize| {
        let mut config = config::<Light>(name, addr, workstreams);
        config.ifaces[0].port = format!("nic(wire=w,pause=off,rx_ring=4096,reg_read_ns=0,reg_write_ns=0):{name}");
        config.set("pool.buffers", "16384").unwrap();
        config.set("net.inet.icmp.icmplim", "0").unwrap();
        config
    };
    let a = node::build(&on_card("a", "10.0.0.1/24", 0), pairs, Clock::live(Strategy::TscScaled)).unwrap();
    let config = on_card("b", "10.0.0.2/24", 1);
    let none = HostConfig { ifaces: Vec::new(), ..config.clone() };
    let b: Host<Light> = node::build(&none, pairs, Clock::live(Strategy::TscScaled)).unwrap();
    let (iface, mac) = (&config.ifaces[0], b.mac_of("eth0"));
    let spec = port::Spec::parse(&iface.port).unwrap();
    let mut port = port::open(&spec, &port::Env { pool: b.stack.pool.clone(), pairs, mac, unit: 0 }).unwrap();
    let half = std::mem::replace(&mut port.tx, Box::new(Nothing));
    port.tx = Box::new(Slow(half, if mode == "direct" { "loop" } else { "isr" }));
    b.attach("eth0", mac, port, iface).unwrap();
    say(&b, &format!("sysctl net.isr.dispatch={mode} net.isr.proto.ip.qlimit=256"));
    (a, b)
}

/// More frames arrive than can be processed. In direct mode, the excess stays in the card's ring.
/// In deferred mode, it is taken from the ring and dropped at the full queue.
#[test]
fn the_mode_decides_where_overload_drops() {
    for mode in ["direct", "deferred"] {
        let pairs = Pairs::new();
        let (a, b) = overloaded(&pairs, mode);
        beside_workers(
            [&a, &b],
            |host, at| host.run_isr(at).unwrap(),
            || {
                let socket = UdpSocket::bind(&&a, "10.0.0.1:0").unwrap();
                let until = Instant::now() + Duration::from_secs(60);
                // Runs until twice the capacity of the ring has been dropped. About 10,000
                // datagrams per second arrive, of which 2,000 are processed. The counters are read
                // without a lock of the stack, because a worker holds that lock while it sends.
                let refused = || b.isr_seen().unwrap().work.iter().map(|row| row.qdrops).sum::<u64>();
                let missed = || b.ports()[0].nic.as_ref().unwrap().missed();
                while refused() + missed() < 8192 {
                    assert!(Instant::now() < until, "{} refused, {} missed", refused(), missed());
                    for _ in 0..16 {
                        let _ = socket.send_to(b"more than can be", ("10.0.0.2", 4000)); // an answer may be heard here
                    }
                    std::thread::sleep(Duration::from_millis(1));
                }
            },
        );
        let places = say(&b, "show places");
        let of = |name: &str| {
            let rows = places["places"].as_array().unwrap();
            rows.iter().find(|row| row["place"] == name).unwrap()["frames"].as_u64().unwrap()
        };
        let (ring, queue) = (places["ring"].as_u64().unwrap(), of("queue"));
        match mode {
            "direct" => assert!(queue == 0 && ring >= 8192, "{places}"),
            // The number of frames left in the ring depends on the machine, because a loop that is
            // not scheduled leaves frames in the ring.
            _ => assert!(queue >= 256, "{places}"),
        }
        assert_eq!(column(&b, "queue-drops"), queue);
        let all: u64 = places["places"].as_array().unwrap().iter().map(|row| row["frames"].as_u64().unwrap()).sum();
        assert_eq!((Some(all), &places["imbalance"]), (places["dropped"].as_u64(), &0.into()), "{places}");
        let shown = linerate_commands::host::run(&b, &Pairs::new(), &["show", "places"], false).unwrap();
        assert!(shown.starts_with("ring ") && shown.contains("before reception"), "{shown}");
    }
}
