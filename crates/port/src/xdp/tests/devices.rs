use super::*;
use crate::{RxHalf, TxHalf};
use std::sync::atomic::{AtomicBool, Ordering};

/// Moves frames received on one port to the other. Frames that are not accepted remain in
/// `waiting`.
fn forward(rx: &mut Port, tx: &mut Port, waiting: &mut Burst, now: Instant) -> usize {
    let room = waiting.room().min(64);
    let came = rx.rx.rx_burst(waiting, room, now);
    tx.tx.tx_burst(waiting, now);
    came
}

/// An end of the chain, which sends numbered frames and checks the frames that it receives.
struct End {
    port: Port,
    pool: Pool,
    sent: u32,
    came: u32,
    next: u32,
}

impl End {
    fn new(dev: &str) -> End {
        let pool = pool_of(2048);
        End { port: open(dev, &XdpConfig::default(), &pool).unwrap(), pool, sent: 0, came: 0, next: 0 }
    }

    /// Sends frames as long as fewer are in flight (`under_way`) than buffers wait at the other
    /// end, which are 256 minus those for other senders.
    fn send(&mut self, most: u32, under_way: u32, now: Instant) {
        let mut burst = Burst::new();
        while self.sent + (burst.len() as u32) < most && under_way + (burst.len() as u32) < 192 && burst.len() < 64 {
            let len = 60 + (self.sent * 7 % 1400) as usize;
            let Some(frame) = numbered(&self.pool, self.sent + burst.len() as u32, len) else { break };
            burst.push(frame).unwrap();
        }
        self.sent += self.port.tx.tx_burst(&mut burst, now) as u32;
    }

    fn receive(&mut self, now: Instant) {
        let mut burst = Burst::new();
        self.port.rx.rx_burst(&mut burst, 256, now);
        for number in burst.drain().filter_map(|frame| number_of(&frame)) {
            assert!(number >= self.next, "frame {number} after {}", self.next);
            (self.came, self.next) = (self.came + 1, number + 1);
        }
    }
}

#[test]
fn two_ports_of_one_pool_forward_without_a_copy_in_both_directions() {
    with_xdp("devices::two_ports_of_one_pool_forward_without_a_copy_in_both_directions", || {
        const FRAMES: u32 = 60_000; // in each direction
        let (_a, _b) = (veth("a0", "a1"), veth("b0", "b1"));
        let pool = pool_of(4096);
        let mut a = open("a1", &XdpConfig::default(), &pool).unwrap();
        let mut b = open("b1", &XdpConfig::default(), &pool).unwrap();
        let (mut left, mut right) = (End::new("a0"), End::new("b0"));
        let (mut to_a, mut to_b) = (Burst::new(), Burst::new());
        let (clock, start) = (Clock::live(Strategy::default()), Wall::now());
        let mut last = (0, Wall::now());
        while (left.came < FRAMES || right.came < FRAMES) && last.1.elapsed() < Duration::from_secs(2) {
            assert!(start.elapsed() < Duration::from_secs(60), "{} and {} came", left.came, right.came);
            let now = clock.now();
            left.send(FRAMES, left.sent.saturating_sub(right.next), now);
            right.send(FRAMES, right.sent.saturating_sub(left.next), now);
            forward(&mut a, &mut b, &mut to_b, now);
            forward(&mut b, &mut a, &mut to_a, now);
            [&mut left, &mut right].into_iter().for_each(|end| end.receive(now));
            let came = left.came + right.came;
            if came != last.0 {
                last = (came, Wall::now());
            }
        }
        let micros = start.elapsed().as_micros();
        println!("forwarded {} frames in {micros} us", left.came + right.came);
        for port in [&a, &b] {
            assert_eq!(port.counts.tx.copied.get() + port.counts.tx.dropped() + port.counts.rx.malformed.get(), 0);
        }
        assert_eq!(
            (left.came, right.came),
            (FRAMES, FRAMES),
            "missed: {} and {}",
            a.counts.rx.missed.get(),
            b.counts.rx.missed.get()
        );
        drop((a, b, to_a, to_b));
        assert_eq!(pool.stats().live(), 0);
        for End { port, pool, .. } in [left, right] {
            drop(port);
            assert_eq!(pool.stats().live(), 0);
        }
    });
}

