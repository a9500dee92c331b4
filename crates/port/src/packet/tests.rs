use super::*;
use crate::offload::tests::udp4;
use crate::os::netlink::Netlink;
use crate::testns::{has_packet, isolated};
use buf::{Burst, Flags, PoolConfig};
use clock::Instant;
use std::io;
use std::net::{Ipv4Addr, UdpSocket};
use std::sync::Arc;
use std::thread::sleep;
use std::time::Duration as Time;
use wire::checksum::Partial;
use wire::{Mac, Proto, ip4, udp};

mod ends;
mod flows;

const KERNEL: Ipv4Addr = Ipv4Addr::new(10, 1, 0, 1);
const US: Ipv4Addr = Ipv4Addr::new(10, 1, 0, 2);
const KERNEL_MAC: Mac = Mac([2, 0, 0, 0, 0, 1]);
const OUR_MAC: Mac = Mac([2, 0, 0, 0, 0, 2]);

fn pool() -> Pool {
    Pool::new(&PoolConfig { buffers: 600, ..PoolConfig::default() }).unwrap()
}

/// Creates a wire from `ours` to `kernel` with both ends up. The kernel's end has an address and a
/// neighbor entry for the other end.
fn wire_up() -> (Netlink, UdpSocket) {
    let mut netlink = Netlink::open().unwrap();
    netlink.add_veth("ours", "kernel").unwrap();
    netlink.set_mac("kernel", KERNEL_MAC).unwrap();
    for end in ["ours", "kernel"] {
        // Suppresses router solicitations and similar packets, so that all frames are those of the
        // test.
        std::fs::write(format!("/proc/sys/net/ipv6/conf/{end}/disable_ipv6"), "1").ok();
        netlink.set_up(end).unwrap();
    }
    netlink.add_addr("kernel", KERNEL, 24).unwrap();
    netlink.add_neighbor("kernel", US, OUR_MAC).unwrap();
    let socket = UdpSocket::bind((KERNEL, 7000)).unwrap();
    socket.set_read_timeout(Some(Time::from_millis(500))).unwrap();
    (netlink, socket)
}

/// Returns up to `most` frames accepted by `want`. Ends when nothing has arrived for 20 ms.
fn receive(port: &mut Port, most: usize, want: impl Fn(&[u8]) -> bool) -> Vec<(Vec<u8>, Flags)> {
    let (mut got, mut quiet) = (Vec::new(), 0);
    while quiet < 100 && got.len() < most {
        let mut burst = Burst::new();
        if port.rx.rx_burst(&mut burst, 32, Instant::ZERO) == 0 {
            sleep(Time::from_micros(200));
            quiet += 1;
        } else {
            quiet = 0;
        }
        got.extend(burst.drain().filter(|f| want(f.bytes())).map(|f| (f.bytes().to_vec(), f.flags())));
    }
    got
}

/// Polls without frames until the port has checked its socket.
fn look(port: &mut Port) {
    for _ in 0..200 {
        port.rx.rx_burst(&mut Burst::new(), 32, Instant::ZERO);
    }
}

fn is_udp(frame: &[u8]) -> bool {
    ip4::Header::parse(&frame[14..]).is_ok_and(|header| header.proto == Proto::UDP && header.dst == US)
}

fn udp_checksum_ok(frame: &[u8]) -> bool {
    let header = ip4::Header::parse(&frame[14..]).unwrap();
    let datagram = header.payload(&frame[14..]);
    udp::checksum_ok(Partial::pseudo4(header.src, header.dst, Proto::UDP, datagram.len() as u16), datagram)
}

fn udp_to_kernel(payload: &[u8], open: bool) -> Vec<u8> {
    udp4((KERNEL_MAC, OUR_MAC), (US, 9), (KERNEL, 7000), payload, open)
}

