//! Segments that no correct TCP sends. Each is dropped with its own reason and without an answer,
//! and connections are not affected.

use crate::common::packets::{Ip, mend_tcp, tcp_segment};
use crate::common::*;
use linerate_inet::tcp::TcpError;
use linerate_inet::udp::Domain;
use lock::Up;
use std::net::{Ipv4Addr, SocketAddr};
use wire::Proto;
use wire::tcp::{Flags, HEADER_LEN, Header};

const PORT: u16 = 80;

/// A host that listens on port 80 and has one connection from PEER.
struct Server {
    host: Host<Up>,
    listener: usize,
    child: usize,
    /// SND.NXT of the connection. That of the peer is 1001.
    next: u32,
}

impl Server {
    fn new() -> Server {
        let host: Host<Up> = Host::new();
        host.knows(EM0, PEER);
        let cx = host.cx();
        let listener = host.stack.tcp_open(cx, Domain::Inet).unwrap();
        host.stack.tcp_bind(cx, listener, any(PORT)).unwrap();
        host.stack.tcp_listen(cx, listener, 8).unwrap();
        let (src, dst) = ((PEER.ip, 4000), (ME.ip, PORT));
        send(&host, src.0, dst.0, tcp_segment(src, dst, |_| (), b""));
        let synack = host.sent(EM0).pop().unwrap();
        let ours = Header::parse(&synack[14 + 20..]).unwrap().seq;
        let (next, flags) = (ours.wrapping_add(1), Flags::ACK);
        send(&host, src.0, dst.0, tcp_segment(src, dst, |h| (h.seq, h.ack, h.flags) = (1001, next, flags), b""));
        let (child, _) = host.stack.tcp_accept(host.cx(), listener).unwrap();
        host.forget_counters();
        Server { host, listener, child, next }
    }

    /// Checks that `packet` is dropped with the reason `why` and that nothing is sent.
    fn drops(&self, why: &str, packet: Vec<u8>) {
        let before = self.host.stack.counter(why);
        self.host.inject(EM0, crate::common::packets::ether(ME.mac, PEER.mac, wire::eth::EtherType::IPV4, &packet));
        assert_eq!(self.host.stack.counter(why), before + 1, "{why}");
        assert!(self.host.sent(EM0).is_empty(), "{why}: answered");
    }

    /// Checks that the connection still receives data, and then frees everything.
    fn end(self) {
        let (src, dst) = ((PEER.ip, 4000), (ME.ip, PORT));
        let text = tcp_segment(src, dst, |h| (h.seq, h.ack, h.flags) = (1001, self.next, Flags::ACK), b"still here");
        send(&self.host, src.0, dst.0, text);
        let mut into = [0; 100];
        assert_eq!(self.host.stack.tcp_recv(self.host.cx(), self.child, &mut into), Ok(10));
        assert_eq!(&into[..10], b"still here");
        for id in [self.child, self.listener] {
            self.host.stack.tcp_close(self.host.cx(), id, true);
        }
    }
}

fn send(host: &Host<Up>, src: Ipv4Addr, dst: Ipv4Addr, segment: Vec<u8>) {
    host.inject(EM0, Ip::new(src, dst, Proto::TCP, segment).between(PEER, ME));
}

fn packet(src: Ipv4Addr, dst: Ipv4Addr, segment: Vec<u8>) -> Vec<u8> {
    Ip::new(src, dst, Proto::TCP, segment).packet()
}

/// RFC 9293 MUST-3: the checksum covers every bit of header and data.
#[test]
fn a_segment_with_any_bit_flipped_is_dropped() {
    let server = Server::new();
    let good = tcp_segment((PEER.ip, 4000), (ME.ip, PORT), |h| (h.seq, h.flags) = (1001, Flags::RST), b"text");
    for bit in 0..good.len() * 8 {
        let mut bad = good.clone();
        bad[bit / 8] ^= 1 << (bit % 8);
        // The four bits of the data offset are checked first.
        let why =
            if (96..104).contains(&bit) && bit >= 100 { "inet.tcp.in.malformed" } else { "inet.tcp.in.bad_checksum" };
        server.drops(why, packet(PEER.ip, ME.ip, bad));
    }
    server.end();
}

/// CVE-2021-31400: data offsets shorter than the TCP header or longer than the segment, and
/// segments shorter than a header.
#[test]
fn data_offsets_that_lie_are_dropped() {
    let server = Server::new();
    let good = tcp_segment((PEER.ip, 4000), (ME.ip, PORT), |_| (), b"text");
    for words in (0..5).chain(7..16) {
        let mut bad = good.clone();
        bad[12] = words << 4;
        mend_tcp(PEER.ip, ME.ip, &mut bad);
        server.drops("inet.tcp.in.malformed", packet(PEER.ip, ME.ip, bad));
    }
    for len in 0..HEADER_LEN {
        server.drops("inet.tcp.in.malformed", packet(PEER.ip, ME.ip, good[..len].to_vec()));
    }
    server.end();
}

