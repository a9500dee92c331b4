use super::*;
use crate::offload::tests::udp4;
use crate::os::netlink::Netlink;
use crate::testns::{has_tun, isolated};
use buf::PoolConfig;
use std::net::{Ipv4Addr, UdpSocket};
use std::time::Duration;
use wire::checksum::Partial;
use wire::{Proto, arp, ip4, udp};

const KERNEL: Ipv4Addr = Ipv4Addr::new(10, 1, 0, 1);
const US: Ipv4Addr = Ipv4Addr::new(10, 1, 0, 2);
const KERNEL_MAC: Mac = Mac([2, 0, 0, 0, 0, 1]);
const OUR_MAC: Mac = Mac([2, 0, 0, 0, 0, 2]);

fn pool() -> Pool {
    Pool::new(&PoolConfig { buffers: 64, ..PoolConfig::default() }).unwrap()
}

/// A TAP device that is up and has an address, and the kernel's socket on it.
fn world(config: &TapConfig, pool: &Pool) -> (Port, Netlink, UdpSocket) {
    let port = open("tap0", &TapConfig { mac: Some(KERNEL_MAC), up: true, ..config.clone() }, pool).unwrap();
    let mut netlink = Netlink::open().unwrap();
    netlink.add_addr("tap0", KERNEL, 24).unwrap();
    let socket = UdpSocket::bind((KERNEL, 7000)).unwrap();
    socket.set_read_timeout(Some(Duration::from_millis(500))).unwrap();
    (port, netlink, socket)
}

/// Frames that `want` picks, of those the kernel sends within a while (it sends others of its own accord).
fn receive(port: &mut Port, want: impl Fn(&[u8]) -> bool) -> Vec<(Vec<u8>, Flags)> {
    for _ in 0..100 {
        let mut burst = Burst::new();
        port.rx.rx_burst(&mut burst, 32, Instant::ZERO);
        let got: Vec<_> = burst.drain().filter(|f| want(f.bytes())).map(|f| (f.bytes().to_vec(), f.flags())).collect();
        if !got.is_empty() {
            return got;
        }
        std::thread::sleep(Duration::from_millis(5));
    }
    Vec::new()
}

fn is_udp(frame: &[u8]) -> bool {
    ip4::Header::parse(&frame[14..]).is_ok_and(|header| header.proto == Proto::UDP && header.dst == US)
}

fn udp_checksum_ok(frame: &[u8]) -> bool {
    let header = ip4::Header::parse(&frame[14..]).unwrap();
    let datagram = header.payload(&frame[14..]);
    udp::checksum_ok(Partial::pseudo4(header.src, header.dst, Proto::UDP, datagram.len() as u16), datagram)
}

fn send(port: &mut Port, pool: &Pool, bytes: &[u8], flags: Flags) -> usize {
    let mut frame = pool.get().unwrap();
    frame.extend(bytes).unwrap();
    frame.set_flags(flags);
    let mut burst = Burst::new();
    burst.push(frame).unwrap();
    port.tx.tx_burst(&mut burst, Instant::ZERO)
}

#[test]
fn a_kernel_socket_sends_to_us_by_arp_and_then_udp() {
    let name = "tap::tests::a_kernel_socket_sends_to_us_by_arp_and_then_udp";
    isolated(name, || {
        if !has_tun(name) {
            return;
        }
        let pool = pool();
        let (mut port, mut netlink, socket) = world(&TapConfig::default(), &pool);
        assert_eq!((port.name.as_str(), port.caps.mtu, port.caps.rx_csum), ("tap0", 1500, true));
        socket.send_to(b"first", (US, 9)).unwrap();
        let asked = receive(&mut port, |f| f[12..14] == [8, 6]);
        let request = arp::Packet::parse(&asked[0].0[14..]).unwrap();
        assert_eq!((request.spa, request.tpa, request.sha), (KERNEL, US, KERNEL_MAC));
        netlink.add_neighbor("tap0", US, OUR_MAC).unwrap();
        socket.send_to(b"second", (US, 9)).unwrap();
        let got = receive(&mut port, |f| is_udp(f) && f.ends_with(b"second"));
        let (frame, flags) = &got[0];
        assert!(flags.has(Flags::RX_L4_OK) && !flags.has(Flags::TX_L4_CSUM), "closed here");
        assert!(udp_checksum_ok(frame), "{}", wire::dissect::line(frame));
        let rx = &port.counts.rx;
        assert!(rx.frames.get() >= 2 && rx.bytes.get() > 0 && rx.malformed.get() == 0);
        assert_eq!(port.rx.rx_burst(&mut Burst::new(), 0, Instant::ZERO), 0);
        drop(port);
        assert_eq!(pool.stats().live(), 0);
    });
}

