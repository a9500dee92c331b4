use super::*;
use crate::offload::tests::udp4;
use crate::offload::virtio;
use crate::os::netlink::Netlink;
use crate::testns::{has_tun, isolated};
use buf::{Burst, Flags, PoolConfig};
use clock::Instant;
use std::net::{Ipv4Addr, UdpSocket};
use std::time::Duration;
use wire::checksum::Partial;
use wire::{Proto, arp, ip4, udp};

const KERNEL: Ipv4Addr = Ipv4Addr::new(10, 1, 0, 1);
const US: Ipv4Addr = Ipv4Addr::new(10, 1, 0, 2);
const KERNEL_MAC: Mac = Mac([2, 0, 0, 0, 0, 1]);
const OUR_MAC: Mac = Mac([2, 0, 0, 0, 0, 2]);

fn open_with(name: &str, config: &TapConfig, pool: &Pool, large_buffers: usize) -> Result<Port, TapError> {
    open_queue(name, config, pool, large_buffers).map(|(port, _)| port)
}

fn pool() -> Pool {
    Pool::new(&PoolConfig { buffers: 64, ..PoolConfig::default() }).unwrap()
}

/// Creates a TAP device that is up and has an address, and a socket of the kernel on it.
fn world(config: &TapConfig, pool: &Pool) -> (Port, Netlink, UdpSocket) {
    let port = open("tap0", &TapConfig { mac: Some(KERNEL_MAC), up: true, ..config.clone() }, pool).unwrap();
    let mut netlink = Netlink::open().unwrap();
    netlink.add_addr("tap0", KERNEL, 24).unwrap();
    let socket = UdpSocket::bind((KERNEL, 7000)).unwrap();
    socket.set_read_timeout(Some(Duration::from_millis(500))).unwrap();
    (port, netlink, socket)
}

/// Returns the frames accepted by `want` among those that the kernel sends within a while. The
/// kernel also sends other frames by itself.
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
fn frames_of_a_kernel_socket_are_received() {
    let name = "tap::tests::frames_of_a_kernel_socket_are_received";
    isolated(name, || {
        if !has_tun(name) {
            return;
        }
        let pool = pool();
        let config = TapConfig { rx_csum: RxCsum::Complete, ..TapConfig::default() };
        let (mut port, mut netlink, socket) = world(&config, &pool);
        assert_eq!((port.name.as_str(), port.caps.mtu, port.caps.rx_csum), ("tap0", 1500, true));
        socket.send_to(b"first", (US, 9)).unwrap();
        let requested = receive(&mut port, |f| f[12..14] == [8, 6]);
        let request = arp::Packet::parse(&requested[0].0[14..]).unwrap();
        assert_eq!((request.spa, request.tpa, request.sha), (KERNEL, US, KERNEL_MAC));
        netlink.add_neighbor("tap0", US, OUR_MAC).unwrap();
        socket.send_to(b"second", (US, 9)).unwrap();
        let got = receive(&mut port, |f| is_udp(f) && f.ends_with(b"second"));
        let (frame, flags) = &got[0];
        assert!(flags.has(Flags::RX_L4_OK) && !flags.has(Flags::TX_L4_CSUM), "completed here");
        assert!(udp_checksum_ok(frame), "{}", wire::dissect::line(frame));
        let rx = &port.counts.rx;
        assert!(rx.frames.get() >= 2 && rx.bytes.get() > 0 && rx.malformed.get() == 0);
        assert_eq!(port.rx.rx_burst(&mut Burst::new(), 0, Instant::ZERO), 0);
        drop(port);
        assert_eq!(pool.stats().live(), 0);
    });
}

