//! Tests of interfaces that go down, come up or are deleted, and of full rings.

use super::*;

#[test]
fn an_interface_that_is_down_drops_frames_and_recovers() {
    let name = "packet::tests::ends::an_interface_that_is_down_drops_frames_and_recovers";
    in_a_namespace(name, || {
        let (mut netlink, socket) = wire_up();
        let pool = pool();
        let mut port = crate::packet::open("ours", &PacketConfig::default(), &pool).unwrap();
        let hello = udp_to_kernel(b"hello", false);
        for turn in 1..=5 {
            netlink.set_down("ours").unwrap();
            look(&mut port);
            assert!(!port.rx.is_gone() && port.rx.next_event().is_some());
            assert_eq!(send(&mut port, &pool, &hello, Flags::default()), 1, "taken");
            assert_eq!((port.counts.tx.errors.get(), port.tx.held()), (turn, 0), "the frame is counted as lost");
            netlink.set_up("ours").unwrap();
            netlink.add_neighbor("kernel", US, OUR_MAC).unwrap();
            // The wire gets carrier a moment later.
            let came = (0..100).any(|_| {
                send(&mut port, &pool, &hello, Flags::default());
                socket.set_read_timeout(Some(Time::from_millis(10))).unwrap();
                socket.recv(&mut [0; 100]).is_ok_and(|n| n == 5)
            });
            assert!(came, "turn {turn}");
            let lost = port.counts.tx.errors.get() - turn;
            socket.send_to(b"back", (US, 9)).unwrap();
            assert_eq!(receive(&mut port, 1, |f| f.ends_with(b"back")).len(), 1);
            assert_eq!(port.rx.warnings(), [format!("interface ours was found down {turn} times")]);
            port.counts.tx.errors.sub(lost);
        }
        drop(port);
        assert_eq!(pool.stats().live(), 0);
    });
}

#[test]
fn a_link_without_a_peer_drops_frames_and_holds_none() {
    let name = "packet::tests::ends::a_link_without_a_peer_drops_frames_and_holds_none";
    in_a_namespace(name, || {
        let (mut netlink, _socket) = wire_up();
        let pool = pool();
        let mut port = crate::packet::open("ours", &PacketConfig::default(), &pool).unwrap();
        netlink.set_down("kernel").unwrap();
        for _ in 0..100 {
            assert_eq!(send(&mut port, &pool, &udp_to_kernel(b"hello", false), Flags::default()), 1);
            port.tx.poll(Instant::ZERO);
            sleep(Time::from_millis(1));
        }
        assert_eq!((port.tx.held(), port.counts.tx.from_host()), (0, 100));
        assert!(port.counts.tx.errors.get() > 0, "{:?}", port.counts.tx);
    });
}

#[test]
fn an_interface_deleted_under_load_ends_the_port() {
    let name = "packet::tests::ends::an_interface_deleted_under_load_ends_the_port";
    in_a_namespace(name, || {
        let (mut netlink, socket) = wire_up();
        let pool = pool();
        let mut port = crate::packet::open("ours", &PacketConfig::default(), &pool).unwrap();
        let load = std::thread::spawn(move || {
            let mut sent = 0u64;
            while socket.send_to(&[1; 500], (US, 9)).is_ok() {
                sent += 1;
            }
            sent
        });
        let deleter = std::thread::spawn(move || {
            sleep(Time::from_millis(100));
            netlink.delete_link("ours").unwrap();
        });
        let (mut came, mut given) = (0, 0u64);
        let frames: Vec<_> = (0..20).map(|_| (udp_to_kernel(b"x", false), Flags::default())).collect();
        for _ in 0..20_000_000 {
            let mut burst = Burst::new();
            came += port.rx.rx_burst(&mut burst, 32, Instant::ZERO);
            drop(burst);
            if given < 10_000 {
                given += send_all(&mut port, &pool, &frames) as u64;
            }
            if port.rx.is_gone() {
                break;
            }
        }
        deleter.join().unwrap();
        assert!(load.join().unwrap() > 0 && came > 0);
        assert!(port.rx.is_gone() && port.rx.wait_fd().is_none(), "no descriptor to sleep on and no event");
        assert!(port.rx.why_gone().unwrap().starts_with("interface ours is gone: "));
        assert_eq!((port.rx.next_event(), port.counts.rx.errors.get()), (None, 1));
        given += send_all(&mut port, &pool, &frames) as u64;
        assert!(port.tx.is_gone() && port.tx.why_gone().is_some());
        assert_eq!((port.tx.held(), port.counts.tx.from_host()), (0, given));
        drop(port);
        assert_eq!(pool.stats().live(), 0);
        assert!(crate::packet::open("ours", &PacketConfig::default(), &pool).is_err());
    });
}

