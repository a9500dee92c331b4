use super::*;
use apps::netperf::session::{FarEnd, Play, Turn};
use apps::netrate::{Figure, Juggle, Kind, Netblast, Netsend, Out, Services, Tcpconnect, Tcpp, TcppServer, Tcpreceive};
use std::net::IpAddr;

const LINK: &str = "pair(slots=1024):p";

/// Runs both ends on this thread; passes the far end's counters to `check`.
fn play<'o, P>(make: impl FnOnce(Out<'o>) -> P, out: &'o mut Vec<u8>, check: impl FnOnce(u64, u64))
where
    P: Play<Far: for<'h> FarEnd<End<OurSockets<'h, Up>> = Services<OurSockets<'h, Up>>>>,
{
    let pairs = Pairs::new();
    let hosts = [host(1, LINK, &pairs), host(2, LINK, &pairs)];
    let (mut near, mut there) = (OurSockets::new(&hosts[0], Rest::Never), OurSockets::new(&hosts[1], Rest::Never));
    let (mut far, port) =
        <P::Far>::open_for_one(&mut there, SocketAddr::from((Ipv4Addr::UNSPECIFIED, <P::Far>::PORT))).unwrap();
    let mut round = |sockets: &mut OurSockets<'_, Up>, pace| {
        let now = there.step(pace);
        far.turn(&mut there, now);
        sockets.step(pace)
    };
    let at = SocketAddr::from(([10, 0, 0, 2], port));
    make(out).near(&mut near, &mut round, at).unwrap();
    for _ in 0..100 {
        round(&mut near, Pace::Go);
    }
    check(far.received, far.served);
    for host in &hosts {
        assert_eq!(host.stack.audit(host.cx()).imbalance(), 0);
    }
}

fn lines(out: Vec<u8>) -> Vec<String> {
    String::from_utf8(out).unwrap().lines().map(str::to_owned).collect()
}

#[test]
fn tcpconnect_counts_connections() {
    let mut out = Vec::new();
    play(|out| Tcpconnect::new(Duration::from_millis(50), out), &mut out, |_, served| assert!(served > 10));
    let lines = lines(out);
    assert!(lines.len() == 2 && lines[0].ends_with(" count") && lines[1].ends_with(" connections/second"), "{lines:?}");
}

/// One address may have two of three connections. When all three are in use, a new connection stays
/// in the listener's queue until another one has been idle for a second and is evicted.
#[test]
fn connections_are_limited_and_the_longest_idle_evicted() {
    let pairs = Pairs::new();
    let hosts = [host(1, LINK, &pairs), host(2, LINK, &pairs)];
    let alias = IfaceAddr { addr: Ipv4Addr::new(10, 0, 0, 3), len: 24 };
    hosts[0].stack.add_addr(hosts[0].cx(), hosts[0].ports()[0].iface, alias).unwrap();
    let (mut near, mut there) = (OurSockets::new(&hosts[0], Rest::Never), OurSockets::new(&hosts[1], Rest::Never));
    let limits = Limits { most: 3, per_peer: 2 };
    let (mut far, port) =
        Services::open(&mut there, SocketAddr::from((Ipv4Addr::UNSPECIFIED, 0)), Kind::TakeStreams, limits).unwrap();
    let mut connect = |from: u8, later: u64| {
        let setup = Setup { from: Some(Ipv4Addr::new(10, 0, 0, from).into()), ..Setup::default() };
        near.connect(SocketAddr::from(([10, 0, 0, 2], port)), &setup).unwrap();
        for _ in 0..100 {
            near.step(Pace::Go);
            let now = there.step(Pace::Go);
            far.turn(&mut there, now.after(Duration::from_millis(later)));
        }
        (far.served, far.refused, far.evicted)
    };
    assert_eq!((connect(1, 0), connect(1, 10)), ((0, 0, 0), (0, 0, 0)));
    assert_eq!(connect(1, 20), (0, 1, 0), "two of one address");
    assert_eq!(connect(3, 30), (0, 1, 0));
    assert_eq!(connect(3, 500), (0, 1, 0), "it waits: none has been idle for a second");
    assert_eq!(connect(3, 1_100), (0, 2, 1), "the one that waited has the place of the first; a third of it has none");
}