fn send_all(port: &mut Port, pool: &Pool, frames: &[(Vec<u8>, Flags)]) -> usize {
    let mut burst = Burst::new();
    for (bytes, flags) in frames {
        let mut frame = pool.get().unwrap();
        frame.extend(bytes).unwrap();
        frame.set_flags(*flags);
        burst.push(frame).unwrap();
    }
    port.tx.tx_burst(&mut burst, Instant::ZERO)
}

fn send(port: &mut Port, pool: &Pool, bytes: &[u8], flags: Flags) -> usize {
    send_all(port, pool, &[(bytes.to_vec(), flags)])
}

fn in_a_namespace(name: &str, body: impl FnOnce()) {
    isolated(name, || {
        if has_packet(name) {
            body();
        }
    });
}

#[test]
fn received_open_checksums_follow_rx_csum() {
    let name = "packet::tests::received_open_checksums_follow_rx_csum";
    in_a_namespace(name, || {
        let (_netlink, socket) = wire_up();
        for (rx_csum, vnet_hdr, open) in [
            (RxCsum::Trust, true, true),
            (RxCsum::Complete, true, false),
            (RxCsum::Trust, false, true),
            (RxCsum::Complete, false, false),
        ] {
            let pool = pool();
            let config = PacketConfig { rx_csum, vnet_hdr, ..PacketConfig::default() };
            let mut port = super::open("ours", &config, &pool).unwrap();
            assert_eq!((port.name.as_str(), port.spec.as_str(), port.caps.mtu), ("ours", "packet:ours", 1500));
            socket.send_to(b"data", (US, 9)).unwrap();
            let got = receive(&mut port, 1, is_udp);
            let (frame, flags) = &got[0];
            assert!(flags.has(Flags::RX_L4_OK), "{config:?}");
            assert_eq!(flags.has(Flags::TX_L4_CSUM), open, "{config:?}");
            assert_eq!(udp_checksum_ok(frame), !open, "{}", wire::dissect::line(frame));
            let rx = &port.counts.rx;
            assert_eq!((rx.frames.get(), rx.bytes.get(), rx.malformed.get()), (1, 46, 0));
            assert_eq!(port.rx.rx_burst(&mut Burst::new(), 0, Instant::ZERO), 0);
            drop(port);
            assert_eq!(pool.stats().live(), 0);
        }
    });
}

#[test]
fn sent_frames_reach_a_kernel_socket_in_every_checksum_mode() {
    let name = "packet::tests::sent_frames_reach_a_kernel_socket_in_every_checksum_mode";
    in_a_namespace(name, || {
        let (_netlink, socket) = wire_up();
        let pool = pool();
        for (vnet_hdr, qdisc_bypass) in [(true, true), (true, false), (false, true), (false, false)] {
            let config = PacketConfig { vnet_hdr, qdisc_bypass, ..PacketConfig::default() };
            let mut port = super::open("ours", &config, &pool).unwrap();
            assert_eq!(port.caps.tx_l4_csum, vnet_hdr);
            let mut buf = [0; 2000];
            let mut arrives = |port: &mut Port, frame: &[u8], flags: Flags| {
                assert_eq!(send(port, &pool, frame, flags), 1);
                socket.recv(&mut buf).map(|n| buf[..n].to_vec()).ok()
            };
            let closed = udp_to_kernel(b"closed", false);
            assert_eq!(arrives(&mut port, &closed, Flags::default()), Some(b"closed".into()));
            let both = Flags::TX_L4_CSUM.with(Flags::TX_IP_CSUM);
            let mut frame = udp_to_kernel(b"open, odd", true);
            frame[24..26].fill(0);
            frame.extend([0xee; 7]);
            assert_eq!(arrives(&mut port, &frame, both), Some(b"open, odd".into()), "padding is not payload");
            let full = udp_to_kernel(&[7; 1472], false);
            assert_eq!(arrives(&mut port, &full, Flags::default()), Some(vec![7; 1472]), "a frame of the whole MTU");

            let mut fragment = udp_to_kernel(b"x", true);
            fragment[20] = 0x20;
            send(&mut port, &pool, &fragment, Flags::TX_L4_CSUM);
            send(&mut port, &pool, &[0; 1600], Flags::default());
            send(&mut port, &pool, &[0; 9], Flags::default());
            let tx = &port.counts.tx;
            assert_eq!((tx.frames.get(), tx.malformed.get(), tx.too_large.get()), (3, 2, 1));
            assert_eq!((tx.from_host(), tx.dropped(), tx.held.get(), port.tx.held()), (6, 3, 0, 0));
            drop(port);
            assert_eq!(pool.stats().live(), 0);
        }
    });
}