#[test]
fn an_exhausted_pool_is_counted_and_recovers() {
    with_xdp("devices::an_exhausted_pool_is_counted_and_recovers", || {
        let pool = pool_of(64);
        let (_netlink, socket) = world();
        let mut port = open("x0", &XdpConfig::default(), &pool).unwrap();
        let hoard: Vec<Frame> = std::iter::from_fn(|| pool.get()).collect();
        assert_eq!((port.rx.held(), hoard.len()), (8, 56));
        (0..50u8).for_each(|i| _ = socket.send_to(&[i], (US, 9)).unwrap());
        let mut kept = Burst::new();
        let wait = Wall::now();
        while kept.len() < 8 && wait.elapsed() < Duration::from_secs(2) {
            port.rx.rx_burst(&mut kept, 256, Instant::ZERO);
        }
        assert_eq!((kept.len(), port.rx.held()), (8, 0));
        assert!(port.counts.rx.no_buffer.get() > 0);
        port.rx.rx_burst(&mut kept, 256, Instant::from_millis(1000));
        assert!(port.counts.rx.missed.get() >= 42, "{} missed", port.counts.rx.missed.get());
        // Sending still works, and the held frames are freed.
        let sent = port.tx.tx_burst(&mut kept, Instant::ZERO);
        assert_eq!((sent, kept.len()), (8, 0));
        drop(hoard);
        port.rx.rx_burst(&mut kept, 256, Instant::ZERO);
        assert_eq!(port.rx.held(), 8);
        socket.send_to(b"again", (US, 9)).unwrap();
        assert_eq!(payloads(&mut port, 1, 32), [b"again"]);
        drop((port, kept));
        assert_eq!(pool.stats().live(), 0);
    });
}

#[test]
fn deleting_the_device_under_load_ends_the_port_without_leaks() {
    with_xdp("devices::deleting_the_device_under_load_ends_the_port_without_leaks", || {
        let pool = pool_of(1024);
        let mut netlink = veth("x0", "k0");
        let mut port = open("x0", &XdpConfig::default(), &pool).unwrap();
        let mut peer = open("k0", &XdpConfig::default(), &pool).unwrap();
        let (clock, start) = (Clock::live(Strategy::default()), Wall::now());
        let (mut turn, mut burst, mut sent) = (0u32, Burst::new(), 0);
        while !(port.rx.is_gone() && peer.rx.is_gone()) {
            assert!(start.elapsed() < Duration::from_secs(10), "not gone");
            turn += 1;
            for one in [&mut port, &mut peer] {
                (0..32).filter_map(|i| numbered(&pool, i, 200)).for_each(|frame| drop(burst.push(frame)));
                sent += one.tx.tx_burst(&mut burst, clock.now());
                burst.clear();
                one.rx.rx_burst(&mut burst, 64, clock.now());
                burst.clear();
                one.tx.poll(clock.now());
            }
            if turn == 200 {
                netlink.delete_link("k0").unwrap();
            }
        }
        assert!(sent > 3200, "{sent} sent");
        for one in [&port, &peer] {
            assert!(one.rx.wait_fd().is_none() && one.tx.is_gone());
            assert!(one.rx.why_gone().unwrap().starts_with("the interface is gone"), "{:?}", one.rx.why_gone());
        }
        let mut late = Burst::of(numbered(&pool, 0, 100).unwrap());
        let errors = port.counts.tx.errors.get();
        assert_eq!((port.tx.tx_burst(&mut late, clock.now()), port.counts.tx.errors.get()), (1, errors + 1));
        // One half alone keeps the buffers that the kernel may still have.
        drop(port.rx);
        assert!(pool.stats().live() >= port.tx.held() as u64);
        drop((port.tx, peer));
        assert_eq!(pool.stats().live(), 0);
    });
}