/// RFC 1122 4.1.3.5: juggle's partner answers a datagram from the address it was sent to, even an
/// alias. netreceive receives datagrams on all its addresses and answers none, as in FreeBSD.
#[test]
fn datagrams_are_answered_from_the_address_they_were_sent_to() {
    for (kind, answers) in [(Kind::EchoAll, true), (Kind::TakeDatagrams, false)] {
        let pairs = Pairs::new();
        let hosts = [host(1, LINK, &pairs), host(2, LINK, &pairs)];
        let alias = IfaceAddr { addr: Ipv4Addr::new(10, 0, 0, 3), len: 24 };
        hosts[1].stack.add_addr(hosts[1].cx(), hosts[1].ports()[0].iface, alias).unwrap();
        let (mut near, mut there) = (OurSockets::new(&hosts[0], Rest::Never), OurSockets::new(&hosts[1], Rest::Never));
        let (any, limits) = (SocketAddr::from((Ipv4Addr::UNSPECIFIED, 0)), Limits { most: 3, per_peer: 2 });
        let (mut far, port) = Services::open(&mut there, any, kind, limits).unwrap();
        let client = near.datagrams(any, None, &Setup::default()).unwrap();
        for (n, last) in (1..).zip([3, 2, 3]) {
            let requested = SocketAddr::from(([10, 0, 0, last], port));
            near.send_to(client, b"ball", requested).unwrap();
            let (mut into, mut heard) = ([0; 64], Vec::new());
            for _ in 0..200 {
                near.step(Pace::Go);
                let now = there.step(Pace::Go);
                far.turn(&mut there, now);
                heard.extend(near.recv_from(client, &mut into).ok());
            }
            assert_eq!(heard, if answers { vec![(4, requested)] } else { vec![] }, "{kind:?}");
            assert_eq!(far.received, n, "{kind:?}");
        }
    }
}

/// The listener's queue does not grow if each connection is opened before the previous one has
/// ended.
#[test]
fn closed_connections_are_served_in_one_turn() {
    let pairs = Pairs::new();
    let hosts = [host(1, LINK, &pairs), host(2, LINK, &pairs)];
    let (mut near, mut there) = (OurSockets::new(&hosts[0], Rest::Never), OurSockets::new(&hosts[1], Rest::Never));
    let (mut far, port) = Tcpreceive::open_for_one(&mut there, SocketAddr::from((Ipv4Addr::UNSPECIFIED, 0))).unwrap();
    for _ in 0..10 {
        let fd = near.connect(SocketAddr::from(([10, 0, 0, 2], port)), &Setup::default()).unwrap();
        for _ in 0..10 {
            there.step(Pace::Go);
            near.step(Pace::Go);
        }
        near.connected(fd).unwrap();
        near.close(fd);
    }
    let now = there.step(Pace::Go);
    assert!(far.turn(&mut there, now));
    assert_eq!(far.served, 10);
    assert!(!far.turn(&mut there, now));
}

#[test]
fn netblast_reports_its_sends() {
    let (mut out, mut came) = (Vec::new(), 0);
    play(
        |out| Netblast { payload: 100, time: Duration::from_millis(50), out },
        &mut out,
        |received, _| came = received,
    );
    let lines = lines(out);
    let heads = ["", "start:             ", "finish:            ", "send calls:        ", "send errors:       0"];
    assert!(heads.iter().zip(&lines).all(|(head, line)| line.starts_with(head)), "{lines:?}");
    assert_eq!(lines[3], format!("send calls:        {came}"), "one thread loses none");
    assert!(lines[5].starts_with("approx send rate:  ") && lines[6] == "approx error rate: 0.000000", "{lines:?}");
}

#[test]
fn netsend_keeps_its_rate() {
    let second = || {
        let (mut out, mut came) = (Vec::new(), 0);
        play(|out| Netsend { payload: 64, rate: 1000, seconds: 1, out }, &mut out, |received, _| came = received);
        assert_eq!(lines(out), ["Sending packet of payload size 64 every 0.001000000 for 1 seconds"]);
        assert!(came <= 1000, "never faster: {came}");
        came
    };
    // In at least one of several seconds this thread has a CPU to itself.
    let came: Vec<u64> = (0..5).map(|_| second()).take_while(|came| *came < 900).collect();
    assert!(came.len() < 5, "{came:?}");
}

/// At a rate that cannot be kept, netsend still gives the far end its turns and loses nothing.
#[test]
fn late_netsend_still_polls_the_receiver() {
    let (mut out, mut came) = (Vec::new(), 0);
    play(|out| Netsend { payload: 64, rate: 1_000_000, seconds: 1, out }, &mut out, |received, _| came = received);
    assert_eq!(lines(out).len(), 1);
    assert!(came > 3 * 1024, "{came} datagrams: the pair holds 1024");
}

#[test]
fn netsend_reports_failed_sends() {
    let pairs = Pairs::new();
    let hosts = [host(1, LINK, &pairs), host(2, LINK, &pairs)];
    let (mut near, mut there) = (OurSockets::new(&hosts[0], Rest::Never), OurSockets::new(&hosts[1], Rest::Never));
    let mut round = |sockets: &mut OurSockets<'_, Up>, pace| {
        there.step(pace);
        sockets.step(pace)
    };
    // Nothing listens on this L4 port, so the host returns an ICMP error.
    let (at, mut out) = (SocketAddr::from(([10, 0, 0, 2], 9000)), Vec::new());
    Netsend { payload: 64, rate: 100, seconds: 1, out: &mut out }.near(&mut near, &mut round, at).unwrap();
    let lines = lines(out);
    let (failed, calls) = lines[1].strip_suffix(" sends failed").and_then(|line| line.split_once(" of ")).unwrap();
    let (failed, calls): (u64, u64) = (failed.parse().unwrap(), calls.parse().unwrap());
    assert!(failed > 0 && failed <= calls && calls <= 100, "{lines:?}");
}