#[test]
fn bursts_larger_than_the_ring_keep_their_order() {
    let name = "packet::tests::bursts_larger_than_the_ring_keep_their_order";
    in_a_namespace(name, || {
        let (_netlink, socket) = wire_up();
        let pool = pool();
        let config = PacketConfig { tx_ring: 64, ..PacketConfig::default() };
        let mut port = super::open("ours", &config, &pool).unwrap();
        for turn in 0..20u32 {
            let frame = |n: u32| (udp_to_kernel(&(turn * 200 + n).to_be_bytes(), false), Flags::default());
            assert_eq!(send_all(&mut port, &pool, &(0..200).map(frame).collect::<Vec<_>>()), 200);
            for n in 0..200 {
                let mut buf = [0; 8];
                assert_eq!(socket.recv(&mut buf).unwrap(), 4);
                assert_eq!(u32::from_be_bytes(*buf.first_chunk().unwrap()), turn * 200 + n);
            }
        }
        assert_eq!((port.counts.tx.frames.get(), port.counts.tx.bursts.get()), (4000, 20));
        // The other direction, in small bursts, around the ring.
        let mut numbers = Vec::new();
        for n in 0..4000u32 {
            socket.send_to(&n.to_be_bytes(), (US, 9)).unwrap();
            if n % 500 == 499 {
                let got = receive(&mut port, 500, is_udp);
                numbers.extend(got.iter().map(|(f, _)| u32::from_be_bytes(*f[42..].first_chunk().unwrap())));
            }
        }
        assert!(numbers == (0..4000).collect::<Vec<_>>(), "{} came", numbers.len());
        assert_eq!((port.counts.rx.missed.get(), port.rx.warnings()), (0, Vec::new()));
        drop(port);
        assert_eq!(pool.stats().live(), 0);
    });
}

#[test]
fn a_stripped_vlan_tag_is_restored() {
    let name = "packet::tests::a_stripped_vlan_tag_is_restored";
    in_a_namespace(name, || {
        let (_netlink, _socket) = wire_up();
        let ip =
            |args: &str| std::process::Command::new("ip").args(args.split(' ')).status().is_ok_and(|s| s.success());
        if !ip("-V") {
            return println!("skipped: {name}: no ip(8)");
        }
        for (proto, tpid) in [("802.1Q", [0x81, 0]), ("802.1ad", [0x88, 0xa8])] {
            if !ip(&format!("link add link kernel name tagged type vlan proto {proto} id 42")) {
                println!(
                    "not compared: {name}: this kernel was built without {proto} devices, which no package gives it"
                );
                continue;
            }
            assert!(ip("link set tagged up") && ip("addr add 10.2.0.1/24 dev tagged"));
            assert!(ip("neigh add 10.2.0.2 lladdr 02:00:00:00:00:02 dev tagged nud permanent"));
            let socket = UdpSocket::bind("10.2.0.1:7000").unwrap();
            socket.set_read_timeout(Some(Time::from_millis(500))).unwrap();
            for (rx_csum, vnet_hdr) in [(RxCsum::Complete, true), (RxCsum::Complete, false), (RxCsum::Trust, true)] {
                let (pool, config) = (pool(), PacketConfig { rx_csum, vnet_hdr, ..PacketConfig::default() });
                let mut port = super::open("ours", &config, &pool).unwrap();
                socket.send_to(b"tagged", "10.2.0.2:9").unwrap();
                let got = receive(&mut port, 1, |f| f.ends_with(b"tagged"));
                let (frame, flags) = &got[0];
                assert_eq!((&frame[12..14], &frame[14..18]), (&tpid[..], &[0, 42, 8, 0][..]));
                let plain = [&frame[..12], &frame[16..]].concat();
                let open = flags.has(Flags::TX_L4_CSUM);
                assert_eq!((open, udp_checksum_ok(&plain)), (rx_csum == RxCsum::Trust, rx_csum != RxCsum::Trust));
                // The reply direction: the tag in the frame, the checksum open or completed.
                let mut back =
                    udp4((Mac(*frame[6..].first_chunk().unwrap()), OUR_MAC), (US, 9), (KERNEL, 1), b"", true);
                back[26..34].copy_from_slice(&[10, 2, 0, 2, 10, 2, 0, 1]);
                ip4::fill_checksum(&mut back[14..34]);
                back[36..38].copy_from_slice(&7000u16.to_be_bytes());
                let pseudo = Partial::pseudo4([10, 2, 0, 2].into(), [10, 2, 0, 1].into(), Proto::UDP, 8);
                back[40..42].copy_from_slice(&crate::offload::open_field(pseudo).to_be_bytes());
                let tagged = [&back[..12], &frame[12..16], &back[12..]].concat();
                assert_eq!(send(&mut port, &pool, &tagged, Flags::TX_L4_CSUM), 1);
                assert_eq!(socket.recv(&mut [0; 10]).unwrap(), 0);
                drop(port);
                assert_eq!(pool.stats().live(), 0);
            }
            assert!(ip("link del tagged"));
        }
    });
}

