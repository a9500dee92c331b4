//! Echo service over UDP and TCP on the host of the fuzz target `inet_six`, and a peer that uses
//! it.
//!
//! The peer answers the last packet that the host sent, with correct or nearly correct sequence
//! numbers. Therefore handshakes complete, data is echoed, and slightly wrong segments reach
//! connections.

use super::super::{Side, Tape};
use super::{addr, frame_of, packet};
use crate::Stack;
use crate::udp::Domain;
use lock::{Cx, Up};
use std::net::{Ipv6Addr, SocketAddr};
use wire::checksum::Partial;
use wire::ip6;
use wire::tcp::{self, Flags};
use wire::{L4Port, Proto, udp};

/// TCP and UDP port of the service.
const ECHO: u16 = 7;
/// Maximum number of connections open at a time.
const STREAMS: usize = 8;
/// Maximum number of datagrams, and of reads per stream, echoed in a step.
const AT_ONCE: usize = 8;

/// Dual-stack sockets of the service.
pub(super) struct Echo {
    datagrams: usize,
    listener: usize,
    streams: Vec<usize>,
    echoed: Echoed,
}

/// Amount of data that the service has sent back.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(super) struct Echoed {
    pub datagrams: usize,
    pub connections: usize,
    /// Number of bytes sent back on all connections.
    pub text: usize,
}

impl Echo {
    pub(super) fn new(stack: &Stack<Up>, cx: Cx) -> Echo {
        let any = SocketAddr::from((Ipv6Addr::UNSPECIFIED, ECHO));
        let datagrams = stack.udp_open(cx, Domain::Inet6).unwrap();
        stack.udp_bind(cx, datagrams, any).unwrap();
        let listener = stack.tcp_open(cx, Domain::Inet6).unwrap();
        stack.tcp_bind(cx, listener, any).unwrap();
        stack.tcp_listen(cx, listener, 4).unwrap();
        Echo { datagrams, listener, streams: Vec::new(), echoed: Echoed::default() }
    }

    /// Echoes received data and closes ended connections.
    pub(super) fn serve(&mut self, stack: &Stack<Up>, cx: Cx) {
        for _ in 0..AT_ONCE {
            let Some(got) = stack.udp_recv(cx, self.datagrams) else { break };
            assert!(got.from.is_ipv6(), "an IPv6 socket must report IPv4 addresses as mapped");
            let sent = stack.udp_send(cx, self.datagrams, got.frame.bytes(), Some(&got.from));
            self.echoed.datagrams += usize::from(sent.is_ok());
        }
        while self.streams.len() < STREAMS
            && let Ok((stream, peer)) = stack.tcp_accept(cx, self.listener)
        {
            assert!(peer.is_ipv6() && peer.port() != 0);
            self.streams.push(stream);
            self.echoed.connections += 1;
        }
        let text = &mut self.echoed.text;
        self.streams.retain(|stream| !serve_stream(stack, cx, *stream, text));
    }
}

impl Echo {
    /// Ends the service and resets all connections, including those that are closed but whose FIN
    /// is not yet acknowledged.
    pub(super) fn end(self, stack: &Stack<Up>, cx: Cx) -> Echoed {
        self.streams.iter().for_each(|stream| assert!(stack.tcp_close(cx, *stream, true)));
        assert!(stack.tcp_close(cx, self.listener, true) && stack.udp_close(cx, self.datagrams));
        stack.tcp_reset_unacknowledged(cx);
        self.echoed
    }
}

/// Echoes the data of a connection. Returns `true` if the connection has ended; its socket is
/// closed then.
fn serve_stream(stack: &Stack<Up>, cx: Cx, stream: usize, echoed: &mut usize) -> bool {
    let mut text = [0; 512];
    for _ in 0..AT_ONCE {
        match stack.tcp_recv(cx, stream, &mut text) {
            Ok(0) => break,
            // Data that does not fit into the send buffer is lost.
            Ok(n) => *echoed += stack.tcp_send(cx, stream, &text[..n], true).unwrap_or(0),
            Err(crate::tcp::TcpError::WouldBlock) => return false,
            Err(_) => break,
        }
    }
    assert!(stack.tcp_close(cx, stream, false));
    true
}

/// Returns a UDP datagram or TCP segment for the service or for another port.
pub(super) fn upper(proto: Proto, src: Ipv6Addr, dst: Ipv6Addr, tape: &mut Tape<'_>) -> Vec<u8> {
    let port = match tape.byte() {
        n @ 0..=0xef => ECHO * u16::from(n < 0xe0),
        _ => tape.word(),
    };
    let from = 1000 + u16::from(tape.byte() % 4);
    if proto == Proto::UDP {
        return datagram((src, from), (dst, port), &vec![0xe5; usize::from(tape.byte()) * 6]);
    }
    let bits = tape.byte();
    let flags = if bits & 0xc0 == 0 { Flags::SYN } else { Flags(bits) };
    let (seq, ack) = (u32::from(tape.word()) << 16, u32::from(tape.word()) << 16);
    let len = usize::from(tape.byte() % 40);
    let options = tape.bytes(len & !3).to_vec();
    segment((src, from), (dst, port), flags, (seq, ack), &options, &[])
}

