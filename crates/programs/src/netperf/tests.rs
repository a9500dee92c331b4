mod load;
mod netrate;

use super::{OurSockets, Rest};
use apps::netperf::far::Far;
use apps::netperf::near::Near;
use apps::netperf::sockets::{Pace, Setup, Sockets};
use apps::netperf::{Length, Options, Outcome, PORT, Test, control};
use apps::slots::Limits;
use clock::{Clock, Duration, Instant, Strategy};
use inet::iface::IfaceAddr;
use lock::Up;
use node::Host;
use node::config::{HostConfig, IfaceConfig};
use port::Pairs;
use std::net::{Ipv4Addr, SocketAddr};

const LIMITS: Limits = Limits { most: 3, per_peer: 2 };

fn host(n: u8, port: &str, pairs: &Pairs) -> Host<Up> {
    let config = HostConfig { name: format!("np{n}"), ..HostConfig::default() };
    let host = Host::new(&config, Clock::live(Strategy::TscScaled)).unwrap();
    let addresses = vec![IfaceAddr { addr: Ipv4Addr::new(10, 0, 0, n), len: 24 }];
    host.add_port(&IfaceConfig { addresses, ..IfaceConfig::on(port) }, pairs).unwrap();
    host
}

/// Runs tests between two hosts on this thread, over `port`.
fn over(port: &str, options: &[Options]) -> Vec<anyhow::Result<Outcome>> {
    let pairs = Pairs::new();
    let hosts = [host(1, port, &pairs), host(2, port, &pairs)];
    let (mut near, mut there) = (OurSockets::new(&hosts[0], Rest::Never), OurSockets::new(&hosts[1], Rest::Never));
    let mut far = Far::open(&mut there, SocketAddr::from((Ipv4Addr::UNSPECIFIED, PORT)), LIMITS).unwrap();
    let mut found = Vec::new();
    for options in options {
        let round = |sockets: &mut OurSockets<'_, Up>, pace| {
            let now = there.step(pace);
            far.turn(&mut there, now);
            sockets.step(pace)
        };
        let at = SocketAddr::from(([10, 0, 0, 2], PORT));
        found.push(Near::new(&mut near, round, |_| ()).run(at, options));
    }
    for host in &hosts {
        assert_eq!(host.stack.audit(host.cx()).imbalance(), 0);
    }
    found
}

fn counted(test: Test, count: u64) -> Options {
    Options { length: Length::Count(count), ..Options::new(test) }
}

#[test]
fn streams_carry_the_requested_bytes() {
    let maerts = Options { send_size: Some(1000), ..counted(Test::TcpMaerts, 1_234_567) };
    let timed =
        Options { length: Length::Time(Duration::from_millis(50)), times: true, ..Options::new(Test::TcpStream) };
    let back = Options { test: Test::TcpMaerts, ..timed.clone() };
    let found = over("pair:p", &[counted(Test::TcpStream, 10_000_001), maerts, timed, back]);
    let found: Vec<Outcome> = found.into_iter().map(Result::unwrap).collect();
    assert_eq!((found[0].bytes, found[0].tally.bytes, found[0].cut), (10_000_001, 10_000_001, false));
    assert_eq!((found[0].near.send, found[0].far.recv, found[0].send_size), (131_072, 131_072, 131_072));
    assert_eq!((found[1].bytes, found[1].tally.bytes, found[1].send_size), (1_234_567, 1_234_567, 1000));
    for timed in &found[2..] {
        assert!(timed.elapsed >= 0.05 && timed.elapsed < 5.0 && timed.bytes == timed.tally.bytes, "{timed:?}");
        assert!(timed.times.as_ref().is_some_and(|times| times.total() > 0));
    }
}