#[test]
fn frames_rejected_by_the_kernel_are_counted_and_the_rest_is_sent() {
    let name = "packet::tests::frames_rejected_by_the_kernel_are_counted_and_the_rest_is_sent";
    in_a_namespace(name, || {
        let (mut netlink, socket) = wire_up();
        let pool = pool();
        let config = PacketConfig { vnet_hdr: false, tx_ring: 64, ..PacketConfig::default() };
        let mut port = super::open("ours", &config, &pool).unwrap();
        netlink.set_mtu("ours", 600).unwrap(); // not visible to the port
        for turn in 1..=30 {
            let (small, big) = (udp_to_kernel(b"small", false), udp_to_kernel(&[1; 1000], false));
            let frames = [&big, &small, &big, &big, &small, &big].map(|bytes| (bytes.clone(), Flags::default()));
            assert_eq!(send_all(&mut port, &pool, &frames), 6);
            assert_eq!([(); 2].map(|()| socket.recv(&mut [0; 2000]).unwrap()), [5, 5]);
            let tx = &port.counts.tx;
            assert_eq!((tx.frames.get(), tx.too_large.get(), port.tx.held()), (2 * turn, 4 * turn, 0));
        }
        assert_eq!(port.counts.tx.bytes.get(), 60 * 47);
        assert_eq!(port.counts.tx.from_host(), 180);
        drop(port);
        assert_eq!(pool.stats().live(), 0);
    });
}

/// Checks that a frame is available when the sender's call returns, without waiting for a full
/// block or a timer of a millisecond.
#[test]
fn a_single_frame_is_received_at_once() {
    let name = "packet::tests::a_single_frame_is_received_at_once";
    in_a_namespace(name, || {
        let (_netlink, socket) = wire_up();
        let pool = pool();
        let mut port = super::open("ours", &PacketConfig::default(), &pool).unwrap();
        let mut took: Vec<Time> = (0..101)
            .map(|_| {
                sleep(Time::from_millis(2));
                let begun = std::time::Instant::now();
                socket.send_to(b"alone", (US, 9)).unwrap();
                let mut burst = Burst::new();
                while port.rx.rx_burst(&mut burst, 32, Instant::ZERO) == 0 {
                    assert!(begun.elapsed() < Time::from_secs(5), "no frame arrived");
                }
                begun.elapsed()
            })
            .collect();
        took.sort();
        assert!(took[50] < Time::from_micros(500), "median {:?}", took[50]);
    });
}

