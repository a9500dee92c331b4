use super::*;
use crate::Port;
use crate::os::netlink::Netlink;
use crate::os::netns::Namespace;
use crate::testns::{has_tun, isolated};
use buf::{Burst, Frame, Pool, PoolConfig};
use clock::Instant;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, UdpSocket};
use std::os::fd::{AsFd, AsRawFd};
use std::time::Duration;
use wire::checksum::Partial;
use wire::eth::{self, EtherType};
use wire::{Proto, ip4, udp};

const OWN: Ipv4Addr = Ipv4Addr::new(10, 0, 0, 1);
const PEER: Ipv4Addr = Ipv4Addr::new(10, 0, 0, 2);
const MAC: Mac = Mac([2, 0, 0, 0, 0, 1]);
const PEER_MAC: Mac = Mac([2, 0, 0, 0, 0, 2]);

fn pool() -> Pool {
    Pool::new(&PoolConfig { buffers: 64, ..PoolConfig::default() }).unwrap()
}

/// A network namespace other than that of the thread, with its path.
fn elsewhere() -> (Namespace, String) {
    let namespace = Namespace::new().unwrap();
    let path = format!("/proc/self/fd/{}", namespace.as_fd().as_raw_fd());
    (namespace, path)
}

fn config(netns: &str) -> MirrorConfig {
    MirrorConfig {
        name: "eth0".to_string(),
        netns: netns.to_string(),
        mac: MAC,
        mtu: 1400,
        speed: Some(25_000_000_000),
    }
}

/// Returns the next frame of `port` that contains a UDP datagram.
fn next_udp(port: &mut Port) -> Frame {
    for _ in 0..200 {
        let mut burst = Burst::new();
        port.rx.rx_burst(&mut burst, 32, Instant::ZERO);
        let is_udp = |frame: &Frame| ip4::Header::parse(&frame.bytes()[14..]).is_ok_and(|ip| ip.proto == Proto::UDP);
        if let Some(frame) = burst.drain().find(|frame| frame.bytes()[12..14] == [8, 0] && is_udp(frame)) {
            return frame;
        }
        std::thread::sleep(Duration::from_millis(5));
    }
    panic!("the kernel sent no datagram")
}

#[test]
fn packets_pass_in_both_directions_and_are_complete() {
    const TEST: &str = "mirror::tests::packets_pass_in_both_directions_and_are_complete";
    isolated(TEST, || {
        if !has_tun(TEST) {
            return;
        }
        let (namespace, path) = elsewhere();
        let (mut port, mut device) = open(&config(&path), &pool()).unwrap();
        assert!(Netlink::open().unwrap().device("eth0").is_err(), "the device is in the other namespace only");
        assert_eq!((port.caps.mtu, port.counts.link.ifindex()), (1400, None));
        device.set_addresses(&[(OWN.into(), 24)]).unwrap();
        let socket = namespace.within(|| {
            Netlink::open().unwrap().add_neighbor("eth0", PEER, PEER_MAC).unwrap();
            UdpSocket::bind((OWN, 3784)).unwrap()
        });
        let socket = socket.unwrap();
        socket.set_read_timeout(Some(Duration::from_secs(2))).unwrap();
        socket.send_to(b"hello", (PEER, 9)).unwrap();
        let frame = next_udp(&mut port);
        let link = eth::Header::parse(frame.bytes()).unwrap();
        assert_eq!((link.dst, link.src), (PEER_MAC, MAC));
        let header = ip4::Header::parse(&frame.bytes()[14..]).unwrap();
        let datagram = header.payload(&frame.bytes()[14..]);
        let pseudo = Partial::pseudo4(OWN, PEER, Proto::UDP, datagram.len() as u16);
        assert!(udp::checksum_ok(pseudo, datagram), "the kernel left the checksum to the port");
        // The way back, from a station that the kernel does not know.
        let mut answer = vec![0; 14 + ip4::HEADER_LEN + udp::HEADER_LEN + 3];
        let len = (udp::HEADER_LEN + 3) as u16;
        eth::Header { dst: MAC, src: Mac([2, 0, 0, 0, 0, 0]), ethertype: EtherType::IPV4 }
            .emit(answer.first_chunk_mut().unwrap());
        let header = ip4::Header::new(PEER, OWN, Proto::UDP, usize::from(len)).unwrap();
        header.emit((&mut answer[14..34]).try_into().unwrap());
        let ports = (wire::L4Port(9), wire::L4Port(3784));
        let head = udp::Header { src: ports.0, dst: ports.1, len, checksum: 0 };
        let head = head.with_checksum(Partial::pseudo4(PEER, OWN, Proto::UDP, len), b"bye");
        head.emit((&mut answer[34..42]).try_into().unwrap());
        answer[42..].copy_from_slice(b"bye");
        let mut frame = pool().get().unwrap();
        frame.extend(&answer).unwrap();
        port.tx.tx_burst(&mut Burst::of(frame), Instant::ZERO);
        let mut got = [0; 16];
        assert_eq!(socket.recv_from(&mut got).unwrap(), (3, (PEER, 9).into()));
        // A packet longer than the MTU, as one that was put together from fragments.
        let len = udp::HEADER_LEN + 3000;
        let mut long = answer[..14].to_vec();
        let mut header = [0; ip4::HEADER_LEN];
        ip4::Header::new(PEER, OWN, Proto::UDP, len).unwrap().emit(&mut header);
        long.extend_from_slice(&header);
        let mut head = [0; udp::HEADER_LEN];
        udp::Header { src: ports.0, dst: ports.1, len: len as u16, checksum: 0 }.emit(&mut head);
        long.extend_from_slice(&head);
        long.resize(14 + ip4::HEADER_LEN + len, 7);
        let large = Pool::new(&PoolConfig { buffers: 4, data: 4096, ..PoolConfig::default() }).unwrap();
        let mut frame = large.get().unwrap();
        frame.extend(&long).unwrap();
        port.tx.tx_burst(&mut Burst::of(frame), Instant::ZERO);
        assert_eq!(socket.recv_from(&mut [0; 4000]).unwrap().0, 3000);
        let speed = namespace.within(|| crate::os::link::status("eth0").unwrap().speed_mbps).unwrap();
        assert_eq!(speed, Some(25_000));
    });
}