#[test]
fn a_device_that_is_down_drops_frames_and_recovers() {
    with_xdp("devices::a_device_that_is_down_drops_frames_and_recovers", || {
        let pool = pool_of(1024);
        let (mut netlink, socket) = world();
        let mut port = open("x0", &XdpConfig { ring: 64, ..XdpConfig::default() }, &pool).unwrap();
        netlink.set_down("x0").unwrap();
        let mut burst = Burst::new();
        (0..100).for_each(|_| burst.push(datagram(&pool, b"lost")).unwrap());
        assert_eq!(port.tx.tx_burst(&mut burst, Instant::ZERO), 100);
        assert_eq!((port.counts.tx.frames.get(), port.counts.tx.errors.get(), port.tx.held()), (64, 36, 64));
        assert!(!port.tx.is_gone());
        netlink.set_up("x0").unwrap();
        std::thread::sleep(Duration::from_millis(20));
        port.tx.poll(Instant::from_millis(11));
        let mut buffer = [0; 100];
        assert_eq!(socket.recv(&mut buffer).unwrap(), 4, "the frame that waited in the ring is sent");
        drop(port);
        assert_eq!((burst.len(), pool.stats().live()), (0, 0));
    });
}

#[test]
fn the_halves_may_end_in_either_order_and_on_another_thread() {
    with_xdp("devices::the_halves_may_end_in_either_order_and_on_another_thread", || {
        let pool =
            Pool::new(&PoolConfig { buffers: 256, locks: buf::PoolLocks::Light, ..PoolConfig::default() }).unwrap();
        let (_netlink, _socket) = world();
        for rx_first in [true, false] {
            let mut port = open("x0", &XdpConfig::default(), &pool).unwrap();
            port.tx.tx_one(datagram(&pool, b"x"), Instant::ZERO).unwrap();
            let Port { rx, tx, .. } = port;
            let (rx, tx) = if rx_first { (None, Some((drop(rx), tx).1)) } else { (Some((drop(tx), rx).1), None) };
            assert!(pool.stats().live() >= 32, "the kernel still has them");
            std::thread::spawn(move || drop((rx, tx))).join().unwrap();
            assert_eq!(pool.stats().live(), 0);
        }
    });
}

#[test]
fn the_bare_loop_and_the_port_loop_return_all_frames() {
    with_xdp("devices::the_bare_loop_and_the_port_loop_return_all_frames", || {
        let _netlink = veth("x0", "k0");
        let pool = pool_of(1024);
        let mut peer = open("k0", &XdpConfig::default(), &pool).unwrap();
        let round = |peer: &mut Port, turn: &mut dyn FnMut() -> usize| {
            let (mut burst, mut came, start) = (Burst::new(), 0, Wall::now());
            (0..100).for_each(|i| burst.push(numbered(&pool, i, 60).unwrap()).unwrap());
            peer.tx.tx_burst(&mut burst, Instant::ZERO);
            while came < 100 && start.elapsed() < Duration::from_secs(5) {
                turn();
                peer.rx.rx_burst(&mut burst, 256, Instant::ZERO);
                came += burst
                    .drain()
                    .filter(|f| f.bytes()[..12] == *b"\x04\x04\x04\x04\x04\x04\x02\x02\x02\x02\x02\x02")
                    .count();
            }
            assert_eq!(came, 100);
        };
        let mut circle = bare::BareSwap::open("x0", &XdpConfig::default()).unwrap();
        (0..100).for_each(|_| round(&mut peer, &mut || circle.turn()));
        drop(circle);
        let mut port = open("x0", &XdpConfig::default(), &pool).unwrap();
        let mut burst = Burst::new();
        (0..100).for_each(|_| round(&mut peer, &mut || bare::port_turn(&mut port, &mut burst, Instant::ZERO)));
        assert_eq!((port.counts.tx.copied.get(), port.counts.rx.missed.get()), (0, 0));
        drop((port, burst, peer));
        assert_eq!(pool.stats().live(), 0);
        let moved = bare::bare_swap("x0", &XdpConfig::default(), |moved| moved == u64::MAX).unwrap();
        assert_eq!(moved, 0);
    });
}

