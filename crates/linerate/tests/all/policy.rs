//! Policies and captures on virtual time: what a station sees of each decision, in both families,
//! and the audit after each.

use linerate::filter::Filter;
use linerate::net::tasks::{TcpForwarder, TcpListener, TcpStream, UdpSocket, sleep};
use linerate::net::{self};
use linerate::pcap::{Direction, Format, MAX_SNAPLEN, Reader, Writer};
use linerate::policy::{Decision, FlowState, Policy, Quota};
use linerate::port::{FrameSink, FrameSource, channel};
use linerate::sim::World;
use linerate::{Host, LocalHost, wire};
use std::io::ErrorKind;
use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

/// Returns a world with a gateway, which has all addresses and a policy, and a station behind it.
fn gateway_and_station(seed: u64, policy: &Policy) -> (World, LocalHost, LocalHost) {
    let mut world = World::new(seed);
    let gateway = Host::builder().name("gateway").port("pair:vm").addr("10.0.0.1/24").addr("fd00::1/64");
    let gateway = gateway.policy(policy).local("0.0.0.0/0").local("::/0").build_in(&mut world).unwrap();
    let station = Host::builder().name("station").port("pair:vm").addr("10.0.0.2/24").addr("fd00::2/64");
    let station = station.gateway("10.0.0.1").gateway("fd00::1").dns([10, 0, 0, 1].into());
    let station = station.build_in(&mut world).unwrap();
    world.run_for(Duration::from_secs(3)); // duplicate address detection
    (world, gateway, station)
}

fn end(world: &World) {
    world.run_for(Duration::from_secs(200));
    assert_eq!(world.unaccounted(), []);
}

fn drops(host: &LocalHost, reason: &str) -> u64 {
    host.drops().into_iter().find(|counter| counter.name == reason).map_or(0, |counter| counter.value)
}

fn port_count(host: &LocalHost, name: &str) -> u64 {
    host.port_counters("vm").into_iter().find(|counter| counter.name == name).unwrap().value
}

#[test]
fn a_station_sees_what_was_decided() {
    let policy = Policy::new(|flow| match flow.destination.port() {
        80 => Decision::Allow,
        81 => Decision::Refuse,
        _ => Decision::Drop,
    });
    let (world, gateway, station) = gateway_and_station(1, &policy);
    let forwarder = world.block_on(async { TcpForwarder::bind(&gateway) }).unwrap().unwrap();
    world.spawn(async move {
        while let Ok(request) = forwarder.next().await {
            let stream = request.accept().await.unwrap();
            stream.write_all(b"hello").await.unwrap();
        }
    });
    for far in ["203.0.113.7", "2001:db8::7"] {
        let far: IpAddr = far.parse().unwrap();
        world
            .block_on(async {
                let (stream, mut text) = (TcpStream::connect(&station, (far, 80)).await.unwrap(), Vec::new());
                stream.read_to_end(&mut text).await.unwrap();
                assert_eq!(text, b"hello");
                let refused = TcpStream::connect(&station, (far, 81)).await.unwrap_err();
                assert_eq!(refused.kind(), ErrorKind::ConnectionRefused);
                let any: SocketAddr = if far.is_ipv4() { "10.0.0.2:0" } else { "[fd00::2]:0" }.parse().unwrap();
                let socket = UdpSocket::bind(&station, any).await.unwrap();
                socket.connect((far, 81)).await.unwrap();
                socket.send(b"x").await.unwrap();
                let refused = socket.recv(&mut [0]).await.unwrap_err();
                assert!(
                    matches!(refused.kind(), ErrorKind::HostUnreachable | ErrorKind::PermissionDenied),
                    "{refused:?}"
                );
            })
            .unwrap();
        let to_web = |state: &&FlowState| state.flow.destination == (far, 80).into();
        let states = policy.flows();
        let web = states.iter().find(to_web).unwrap();
        assert!(web.by_station && web.sent.packets >= 3 && web.received.bytes > 5, "{web:?}");
        let silent = world.block_on_within(Duration::from_secs(20), TcpStream::connect(&station, (far, 82)));
        assert!(silent.is_err(), "no answer within 20 s");
    }
    let counts = policy.counts();
    assert_eq!([counts.allowed.get(), counts.refused.get(), counts.dropped.get()], [2, 4, 2]);
    assert_eq!(drops(&gateway, "node.policy.denied"), counts.denied.get());
    assert!(counts.denied.get() >= 8, "{policy:?}"); // with SYNs sent again
    end(&world);
}