#[test]
fn transactions_are_counted_and_timed() {
    let sized = Options { request: 3000, response: 5000, times: true, ..counted(Test::TcpRr, 500) };
    let burst = Options { burst: 7, times: true, nodelay: true, ..counted(Test::TcpRr, 1000) };
    let udp = Options { request: 64, response: 128, ..counted(Test::UdpRr, 300) };
    let udp_burst = Options { burst: 3, ..counted(Test::UdpRr, 300) };
    let brief = |test| Options { length: Length::Time(Duration::from_millis(20)), burst: 5, ..Options::new(test) };
    for found in over("pair:p", &[brief(Test::TcpRr), brief(Test::UdpRr)]) {
        let found = found.unwrap();
        assert!(found.messages > 0 && found.tally.messages >= found.messages, "{found:?}");
    }
    let found = over("pair:p", &[counted(Test::TcpRr, 1000), sized, burst, udp, udp_burst]);
    for (found, n) in found.into_iter().zip([1000, 500, 1000, 300, 300]) {
        let found = found.unwrap();
        assert_eq!((found.messages, found.tally.messages), (n, n), "{found:?}");
        assert!(found.times.is_none_or(|times| times.total() == n));
    }
}

#[test]
fn connect_tests_exceed_the_number_of_local_ports() {
    let crr = Options { request: 100, response: 4000, ..counted(Test::TcpCrr, 300) };
    let found = over("pair:p", &[counted(Test::TcpCc, 70_000), crr]);
    for (found, n) in found.into_iter().zip([70_000, 300]) {
        let found = found.unwrap();
        assert_eq!((found.messages, found.tally.messages), (n, n), "{found:?}");
    }
}

#[test]
fn datagrams_are_counted_at_both_ends() {
    let brief = Length::Time(Duration::from_millis(50));
    let plain = Options { length: brief, send_size: Some(1000), ..Options::new(Test::UdpStream) };
    let found = over("pair:p", std::slice::from_ref(&plain)).remove(0).unwrap();
    assert!(found.messages > 0 && found.tally.messages == found.messages, "one thread loses none: {found:?}");
    let default = Options { length: brief, ..Options::new(Test::UdpStream) };
    let found = over("pair:p", &[default]).remove(0).unwrap();
    assert!(found.tally.messages > 0, "{found:?}");
    let lossy = over("impair(loss=20%,seed=1):pair:p", &[plain]).remove(0).unwrap();
    assert!(lossy.tally.messages > 0 && lossy.tally.messages < lossy.messages, "{lossy:?}");
    assert!(lossy.received() < lossy.figure());
}

#[test]
fn a_missing_netserver_is_reported() {
    let pairs = Pairs::new();
    let hosts = [host(1, "pair:p", &pairs), host(2, "pair:p", &pairs)];
    let (mut near, mut there) = (OurSockets::new(&hosts[0], Rest::Never), OurSockets::new(&hosts[1], Rest::Never));
    let round = |sockets: &mut OurSockets<'_, Up>, pace| {
        there.step(pace);
        sockets.step(pace)
    };
    let at = SocketAddr::from(([10, 0, 0, 2], PORT));
    let why = Near::new(&mut near, round, |_| ()).run(at, &Options::new(Test::TcpRr)).unwrap_err();
    assert_eq!(format!("{why:#}"), "cannot reach netserver at 10.0.0.2:12865: connect: connection refused");
}

/// Opens a control connection and lets the far end accept it.
fn silent<'h>(
    near: &mut OurSockets<'_, Up>,
    there: &mut OurSockets<'h, Up>,
    far: &mut Far<OurSockets<'h, Up>>,
) -> socket::Fd {
    let fd = near.connect(SocketAddr::from(([10, 0, 0, 2], PORT)), &Default::default()).unwrap();
    for _ in 0..1000 {
        near.step(Pace::Go);
        let now = there.step(Pace::Go);
        far.turn(there, now);
        if far.near_ends() == 1 {
            break;
        }
    }
    assert!(far.near_ends() == 1);
    fd
}