#[test]
fn halves_on_two_threads_share_a_pool_with_locks() {
    with_xdp("devices::halves_on_two_threads_share_a_pool_with_locks", || {
        const FRAMES: u32 = 20_000; // in each direction
        let (_a, _b) = (veth("a0", "a1"), veth("b0", "b1"));
        let pool = PoolConfig { buffers: 4096, locks: buf::PoolLocks::Light, ..PoolConfig::default() };
        let pool = Pool::new(&pool).unwrap();
        let (a, b) =
            (open("a1", &XdpConfig::default(), &pool).unwrap(), open("b1", &XdpConfig::default(), &pool).unwrap());
        let (copied, over) = ([a.counts.clone(), b.counts.clone()], AtomicBool::new(false));
        let relay = |mut rx: Box<dyn RxHalf>, mut tx: Box<dyn TxHalf>| {
            let (clock, mut burst) = (Clock::live(Strategy::default()), Burst::new());
            while !over.load(Ordering::Relaxed) {
                let now = clock.now();
                let room = burst.room().min(64);
                let came = rx.rx_burst(&mut burst, room, now);
                tx.tx_burst(&mut burst, now);
                if came == 0 {
                    std::thread::yield_now();
                }
            }
        };
        let (Port { rx: a_rx, tx: a_tx, .. }, Port { rx: b_rx, tx: b_tx, .. }) = (a, b);
        let came = std::thread::scope(|scope| {
            scope.spawn(|| relay(a_rx, b_tx));
            scope.spawn(|| relay(b_rx, a_tx));
            let (mut left, mut right) = (End::new("a0"), End::new("b0"));
            let (clock, start) = (Clock::live(Strategy::default()), Wall::now());
            while (left.came < FRAMES || right.came < FRAMES) && start.elapsed() < Duration::from_secs(30) {
                let now = clock.now();
                left.send(FRAMES, left.sent.saturating_sub(right.next), now);
                right.send(FRAMES, right.sent.saturating_sub(left.next), now);
                [&mut left, &mut right].into_iter().for_each(|end| end.receive(now));
            }
            over.store(true, Ordering::Relaxed);
            (left.came, right.came)
        });
        assert_eq!(came, (FRAMES, FRAMES));
        assert!(copied.iter().all(|counts| counts.tx.copied.get() == 0));
        assert_eq!(pool.stats().live(), 0);
    });
}

#[test]
fn overload_is_counted_as_missed() {
    with_xdp("devices::overload_is_counted_as_missed", || {
        let _netlink = veth("x0", "k0");
        let pool = pool_of(2048);
        let mut port = open("x0", &XdpConfig { ring: 64, ..XdpConfig::default() }, &pool).unwrap();
        let mut end = End::new("k0");
        for _ in 0..100 {
            end.send(u32::MAX, 0, Instant::ZERO);
        }
        let sent = u64::from(end.sent);
        let wait = Wall::now();
        while port.counts.rx.frames.get() + port.counts.rx.missed.get() < sent
            && wait.elapsed() < Duration::from_secs(5)
        {
            let mut burst = Burst::new();
            port.rx.rx_burst(&mut burst, 256, Instant::from_millis(wait.elapsed().as_millis() as u64));
        }
        let (came, missed) = (port.counts.rx.frames.get(), port.counts.rx.missed.get());
        assert!(came >= 64 && missed > 0 && came + missed >= sent, "{came} came and {missed} missed of {sent}");
        drop((port, end.port));
        assert_eq!((pool.stats().live(), end.pool.stats().live()), (0, 0));
    });
}