/// A station may reach the names that it looked up through the gateway, and nothing else.
#[test]
fn a_hook_decides_by_the_name_that_the_station_looked_up() {
    let policy = Policy::new(|flow| match (flow.destination.ip(), flow.name.as_deref()) {
        (IpAddr::V4(addr), _) if addr.octets() == [10, 0, 0, 1] => Decision::Allow,
        (_, Some("example.org")) => Decision::Allow,
        _ => Decision::Refuse,
    });
    let (world, gateway, station) = gateway_and_station(2, &policy);
    let server = world.block_on(UdpSocket::bind(&gateway, "10.0.0.1:53")).unwrap().unwrap();
    world.spawn(async move {
        let mut message = [0; 512];
        while let Ok((len, from)) = server.recv_from(&mut message).await {
            let mut answer = message[..len].to_vec();
            let is_a = answer[len - 3] == 1;
            (answer[2], answer[7]) = (0x81, u8::from(is_a));
            if is_a {
                answer.extend([0xc0, 12, 0, 1, 0, 1, 0, 0, 0, 60, 0, 4, 203, 0, 113, 7]);
            }
            server.send_to(&answer, from).await.unwrap();
        }
    });
    let listener = net::TcpListener::bind_prefix(&gateway, "203.0.113.0/24").unwrap();
    let listener = TcpListener::from_blocking(listener).unwrap();
    world.spawn(async move { while listener.accept().await.is_ok() {} });
    let connect = |to: &'static str| world.block_on(TcpStream::connect(&station, to)).unwrap();
    assert_eq!(connect("203.0.113.7:443").unwrap_err().kind(), ErrorKind::ConnectionRefused);
    assert!(connect("example.org:444").is_ok());
    assert!(connect("203.0.113.7:445").is_ok());
    assert_eq!(connect("203.0.113.8:443").unwrap_err().kind(), ErrorKind::ConnectionRefused);
    assert!(connect("elsewhere.example:443").is_err(), "the same address under another name");
    end(&world);
}

/// A transfer keeps to a rate, in both directions, and loses nothing. It does not reach the rate,
/// since TCP reacts to the dropped packets.
#[test]
fn a_transfer_is_as_fast_as_its_quota() {
    for up in [true, false] {
        let quota = Quota::rate(1_000_000);
        let policy = if up { Policy::allow_all().upload(quota) } else { Policy::allow_all().download(quota) };
        let (world, gateway, station) = gateway_and_station(3, &policy);
        let listener = world.block_on(TcpListener::bind(&gateway, "10.0.0.1:80")).unwrap().unwrap();
        let moved = async |stream: TcpStream<LocalHost>, writes: bool| {
            if writes {
                stream.write_all(&vec![7; 5_000_000]).await.unwrap();
                drop(stream);
                return 0;
            }
            let mut all = Vec::new();
            stream.read_to_end(&mut all).await.unwrap();
            assert!(all.iter().all(|byte| *byte == 7));
            all.len()
        };
        let began = world.elapsed();
        let (sender, receiver) = std::sync::mpsc::channel();
        world.spawn(async move {
            let (stream, _) = listener.accept().await.unwrap();
            sender.send(moved(stream, !up).await).unwrap();
        });
        let here = world
            .block_on(async {
                let done = moved(TcpStream::connect(&station, "10.0.0.1:80").await.unwrap(), up).await;
                while up && gateway.connections().iter().any(|c| c.state == Some(linerate::State::Established)) {
                    sleep(&station, Duration::from_millis(10)).await;
                }
                done
            })
            .unwrap();
        let took = (world.elapsed() - began).as_secs_f64();
        world.run_for(Duration::from_secs(60));
        assert_eq!(here + receiver.try_recv().unwrap(), 5_000_000);
        assert!((4.8..20.0).contains(&took), "{took} s for 5 MB at 1 MB/s");
        let over = policy.counts().over_rate.get();
        assert!(over > 0);
        assert_eq!(drops(&gateway, "node.policy.quota"), if up { over } else { 0 });
        assert_eq!(port_count(&gateway, "port.tx.over_quota"), if up { 0 } else { over });
        end(&world);
    }
}