#[test]
fn silent_clients_are_disconnected() {
    let pairs = Pairs::new();
    let hosts = [host(1, "pair:p", &pairs), host(2, "pair:p", &pairs)];
    let (mut near, mut there) = (OurSockets::new(&hosts[0], Rest::Never), OurSockets::new(&hosts[1], Rest::Never));
    let mut far = Far::open(&mut there, SocketAddr::from((Ipv4Addr::UNSPECIFIED, PORT)), LIMITS).unwrap();
    assert_eq!(far.next_timer(), None);
    // A near end that connects and sends nothing.
    silent(&mut near, &mut there, &mut far);
    let at = far.next_timer().unwrap();
    assert!(!far.turn(&mut there, Instant::from_nanos(at.nanos() - 1)) && far.near_ends() == 1);
    assert!(far.turn(&mut there, at) && far.near_ends() == 0);
    assert_eq!(far.next_timer(), None);
    // A near end that requests a test of two seconds and then sends nothing, as after a power
    // failure.
    let mut talk = control::Talk::new(silent(&mut near, &mut there, &mut far));
    talk.say(&control::Ask::Test(control::Order {
        test: Test::UdpRr,
        time_ns: 2_000_000_000,
        bytes: 0,
        request: 1,
        response: 1,
        send_buffer: None,
        recv_buffer: None,
        nodelay: false,
    }));
    talk.flush(&mut near).unwrap();
    let said = loop {
        near.step(Pace::Go);
        let now = there.step(Pace::Go);
        far.turn(&mut there, now);
        match talk.receive::<_, control::Say>(&mut near) {
            Err(apps::streams::Failure::Again) => {}
            said => break said.unwrap(),
        }
    };
    assert!(matches!(said, control::Say::Ready(_)), "{said:?}");
    let (now, at) = (there.now(), far.next_timer().unwrap());
    assert!((Duration::from_secs(40)..=Duration::from_secs(42)).contains(&at.since(now)), "{:?}", at.since(now));
    assert!(!far.turn(&mut there, Instant::from_nanos(at.nanos() - 1)) && far.near_ends() == 1);
    assert!(far.turn(&mut there, at) && far.near_ends() == 0);
    // The next near end is served.
    let round = |sockets: &mut OurSockets<'_, Up>, pace| {
        let now = there.step(pace);
        far.turn(&mut there, now);
        sockets.step(pace)
    };
    let to = SocketAddr::from(([10, 0, 0, 2], PORT));
    assert_eq!(Near::new(&mut near, round, |_| ()).run(to, &counted(Test::TcpRr, 10)).unwrap().messages, 10);
}

/// One address may have two of three sessions. With all taken, the near end idle for longest is
/// evicted while others run their tests.
#[test]
fn near_ends_are_limited_and_the_longest_idle_evicted() {
    let pairs = Pairs::new();
    let hosts = [host(1, "pair:p", &pairs), host(2, "pair:p", &pairs)];
    let alias = IfaceAddr { addr: Ipv4Addr::new(10, 0, 0, 3), len: 24 };
    hosts[0].stack.add_addr(hosts[0].cx(), hosts[0].ports()[0].iface, alias).unwrap();
    let (mut near, mut there) = (OurSockets::new(&hosts[0], Rest::Never), OurSockets::new(&hosts[1], Rest::Never));
    let at = SocketAddr::from(([10, 0, 0, 2], PORT));
    let mut far = Far::open(&mut there, SocketAddr::from((Ipv4Addr::UNSPECIFIED, PORT)), LIMITS).unwrap();
    let mut open = |near: &mut OurSockets<'_, Up>, far: &mut Far<_>, from: u8, later: u64| {
        let setup = Setup { from: Some(Ipv4Addr::new(10, 0, 0, from).into()), ..Setup::default() };
        let fd = near.connect(at, &setup).unwrap();
        let (ends, refused, evicted) = (far.near_ends(), far.refused, far.evicted);
        for _ in 0..1000 {
            near.step(Pace::Go);
            let now = there.step(Pace::Go);
            far.turn(&mut there, now.after(Duration::from_millis(later)));
            if (far.near_ends(), far.refused, far.evicted) != (ends, refused, evicted) {
                break;
            }
        }
        fd
    };
    let state = |far: &Far<OurSockets<'_, Up>>| (far.near_ends(), far.refused, far.evicted);
    open(&mut near, &mut far, 1, 0);
    open(&mut near, &mut far, 1, 10);
    assert_eq!(state(&far), (2, 0, 0));
    open(&mut near, &mut far, 1, 20);
    assert_eq!(state(&far), (2, 1, 0), "two of one address");
    open(&mut near, &mut far, 3, 30);
    assert_eq!(state(&far), (3, 1, 0));
    open(&mut near, &mut far, 3, 500);
    assert_eq!(state(&far), (3, 2, 0), "all of them are in use: none is idle for a second");
    open(&mut near, &mut far, 3, 1_100);
    assert_eq!(state(&far), (3, 2, 1), "the first gave way");
    let round = |sockets: &mut OurSockets<'_, Up>, pace| {
        let now = there.step(pace);
        far.turn(&mut there, now);
        sockets.step(pace)
    };
    let why = Near::new(&mut near, round, |_| ()).run(at, &counted(Test::TcpRr, 10)).unwrap_err();
    assert_eq!(why.to_string(), "netserver rejected the test: too many clients: at most 3, 2 per address");
}

