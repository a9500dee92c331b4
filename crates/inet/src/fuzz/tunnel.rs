//! Fuzz target of tunnels: a host has a tunnel of each kind to one remote host. The remote host and
//! the routers on the path send arbitrary packets.
//!
//! Invariants: no panic; sent packets are well formed; every frame is accounted for after each step
//! and at the end.

use super::{EM0, Side, Tape, framed, icmp, mac};
use crate::iface::{IfaceAddr, IfaceId};
use crate::tunnel::{Config, DontFragment, Kind};
use crate::udp::Domain;
use clock::{Duration, Instant};
use lock::{Cx, How};
use std::net::{Ipv4Addr, SocketAddr};
use wire::eth::EtherType;
use wire::icmp4::{self, Problem};
use wire::{Proto, ip4, udp, vxlan};

const US: Ipv4Addr = Ipv4Addr::new(10, 0, 0, 1);
const FAR: Ipv4Addr = Ipv4Addr::new(10, 0, 0, 2);
const STEPS: usize = 200;

fn inside(tunnel: u8, host: u8) -> Ipv4Addr {
    Ipv4Addr::new(172, 16, tunnel, host)
}

fn config(kind: Kind, manner: u8) -> Config {
    let df = [DontFragment::Copy, DontFragment::Set, DontFragment::Clear][usize::from(manner % 3)];
    let key = (manner & 8 != 0).then_some(5);
    let (checksum, sequence) = (manner & 16 != 0, manner & 32 != 0);
    Config { local: US.into(), remote: FAR.into(), key, checksum, sequence, vni: 5, df, ..Config::new(kind) }
}

fn packet(src: Ipv4Addr, dst: Ipv4Addr, proto: Proto, tos: u8, payload: &[u8]) -> Vec<u8> {
    let header = ip4::Header::new(src, dst, proto, payload.len()).unwrap();
    let mut out = vec![0; ip4::HEADER_LEN];
    ip4::Header { tos, ..header }.emit(out.first_chunk_mut().unwrap());
    out.extend_from_slice(payload);
    out
}

fn datagram(dst: u16, payload: &[u8]) -> Vec<u8> {
    let mut out = vec![0; udp::HEADER_LEN];
    let len = (out.len() + payload.len()) as u16;
    udp::Header { src: wire::L4Port(9), dst: wire::L4Port(dst), len, checksum: 0 }.emit(out.first_chunk_mut().unwrap());
    out.extend_from_slice(payload);
    out
}

/// Returns the packet `inner` with the encapsulation headers of this kind of tunnel, without the
/// outer IP header.
fn wrapped(kind: Kind, manner: u8, inner: &[u8]) -> Vec<u8> {
    let link = || framed(mac(1), mac(2), EtherType::IPV4, inner);
    match kind {
        Kind::Gif => inner.to_vec(),
        Kind::Gre => {
            let mut out = vec![0; config(kind, manner).gre_len()];
            out.extend_from_slice(inner);
            config(kind, manner).write_gre(u32::from(manner), &mut out);
            out
        }
        Kind::EtherIp => [&wire::etherip::HEADER, link().as_slice()].concat(),
        Kind::Vxlan => {
            let mut header = [0; vxlan::HEADER_LEN];
            vxlan::Header { vni: 5 }.emit(&mut header);
            datagram(4789, &[header.as_slice(), &link()].concat())
        }
    }
}

/// Runs an input of the fuzz target `inet_tunnel`: a host with a tunnel of each kind.
pub fn tunnel(data: &[u8]) {
    let mut tape = Tape(data);
    let mut now = Instant::from_millis(1000);
    let cx = |now| Cx::enter(How::Register, now);
    let side = Side::new(1, cx(now));
    let manner = tape.byte();
    side.stack.set_neighbor(cx(now), EM0, FAR, mac(2));
    side.stack.sysctls.forwarding.set(i64::from(manner >> 6 & 1));
    let ids: Vec<IfaceId> = Kind::ALL.into_iter().map(|kind| add(&side, cx(now), kind, manner)).collect();
    let socket = side.stack.udp_open(cx(now), Domain::Inet).unwrap();
    side.stack.udp_bind(cx(now), socket, SocketAddr::from((Ipv4Addr::UNSPECIFIED, 7))).unwrap();
    for _ in 0..STEPS {
        if tape.0.is_empty() {
            break;
        }
        let (what, which) = (tape.byte(), usize::from(tape.byte()));
        let (kind, at) = (Kind::ALL[which % 4], which % 4);
        match what % 8 {
            0 | 1 => from_far(&side, cx(now), kind, &mut tape),
            2 => {
                let mut inner =
                    packet(inside(at as u8, 2), inside(at as u8, 1), Proto::UDP, tape.byte(), &datagram(7, b"x"));
                for _ in 0..which / 4 % 12 {
                    inner = packet(FAR, US, kind.proto(wire::eth::EtherType::IPV4), 0, &wrapped(kind, manner, &inner));
                }
                side.inject(cx(now), &framed(mac(1), mac(2), EtherType::IPV4, &inner));
            }
            3 => {
                let payload = vec![7; usize::from(tape.word() % 4000)];
                let to = SocketAddr::from((inside(at as u8, 2), 7));
                let _ = side.stack.udp_send(cx(now), socket, &payload, Some(&to));
            }
            4 => about_sent(&side, cx(now), &mut tape),
            5 => now = now.after(Duration::from_millis(u64::from(tape.word()) * 16)),
            6 => configure(&side, cx(now), ids[at], kind, &mut tape),
            _ => drop(side.stack.poll(cx(now))),
        }
        side.check(cx(now));
        while side.stack.udp_recv(cx(now), socket).is_some() {}
    }
    for _ in 0..20 {
        side.stack.poll(cx(now));
        side.check(cx(now));
    }
    assert!(manner & 64 != 0 || side.stack.held_by_tunnels(cx(now)) == 0, "a packet circulates through the tunnels");
    side.stack.shutdown(cx(now));
    assert_eq!((side.stack.held(cx(now)), side.pool.stats().live()), (0, 0));
}