#[test]
fn a_policy_is_set_and_removed_while_the_host_runs() {
    let policy = Policy::new(|_| Decision::Drop);
    let host = Host::builder().port("pair:live").addr("10.0.0.1/24").build().unwrap();
    let peer = Host::builder().port("pair:live").addr("10.0.0.2/24").build().unwrap();
    let (from, to) =
        (net::UdpSocket::bind(&peer, "10.0.0.2:0").unwrap(), net::UdpSocket::bind(&host, "10.0.0.1:9").unwrap());
    to.set_read_timeout(Some(Duration::from_secs(10))).unwrap();
    let passes = |text: &[u8]| {
        from.send_to(text, "10.0.0.1:9").unwrap();
        let mut buffer = [0; 16];
        to.recv(&mut buffer).unwrap();
        assert_eq!(&buffer[..text.len()], text);
    };
    passes(b"one");
    host.set_policy("live", Some(&policy)).unwrap();
    from.send_to(b"two", "10.0.0.1:9").unwrap();
    let began = std::time::Instant::now();
    while policy.counts().denied.get() == 0 {
        assert!(began.elapsed() < Duration::from_secs(10), "{policy:?}");
        std::thread::yield_now();
    }
    host.set_policy("live", None).unwrap();
    passes(b"three");
    let denying = Policy::new(|_| Decision::Refuse);
    host.add_port_with_policy("pair:live2", &["10.0.1.1/24"], &denying).unwrap();
    let other = Host::builder().port("pair:live2").addr("10.0.1.2/24").build().unwrap();
    let refused = net::TcpStream::connect(&other, "10.0.1.1:80").unwrap_err();
    assert_eq!((refused.kind(), denying.counts().refused.get()), (ErrorKind::ConnectionRefused, 1));
    let error = host.set_policy("em9", Some(&policy)).unwrap_err().to_string();
    assert!(error.contains("em9"), "{error}");
    assert!(Host::builder().policy(&policy).build().is_err(), "there is no port");
    let tunnel = linerate::Tunnel::between([10, 0, 0, 1], [10, 0, 0, 2]);
    let error = Host::builder().tunnel("gif0", tunnel).policy(&policy).build().unwrap_err().to_string();
    assert!(error.contains("gif0") && error.contains("no port"), "{error}");
}