#[test]
fn juggle_prints_its_measurements() {
    let mut out = Vec::new();
    play(
        |out| Juggle { cycles: 20, ..Juggle::new("juggle", out) },
        &mut out,
        |received, _| assert_eq!(received, 11 * 20 * 10),
    );
    let lines = lines(out);
    assert_eq!(lines[..4], ["MESSAGELEN, 128", "NUMCYCLES, 20", "LOOPS, 10", "PIPELINE_MAX, 4"]);
    assert!(lines[6].starts_with("ipctype, test, pipeline_depth, data0, ") && lines.len() == 17, "{lines:?}");
    for line in &lines[7..] {
        assert_eq!(line.split(", ").count(), 13, "{line}");
    }
    let times: Vec<f64> = lines[16].split(", ").skip(3).map(|time| time.parse().unwrap()).collect();
    assert!(times.iter().all(|time| *time > 0.0), "{times:?}");
}

#[test]
fn tcpp_moves_all_its_bytes() {
    let tcpp = |figure| move |out| Tcpp { bytes: 100_000, at_a_time: 5, conns: 12, figure, ..Tcpp::new(out) };
    let (mut bits, mut rate) = (Vec::new(), Vec::new());
    // The far end serves one more connection, for the warm-up.
    play(tcpp(Figure::Gbps), &mut bits, |_, served| assert_eq!(served, 13));
    play(tcpp(Figure::Cps), &mut rate, |_, served| assert_eq!(served, 13));
    let (bits, rate) = (lines(bits), lines(rate));
    let seconds = bits[0].strip_prefix("1200000 bytes transferred in ").and_then(|line| line.strip_suffix(" seconds"));
    assert!(seconds.unwrap().parse::<f64>().unwrap() > 0.0 && bits[1].ends_with(" Gbps"), "{bits:?}");
    assert!(rate[1].ends_with(" cps"), "{rate:?}");
}

/// Sets of connections to separate L4 ports, from several addresses in turn, with CPU usage.
#[test]
fn tcpp_uses_sets_and_addresses_and_reports_cpu_usage() {
    let pairs = Pairs::new();
    let hosts = [host(1, LINK, &pairs), host(2, LINK, &pairs)];
    let eth = hosts[0].stack.iface_named("p").unwrap().id;
    let from: Vec<Ipv4Addr> = (101..104).map(|n| Ipv4Addr::new(10, 0, 0, n)).collect();
    for addr in &from {
        hosts[0].stack.add_addr(hosts[0].cx(), eth, IfaceAddr { addr: *addr, len: 24 }).unwrap();
    }
    let (mut near, mut there) = (OurSockets::new(&hosts[0], Rest::Never), OurSockets::new(&hosts[1], Rest::Never));
    let (mut far, port) =
        TcppServer::open_for_one(&mut there, SocketAddr::from((Ipv4Addr::UNSPECIFIED, 10_000))).unwrap();
    let mut seen = std::collections::BTreeSet::new();
    let mut round = |sockets: &mut OurSockets<'_, Up>, pace| {
        let now = there.step(pace);
        far.turn(&mut there, now);
        let said = commands::host::run(&hosts[1], &Pairs::new(), &["ss", "-t", "-a", "-n", "-H"], false).unwrap();
        // State, queues, local address, peer address.
        let ends = said.lines().filter_map(|line| {
            let words: Vec<&str> = line.split_whitespace().collect();
            let [.., ours, theirs] = words.as_slice() else { return None };
            let (port, from) = (ours.rsplit_once(':')?.1, theirs.rsplit_once(':')?.0);
            from.starts_with("10.0.0.1").then(|| format!("{from} {port}"))
        });
        seen.extend(ends);
        sockets.step(pace)
    };
    let mut out = Vec::new();
    let cpu = || {
        use std::sync::atomic::{AtomicU64, Ordering};
        static TIMES: AtomicU64 = AtomicU64::new(0);
        let n = TIMES.fetch_add(1, Ordering::SeqCst);
        Some([10 + n * 30, 5, 20 + n * 10, 1, 100 + n * 60])
    };
    let tcpp = Tcpp {
        bytes: 20_000,
        sets: 3,
        at_a_time: 2,
        conns: 4,
        from: from.into_iter().map(IpAddr::from).collect(),
        cpu: Some(cpu),
        ..Tcpp::new(&mut out)
    };
    let mut tcpp = tcpp;
    tcpp.near(&mut near, &mut round, SocketAddr::from(([10, 0, 0, 2], port))).unwrap();
    assert_eq!(far.served, 3 * 4 + 1);
    let lines = lines(out);
    assert!(lines[0].starts_with("240000 bytes transferred in "), "{lines:?}");
    assert_eq!(lines[2..], ["user%\tnice%\tsys%\tintr%\tidle%", "30.00%\t0.00%\t10.00%\t0.00%\t60.00%"]);
    for (n, port) in [(101, 10_000), (102, 10_000), (103, 10_000), (101, 10_001), (103, 10_002)] {
        assert!(seen.contains(&format!("10.0.0.{n} {port}")), "{n} {port}: {seen:?}");
    }
}
