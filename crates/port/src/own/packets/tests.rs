use super::*;
use crate::own::unix::datagrams;
use buf::{Burst, PoolConfig};
use clock::Instant;
use std::os::unix::net::UnixDatagram;
use wire::{arp, eth::EtherType};

const HOST: Mac = Mac([2, 0, 0, 0, 0, 7]);
const PACKET: [u8; 20] = [0x45, 0, 0, 20, 0, 0, 0, 0, 64, 17, 0, 0, 10, 0, 0, 1, 10, 0, 0, 2];

/// Returns a port for packets, and the socket at its far end.
fn port(pool: &Pool) -> (Port, UnixDatagram) {
    let (ours, wire) = UnixDatagram::pair().unwrap();
    let (source, sink) = datagrams(ours).unwrap();
    (packets("vpn0", HOST, pool, source, sink).unwrap(), wire)
}

fn frame(pool: &Pool, ethertype: EtherType, packet: &[u8]) -> Burst {
    let mut header = [0; eth::HEADER_LEN];
    eth::Header { dst: crate::ip_link::PEER, src: HOST, ethertype }.emit(&mut header);
    let mut frame = pool.get().unwrap();
    frame.extend(&header).unwrap();
    frame.extend(packet).unwrap();
    Burst::of(frame)
}

#[test]
fn packets_pass_and_what_is_no_packet_is_counted() {
    let pool = Pool::new(&PoolConfig { buffers: 16, ..PoolConfig::default() }).unwrap();
    let (mut port, wire) = port(&pool);
    for junk in [&[][..], &[0x45], &[0xff; 60]] {
        wire.send(junk).unwrap();
    }
    wire.send(&PACKET).unwrap();
    let mut burst = Burst::new();
    assert!(crate::os::is_readable(port.rx.wait_fd().unwrap()));
    assert_eq!(port.rx.rx_burst(&mut burst, 8, Instant::ZERO), 1);
    let received = burst.pop().unwrap();
    let header = eth::Header::parse(received.bytes()).unwrap();
    assert_eq!((header.dst, header.ethertype), (HOST, EtherType::IPV4));
    assert_eq!(received.bytes()[eth::HEADER_LEN..], PACKET);
    assert_eq!(port.counts.rx.malformed.get(), 3);

    assert_eq!(port.tx.tx_burst(&mut frame(&pool, EtherType::IPV4, &PACKET), Instant::ZERO), 1);
    let mut packet = [0; 64];
    let len = wire.recv(&mut packet).unwrap();
    assert_eq!(packet[..len], PACKET);
    assert_eq!(port.tx.tx_burst(&mut frame(&pool, EtherType(0x88cc), &PACKET), Instant::ZERO), 1);
    assert_eq!((port.counts.tx.frames.get(), port.counts.tx.errors.get()), (1, 1));
}

#[test]
fn a_request_is_answered_by_the_port_which_wakes_its_receiver() {
    let pool = Pool::new(&PoolConfig { buffers: 16, ..PoolConfig::default() }).unwrap();
    let (mut port, wire) = port(&pool);
    let [spa, tpa] = [2, 1].map(|n| [10, 0, 0, n].into());
    let request = arp::Packet { op: arp::Op::Request, sha: HOST, spa, tha: wire::Mac::ZERO, tpa };
    assert!(!crate::os::is_readable(port.rx.wait_fd().unwrap()));
    port.tx.tx_burst(&mut frame(&pool, EtherType::ARP, &request.emit()), Instant::ZERO);
    assert!(crate::os::is_readable(port.rx.wait_fd().unwrap()) && port.rx.next_event().is_some());
    let mut burst = Burst::new();
    assert_eq!(port.rx.rx_burst(&mut burst, 8, Instant::ZERO), 1);
    let reply = arp::Packet::parse(&burst.pop().unwrap().bytes()[eth::HEADER_LEN..]).unwrap();
    assert_eq!((reply.sha, reply.spa, reply.tpa), (crate::ip_link::PEER, tpa, spa));
    wire.set_nonblocking(true).unwrap();
    assert!(wire.recv(&mut [0; 64]).is_err());
}

#[test]
fn an_answer_waits_for_a_buffer() {
    let pool = Pool::new(&PoolConfig { buffers: 2, ..PoolConfig::default() }).unwrap();
    let (mut port, _wire) = port(&pool);
    let [spa, tpa] = [2, 1].map(|n| [10, 0, 0, n].into());
    let request = arp::Packet { op: arp::Op::Request, sha: HOST, spa, tha: wire::Mac::ZERO, tpa };
    port.tx.tx_burst(&mut frame(&pool, EtherType::ARP, &request.emit()), Instant::ZERO);
    let held = [pool.get().unwrap(), pool.get().unwrap()];
    let mut burst = Burst::new();
    assert_eq!(port.rx.rx_burst(&mut burst, 8, Instant::ZERO), 0);
    assert!(port.counts.rx.no_buffer.get() == 1 && crate::os::is_readable(port.rx.wait_fd().unwrap()));
    drop(held);
    assert_eq!(port.rx.rx_burst(&mut burst, 8, Instant::ZERO), 1);
}