/// Checks frames whose checksum the kernel of the peer left open (CHECKSUM_PARTIAL), which a veth
/// passes on. The field contains the pseudo header's sum.
#[test]
fn open_checksums_follow_rx_csum() {
    with_xdp("devices::open_checksums_follow_rx_csum", || {
        let (_netlink, socket) = world();
        for (rx_csum, flags, closed) in [
            (RxCsum::Trust, Flags::RX_L4_OK.with(Flags::TX_L4_CSUM), false),
            (RxCsum::Complete, Flags::RX_L4_OK, true),
            (RxCsum::Off, Flags::default(), false),
        ] {
            let pool = pool_of(256);
            let mut port = open("x0", &XdpConfig { rx_csum, ..XdpConfig::default() }, &pool).unwrap();
            assert_eq!(port.caps.rx_csum, rx_csum != RxCsum::Off);
            socket.send_to(b"open", (US, 9)).unwrap();
            let (mut burst, start) = (Burst::new(), Wall::now());
            let is_ours =
                |frame: &Frame| frame.bytes().get(30..34) == Some(&US.octets()[..]) && frame.bytes()[23] == 17;
            while !burst.as_slice().iter().any(is_ours) {
                assert!(start.elapsed() < Duration::from_secs(5), "no frame arrived");
                port.rx.rx_burst(&mut burst, 8, Instant::ZERO);
            }
            let frame = burst.drain().find(is_ours).unwrap();
            let pseudo = wire::checksum::Partial::pseudo4(KERNEL, US, wire::Proto::UDP, 12);
            assert_eq!(frame.flags(), flags, "{rx_csum:?}");
            assert_eq!(wire::udp::checksum_ok(pseudo, &frame.bytes()[34..46]), closed, "{rx_csum:?}");
            // The reply has an open checksum, which the port completes, because the device does
            // not.
            let mut back = pool.get().unwrap();
            back.extend(&udp4((KERNEL_MAC, OUR_MAC), (US, 9), (KERNEL, 7000), b"back", true)).unwrap();
            back.set_flags(Flags::TX_L4_CSUM);
            port.tx.tx_one(back, Instant::ZERO).unwrap();
            let mut buffer = [0; 100];
            assert_eq!(socket.recv(&mut buffer).unwrap(), 4);
        }
    });
}

/// Returns the first two numbers in the kernel's version.
fn kernel() -> (u32, u32) {
    let text = std::fs::read_to_string("/proc/sys/kernel/osrelease").unwrap();
    let mut numbers = text.split(['.', '-']).map(|number| number.trim().parse().unwrap());
    (numbers.next().unwrap(), numbers.next().unwrap())
}

/// Checks that frames longer than a page are received in several buffers and joined, and are split
/// when they are sent.
#[test]
fn long_frames_use_several_buffers() {
    with_xdp("devices::long_frames_use_several_buffers", || {
        let (mut netlink, socket) = world();
        ["k0", "x0"].iter().for_each(|dev| netlink.set_mtu(dev, 9000).unwrap());
        for stride in [Stride::Odd, Stride::PowerOfTwo] {
            let pool = PoolConfig { buffers: 256, data: 9400, stride, ..PoolConfig::default() };
            let pool = Pool::new(&pool).unwrap();
            let mut port = match open("x0", &XdpConfig::default(), &pool) {
                Ok(port) => port,
                Err(XdpError::TooLong { .. }) if kernel() < (6, 6) => {
                    return println!("skipped: frames in several buffers require Linux 6.6");
                }
                Err(error) => panic!("{error}"),
            };
            assert_eq!(port.caps.mtu, 9000);
            let lens = [1usize, 1472, 3500, 3900, 4100, 8000, 8972];
            let sent: Vec<Vec<u8>> = lens.map(|len| (0..len).map(|i| (i * 7 + len) as u8).collect()).to_vec();
            sent.iter().for_each(|payload| _ = socket.send_to(payload, (US, 9)).unwrap());
            let got = payloads(&mut port, lens.len(), 3);
            assert_eq!(got.iter().map(Vec::len).collect::<Vec<_>>(), lens, "{stride:?}");
            assert!(got == sent, "{stride:?}");
            let mut buffer = vec![0; 10_000];
            for payload in &sent {
                port.tx.tx_one(datagram(&pool, payload), Instant::ZERO).unwrap();
                assert_eq!(socket.recv(&mut buffer).unwrap(), payload.len(), "{stride:?}");
                assert!(buffer[..payload.len()] == payload[..], "{stride:?} {}", payload.len());
            }
            assert_eq!((port.counts.tx.frames.get(), port.counts.tx.errors.get()), (lens.len() as u64, 0));
            let bytes: usize = lens.iter().map(|len| len + 42).sum();
            assert_eq!(port.counts.tx.bytes.get(), bytes as u64);
            drop(port);
            assert_eq!(pool.stats().live(), 0);
        }
    });
}