#[test]
fn one_flow_is_written_to_a_capture_file() {
    let (world, gateway, station) = gateway_and_station(4, &Policy::allow_all());
    let mut capture = gateway.capture(&Filter::compile("udp and host 10.0.0.2 and port 9").unwrap()).unwrap();
    world
        .block_on(async {
            let from = UdpSocket::bind(&station, "10.0.0.2:1000").await.unwrap();
            let to = [9, 10].map(|port| net::UdpSocket::bind(&gateway, ([10, 0, 0, 1], port)).unwrap());
            from.send_to(b"hello", "10.0.0.1:9").await.unwrap();
            from.send_to(b"other", "10.0.0.1:10").await.unwrap();
            sleep(&station, Duration::from_millis(5)).await;
            to[0].send_to(b"reply", "10.0.0.2:1000").unwrap();
            from.recv(&mut [0; 16]).await.unwrap();
        })
        .unwrap();
    let mut file = Vec::new();
    let mut writer = Writer::new(&mut file, Format::Pcapng, MAX_SNAPLEN).unwrap();
    writer.add_interface("vm").unwrap();
    assert_eq!((capture.write_to(&mut writer).unwrap(), capture.missed()), (2, 0));
    drop(writer);
    let mut reader = Reader::new(&file[..]);
    for (text, direction) in [(b"hello", Direction::Inbound), (b"reply", Direction::Outbound)] {
        let record = reader.read().unwrap().unwrap();
        assert!(record.data.ends_with(text) && record.direction == direction, "{record:?}");
    }
    assert!(reader.read().unwrap().is_none());
    assert!(capture.read().is_empty());
    // It does not end by itself, and makes place for another one when it is dropped.
    world.run_for(Duration::from_secs(60));
    let others = [(); 3].map(|()| gateway.capture(&Filter::compile("").unwrap()).unwrap());
    let full = gateway.capture(&Filter::compile("").unwrap()).unwrap_err().to_string();
    assert!(full.contains("4 captures are open"), "{full}");
    drop(others);
    assert!(gateway.capture(&Filter::compile("").unwrap()).is_ok());
    end(&world);
}

/// Several listeners for any port share a host; the one with the longest prefix accepts.
#[test]
fn listeners_for_any_port_have_prefixes() {
    let (world, gateway, station) = gateway_and_station(5, &Policy::allow_all());
    let on = |prefix| net::TcpListener::bind_prefix(&gateway, prefix).unwrap();
    let listeners = ["203.0.113.0/24", "203.0.113.128/25", "2001:db8::/32"].map(on);
    for (to, expected) in [("203.0.113.1:7", 0), ("203.0.113.200:8", 1), ("[2001:db8::1]:9", 2)] {
        let stream = world.block_on(TcpStream::connect(&station, to)).unwrap().unwrap();
        for (at, listener) in listeners.iter().enumerate() {
            listener.set_nonblocking(true).unwrap();
            let accepted = listener.accept().map(|(stream, _)| stream.local_addr().unwrap().to_string()).ok();
            assert_eq!(accepted.as_deref(), (at == expected).then_some(to), "{at}");
        }
        drop(stream);
    }
    let outside = world.block_on(TcpStream::connect(&station, "198.51.100.1:7")).unwrap().unwrap_err();
    assert_eq!(outside.kind(), ErrorKind::ConnectionRefused);
    let again = net::TcpListener::bind_prefix(&gateway, "203.0.113.0/24").unwrap_err();
    assert_eq!(again.kind(), ErrorKind::AddrInUse);
    let invalid = net::TcpListener::bind_prefix(&gateway, "203.0.113.0/33").unwrap_err();
    assert_eq!(invalid.kind(), ErrorKind::InvalidInput);
    end(&world);
}

/// Returns whether a frame is an ARP packet about `addr`.
fn is_arp_for(frame: &[u8], addr: [u8; 4]) -> bool {
    frame[12..14] == [8, 6] && frame[38..42] == addr
}