#[test]
fn open_checksums_follow_rx_csum() {
    let name = "tap::tests::open_checksums_follow_rx_csum";
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
fn sent_frames_reach_a_kernel_socket_in_every_checksum_mode() {
    let name = "tap::tests::sent_frames_reach_a_kernel_socket_in_every_checksum_mode";
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
            assert_eq!(arrives(&mut port, &frame, both), Some((b"open, odd".into(), from)), "padding is not payload");
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
        assert!(port.rx.is_gone() && port.rx.wait_fd().is_none(), "no descriptor to sleep on and no event");
        assert!(port.rx.why_gone().unwrap().starts_with("the TAP device is gone: "));
        assert_eq!(port.rx.rx_burst(&mut burst, 32, Instant::ZERO), 0);
        assert_eq!(port.counts.rx.errors.get(), 1, "once");
        assert_eq!(send(&mut port, &pool, &[0; 60], Flags::default()), 1, "taken");
        assert_eq!((port.counts.tx.errors.get(), port.counts.tx.from_host()), (1, 1), "the frame is counted as lost");
        drop(port);
        assert_eq!(pool.stats().live(), 0);
    });
}

#[test]
fn a_device_that_is_down_drops_frames_and_recovers() {
    let name = "tap::tests::a_device_that_is_down_drops_frames_and_recovers";
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
        // Frames that the kernel sent before (such as router solicitations, which may be sent at
        // any time) can still be read. No more frames arrive.
        while port.rx.rx_burst(&mut Burst::new(), 32, Instant::ZERO) > 0 {}
        std::thread::sleep(std::time::Duration::from_millis(50));
        assert_eq!(port.rx.rx_burst(&mut Burst::new(), 32, Instant::ZERO), 0);
        assert!(!port.rx.is_gone());
        netlink.set_up("tap0").unwrap();
        send(&mut port, &pool, &frame, Flags::default());
        assert_eq!(socket.recv_from(&mut [0; 100]).unwrap().0, 5);
    });
}

#[test]
fn opening_errors_name_the_remedy() {
    let name = "tap::tests::opening_errors_name_the_remedy";
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
        let big = open("tap1", &TapConfig { mtu: Some(9000), lro: false, ..TapConfig::default() }, &pool).unwrap_err();
        assert!(matches!(big, TapError::SmallBuffers { need: 9018, have: 2048, .. }), "{big}");
        let group = open("tap2", &TapConfig { mac: Some(Mac::BROADCAST), ..TapConfig::default() }, &pool).unwrap_err();
        assert!(matches!(group, TapError::Os { step: "SIOCSIFHWADDR", .. }), "{group}");
        let numbered = open("tap%d", &TapConfig::default(), &pool).unwrap();
        assert_eq!((numbered.name.as_str(), numbered.spec.as_str()), ("tap1", "tap:tap1"));
    });
}

#[test]
fn a_frame_longer_than_a_buffer_is_counted_as_malformed() {
    let name = "tap::tests::a_frame_longer_than_a_buffer_is_counted_as_malformed";
    isolated(name, || {
        if !has_tun(name) {
            return;
        }
        let pool = pool();
        let (mut port, mut netlink, socket) = world(&TapConfig { lro: false, ..TapConfig::default() }, &pool);
        netlink.add_neighbor("tap0", US, OUR_MAC).unwrap();
        netlink.set_mtu("tap0", 4000).unwrap(); // not visible to the port
        socket.send_to(&[1; 3000], (US, 9)).unwrap();
        socket.send_to(b"after", (US, 9)).unwrap();
        let got = receive(&mut port, is_udp);
        assert!(got.len() == 1 && got[0].0.ends_with(b"after"));
        assert_eq!(port.counts.rx.malformed.get(), 1);
    });
}

/// Connects to a TCP listener of the kernel with three frames built here: SYN, SYN-ACK, ACK. The
/// kernel then sends data on this connection.
fn connect(port: &mut Port, pool: &Pool, listener: &std::net::TcpListener) -> (std::net::TcpStream, u32) {
    let dst = listener.local_addr().unwrap().port();
    send(port, pool, &tcp4(dst, 1000, 0, 0x02, &[2, 4, 5, 0xb4]), Flags::default());
    let answer = receive(port, |f| is_tcp(f) && f[47] == 0x12);
    let isn = u32::from_be_bytes(*answer[0].0[38..].first_chunk().unwrap());
    send(port, pool, &tcp4(dst, 1001, isn.wrapping_add(1), 0x10, &[]), Flags::default());
    (listener.accept().unwrap().0, isn.wrapping_add(1))
}