#[test]
fn open_checksums_are_trusted_or_refused_as_asked() {
    let name = "tap::tests::open_checksums_are_trusted_or_refused_as_asked";
    isolated(name, || {
        if !has_tun(name) {
            return;
        }
        let pool = pool();
        for (config, open, flagged) in [
            (TapConfig { rx_csum: RxCsum::Trust, ..TapConfig::default() }, true, true),
            (TapConfig { rx_csum: RxCsum::Off, ..TapConfig::default() }, false, false),
            (TapConfig { vnet_hdr: false, ..TapConfig::default() }, false, false),
        ] {
            let (mut port, mut netlink, socket) = world(&config, &pool);
            netlink.add_neighbor("tap0", US, OUR_MAC).unwrap();
            socket.send_to(b"data", (US, 9)).unwrap();
            let got = receive(&mut port, is_udp);
            let (frame, flags) = &got[0];
            assert_eq!(flags.has(Flags::RX_L4_OK), flagged, "{config:?}");
            assert_eq!(flags.has(Flags::TX_L4_CSUM), open, "{config:?}");
            assert_eq!(udp_checksum_ok(frame), !open, "{config:?}");
        }
    });
}

#[test]
fn what_we_send_arrives_at_a_kernel_socket_however_the_checksum_is_made() {
    let name = "tap::tests::what_we_send_arrives_at_a_kernel_socket_however_the_checksum_is_made";
    isolated(name, || {
        if !has_tun(name) {
            return;
        }
        let pool = pool();
        for vnet_hdr in [true, false] {
            let config = TapConfig { vnet_hdr, ..TapConfig::default() };
            let (mut port, _netlink, socket) = world(&config, &pool);
            assert_eq!(port.caps.tx_l4_csum, vnet_hdr);
            let mut buf = [0; 2000];
            let mut arrives = |port: &mut Port, frame: &[u8], flags: Flags| {
                assert_eq!(send(port, &pool, frame, flags), 1);
                socket.recv_from(&mut buf).map(|(n, from)| (buf[..n].to_vec(), from)).ok()
            };
            let udp = |payload: &[u8], open| udp4((KERNEL_MAC, OUR_MAC), (US, 9), (KERNEL, 7000), payload, open);
            let from = std::net::SocketAddr::from((US, 9));
            assert_eq!(arrives(&mut port, &udp(b"closed", false), Flags::default()), Some((b"closed".into(), from)));
            let both = Flags::TX_L4_CSUM.with(Flags::TX_IP_CSUM);
            let mut frame = udp(b"open, odd", true);
            frame[24..26].fill(0);
            assert_eq!(arrives(&mut port, &frame, both), Some((b"open, odd".into(), from)));
            frame.extend([0xee; 7]);
            assert_eq!(arrives(&mut port, &frame, both), Some((b"open, odd".into(), from)), "padding is no payload");
            assert_eq!(arrives(&mut port, &udp(b"never closed", true), Flags::default()), None, "the kernel verifies");
            assert_eq!((port.counts.tx.frames.get(), port.counts.tx.from_host()), (4, 4));

            let mut fragment = udp(b"x", true);
            fragment[20] = 0x20;
            send(&mut port, &pool, &fragment, Flags::TX_L4_CSUM);
            send(&mut port, &pool, &[0; 1600], Flags::default());
            let tx = &port.counts.tx;
            assert_eq!((tx.malformed.get(), tx.too_large.get(), tx.from_host(), tx.dropped()), (1, 1, 6, 2));
        }
        assert_eq!(pool.stats().live(), 0);
    });
}

#[test]
fn a_deleted_device_ends_the_port_and_is_counted() {
    let name = "tap::tests::a_deleted_device_ends_the_port_and_is_counted";
    isolated(name, || {
        if !has_tun(name) {
            return;
        }
        let pool = pool();
        let (mut port, mut netlink, _socket) = world(&TapConfig::default(), &pool);
        receive(&mut port, |_| false);
        assert!(!port.rx.is_gone() && port.rx.wait_fd().is_some());
        netlink.delete_link("tap0").unwrap();
        let mut burst = Burst::new();
        assert_eq!(port.rx.rx_burst(&mut burst, 32, Instant::ZERO), 0);
        assert!(port.rx.is_gone() && port.rx.wait_fd().is_none(), "nothing to sleep on, nothing to spin on");
        assert!(port.rx.why_gone().unwrap().starts_with("the TAP device is gone: "));
        assert_eq!(port.rx.rx_burst(&mut burst, 32, Instant::ZERO), 0);
        assert_eq!(port.counts.rx.errors.get(), 1, "once");
        assert_eq!(send(&mut port, &pool, &[0; 60], Flags::default()), 1, "taken");
        assert_eq!((port.counts.tx.errors.get(), port.counts.tx.from_host()), (1, 1), "and counted as lost");
        drop(port);
        assert_eq!(pool.stats().live(), 0);
    });
}