/// Checks that, after the MTU has been raised, frames longer than a slot arrive through the
/// socket's queue, whole and in order.
#[test]
fn a_frame_longer_than_a_slot_is_received_whole_and_in_order() {
    let name = "packet::tests::a_frame_longer_than_a_slot_is_received_whole_and_in_order";
    in_a_namespace(name, || {
        let (mut netlink, socket) = wire_up();
        let pool = pool();
        let mut port = super::open("ours", &PacketConfig { rx_ring: 64, ..PacketConfig::default() }, &pool).unwrap();
        ["ours", "kernel"].iter().for_each(|end| netlink.set_mtu(end, 9000).unwrap());
        for turn in 0..20 {
            let lens = [10, 8000, 1472, 2000, 8972, 1, 5000];
            let sent: Vec<Vec<u8>> = lens.map(|len| (0..len).map(|i| (i + len + turn) as u8).collect()).to_vec();
            sent.iter().for_each(|text| _ = socket.send_to(text, (US, 9)).unwrap());
            let got = receive(&mut port, lens.len(), is_udp);
            assert_eq!(got.iter().map(|(frame, _)| frame.len() - 42).collect::<Vec<_>>(), lens);
            assert!(got.iter().zip(&sent).all(|((frame, _), text)| frame[42..] == text[..]), "turn {turn}");
        }
        assert_eq!((port.counts.rx.malformed.get(), port.rx.warnings()), (0, Vec::new()));
        drop(port);
        assert_eq!(pool.stats().live(), 0);
    });
}

#[test]
fn opening_errors_name_the_remedy() {
    let name = "packet::tests::opening_errors_name_the_remedy";
    in_a_namespace(name, || {
        let (mut netlink, _socket) = wire_up();
        let pool = pool();
        let open = |name: &str, config: PacketConfig| super::open(name, &config, &pool).map(drop);
        let missing = open("nosuch", PacketConfig::default()).unwrap_err();
        assert!(
            matches!(missing, PacketError::NoInterface { .. }) && missing.to_string().contains("`ip link`"),
            "{missing}"
        );
        netlink.set_mtu("ours", 65_535).unwrap();
        let much = PacketConfig { rx_ring: 65_536, vnet_hdr: false, ..PacketConfig::default() };
        let much = open("ours", much).unwrap_err();
        assert!(matches!(much, PacketError::Memory { bytes, .. } if bytes == 1 << 33), "{much}");
        netlink.set_mtu("ours", 1500).unwrap();
        let ask = |mode| PacketConfig { fanout: Some((7, mode)), ..PacketConfig::default() };
        let _first = super::open("ours", &ask(FanoutMode::Hash), &pool).unwrap();
        let other = open("ours", ask(FanoutMode::Lb)).unwrap_err();
        assert!(matches!(other, PacketError::Fanout { group: 7, .. }), "{other}");
        assert!(open("ours", ask(FanoutMode::Hash)).is_ok());
        netlink.set_mtu("kernel", 9000).unwrap();
        let big = open("kernel", PacketConfig { lro: false, ..PacketConfig::default() }).unwrap_err();
        assert!(matches!(big, PacketError::SmallBuffers { need: 9018, have: 2048, .. }), "{big}");
        assert!(open("lo", PacketConfig::default()).is_ok(), "a loopback has Ethernet headers");
    });
}

#[test]
fn missing_privilege_and_memory_errors_name_the_remedy() {
    let error = |step, errno| {
        PacketError::new("eth0", &PacketConfig::default(), step, io::Error::from_raw_os_error(errno)).to_string()
    };
    let refused = error("socket", libc::EPERM);
    assert_eq!(
        refused,
        "packet:eth0: socket: permission denied: requires CAP_NET_RAW, or a network namespace of its own"
    );
    assert!(error("PACKET_TX_RING", libc::ENOMEM).contains("lower rx_ring"));
    assert!(error("socket", libc::EAFNOSUPPORT).contains("load the af_packet module"));
}