fn tcp4(dst: u16, seq: u32, ack: u32, flags: u8, options: &[u8]) -> Vec<u8> {
    let mut frame = vec![0; 54];
    frame[..6].copy_from_slice(&KERNEL_MAC.0);
    frame[6..12].copy_from_slice(&OUR_MAC.0);
    frame[12] = 8;
    let ip = ip4::Header { df: true, ..ip4::Header::new(US, KERNEL, Proto::TCP, 20 + options.len()).unwrap() };
    ip.emit(frame[14..].first_chunk_mut().unwrap());
    frame.extend(options);
    let header = wire::tcp::Header {
        src: wire::L4Port(9),
        dst: wire::L4Port(dst),
        seq,
        ack,
        header_len: 20 + options.len(),
        flags: wire::tcp::Flags(flags),
        window: 65_535,
        checksum: 0,
        urgent: 0,
    };
    header.emit(frame[34..].first_chunk_mut().unwrap());
    wire::tcp::fill_checksum(Partial::pseudo4(US, KERNEL, Proto::TCP, (20 + options.len()) as u16), &mut frame[34..]);
    frame
}

fn is_tcp(frame: &[u8]) -> bool {
    ip4::Header::parse(&frame[14..]).is_ok_and(|header| header.proto == Proto::TCP && header.dst == US)
}

#[test]
fn large_segments_pass_unsplit_in_both_directions() {
    let name = "tap::tests::large_segments_pass_unsplit_in_both_directions";
    isolated(name, || {
        if !has_tun(name) {
            return;
        }
        let (pool, big) =
            (pool(), Pool::new(&PoolConfig { buffers: 4, data: 65_600, ..PoolConfig::default() }).unwrap());
        let (mut port, mut netlink, _socket) = world(&TapConfig::default(), &pool);
        netlink.add_neighbor("tap0", US, OUR_MAC).unwrap();
        assert_eq!((port.caps.tso_max, port.caps.lro, port.caps.tx_l4_csum), (65_535, true, true));
        let listener = std::net::TcpListener::bind((KERNEL, 0)).unwrap();
        let (mut stream, ack) = connect(&mut port, &pool, &listener);

        let text: Vec<u8> = (0..60_000u32).map(|n| ((n * 7) >> 3) as u8).collect();
        let mut frame = big.get().unwrap();
        let mut bytes = tcp4(stream.local_addr().unwrap().port(), 1001, ack, 0x18, &[]);
        bytes.extend(&text);
        bytes[16..18].copy_from_slice(&60_040u16.to_be_bytes());
        ip4::fill_checksum(&mut bytes[14..34]);
        let pseudo = Partial::pseudo4(US, KERNEL, Proto::TCP, 60_020);
        bytes[50..52].copy_from_slice(&crate::offload::open_field(pseudo).to_be_bytes());
        frame.extend(&bytes).unwrap();
        frame.set_flags(Flags::TX_L4_CSUM);
        frame.set_gso_size(1460);
        assert_eq!(port.tx.tx_burst(&mut Burst::of(frame), Instant::ZERO), 1);
        stream.set_read_timeout(Some(Duration::from_secs(2))).unwrap();
        let mut got = vec![0; text.len()];
        std::io::Read::read_exact(&mut stream, &mut got).unwrap();
        assert!(got == text);
        assert_eq!((port.counts.tx.frames.get(), port.counts.tx.dropped()), (3, 0));

        std::io::Write::write_all(&mut stream, &text[..14_600]).unwrap(); // its first window
        let mut came: Vec<u8> = Vec::new();
        let mut largest = 0;
        while came.len() < 14_600 {
            let frames = receive(&mut port, |f| is_tcp(f) && f.len() > 54);
            assert!(!frames.is_empty(), "{} bytes arrived", came.len());
            for (frame, flags) in frames {
                assert!(flags.has(Flags::RX_L4_OK) && flags.has(Flags::TX_L4_CSUM), "trusted");
                assert_eq!(flags.has(Flags::GSO), frame.len() > 1514);
                largest = largest.max(frame.len());
                came.extend(&frame[54..]);
            }
        }
        assert!(came == text[..14_600] && largest > 1514, "the largest has {largest} bytes");
        assert_eq!(port.counts.rx.malformed.get(), 0);
        drop(port);
        assert_eq!((pool.stats().live(), big.stats().live()), (0, 0));
    });
}