#[test]
fn ports_of_zero_are_nobodys() {
    let server = Server::new();
    for (from, to) in [(0, PORT), (4000, 0), (0, 0)] {
        let syn = tcp_segment((PEER.ip, from), (ME.ip, to), |_| (), b"");
        server.drops("inet.tcp.in.port_zero", packet(PEER.ip, ME.ip, syn));
    }
    server.end();
}

/// RFC 9293 MUST-57: a segment to a group or broadcast address is dropped, whatever its flags.
#[test]
fn segments_to_groups_are_dropped_in_silence() {
    let server = Server::new();
    for dst in ["224.0.0.1", "255.255.255.255", "10.0.0.255"].map(|text| text.parse::<Ipv4Addr>().unwrap()) {
        for flags in [Flags::SYN, Flags::ACK, Flags::RST, Flags::FIN] {
            let to_group = tcp_segment((PEER.ip, 4000), (dst, PORT), |h| h.flags = flags, b"");
            server.drops("inet.tcp.in.group", packet(PEER.ip, dst, to_group));
        }
    }
    // The destination is our address, but the frame is a broadcast.
    let syn = packet(PEER.ip, ME.ip, tcp_segment((PEER.ip, 4001), (ME.ip, PORT), |_| (), b""));
    let all = wire::Mac([0xff; 6]);
    server.host.inject(EM0, crate::common::packets::ether(all, PEER.mac, wire::eth::EtherType::IPV4, &syn));
    assert!(server.host.sent(EM0).is_empty(), "a segment in a broadcast frame was answered");
    server.end();
}

/// RFC 9293 MUST-63: a SYN from an invalid source address is ignored.
#[test]
fn syns_from_impossible_sources_are_ignored() {
    let server = Server::new();
    for src in ["0.0.0.0", "0.1.2.3", "127.0.0.1", "224.0.0.1", "240.0.0.1", "255.255.255.255", "10.0.0.255"] {
        let src: Ipv4Addr = src.parse().unwrap();
        send(&server.host, src, ME.ip, tcp_segment((src, 4000), (ME.ip, PORT), |_| (), b""));
        assert!(server.host.sent(EM0).is_empty(), "{src}: answered");
    }
    assert_eq!(server.host.stack.counter("tcp.in.received") - 2, 0, "none of them reached TCP");
    assert_eq!(server.host.stack.counter("tcp.listen.added"), 1, "except the first one");
    server.end();
}

/// The Land and La Tierra attacks (CVE-1999-0016): from one of our addresses to itself, from the same
/// port and from another.
#[test]
fn land_is_answered_by_nothing() {
    let server = Server::new();
    for from in [PORT, 4000] {
        send(&server.host, ME.ip, ME.ip, tcp_segment((ME.ip, from), (ME.ip, PORT), |_| (), b""));
        assert!(server.host.sent(EM0).is_empty(), "port {from}: answered");
    }
    server.end();
}

/// RFC 9293 MUST-58, MUST-59: segments that arrive together are acknowledged together.
#[test]
fn a_burst_is_acknowledged_once() {
    let server = Server::new();
    let (src, dst) = ((PEER.ip, 4000), (ME.ip, PORT));
    let frames = (0..10u32).map(|i| {
        let text =
            tcp_segment(src, dst, |h| (h.seq, h.ack, h.flags) = (1001 + 100 * i, server.next, Flags::ACK), &[7; 100]);
        Ip::new(src.0, dst.0, Proto::TCP, text).between(PEER, ME)
    });
    server.host.inject_all(EM0, frames);
    let sent = server.host.sent(EM0);
    let ack = Header::parse(&sent[0][14 + 20..]).unwrap();
    assert_eq!((sent.len(), ack.flags, ack.ack), (1, Flags::ACK, 2001));
    let mut into = [0; 2000];
    assert_eq!(server.host.stack.tcp_recv(server.host.cx(), server.child, &mut into), Ok(1000));
    for id in [server.child, server.listener] {
        server.host.stack.tcp_close(server.host.cx(), id, true);
    }
}

/// Calls on a socket that does not exist.
#[test]
fn calls_on_missing_sockets_fail() {
    let host: Host<Up> = Host::new();
    let cx = host.cx();
    let to = SocketAddr::from((PEER.ip, PORT));
    for id in [0, 7, usize::MAX >> 8] {
        assert_eq!(host.stack.tcp_listen(cx, id, 1), Err(TcpError::NoSocket));
        assert_eq!(host.stack.tcp_connect(cx, id, to), Err(TcpError::NoSocket));
        assert_eq!(host.stack.tcp_send(cx, id, b"x", true), Err(TcpError::NoSocket));
        assert_eq!(host.stack.tcp_recv(cx, id, &mut [0; 9]), Err(TcpError::NoSocket));
        assert_eq!(host.stack.tcp_shutdown(cx, id, true, true), Err(TcpError::NoSocket));
        assert!(!host.stack.tcp_close(cx, id, false));
    }
}