#[test]
fn a_device_that_is_down_loses_frames_and_comes_back() {
    let name = "tap::tests::a_device_that_is_down_loses_frames_and_comes_back";
    isolated(name, || {
        if !has_tun(name) {
            return;
        }
        let pool = pool();
        let (mut port, mut netlink, socket) = world(&TapConfig::default(), &pool);
        netlink.set_down("tap0").unwrap();
        let frame = udp4((KERNEL_MAC, OUR_MAC), (US, 9), (KERNEL, 7000), b"hello", false);
        send(&mut port, &pool, &frame, Flags::default());
        assert_eq!(port.counts.tx.errors.get(), 1);
        assert_eq!(port.rx.rx_burst(&mut Burst::new(), 32, Instant::ZERO), 0);
        assert!(!port.rx.is_gone());
        netlink.set_up("tap0").unwrap();
        send(&mut port, &pool, &frame, Flags::default());
        assert_eq!(socket.recv_from(&mut [0; 100]).unwrap().0, 5);
    });
}

#[test]
fn mistakes_in_opening_say_what_to_do() {
    let name = "tap::tests::mistakes_in_opening_say_what_to_do";
    isolated(name, || {
        if !has_tun(name) {
            return;
        }
        let pool = pool();
        let first = open("tap0", &TapConfig { mtu: Some(900), ..TapConfig::default() }, &pool).unwrap();
        assert_eq!(first.caps.mtu, 900);
        assert!(matches!(open("tap0", &TapConfig::default(), &pool), Err(TapError::Busy { .. })));
        let lo = open("lo", &TapConfig::default(), &pool).unwrap_err();
        assert!(matches!(lo, TapError::NotTap { .. }), "{lo}");
        let big = open("tap1", &TapConfig { mtu: Some(9000), ..TapConfig::default() }, &pool).unwrap_err();
        assert!(matches!(big, TapError::SmallBuffers { need: 9018, have: 2048, .. }), "{big}");
        let group = open("tap2", &TapConfig { mac: Some(Mac::BROADCAST), ..TapConfig::default() }, &pool).unwrap_err();
        assert!(matches!(group, TapError::Os { step: "SIOCSIFHWADDR", .. }), "{group}");
        let numbered = open("tap%d", &TapConfig::default(), &pool).unwrap();
        assert_eq!((numbered.name.as_str(), numbered.spec.as_str()), ("tap1", "tap:tap1"));
    });
}

#[test]
fn a_frame_longer_than_a_buffer_is_malformed_and_the_next_one_is_not() {
    let name = "tap::tests::a_frame_longer_than_a_buffer_is_malformed_and_the_next_one_is_not";
    isolated(name, || {
        if !has_tun(name) {
            return;
        }
        let pool = pool();
        let (mut port, mut netlink, socket) = world(&TapConfig::default(), &pool);
        netlink.add_neighbor("tap0", US, OUR_MAC).unwrap();
        netlink.set_mtu("tap0", 4000).unwrap(); // behind the port's back
        socket.send_to(&[1; 3000], (US, 9)).unwrap();
        socket.send_to(b"after", (US, 9)).unwrap();
        let got = receive(&mut port, is_udp);
        assert!(got.len() == 1 && got[0].0.ends_with(b"after"));
        assert_eq!(port.counts.rx.malformed.get(), 1);
    });
}

#[test]
fn no_privilege_is_an_error_with_advice() {
    let error = TapError::new("tap0", "TUNSETIFF", std::io::Error::from_raw_os_error(libc::EPERM));
    assert_eq!(error.to_string(), "tap:tap0: TUNSETIFF refused: needs CAP_NET_ADMIN, or run in an own namespace");
    let error = TapError::new("tap0", "open /dev/net/tun", std::io::Error::from_raw_os_error(libc::ENOENT));
    assert!(matches!(error, TapError::Missing { .. }));
}

#[test]
fn a_virtio_header_reads_as_it_was_written() {
    let header = vnet::Header { flags: 1, gso_type: 4, hdr_len: 54, gso_size: 1448, csum_start: 34, csum_offset: 16 };
    assert_eq!(vnet::Header::parse(&header.emit()), header);
}
