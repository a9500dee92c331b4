use super::*;
use crate::offload::tests::udp4;
use crate::os::netlink::Netlink;
use crate::testns::isolated;
use buf::{Burst, Flags, Frame, Held, PoolConfig, Stride};
use clock::{Clock, Instant, Strategy};
use std::net::{Ipv4Addr, UdpSocket};
use std::process::Command;
use std::time::{Duration, Instant as Wall};
use wire::Mac;

mod devices;
mod opening;

const KERNEL: Ipv4Addr = Ipv4Addr::new(10, 7, 0, 1);
const US: Ipv4Addr = Ipv4Addr::new(10, 7, 0, 2);
const KERNEL_MAC: Mac = Mac([2, 0, 0, 0, 7, 1]);
const OUR_MAC: Mac = Mac([2, 0, 0, 0, 7, 2]);
/// EtherType for local experiments (IEEE 802). No kernel sends it by itself.
const OURS: [u8; 2] = [0x88, 0xb5];

fn pool_of(buffers: usize) -> Pool {
    Pool::new(&PoolConfig { buffers, ..PoolConfig::default() }).unwrap()
}

/// Creates two connected devices that are both up.
fn veth(a: &str, b: &str) -> Netlink {
    let mut netlink = Netlink::open().unwrap();
    netlink.add_veth(a, b).unwrap();
    [a, b].iter().for_each(|dev| netlink.set_up(dev).unwrap());
    netlink
}

/// Creates a pair of devices, x0 for the port and k0 for the kernel, with an address for k0 and a
/// socket of the kernel.
fn world() -> (Netlink, UdpSocket) {
    let mut netlink = veth("x0", "k0");
    netlink.set_mac("k0", KERNEL_MAC).unwrap();
    netlink.add_addr("k0", KERNEL, 24).unwrap();
    netlink.add_neighbor("k0", US, OUR_MAC).unwrap();
    let socket = UdpSocket::bind((KERNEL, 7000)).unwrap();
    socket.set_read_timeout(Some(Duration::from_millis(500))).unwrap();
    (netlink, socket)
}

/// Returns whether these tests can run on this system. Prints "skipped" and the reason if they
/// cannot: AF_XDP requires privileges that root of a user namespace does not have.
fn has_xdp(test: &str) -> bool {
    let _netlink = veth("p0", "p1");
    match open("p0", &XdpConfig::default(), &pool_of(64)) {
        Ok(_) => true,
        Err(error @ (XdpError::Permission { .. } | XdpError::NoSupport { .. } | XdpError::Memlock { .. })) => {
            println!("skipped: {test}: {error}");
            false
        }
        Err(error) => panic!("{error}"),
    }
}

fn with_xdp(test: &str, body: impl FnOnce()) {
    let test = format!("xdp::tests::{test}");
    isolated(&test, || {
        if has_xdp(&test) {
            body();
        }
    });
}

/// Returns the payloads of received UDP datagrams. Ends after `most` payloads, or if none arrives
/// for a while.
fn payloads(port: &mut Port, most: usize, burst: usize) -> Vec<Vec<u8>> {
    let (mut got, mut last) = (Vec::new(), Wall::now());
    while got.len() < most && last.elapsed() < Duration::from_millis(300) {
        let mut frames = Burst::new();
        if port.rx.rx_burst(&mut frames, burst, Instant::ZERO) > 0 {
            last = Wall::now();
        }
        assert!(frames.len() <= burst);
        let ours = frames.drain().filter(|f| f.bytes()[12..14] == [8, 0] && f.bytes()[23] == 17);
        got.extend(ours.filter(|f| f.bytes()[30..34] == US.octets()).map(|f| f.bytes()[42..].to_vec()));
    }
    got
}

/// Returns a UDP datagram from the port's host to the kernel's socket.
fn datagram(pool: &Pool, payload: &[u8]) -> Frame {
    let mut frame = pool.get().unwrap();
    frame.extend(&udp4((KERNEL_MAC, OUR_MAC), (US, 9), (KERNEL, 7000), payload, false)).unwrap();
    frame
}

fn numbered(pool: &Pool, number: u32, len: usize) -> Option<Frame> {
    let mut frame = pool.get()?;
    frame.extend(&[&[2; 6][..], &[4; 6], &OURS, &number.to_be_bytes()].concat())?;
    frame.append(len.saturating_sub(18))?.fill(number as u8);
    Some(frame)
}

