use super::*;
use crate::open::Pairs;
use crate::os::netlink::Netlink;
use crate::spec::Spec;
use crate::testns::{has_tun, isolated};
use crate::{Env, OpenError};
use buf::{Burst, PoolConfig};
use clock::Instant;
use std::collections::HashSet;
use std::net::{Ipv4Addr, UdpSocket};
use std::time::Duration;
use wire::{Mac, Proto, ip4};

const KERNEL: Ipv4Addr = Ipv4Addr::new(10, 1, 0, 1);
const US: Ipv4Addr = Ipv4Addr::new(10, 1, 0, 2);
const KERNEL_MAC: Mac = Mac([2, 0, 0, 0, 0, 1]);
const OUR_MAC: Mac = Mac([2, 0, 0, 0, 0, 2]);

fn open(text: &str, pairs: &Pairs, pool: &Pool) -> Result<Port, OpenError> {
    crate::open(&Spec::parse(text).unwrap(), &Env { pool: pool.clone(), pairs, mac: OUR_MAC, unit: 0 })
}

fn pool() -> Pool {
    Pool::new(&PoolConfig { buffers: 600, ..PoolConfig::default() }).unwrap()
}

/// Returns the UDP source ports of received frames.
fn sources(port: &mut Port) -> HashSet<u16> {
    let mut found = HashSet::new();
    for _ in 0..50 {
        let mut burst = Burst::new();
        port.rx.rx_burst(&mut burst, 256, Instant::ZERO);
        for frame in burst.drain() {
            let bytes = frame.bytes();
            if ip4::Header::parse(&bytes[14..]).is_ok_and(|ip| ip.proto == Proto::UDP && ip.dst == US) {
                found.insert(u16::from_be_bytes([bytes[34], bytes[35]]));
            }
        }
        std::thread::sleep(Duration::from_millis(1));
    }
    found
}

#[test]
fn flows_spread_over_queues_and_each_queue_can_send() {
    let name = "tap::queues::tests::flows_spread_over_queues_and_each_queue_can_send";
    isolated(name, || {
        if !has_tun(name) {
            return;
        }
        let (pairs, pool) = (Pairs::new(), pool());
        let spec = "tap(queues=2,mac=02:00:00:00:00:01,up=on):tap0";
        let mut ports = [(); 2].map(|()| open(spec, &pairs, &pool).unwrap());
        let mut netlink = Netlink::open().unwrap();
        netlink.add_addr("tap0", KERNEL, 24).unwrap();
        netlink.add_neighbor("tap0", US, OUR_MAC).unwrap();
        let sockets: Vec<_> = (0..40).map(|_| UdpSocket::bind((KERNEL, 0)).unwrap()).collect();
        for socket in sockets.iter().chain(&sockets) {
            socket.send_to(b"flow", (US, 9)).unwrap();
        }
        let [first, second] = ports.each_mut().map(sources);
        assert!(first.is_disjoint(&second), "each flow arrives on one queue");
        assert_eq!(first.len() + second.len(), 40);
        assert!(first.len() > 5 && second.len() > 5, "{} and {}", first.len(), second.len());

        let socket = UdpSocket::bind((KERNEL, 7000)).unwrap();
        socket.set_read_timeout(Some(Duration::from_millis(500))).unwrap();
        for (n, port) in (0..).zip(&mut ports) {
            let bytes = crate::offload::tests::udp4((KERNEL_MAC, OUR_MAC), (US, 9), (KERNEL, 7000), &[n], false);
            let mut frame = pool.get().unwrap();
            frame.extend(&bytes).unwrap();
            assert_eq!(port.tx.tx_burst(&mut Burst::of(frame), Instant::ZERO), 1);
            let mut buf = [0; 10];
            assert_eq!((socket.recv(&mut buf).unwrap(), buf[0]), (1, n));
        }
        drop(ports);
        assert_eq!(pool.stats().live(), 0);
    });
}

#[test]
fn queues_are_limited_and_have_equal_options() {
    let name = "tap::queues::tests::queues_are_limited_and_have_equal_options";
    isolated(name, || {
        if !has_tun(name) {
            return;
        }
        let (pairs, pool) = (Pairs::new(), pool());
        let error = |spec: &str| open(spec, &pairs, &pool).unwrap_err().to_string();
        let first = open("tap(queues=2):tap0", &pairs, &pool).unwrap();
        for other in ["tap(queues=2,lro=off):tap0", "tap(queues=3):tap0", "tap:tap0"] {
            assert_eq!(
                error(other),
                "tap:tap0: another queue of this device was opened with other options: use the same for all queues"
            );
        }
        let _second = open("tap(queues=2):tap0", &pairs, &pool).unwrap();
        assert_eq!(error("tap(queues=2):tap0"), "tap:tap0: all 2 queues are already open: raise the option queues");
        drop(first);
        let _third = open("tap(queues=2):tap0", &pairs, &pool).unwrap();

        let _plain = open("tap:tap1", &pairs, &pool).unwrap();
        let said = error("tap(queues=2):tap1");
        assert!(
            said.starts_with("tap:tap1: the device has a single queue: ") && said.contains("multi_queue"),
            "{said}"
        );
        let elsewhere = Pairs::new();
        let said = open("tap:tap0", &elsewhere, &pool).unwrap_err().to_string();
        assert!(said.contains("a multi-queue device"), "{said}");
    });
}