#[test]
fn deleting_an_interface_that_is_down_is_detected() {
    let name = "packet::tests::ends::deleting_an_interface_that_is_down_is_detected";
    in_a_namespace(name, || {
        let (mut netlink, _socket) = wire_up();
        let pool = pool();
        netlink.set_down("ours").unwrap();
        let mut port = crate::packet::open("ours", &PacketConfig::default(), &pool).unwrap();
        look(&mut port);
        assert_eq!(port.rx.warnings(), ["interface ours was found down 1 times"]);
        netlink.delete_link("ours").unwrap();
        look(&mut port);
        assert!(port.rx.is_gone());
    });
}

#[test]
fn a_port_survives_carrier_loss_under_load() {
    let name = "packet::tests::ends::a_port_survives_carrier_loss_under_load";
    in_a_namespace(name, || {
        let (mut netlink, socket) = wire_up();
        let pool = pool();
        let mut port = crate::packet::open("ours", &PacketConfig::default(), &pool).unwrap();
        let stop = Arc::new(std::sync::atomic::AtomicBool::new(false));
        let stopped = stop.clone();
        let load = std::thread::spawn(move || {
            while !stopped.load(std::sync::atomic::Ordering::Relaxed) {
                drop(socket.send_to(&[1; 500], (US, 9)));
            }
        });
        let unplug = std::thread::spawn(move || {
            for _ in 0..10 {
                netlink.set_down("ours").unwrap();
                sleep(Time::from_millis(10));
                netlink.set_up("ours").unwrap();
                sleep(Time::from_millis(20));
            }
        });
        let mut given = 0u64;
        while !unplug.is_finished() {
            let mut burst = Burst::new();
            port.rx.rx_burst(&mut burst, 32, Instant::ZERO);
            given += port.tx.tx_burst(&mut burst, Instant::ZERO) as u64;
        }
        unplug.join().unwrap();
        assert!(receive(&mut port, 1000, is_udp).len() >= 1000, "reception continues");
        stop.store(true, std::sync::atomic::Ordering::Relaxed);
        load.join().unwrap();
        assert!(!port.rx.is_gone() && !port.tx.is_gone());
        assert!(port.rx.warnings().iter().any(|warning| warning.contains("found down")), "{:?}", port.rx.warnings());
        assert_eq!((port.tx.held(), port.counts.tx.from_host()), (0, given));
        drop(port);
        assert_eq!(pool.stats().live(), 0);
    });
}

#[test]
fn frames_lost_by_a_full_ring_are_counted_and_reported() {
    let name = "packet::tests::ends::frames_lost_by_a_full_ring_are_counted_and_reported";
    in_a_namespace(name, || {
        let (_netlink, socket) = wire_up();
        let pool = pool();
        let config = PacketConfig { rx_ring: 64, ..PacketConfig::default() };
        let mut port = crate::packet::open("ours", &config, &pool).unwrap();
        for _ in 0..1000 {
            socket.send_to(&[1; 1000], (US, 9)).unwrap();
        }
        let got = receive(&mut port, 2000, is_udp).len();
        look(&mut port);
        assert_eq!(got as u64 + port.counts.rx.missed.get(), 1000);
        assert_eq!(got, 64, "as many as there are slots");
        let warnings = port.rx.warnings();
        assert!(warnings.len() == 1 && warnings[0].contains(" frames lost: the receive ring was full"), "{warnings:?}");
        socket.send_to(b"after", (US, 9)).unwrap();
        assert_eq!(receive(&mut port, 1, |f| f.ends_with(b"after")).len(), 1);
        drop(port);
        assert_eq!(pool.stats().live(), 0);
    });
}

#[test]
fn without_buffers_frames_wait_in_the_ring() {
    let name = "packet::tests::ends::without_buffers_frames_wait_in_the_ring";
    in_a_namespace(name, || {
        let (_netlink, socket) = wire_up();
        let pool = Pool::new(&PoolConfig { buffers: 4, ..PoolConfig::default() }).unwrap();
        let mut port = crate::packet::open("ours", &PacketConfig::default(), &pool).unwrap();
        for n in 0..10 {
            socket.send_to(&[n], (US, 9)).unwrap();
        }
        sleep(Time::from_millis(20));
        let mut burst = Burst::new();
        assert_eq!(port.rx.rx_burst(&mut burst, 32, Instant::ZERO), 4);
        assert_eq!((port.rx.rx_burst(&mut burst, 32, Instant::ZERO), port.counts.rx.no_buffer.get()), (0, 2));
        burst.clear();
        let last: Vec<u8> = receive(&mut port, 6, is_udp).iter().map(|(frame, _)| frame[42]).collect();
        assert_eq!(last, [4, 5, 6, 7, 8, 9]);
    });
}