fn number_of(frame: &Frame) -> Option<u32> {
    let bytes = frame.bytes();
    assert!(bytes[12..14] != OURS || bytes[18..].iter().all(|b| *b == bytes[17]), "bytes of another frame");
    (bytes[12..14] == OURS).then(|| u32::from_be_bytes(bytes[14..18].try_into().unwrap()))
}

#[test]
fn frames_are_received_singly_and_in_bursts() {
    with_xdp("frames_are_received_singly_and_in_bursts", || {
        let pool = pool_of(1024);
        let (_netlink, socket) = world();
        let mut port = open("x0", &XdpConfig::default(), &pool).unwrap();
        assert_eq!((port.caps.mtu, port.rx.held(), port.tx.held()), (1500, 128, 0));
        for (round, burst) in [(0u8, 1), (1, 7), (2, 256)] {
            let sent: Vec<_> = (0..100u8).map(|i| vec![i ^ round; usize::from(i) * 14 + 1]).collect();
            sent.iter().for_each(|payload| _ = socket.send_to(payload, (US, 9)).unwrap());
            assert_eq!(payloads(&mut port, 100, burst), sent, "in bursts of {burst}");
        }
        assert!(port.counts.rx.frames.get() >= 300 && port.counts.rx.malformed.get() == 0);
        let frame = port.rx.rx_burst(&mut Burst::new(), 0, Instant::ZERO);
        assert_eq!(frame, 0);
        drop(port);
        assert_eq!(pool.stats().live(), 0);
    });
}

#[test]
fn a_received_frame_has_the_headroom_of_its_pool() {
    with_xdp("a_received_frame_has_the_headroom_of_its_pool", || {
        let (_netlink, socket) = world();
        for (headroom, stride) in [(0, Stride::Odd), (128, Stride::PowerOfTwo), (192, Stride::Odd), (700, Stride::Odd)]
        {
            let pool = Pool::new(&PoolConfig { buffers: 64, headroom, stride, ..PoolConfig::default() }).unwrap();
            let mut port = open("x0", &XdpConfig::default(), &pool).unwrap();
            socket.send_to(&[7; 1472], (US, 9)).unwrap();
            let mut burst = Burst::new();
            let patience = Wall::now();
            while !burst.as_slice().iter().any(|f| f.len() == 1514) {
                assert!(patience.elapsed() < Duration::from_secs(5), "no frame arrived");
                port.rx.rx_burst(&mut burst, 8, Instant::ZERO);
            }
            assert!(burst.as_slice().iter().all(|frame| frame.headroom() >= usize::from(headroom)));
            drop((burst, port));
            assert_eq!(pool.stats().live(), 0);
        }
    });
}

#[test]
fn frames_are_sent_singly_and_in_bursts() {
    with_xdp("frames_are_sent_singly_and_in_bursts", || {
        let pool = pool_of(1024);
        let (_netlink, socket) = world();
        let mut port = open("x0", &XdpConfig::default(), &pool).unwrap();
        let mut buffer = [0; 2000];
        port.tx.tx_one(datagram(&pool, b"alone"), Instant::ZERO).unwrap();
        assert_eq!(socket.recv(&mut buffer).unwrap(), 5);
        for n in [1usize, 31, 80] {
            let mut burst = Burst::new();
            (0..n).for_each(|i| burst.push(datagram(&pool, &vec![i as u8; 1 + i * 5])).unwrap());
            assert_eq!((port.tx.tx_burst(&mut burst, Instant::ZERO), burst.len()), (n, 0));
            for i in 0..n {
                assert_eq!(socket.recv(&mut buffer).unwrap(), 1 + i * 5, "datagram {i} of {n}");
                assert!(buffer[..1 + i * 5].iter().all(|b| *b == i as u8));
            }
        }
        assert_eq!((port.counts.tx.frames.get(), port.counts.tx.copied.get()), (113, 0));
        let wait = Wall::now();
        while port.tx.held() > 0 && wait.elapsed() < Duration::from_secs(2) {
            let again = port.tx.next_event().expect("the port schedules another call for held frames");
            port.tx.poll(again);
        }
        assert_eq!((port.tx.held(), pool.stats().live()), (0, port.rx.held() as u64));
        assert_eq!(port.tx.next_event(), None);
    });
}