fn datagram(from: (Ipv6Addr, u16), to: (Ipv6Addr, u16), body: &[u8]) -> Vec<u8> {
    let len = (udp::HEADER_LEN + body.len()) as u16;
    let header = udp::Header { src: L4Port(from.1), dst: L4Port(to.1), len, checksum: 0 };
    let header = header.with_checksum(Partial::pseudo6(from.0, to.0, Proto::UDP, len.into()), body);
    let mut out = vec![0; udp::HEADER_LEN];
    header.emit(out.first_chunk_mut().unwrap());
    [out, body.to_vec()].concat()
}

fn segment(
    from: (Ipv6Addr, u16),
    to: (Ipv6Addr, u16),
    flags: Flags,
    (seq, ack): (u32, u32),
    options: &[u8],
    text: &[u8],
) -> Vec<u8> {
    let header = tcp::Header {
        src: L4Port(from.1),
        dst: L4Port(to.1),
        seq,
        ack,
        header_len: tcp::HEADER_LEN + options.len(),
        flags,
        window: 4096,
        checksum: 0,
        urgent: 0,
    };
    let mut fixed = [0; tcp::HEADER_LEN];
    header.emit(&mut fixed);
    let mut out = [&fixed[..], options, text].concat();
    tcp::fill_checksum(Partial::pseudo6(from.0, to.0, Proto::TCP, out.len() as u32), &mut out);
    out
}

/// Answers the last packet that the host sent, if it was a UDP datagram or TCP segment. The answer
/// is the one that the host expects next, or nearly so.
pub(super) fn answer(side: &Side, cx: Cx, tape: &mut Tape<'_>) {
    side.stack.flush(cx);
    let mut wire = side.wire.lock().unwrap();
    let Some(last) = wire.pop_back() else { return };
    // The packet stays on the wire, so that the peer can answer it again. The peer must answer a
    // SYN-ACK twice, first with an ACK and then with data, because the host sends nothing in
    // between.
    wire.clear();
    wire.push_back(last.clone());
    drop(wire);
    let Some(sent) = last.get(14..) else { return };
    let Ok(ip) = ip6::Header::parse(sent) else { return };
    let body = ip.payload(sent);
    let how = tape.byte();
    // The source is usually the address to which the packet was sent.
    let src = if how & 0x80 == 0 { ip.dst } else { addr(tape) };
    let payload = match ip.next {
        Proto::UDP => {
            let Ok(header) = udp::Header::parse(body) else { return };
            datagram((src, header.dst.0), (ip.src, header.src.0), tape.bytes(usize::from(how)))
        }
        Proto::TCP => {
            let Ok(header) = tcp::Header::parse(body) else { return };
            let taken = header.payload(body).len()
                + usize::from(header.flags.contains(Flags::SYN))
                + usize::from(header.flags.contains(Flags::FIN));
            let flags = match how % 8 {
                0 | 1 => Flags::ACK,
                2 | 3 => Flags::ACK | Flags::PSH,
                4 => Flags::ACK | Flags::FIN,
                5 => Flags::RST,
                _ => Flags(tape.byte()),
            };
            let nearly = |tape: &mut Tape<'_>| match tape.byte() {
                0..=199 => 0,
                n => u32::from(n).wrapping_sub(228).wrapping_mul(64),
            };
            let seq = header.ack.wrapping_add(nearly(tape));
            let ack = header.seq.wrapping_add(taken as u32).wrapping_add(nearly(tape));
            let text = if flags.contains(Flags::PSH) { vec![how; usize::from(tape.byte()) * 4] } else { Vec::new() };
            segment((src, header.dst.0), (ip.src, header.src.0), flags, (seq, ack), &[], &text)
        }
        _ => return,
    };
    side.inject(cx, &frame_of(&packet(src, ip.src, ip.next, 64, &payload)));
}

/// Checks the checksums of sent datagrams and segments.
pub(super) fn check_sent(ip: &ip6::Header, body: &[u8]) {
    let sum = Partial::pseudo6(ip.src, ip.dst, ip.next, body.len() as u32);
    match ip.next {
        Proto::UDP => assert!(udp::checksum_ok(sum, body), "UDP checksum of a sent datagram"),
        Proto::TCP => assert!(tcp::checksum_ok(sum, body), "TCP checksum of a sent segment"),
        _ => {}
    }
}
