//! Wake-ups of a sleeping host by calls of other threads, and by frames from a pair port.

use clock::{Clock, Strategy};
use inet::iface::IfaceAddr;
use linerate_node as node;
use lock::{Light, Locks, Up};
use node::Host;
use node::config::{HostConfig, IfaceConfig};
use port::{Caps, Port};
use socket::net::UdpSocket;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::time::{Duration, Instant};
use wire::Mac;

fn host<L: Locks>(name: &str) -> Host<L> {
    let config = HostConfig { name: name.to_string(), locks: L::NAME.to_string(), ..HostConfig::default() };
    Host::new(&config, Clock::live(Strategy::default())).unwrap()
}

fn plug<L: Locks>(host: &Host<L>, last: u8, port: Port) {
    let addr = IfaceAddr { addr: [10, 9, 0, last].into(), len: 24 };
    let iface = IfaceConfig { addresses: vec![addr], ..IfaceConfig::default() };
    host.attach("em0", Mac([2, 0, 0, 0, 9, last]), port, &iface).unwrap();
}

/// Loop that runs a host and counts its rounds.
#[derive(Default)]
struct Loop {
    over: AtomicBool,
    rounds: AtomicU32,
}

impl Loop {
    fn run<L: Locks>(&self, host: &Host<L>) {
        host.run(|| {
            self.rounds.fetch_add(1, Ordering::Relaxed);
            self.over.load(Ordering::Relaxed)
        });
    }

    fn rounds(&self) -> u32 {
        self.rounds.load(Ordering::Relaxed)
    }

    /// Runs `work` while another thread runs the loop of `host`.
    fn beside<L: Locks, R>(host: &Host<L>, work: impl FnOnce(&Loop) -> R) -> R
    where
        Host<L>: Sync,
    {
        let own = Loop::default();
        std::thread::scope(|scope| {
            scope.spawn(|| own.run(host));
            let done = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| work(&own)));
            own.over.store(true, Ordering::Relaxed);
            done.unwrap_or_else(|why| std::panic::resume_unwind(why))
        })
    }
}

/// Returns the number of round trips: $DOORBELL_TRIPS, or 500. Measurements use 10,000 round trips,
/// an optimized build and an idle machine.
fn trips() -> u32 {
    std::env::var("DOORBELL_TRIPS").map_or(500, |trips| trips.parse().unwrap())
}

/// Prints the median and the maximum of round-trip times.
fn print_times(what: &str, mut took: Vec<Duration>) {
    took.sort_unstable();
    println!("{what}: {} round trips, median {:?}, worst {:?}", took.len(), took[took.len() / 2], took[took.len() - 1]);
}

/// A packet that the host sends to itself is processed by its loop. Without the doorbell, the loop
/// slept up to 100 ms before each packet, and 500 round trips took over 25 s.
#[test]
fn a_call_wakes_the_loop_of_a_shared_host() {
    let host = host::<Light>("shared");
    Loop::beside(&host, |_| {
        let socket = UdpSocket::bind(&&host, "127.0.0.1:0").unwrap();
        socket.set_read_timeout(Some(Duration::from_secs(20))).unwrap();
        let (to, start, mut took) = (socket.local_addr().unwrap(), Instant::now(), Vec::new());
        for n in 0..trips() {
            let begin = Instant::now();
            socket.send_to(&n.to_be_bytes(), to).unwrap();
            let mut got = [0; 4];
            assert_eq!(socket.recv(&mut got).unwrap(), 4);
            assert_eq!(got, n.to_be_bytes());
            took.push(begin.elapsed());
        }
        assert!(start.elapsed() < Duration::from_millis(24) * trips(), "{:?}", start.elapsed());
        print_times("a packet to the host itself", took);
    });
}

/// A sleeping loop holds no lock, so calls that need its ports return while it sleeps. Otherwise,
/// each call would wait for the end of a sleep.
#[test]
fn a_loop_that_sleeps_holds_no_lock() {
    let host = host::<Light>("shared");
    let (here, _there) = port::pair::pair("ab", 64, Caps::PLAIN);
    plug(&host, 1, here);
    Loop::beside(&host, |own| {
        while own.rounds() < 3 {
            std::thread::yield_now();
        }
        let (before, start) = (own.rounds(), Instant::now());
        for _ in 0..200 {
            assert_eq!(host.gone(), []);
        }
        // A sleep lasts 100 ms.
        let slept = start.elapsed().as_millis() as u32 / 100;
        assert!(own.rounds() - before < 20 + slept, "{} rounds", own.rounds() - before);
    });
}