fn add(side: &Side, cx: Cx, kind: Kind, manner: u8) -> IfaceId {
    let at = Kind::ALL.into_iter().position(|other| other == kind).unwrap() as u8;
    let id = side.stack.add_tunnel(cx, &format!("{}0", kind.name()), kind, mac(16 + at)).unwrap();
    side.stack.set_tunnel(cx, id, config(kind, manner)).unwrap();
    side.stack.add_addr(cx, id, IfaceAddr { addr: inside(at, 1), len: 24 }).unwrap();
    if kind.is_ethernet() {
        side.stack.set_neighbor(cx, id, inside(at, 2), mac(2));
    }
    id
}

/// Injects arbitrary bytes as the payload of a tunnel.
fn from_far(side: &Side, cx: Cx, kind: Kind, tape: &mut Tape<'_>) {
    let tos = tape.byte();
    let len = usize::from(tape.word() % 600);
    let garbage = tape.bytes(len);
    let payload = if kind == Kind::Vxlan { datagram(4789, garbage) } else { garbage.to_vec() };
    let proto = if tos & 4 != 0 && kind == Kind::Gif { Proto::IPV6 } else { kind.proto(wire::eth::EtherType::IPV4) };
    let src = if tos & 8 != 0 { tape.addr() } else { FAR };
    side.inject(cx, &framed(mac(1), mac(2), EtherType::IPV4, &packet(src, US, proto, tos, &payload)));
}

/// Injects an ICMP error from a router about the last packet sent.
fn about_sent(side: &Side, cx: Cx, tape: &mut Tape<'_>) {
    side.stack.flush(cx);
    let last = side.wire.lock().unwrap().pop_back();
    let Some(quote) = last.as_deref().and_then(|frame| frame.get(14..)) else { return };
    let (code, next_mtu) = (tape.byte() % 16, tape.word());
    let problem = match code {
        15 => Problem::TimeExceeded { code: next_mtu as u8 & 1 },
        code => Problem::Unreachable { code, next_mtu },
    };
    let quote = &quote[..quote.len().min(usize::from(tape.byte()) * 2).min(100)];
    let message = icmp(|out| icmp4::emit_error(problem, quote, out));
    let router = Ipv4Addr::new(10, 0, 0, 254);
    side.inject(cx, &framed(mac(1), mac(2), EtherType::IPV4, &packet(router, US, Proto::ICMP, 0, &message)));
}

fn configure(side: &Side, cx: Cx, id: IfaceId, kind: Kind, tape: &mut Tape<'_>) {
    let stack = &side.stack;
    match tape.byte() % 6 {
        0 => stack.set_tunnel_mtu(cx, id, tape.word()),
        1 => drop(stack.set_tunnel(cx, id, config(kind, tape.byte()))),
        2 => drop(stack.set_tunnel(cx, id, Config { remote: tape.addr().into(), ..config(kind, 0) })),
        3 => stack.set_up(cx, id, tape.byte() & 1 != 0),
        4 if stack.remove_tunnel(cx, id) => assert_eq!(add(side, cx, kind, tape.byte()), id),
        _ => {
            let prefix = fib::Prefix::new(FAR, 32).unwrap();
            let _ = stack.add_route(cx, prefix, crate::route::Via::Link(if tape.byte() & 1 == 0 { EM0 } else { id }));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::kept;
    use super::*;

    /// Returns seeds that cover each kind of input. Missing ones are written to disk, as for the
    /// other fuzz targets.
    fn seeds() -> Vec<(String, Vec<u8>)> {
        let garbage = |kind: u8, payload: &[u8]| {
            let mut step = vec![0, kind, 0, 0, payload.len() as u8];
            step.extend_from_slice(payload);
            step.extend([7, 0]);
            step
        };
        let mut all = Vec::new();
        for manner in [0, 8, 56, 1, 2] {
            for kind in 0..4 {
                let nested: Vec<u8> = (0..12).flat_map(|depth| [2, kind + 4 * depth, 3, 7, 0, 7, 0]).collect();
                let sent =
                    [3, kind, 0, 100, 3, kind, 5, 200, 4, kind, 4, 4, 0, 120, 4, kind, 15, 0, 0, 120, 5, 0, 0, 9];
                let set =
                    [6, kind, 5, 1, 3, kind, 0, 9, 6, kind, 4, 0, 3, kind, 0, 9, 6, kind, 0, 0, 200, 3, kind, 2, 0];
                let seed =
                    [&[manner][..], &nested, &sent, &garbage(kind, &[0x20, 0, 8, 0, 0, 0, 0, 5, 0x45]), &set].concat();
                all.push((format!("manner_{manner}_kind_{kind}"), seed));
            }
        }
        all
    }

    #[test]
    fn seeds_hold_and_are_on_disk() {
        kept::seeds_hold_and_are_on_disk("inet_tunnel", &seeds(), tunnel);
    }

    #[test]
    fn damaged_seeds_and_any_bytes_hold() {
        kept::damaged_seeds_and_any_bytes_hold(0x7a11, &seeds(), 300, tunnel);
    }
}