#[test]
fn frames_of_other_pools_and_on_loan_are_copied_and_invalid_ones_counted() {
    with_xdp("frames_of_other_pools_and_on_loan_are_copied_and_invalid_ones_counted", || {
        let (pool, other) = (pool_of(256), pool_of(16));
        let (_netlink, socket) = world();
        let mut port = open("x0", &XdpConfig::default(), &pool).unwrap();
        let mut held = Held::new(datagram(&pool, b"lent")).unwrap();
        let mut burst = Burst::new();
        burst.push(datagram(&other, b"stranger")).unwrap();
        burst.push(held.lend().unwrap()).unwrap();
        burst.push(datagram(&pool, b"own")).unwrap();
        let mut long = pool.get().unwrap();
        long.append(1519).unwrap();
        burst.push(long).unwrap();
        let mut short = pool.get().unwrap();
        short.append(13).unwrap();
        burst.push(short).unwrap();
        assert_eq!(port.tx.tx_burst(&mut burst, Instant::ZERO), 5);
        let mut buffer = [0; 100];
        let mut texts = (0..3).map(|_| socket.recv(&mut buffer).map(|n| buffer[..n].to_vec()).unwrap());
        assert_eq!(texts.next().unwrap(), b"stranger");
        assert_eq!(texts.next().unwrap(), b"lent");
        assert_eq!(texts.next().unwrap(), b"own");
        let tx = &port.counts.tx;
        assert_eq!((tx.frames.get(), tx.copied.get(), tx.too_large.get(), tx.malformed.get()), (3, 2, 1, 1));
        assert_eq!((other.stats().live(), held.is_lent()), (0, false));
        drop((port, held));
        assert_eq!(pool.stats().live(), 0);
    });
}

/// Answers ARP requests and ICMP echo requests in place. Returns `None` for any other frame.
fn answer(frame: &mut [u8]) -> Option<()> {
    let (mac, theirs) = (OUR_MAC.0, frame.get(6..12)?.to_vec());
    if frame[12..14] == [8, 6] && frame.get(20..22)? == [0, 1] && frame.get(38..42)? == US.octets() {
        let asker = frame[22..32].to_vec();
        frame[21] = 2;
        frame[22..32].copy_from_slice(&[&mac[..], &US.octets()].concat());
        frame[32..42].copy_from_slice(&asker);
    } else if frame[12..14] == [8, 0] && frame.get(23)? == &1 && frame.get(34)? == &8 {
        let asker = frame[26..30].to_vec();
        frame.copy_within(30..34, 26);
        frame[30..34].copy_from_slice(&asker);
        frame[34] = 0;
        let sum = u16::from_be_bytes([frame[36], frame[37]]);
        let (sum, carry) = sum.overflowing_add(0x0800); // RFC 1624: the type changes from 8 to 0
        frame[36..38].copy_from_slice(&(sum + u16::from(carry)).to_be_bytes());
    } else {
        return None;
    }
    frame[..6].copy_from_slice(&theirs);
    frame[6..12].copy_from_slice(&mac);
    Some(())
}

#[test]
fn kernel_pings_are_answered() {
    with_xdp("kernel_pings_are_answered", || {
        let pool = pool_of(512);
        let mut netlink = veth("x0", "k0");
        netlink.add_addr("k0", KERNEL, 24).unwrap();
        let mut port = open("x0", &XdpConfig::default(), &pool).unwrap();
        let ping = Command::new("ping").args(["-q", "-n", "-c", "20", "-i", "0.01", "-W", "2", "10.7.0.2"]).spawn();
        let mut ping = match ping {
            Ok(child) => child,
            Err(error) => return println!("skipped: xdp::tests::kernel_pings_are_answered: ping: {error}"),
        };
        let (clock, start) = (Clock::live(Strategy::default()), Wall::now());
        let status = loop {
            assert!(start.elapsed() < Duration::from_secs(20), "ping does not end");
            let (mut came, mut out) = (Burst::new(), Burst::new());
            port.rx.rx_burst(&mut came, 32, clock.now());
            for mut frame in came.drain() {
                if answer(frame.bytes_mut()).is_some() {
                    out.push(frame).unwrap();
                }
            }
            port.tx.tx_burst(&mut out, clock.now());
            if let Some(status) = ping.try_wait().unwrap() {
                break status;
            }
            std::thread::sleep(Duration::from_micros(100));
        };
        assert!(status.success(), "{status}");
        assert!(port.counts.tx.frames.get() >= 21 && port.counts.tx.copied.get() == 0);
    });
}