/// A packet that a call sends to the host itself ends the loop's sleep. Here a SYN passes the
/// loopback queue to a closed port, and a reset returns. Without the doorbell, each packet would
/// wait for the end of a sleep of 100 ms.
#[test]
fn a_packet_to_the_host_itself_wakes_the_loop() {
    let host = host::<Light>("shared");
    Loop::beside(&host, |own| {
        while own.rounds() < 3 {
            std::thread::yield_now();
        }
        let mut took = Vec::new();
        for n in 0..20 {
            let start = Instant::now();
            let refused = socket::net::TcpStream::connect(&&host, ("127.0.0.1", 9 + n)).unwrap_err();
            assert_eq!(refused.kind(), std::io::ErrorKind::ConnectionRefused);
            took.push(start.elapsed());
        }
        took.sort_unstable();
        // Only half of the 20 attempts must take less than 50 ms, because the machine may be busy.
        assert!(took[10] < Duration::from_millis(50), "{took:?}");
    });
}

/// Two hosts of one thread each are connected by a pair. All answers arrive, and an idle host does
/// not poll. Polling would cause 20,000 rounds per second.
#[test]
fn hosts_on_a_pair_sleep_until_a_frame_comes() {
    let (here, there) = port::pair::pair("ab", 64, Caps::PLAIN);
    let (echo, rounds) = (Loop::default(), AtomicU32::new(0));
    std::thread::scope(|scope| {
        scope.spawn(|| {
            let host = host::<Up>("echo");
            plug(&host, 2, there);
            let calls = host.shared_calls();
            let fd = calls.socket().unwrap();
            calls.set_option(fd, socket::Opt::NonBlocking(true)).unwrap();
            calls.bind(fd, "0.0.0.0:7".parse().unwrap()).unwrap();
            host.run(|| {
                calls.set_now(host.clock.now());
                let mut buffer = [0; 64];
                while let Ok((n, from)) = calls.recv_from(fd, &mut buffer) {
                    calls.send_to(fd, &buffer[..n], &from).unwrap();
                }
                rounds.fetch_add(1, Ordering::Relaxed);
                echo.over.load(Ordering::Relaxed)
            });
        });
        let host = host::<Up>("asks");
        plug(&host, 1, here);
        let socket = UdpSocket::bind(&&host, "10.9.0.1:0").unwrap();
        socket.set_read_timeout(Some(Duration::from_secs(20))).unwrap();
        let done = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
            let mut took = Vec::new();
            for n in 0..trips() {
                let begin = Instant::now();
                socket.send_to(&n.to_be_bytes(), "10.9.0.2:7").unwrap();
                let mut got = [0; 4];
                assert_eq!(socket.recv(&mut got).unwrap(), 4);
                assert_eq!(got, n.to_be_bytes());
                took.push(begin.elapsed());
            }
            print_times("a pair", took);
            let before = rounds.load(Ordering::Relaxed);
            std::thread::sleep(Duration::from_secs(1));
            let idle = rounds.load(Ordering::Relaxed) - before;
            assert!(idle < 200, "{idle} rounds in a second without a frame");
        }));
        echo.over.store(true, Ordering::Relaxed);
        done.unwrap_or_else(|why| std::panic::resume_unwind(why));
    });
}

/// A transmit-only port is not polled, and an idle port without a descriptor is polled rarely.
/// Polling without pause would cause 20,000 rounds per second.
#[test]
fn polling_ports_without_a_descriptor_leave_the_cpu_idle() {
    let pairs = port::Pairs::new();
    for (near, far, most) in [("null:n0", "null:n1", 100), ("nic(wire=w):n0", "nic(wire=w):n1", 1_500)] {
        let build = |name: &str| {
            let config = HostConfig { ifaces: vec![IfaceConfig::on(name)], ..HostConfig::default() };
            node::build::<Up>(&config, &pairs, Clock::live(Strategy::default())).unwrap()
        };
        let (host, _other) = (build(near), build(far));
        let rounds = AtomicU32::new(0);
        let (mut before, start) = (0, Instant::now());
        host.run(|| {
            let now = rounds.fetch_add(1, Ordering::Relaxed);
            if start.elapsed() < Duration::from_secs(1) {
                before = now;
            }
            start.elapsed() >= Duration::from_secs(2)
        });
        let idle = rounds.load(Ordering::Relaxed) - before;
        assert!(idle < most, "{near}: {idle} rounds in a second");
    }
}