#[test]
fn addresses_follow_and_those_of_others_stay() {
    const TEST: &str = "mirror::tests::addresses_follow_and_those_of_others_stay";
    isolated(TEST, || {
        if !has_tun(TEST) {
            return;
        }
        let (namespace, path) = elsewhere();
        let (_port, mut device) = open(&config(&path), &pool()).unwrap();
        let six: IpAddr = "fe80::1".parse::<Ipv6Addr>().unwrap().into();
        let own: IpAddr = Ipv4Addr::new(10, 255, 0, 1).into();
        device.set_addresses(&[(OWN.into(), 24), (six, 64)]).unwrap();
        device.set_own_addresses(&[(own, 32)]).unwrap();
        let can_bind = |addr: IpAddr| namespace.within(|| UdpSocket::bind((addr, 0)).is_ok()).unwrap();
        assert!(can_bind(OWN.into()) && can_bind(own) && !can_bind(PEER.into()));
        namespace.within(|| Netlink::open().unwrap().add_addr("eth0", PEER, 24).unwrap()).unwrap();
        device.set_addresses(&[(PEER.into(), 24), (OWN.into(), 25), (six, 64)]).unwrap();
        assert!(can_bind(PEER.into()) && can_bind(OWN.into()));
        // An address that another program has removed meanwhile, and one that the kernel removes.
        let mut kernel = namespace.within(|| Netlink::open().unwrap()).unwrap();
        kernel.remove_addr("eth0", OWN, 25).unwrap();
        kernel.set_down("eth0").unwrap();
        kernel.set_up("eth0").unwrap();
        device.set_addresses(&[(PEER.into(), 24), (OWN.into(), 25), (six, 64)]).unwrap();
        assert!(can_bind(OWN.into()) && kernel.remove_addr("eth0", six, 64).is_ok());
        device.set_addresses(&[]).unwrap();
        assert!(!can_bind(OWN.into()) && can_bind(PEER.into()), "the other program's address stays");
        assert!(device.set_addresses(&[(PEER.into(), 77)]).is_err());
        device.set_mtu(1280).unwrap();
        assert!(device.set_mtu(1).is_err());
        device.set_own_addresses(&[]).unwrap();
        assert!(!can_bind(own));
    });
}

#[test]
fn the_state_of_the_device_is_reported() {
    const TEST: &str = "mirror::tests::the_state_of_the_device_is_reported";
    isolated(TEST, || {
        if !has_tun(TEST) {
            return;
        }
        let (namespace, path) = elsewhere();
        let (mut port, mut device) = open(&config(&path), &pool()).unwrap();
        let mut kernel = namespace.within(|| Netlink::open().unwrap()).unwrap();
        assert_eq!(device.state(), MirrorState::Up);
        device.set_carrier(false).unwrap();
        let link = kernel.device("eth0").unwrap();
        assert_eq!((link.index, link.is_up, link.is_set_up), (device.index(), false, true));
        assert_eq!(device.state(), MirrorState::Up, "the port has no carrier, and nobody set the device down");
        device.set_carrier(true).unwrap();
        assert!(kernel.device("eth0").unwrap().is_up);
        kernel.set_down("eth0").unwrap();
        assert_eq!(device.state(), MirrorState::Down);
        kernel.set_up("eth0").unwrap();
        assert_eq!(device.state(), MirrorState::Up);
        kernel.delete_link("eth0").unwrap();
        assert_eq!(device.state(), MirrorState::Gone);
        assert!(device.set_carrier(true).is_err() && device.set_addresses(&[(OWN.into(), 24)]).is_err());
        let mut burst = Burst::new();
        port.rx.rx_burst(&mut burst, 32, Instant::ZERO);
        assert!(port.rx.is_gone());
    });
}

#[test]
fn what_cannot_be_opened_has_a_reason() {
    const TEST: &str = "mirror::tests::what_cannot_be_opened_has_a_reason";
    isolated(TEST, || {
        let error = |netns: &str| open(&config(netns), &pool()).unwrap_err().to_string();
        let missing = error("no-such-namespace");
        assert!(missing.contains("create it with `ip netns add no-such-namespace`"), "{missing}");
        let other = error("/proc/self/status");
        assert!(other.contains("network namespace '/proc/self/status': Invalid argument"), "{other}");
        assert!(error("/proc/self/ns/uts").contains("cannot enter"), "a namespace of another kind");
        let bad = MirrorConfig { name: "a-name-that-is-too-long".to_string(), ..config("/proc/self/ns/net") };
        assert!(open(&bad, &pool()).unwrap_err().to_string().contains("is not a valid interface name"));
        if !has_tun(TEST) {
            return;
        }
        // The namespace of the thread itself needs not be entered.
        let _open = open(&config("/proc/self/ns/net"), &pool()).unwrap();
        let twice = error("/proc/self/ns/net");
        assert!(twice.contains("a device 'eth0' exists in the network namespace"), "{twice}");
    });
}