#[test]
fn without_large_buffers_large_segments_are_split() {
    let name = "tap::tests::without_large_buffers_large_segments_are_split";
    isolated(name, || {
        if !has_tun(name) {
            return;
        }
        let pool = pool();
        let config = TapConfig { mac: Some(KERNEL_MAC), up: true, ..TapConfig::default() };
        let mut port = open_with("tap0", &config, &pool, 2).unwrap();
        let mut netlink = Netlink::open().unwrap();
        netlink.add_addr("tap0", KERNEL, 24).unwrap();
        netlink.add_neighbor("tap0", US, OUR_MAC).unwrap();
        let listener = std::net::TcpListener::bind((KERNEL, 0)).unwrap();
        let (mut stream, ack) = connect(&mut port, &pool, &listener);
        let dst = stream.local_addr().unwrap().port();
        let text: Vec<u8> = (0..43_800u32).map(|n| ((n * 13) >> 2) as u8).collect();
        std::io::Write::write_all(&mut stream, &text).unwrap();
        let (mut kept, mut came, mut cut) = (Vec::new(), Vec::<u8>::new(), 0);
        for _ in 0..400 {
            let mut burst = Burst::new();
            port.rx.rx_burst(&mut burst, 32, Instant::ZERO);
            for frame in burst.drain().filter(|frame| is_tcp(frame.bytes()) && frame.len() > 54) {
                let seq = u32::from_be_bytes(*frame.bytes()[38..].first_chunk().unwrap());
                if seq != ack.wrapping_add(came.len() as u32) {
                    continue; // retransmitted
                }
                came.extend(&frame.bytes()[54..]);
                // A frame that arrived as a large segment has an open checksum; the checksums of
                // split pieces are completed.
                cut += u32::from(!frame.flags().has(Flags::TX_L4_CSUM));
                kept.extend(frame.flags().has(Flags::GSO).then_some(frame));
            }
            let next = ack.wrapping_add(came.len() as u32);
            send(&mut port, &pool, &tcp4(dst, 1001, next, 0x10, &[]), Flags::default());
            if came.len() == text.len() {
                break;
            }
            std::thread::sleep(Duration::from_millis(5));
        }
        assert!(came == text, "{} of {} bytes", came.len(), text.len());
        assert_eq!(kept.len(), 1, "the other large buffer is in reserve for reading");
        assert!(cut > 2, "{cut} pieces");
        assert_eq!((port.counts.rx.malformed.get(), port.counts.rx.no_buffer.get()), (0, 0));
        drop((kept, port));
        assert_eq!(pool.stats().live(), 0);
    });
}