/// RFC 1122 4.1.3.5: a response is sent from the address its request was sent to, even an alias of
/// the iface in the same or another subnet. The client's socket is not connected, so it receives
/// responses from any address.
#[test]
fn a_datagram_is_answered_from_the_address_it_was_sent_to() {
    use apps::netperf::control::{Ask, Order, Say, Talk};
    let pairs = Pairs::new();
    let hosts = [host(1, "pair:p", &pairs), host(2, "pair:p", &pairs)];
    let add = |n: usize, addr: [u8; 4]| {
        let alias = IfaceAddr { addr: addr.into(), len: 24 };
        hosts[n].stack.add_addr(hosts[n].cx(), hosts[n].ports()[0].iface, alias).unwrap();
    };
    add(0, [10, 0, 7, 1]);
    add(1, [10, 0, 0, 3]);
    add(1, [10, 0, 7, 2]);
    let (mut near, mut there) = (OurSockets::new(&hosts[0], Rest::Never), OurSockets::new(&hosts[1], Rest::Never));
    let mut far = Far::open(&mut there, SocketAddr::from((Ipv4Addr::UNSPECIFIED, PORT)), LIMITS).unwrap();
    let mut round = |near: &mut OurSockets<'_, Up>| {
        near.step(Pace::Go);
        let now = there.step(Pace::Go);
        far.turn(&mut there, now);
    };
    let control = near.connect(SocketAddr::from(([10, 0, 0, 2], PORT)), &Setup::default()).unwrap();
    let mut talk = Talk::new(control);
    talk.say(&Ask::Test(Order {
        test: Test::UdpRr,
        time_ns: 0,
        bytes: 0,
        request: 4,
        response: 6,
        send_buffer: None,
        recv_buffer: None,
        nodelay: false,
    }));
    let ready = (0..10_000).find_map(|_| {
        round(&mut near);
        near.connected(control).ok()?;
        let _ = talk.flush(&mut near);
        talk.receive::<_, Say>(&mut near).ok()
    });
    let Some(Say::Ready(ready)) = ready else { panic!("{ready:?}") };
    let any = SocketAddr::from((Ipv4Addr::UNSPECIFIED, 0));
    let client = near.datagrams(any, None, &Setup::default()).unwrap();
    for requested in [[10, 0, 0, 3], [10, 0, 0, 2], [10, 0, 7, 2], [10, 0, 0, 3]] {
        let requested = SocketAddr::from((requested, ready.port));
        near.send_to(client, b"ping", requested).unwrap();
        let mut into = [0; 64];
        let answer = (0..10_000).find_map(|_| {
            round(&mut near);
            near.recv_from(client, &mut into).ok()
        });
        assert_eq!(answer, Some((6, requested)));
    }
}

/// A near end with a test in progress does not block the tests of others.
#[test]
fn several_near_ends_are_served_concurrently() {
    let pairs = Pairs::new();
    let hosts = [host(1, "pair:p", &pairs), host(2, "pair:p", &pairs)];
    let (mut near, mut there) = (OurSockets::new(&hosts[0], Rest::Never), OurSockets::new(&hosts[1], Rest::Never));
    let mut far = Far::open(&mut there, SocketAddr::from((Ipv4Addr::UNSPECIFIED, PORT)), LIMITS).unwrap();
    silent(&mut near, &mut there, &mut far);
    let round = |sockets: &mut OurSockets<'_, Up>, pace| {
        let now = there.step(pace);
        far.turn(&mut there, now);
        sockets.step(pace)
    };
    let to = SocketAddr::from(([10, 0, 0, 2], PORT));
    assert_eq!(Near::new(&mut near, round, |_| ()).run(to, &counted(Test::TcpRr, 10)).unwrap().messages, 10);
    assert_eq!((far.near_ends(), far.tests), (1, 1));
}