/// Refused packets are answered only to stations behind the port. A packet with another source is
/// dropped silently.
#[test]
fn only_stations_behind_the_port_get_answers() {
    let ((end, sender, receiver), (wan, _wan_sender, wan_receiver)) = (channel(64), channel(64));
    let policy = Policy::new(|_| Decision::Refuse);
    let gateway = Host::builder().channel("vm", end).addr("10.0.0.1/24").policy(&policy).mac([2, 0, 0, 0, 0, 1]);
    let gateway = gateway.channel("wan", wan).addr("192.0.2.1/24").build().unwrap();
    let syn = |src: [u8; 4]| {
        let mut frame = vec![2, 0, 0, 0, 0, 1, 2, 0, 0, 0, 0, 2, 8, 0];
        let mut header = [0; 20];
        let (src, dst) = (src.into(), [203, 0, 113, 7].into());
        wire::ip4::Header::new(src, dst, wire::Proto::TCP, 20).unwrap().emit(&mut header);
        let mut segment = [&[0x12, 0x34, 0, 80][..], &[0; 8], &[0x50, 2, 0x20, 0], &[0; 4]].concat();
        let pseudo = wire::checksum::Partial::pseudo4(src, dst, wire::Proto::TCP, 20);
        wire::tcp::fill_checksum(pseudo, &mut segment);
        frame.extend(header);
        frame.extend(segment);
        frame
    };
    for source in [[192, 0, 2, 9], [192, 0, 2, 1], [224, 0, 0, 1], [127, 0, 0, 1], [0, 0, 0, 0], [10, 0, 0, 2]] {
        sender.send(&syn(source)).unwrap();
    }
    // The answer to the last one needs the MAC address of the station. By then, the others have
    // been processed. The other frames announce the host's own addresses.
    let is_own = |frame: &[u8]| is_arp_for(frame, [10, 0, 0, 1]) || is_arp_for(frame, [192, 0, 2, 1]);
    let answer = std::iter::from_fn(|| receiver.recv(Duration::from_secs(10)).ok()).find(|frame| !is_own(frame));
    assert!(answer.as_ref().is_some_and(|frame| is_arp_for(frame, [10, 0, 0, 2])), "{answer:?}");
    assert_eq!(policy.counts().denied.get(), 6);
    gateway.shutdown(Duration::from_secs(1)).unwrap();
    for receiver in [receiver, wan_receiver] {
        while let Ok(frame) = receiver.recv(Duration::ZERO) {
            assert!(is_own(&frame), "{frame:?}");
        }
    }
    assert_eq!(gateway.audit().unaccounted, 0);
}

/// A link that is busy for a time.
struct Busy(Arc<AtomicU64>);

impl FrameSource for Busy {
    fn recv(&mut self, _: &mut [u8]) -> std::io::Result<usize> {
        Err(ErrorKind::WouldBlock.into())
    }
}

impl FrameSink for Busy {
    fn send(&mut self, _: &[u8]) -> std::io::Result<()> {
        let is_busy = self.0.fetch_add(1, Ordering::Relaxed).is_multiple_of(2); // every other attempt
        if is_busy { Err(ErrorKind::WouldBlock.into()) } else { Ok(()) }
    }
}

/// A frame that the port rejects because it is full is charged once.
#[test]
fn a_busy_port_is_charged_once_for_each_frame() {
    let attempts = Arc::new(AtomicU64::new(0));
    let policy = Policy::allow_all().download(Quota::total(1000));
    let host = Host::builder().frames("busy", Busy(attempts.clone()), Busy(attempts.clone())).addr("10.0.0.1/24");
    let host = host.neighbor([10, 0, 0, 2], [2, 0, 0, 0, 0, 2]).policy(&policy).build().unwrap();
    let socket = net::UdpSocket::bind(&host, "10.0.0.1:0").unwrap();
    for _ in 0..12 {
        socket.send_to(&[7; 58], "10.0.0.2:9").unwrap(); // 100 bytes of frame
    }
    let state = || policy.flows().into_iter().find(|state| state.flow.source.port() == 9).unwrap();
    let began = std::time::Instant::now();
    while policy.counts().over_total.get() < 2 {
        assert!(began.elapsed() < Duration::from_secs(10), "{policy:?}");
        std::thread::yield_now();
    }
    assert_eq!((state().received.packets, state().received.bytes), (10, 1000));
    host.shutdown(Duration::from_secs(1)).unwrap();
    assert!(attempts.load(Ordering::Relaxed) > 10, "the port rejected frames");
    assert_eq!((policy.counts().over_total.get(), host.audit().unaccounted), (2, 0));
}