#[test]
fn without_offloads_no_large_segments_are_received() {
    let name = "tap::tests::without_offloads_no_large_segments_are_received";
    isolated(name, || {
        if !has_tun(name) {
            return;
        }
        let pool = pool();
        for (config, caps) in [
            (TapConfig { tso: false, lro: false, ..TapConfig::default() }, (true, true, 0, false)),
            (TapConfig { tx_csum: false, rx_csum: RxCsum::Off, ..TapConfig::default() }, (false, false, 0, false)),
            (TapConfig { vnet_hdr: false, ..TapConfig::default() }, (false, false, 0, false)),
        ] {
            let (mut port, mut netlink, _socket) = world(&config, &pool);
            netlink.add_neighbor("tap0", US, OUR_MAC).unwrap();
            let Caps { tx_l4_csum, rx_csum, tso_max, lro, .. } = port.caps;
            assert_eq!((tx_l4_csum, rx_csum, tso_max, lro), caps, "{config:?}");
            let listener = std::net::TcpListener::bind((KERNEL, 0)).unwrap();
            let (mut stream, _) = connect(&mut port, &pool, &listener);
            std::io::Write::write_all(&mut stream, &[5; 14_600]).unwrap();
            let frames = receive(&mut port, |f| is_tcp(f) && f.len() > 54);
            assert!(!frames.is_empty() && frames.iter().all(|(frame, _)| frame.len() <= 1514));
        }
    });
}

#[test]
fn a_missing_privilege_error_names_the_remedy() {
    let error = TapError::new("tap:tap0".into(), "TUNSETIFF", std::io::Error::from_raw_os_error(libc::EPERM));
    assert_eq!(
        error.to_string(),
        "tap:tap0: TUNSETIFF: permission denied: requires CAP_NET_ADMIN, or a network namespace of its own"
    );
    let error = TapError::new("tap:tap0".into(), "open /dev/net/tun", std::io::Error::from_raw_os_error(libc::ENOENT));
    assert!(matches!(error, TapError::Missing { .. }));
    let error = TapError::new("tap:tap0".into(), "open /dev/net/tun", std::io::Error::from_raw_os_error(libc::EACCES));
    let said = error.to_string();
    // The actual mode of the file on this machine, in four digits.
    let mode = said.split_once("its mode is ").map(|(_, rest)| &rest[..4]);
    assert!(mode.is_some_and(|mode| mode.bytes().all(|b| b.is_ascii_digit()) || mode == "unkn"), "{said}");
}

#[test]
fn virtio_headers_round_trip() {
    let header = virtio::Header { flags: 1, gso_type: 4, hdr_len: 54, gso_size: 1448, csum_start: 34, csum_offset: 16 };
    assert_eq!(virtio::Header::parse(&header.emit()), header);
}

/// Checks VXLAN, where the datagram has no checksum, and the open checksum belongs to the inner
/// segment. If it were left open, it would be completed at the position of the outer header.
#[test]
fn open_checksums_inside_tunnels_are_completed() {
    let inner = tcp4(7, 1, 2, 0x10, b"");
    let mut bytes = vec![0; 34 + 8 + 8];
    wire::eth::Header { dst: wire::Mac([2; 6]), src: wire::Mac([4; 6]), ethertype: wire::eth::EtherType::IPV4 }
        .emit(bytes.first_chunk_mut().unwrap());
    let (a, b) = ([10, 0, 0, 1].into(), [10, 0, 0, 2].into());
    let outer = wire::ip4::Header::new(a, b, wire::Proto::UDP, 16 + inner.len()).unwrap();
    outer.emit(bytes[14..].first_chunk_mut().unwrap());
    let (src, dst) = (wire::L4Port(50_000), wire::vxlan::PORT);
    wire::udp::Header { src, dst, len: 16 + inner.len() as u16, checksum: 0 }
        .emit(bytes[34..].first_chunk_mut().unwrap());
    bytes.extend(&inner);
    let header =
        virtio::Header { flags: virtio::NEEDS_CSUM, csum_start: 50 + 34, csum_offset: 16, ..virtio::Header::NONE };
    let mut frame = pool().get().unwrap();
    frame.extend(&bytes).unwrap();
    virtio::understand(&header, &mut frame, RxCsum::Trust, 0).unwrap();
    assert_eq!((frame.flags(), &frame.bytes()[40..42]), (Flags::RX_L4_OK, &[0, 0][..]));
    let open = &bytes[84 + 16..84 + 18];
    assert_ne!(&frame.bytes()[84 + 16..84 + 18], open);
}
