//! Fuzz target `inet_six`: an IPv6 router on one link, with tunnels of both families and an echo
//! service over UDP and TCP. An attacker sends arbitrary input: headers, chains of extension
//! headers, fragments, neighbor discovery, MLD, ICMP errors about sent packets, whole packets with
//! correct checksums, and nearly valid datagrams and segments.
//!
//! Invariants: no panic; sent packets are well formed; packets that the router itself creates have
//! valid checksums; every frame is accounted for after each step and at the end; tables are
//! bounded; only router advertisements add routes or addresses.

mod echo;

use self::echo::{Echo, Echoed};
use super::{EM0, Side, Tape, framed, mac};
use crate::iface::IfaceId;
use crate::ip6::autoconf::state::{PREFIXES_MAX, ROUTERS_MAX};
use crate::ip6::{AddrState, IfaceAddr6};
use crate::raw::RawKind;
use crate::route::Via6;
use crate::tunnel::{Config, Kind};
use crate::udp::{Domain, SourceChange};
use clock::{Duration, Instant};
use fib::Prefix6;
use lock::{Cx, How};
use std::net::Ipv6Addr;
use wire::eth::EtherType;
use wire::icmp6::{self, Problem, nd};
use wire::ip6::{self, Fragment};
use wire::{Mac, Proto};

const US: Ipv6Addr = Ipv6Addr::new(0xfd00, 0, 0, 0, 0, 0, 0, 1);
const FAR: Ipv6Addr = Ipv6Addr::new(0xfd00, 0, 0, 0, 0, 0, 0, 2);
const INSIDE: Ipv6Addr = Ipv6Addr::new(0xfdaa, 0, 0, 0, 0, 0, 0, 1);
const BEHIND: Ipv6Addr = Ipv6Addr::new(0x2001, 0xdb8, 0, 0, 0, 0, 0, 7);
const STEPS: usize = 300;
const NEIGHBORS: i64 = 16;

/// Returns an address that this target uses, or an arbitrary one.
fn addr(tape: &mut Tape<'_>) -> Ipv6Addr {
    match tape.byte() % 16 {
        0..=3 => US,
        4..=6 => FAR,
        7 => ip6::link_local(mac(1)),
        8 => ip6::link_local(mac(2)),
        9 => ip6::solicited_node(US),
        10 => ip6::ALL_NODES,
        11 => BEHIND,
        12 => INSIDE,
        13 => Ipv6Addr::UNSPECIFIED,
        14 => Ipv6Addr::new(0xfd00, 0, 0, 0, 0, 0, 9, tape.word()),
        _ => {
            let mut octets = [0; 16];
            octets.iter_mut().for_each(|octet| *octet = tape.byte());
            octets.into()
        }
    }
}

fn packet(src: Ipv6Addr, dst: Ipv6Addr, next: Proto, hop_limit: u8, payload: &[u8]) -> Vec<u8> {
    let mut out = vec![0; ip6::HEADER_LEN];
    let payload_len = payload.len() as u16;
    ip6::Header { traffic_class: 0, flow_label: 0, payload_len, next, hop_limit, src, dst }
        .emit(out.first_chunk_mut().unwrap());
    out.extend_from_slice(payload);
    out
}

/// Returns a mostly valid payload of the protocol `proto`.
fn payload(proto: Proto, src: Ipv6Addr, dst: Ipv6Addr, tape: &mut Tape<'_>) -> Vec<u8> {
    let len = usize::from(tape.byte()) * 2;
    if matches!(proto, Proto::UDP | Proto::TCP) {
        return echo::upper(proto, src, dst, tape);
    }
    if proto != Proto::IPV6_ICMP {
        return tape.bytes(len).to_vec();
    }
    let mut message = match tape.byte() % 8 {
        0 => [&[128, 0, 0, 0, 0, 1, 0, 2][..], &vec![7; len * 4]].concat(),
        1 | 2 => {
            let (target, link) = (addr(tape), Some(mac(tape.byte())));
            let mut out = vec![0; nd::NEIGHBOR_LEN];
            let n = nd::emit_solicit(target, link.filter(|_| len & 2 == 0), (src, dst), &mut out);
            out.truncate(n.unwrap());
            out
        }
        3 | 4 => {
            let bits = tape.byte();
            let [router, solicited, replaces] = [1, 2, 4].map(|bit| bits & bit != 0);
            let advert = nd::Advert { router, solicited, replaces, target: addr(tape) };
            let mut out = vec![0; nd::NEIGHBOR_LEN];
            let link = Some(mac(tape.byte())).filter(|_| bits & 8 == 0);
            let n = nd::emit_advert(advert, link, (src, dst), &mut out);
            out.truncate(n.unwrap());
            out
        }
        6 => advertisement(tape),
        5 => wire::mld::query((src, dst), Ipv6Addr::UNSPECIFIED, tape.word(), 2, 125).to_vec(),
        _ => [&[tape.byte(), tape.byte(), 0, 0][..], tape.bytes(len)].concat(),
    };
    icmp6::fill_checksum(src, dst, &mut message);
    message
}

/// Returns a router advertisement with up to seven options.
fn advertisement(tape: &mut Tape<'_>) -> Vec<u8> {
    let mut message = vec![134, 0, 0, 0, 64, tape.byte(), tape.byte() % 8, tape.byte()];
    message.extend([0; 8]);
    for _ in 0..tape.byte() % 8 {
        match tape.byte() % 8 {
            0 => message.extend([&[1, 1][..], &mac(tape.byte()).0].concat()),
            1 => message.extend([5, 1, 0, 0, 0, 0, tape.byte(), tape.byte()]),
            2 => message.extend([tape.byte(), tape.byte(), 0, 0, 0, 0, 0, 0]),
            _ => {
                let (len, flags) = (if tape.byte() < 200 { 64 } else { tape.byte() }, tape.byte());
                let lives = [tape.byte(), tape.byte()].map(|life| match life {
                    255 => u32::MAX,
                    life => u32::from(life) * 100,
                });
                message.extend([3, 4, len, flags]);
                message.extend(lives.iter().flat_map(|life| life.to_be_bytes()).chain([0; 4]));
                message.extend(addr(tape).octets());
            }
        }
    }
    message
}

/// Prepends up to 15 extension headers, valid and invalid ones.
fn extended(mut next: Proto, mut payload: Vec<u8>, tape: &mut Tape<'_>) -> (Proto, Vec<u8>) {
    let n = tape.byte();
    for _ in 0..if n < 160 { 0 } else { n % 16 } {
        let (proto, mut header) = match tape.byte() % 8 {
            0 => (Proto::HOP_BY_HOP, vec![0, 0, 5, 2, 0, 0, 1, 0]),
            1 | 2 => (Proto::DEST_OPTIONS, vec![0, 0, tape.byte(), tape.byte() % 8, 0, 0, 0, 0]),
            3 => (Proto::ROUTING, vec![0, tape.byte() % 3, tape.byte() % 5, tape.byte() % 2, 0, 0, 0, 0]),
            4 | 5 => {
                let (offset, id) = (tape.word() & 0x1f8, u32::from(tape.byte() % 4));
                (Proto::FRAGMENT, Fragment { offset, more: n & 1 != 0, id }.emit(next).to_vec())
            }
            6 => (Proto::AUTH, vec![0, tape.byte() % 8, 0, 0, 0, 0, 0, 0]),
            _ => (Proto(tape.byte()), tape.bytes(8).to_vec()),
        };
        header.iter_mut().take(1).for_each(|first| *first = next.0);
        payload = [header, payload].concat();
        next = proto;
    }
    (next, payload)
}

/// Returns a packet as an attacker may send it.
fn made(tape: &mut Tape<'_>) -> Vec<u8> {
    let (src, dst) = (addr(tape), addr(tape));
    let kind = tape.byte();
    let proto = match kind % 8 {
        _ if kind & 0xc0 == 0xc0 => Proto::TCP,
        _ if kind & 0x40 != 0 => Proto::UDP,
        0..=3 => Proto::IPV6_ICMP,
        4 => Proto::IPV6,
        5 => Proto::IPIP,
        6 => Proto::GRE,
        _ => Proto(tape.byte()),
    };
    let inner = payload(proto, src, dst, tape);
    let (next, payload) = extended(proto, inner, tape);
    let hops = [255, 255, 64, 1, 0][usize::from(tape.byte() % 5)];
    packet(src, dst, next, hops, &payload)
}

/// Returns a frame with this packet, addressed to the MAC address that belongs to the destination
/// address.
fn frame_of(packet: &[u8]) -> Vec<u8> {
    let dst = ip6::Header::parse_quoted(packet).map_or(US, |header| header.dst);
    let to = if dst.is_multicast() { Mac::multicast6(dst) } else { mac(1) };
    framed(to, mac(2), EtherType::IPV6, packet)
}

fn tunnels(side: &Side, cx: Cx) -> [IfaceId; 3] {
    let between = |kind, six: bool| match six {
        true => Config { local: US.into(), remote: FAR.into(), ..Config::new(kind) },
        false => {
            let end = |host| std::net::Ipv4Addr::new(10, 0, 0, host).into();
            Config { local: end(1), remote: end(2), ..Config::new(kind) }
        }
    };
    let all =
        [("gif0", between(Kind::Gif, true)), ("gif1", between(Kind::Gif, false)), ("gre0", between(Kind::Gre, true))];
    let mut at = 0;
    all.map(|(name, config)| {
        let id = side.stack.add_tunnel(cx, name, config.kind, mac(9)).unwrap();
        side.stack.set_tunnel(cx, id, config).unwrap();
        let own = Ipv6Addr::from_bits(INSIDE.to_bits() + (at << 64));
        at += 1;
        side.stack.add_addr6(cx, id, IfaceAddr6::new(own, 64)).unwrap();
        id
    })
}

/// Opens raw and ICMP sockets with small buffers, and one with a source-specific group membership.
fn sockets(side: &Side, cx: Cx) -> Vec<usize> {
    let protos = [Proto::IPV6_ICMP, Proto::UDP, Proto(253)].map(RawKind::Raw);
    let open = |kind| {
        let id = side.stack.raw_open(cx, Domain::Inet6, kind).unwrap();
        side.stack.with_pcb(cx, id, |pcb| pcb.set_recv_limit(2048)).unwrap();
        id
    };
    let all: Vec<usize> = protos.into_iter().chain([RawKind::Icmp]).map(open).collect();
    let group = (ip6::ALL_NODES.into(), FAR.into());
    side.stack.udp_change_source(cx, all[0], SourceChange::Join, group, Some(EM0)).unwrap();
    side.stack.udp_bind(cx, all[3], (US, 7).into()).unwrap_err(); // the address is still tentative
    side.stack.udp_bind(cx, all[3], (Ipv6Addr::UNSPECIFIED, 7).into()).unwrap();
    all
}

/// Runs an input of the fuzz target `inet_six`.
pub fn six(data: &[u8]) {
    play(data);
}

fn play(data: &[u8]) -> Echoed {
    let mut tape = Tape(data);
    let mut now = Instant::from_millis(1000);
    let cx = |now| Cx::enter(How::Register, now);
    let side = Side::new(1, cx(now));
    let stack = &side.stack;
    stack.sysctls.neigh6_limit.set(NEIGHBORS);
    let how = tape.byte();
    stack.sysctls.forwarding6.set(i64::from(how & 1));
    let believes = how & 2 != 0;
    stack.set_accept_rtadv(cx(now), EM0, believes).unwrap();
    stack.sysctls.accept_redirects6.set(i64::from(believes));
    stack.add_addr6(cx(now), EM0, IfaceAddr6::new(US, 64)).unwrap();
    let ids = tunnels(&side, cx(now));
    if how & 4 != 0 {
        stack.set_neighbor6(cx(now), EM0, FAR, mac(2));
    }
    let mut service = Echo::new(stack, cx(now));
    let sockets = if how & 8 != 0 { sockets(&side, cx(now)) } else { Vec::new() };
    let mut routes = stack.routes6(cx(now)).len();
    for _ in 0..STEPS {
        if tape.0.is_empty() {
            break;
        }
        let what = tape.byte();
        match what % 8 {
            0..=2 => side.inject(cx(now), &frame_of(&made(&mut tape))),
            3 => {
                // A packet nested in up to four IPv6 headers, for the tunnels.
                let mut inner = made(&mut tape);
                for _ in 0..what >> 6 {
                    inner = packet(FAR, US, Proto::IPV6, 9, &inner);
                }
                side.inject(cx(now), &frame_of(&packet(FAR, US, Proto::IPV6, 64, &inner)));
            }
            4 => {
                let len = usize::from(tape.byte());
                let garbage = tape.bytes(len).to_vec();
                side.inject(cx(now), &frame_of(&garbage));
            }
            5 if what & 0x40 != 0 => echo::answer(&side, cx(now), &mut tape),
            5 => about_sent(&side, cx(now), &mut tape),
            6 => now = now.after(Duration::from_millis(u64::from(tape.word()) * 4)),
            _ => routes = configure(&side, cx(now), ids, &mut tape).unwrap_or(routes),
        }
        stack.poll(cx(now));
        service.serve(stack, cx(now));
        if what & 0x18 == 0 {
            sockets.iter().for_each(|id| drop(stack.udp_recv(cx(now), *id)));
        }
        check(&side, cx(now));
        let now_there = stack.routes6(cx(now)).len();
        // Each advertised prefix adds a route for the prefix and one for an address. There is also
        // a default route.
        let most = if believes { routes + 2 * PREFIXES_MAX + 1 } else { routes };
        assert!(now_there <= most && (believes || now_there == routes), "only router advertisements may add routes");
    }
    for _ in 0..20 {
        stack.poll(cx(now));
    }
    check(&side, cx(now));
    let echoed = service.end(stack, cx(now));
    check(&side, cx(now));
    stack.shutdown(cx(now));
    assert_eq!((stack.held(cx(now)), side.pool.stats().live()), (0, 0));
    echoed
}

fn check(side: &Side, cx: Cx) {
    side.check(cx);
    let neighbors = side.stack.neighbors6(cx);
    assert!(neighbors.len() as i64 <= NEIGHBORS + 4, "neighbors exceed the limit and the static entries");
    let em0 = side.stack.iface(EM0).unwrap();
    assert!(em0.default_routers(cx).len() <= ROUTERS_MAX && em0.advertised_prefixes(cx).len() <= PREFIXES_MAX);
    for own in em0.addrs6(cx) {
        assert!(!matches!(own.state, AddrState::Tentative(due, _) if due > cx.now.after(Duration::from_secs(1))));
    }
    // A router does not verify the checksums of packets that it forwards. Therefore the checksums
    // of sent packets are checked only as long as no packet was forwarded.
    let all_own = side.stack.count(cx).ip6.forwarded.get() == 0;
    for frame in side.wire.lock().unwrap().iter() {
        if frame.get(12..14) != Some(&[0x86, 0xdd]) {
            continue;
        }
        let packet = &frame[14..];
        let header = ip6::Header::parse(packet).expect("a sent packet is complete");
        assert_eq!(packet.len(), ip6::HEADER_LEN + usize::from(header.payload_len));
        if all_own {
            echo::check_sent(&header, header.payload(packet));
        }
        assert!(header.hop_limit > 0 && !header.src.is_multicast() && !header.dst.is_unspecified());
    }
}

/// Injects an ICMP error about the last packet sent.
fn about_sent(side: &Side, cx: Cx, tape: &mut Tape<'_>) {
    side.stack.flush(cx);
    let last = side.wire.lock().unwrap().pop_back();
    let Some(quote) = last.as_deref().and_then(|frame| frame.get(14..)) else { return };
    let problem = match tape.byte() % 4 {
        0 => Problem::Unreachable { code: tape.byte() % 6 },
        1 => Problem::TooBig { mtu: u32::from(tape.word()) },
        2 => Problem::TimeExceeded { code: tape.byte() % 2 },
        _ => Problem::Parameter { code: tape.byte() % 3, pointer: u32::from(tape.byte()) },
    };
    let quote = &quote[..quote.len().min(usize::from(tape.byte()) * 8)];
    let mut message = vec![0; quote.len() + icmp6::HEADER_LEN];
    icmp6::emit_error(problem, (FAR, US), quote, &mut message).unwrap();
    side.inject(cx, &frame_of(&packet(FAR, US, Proto::IPV6_ICMP, 64, &message)));
}

/// Performs an administrative action. Returns the resulting number of routes, always as `Some`.
fn configure(side: &Side, cx: Cx, ids: [IfaceId; 3], tape: &mut Tape<'_>) -> Option<usize> {
    let stack = &side.stack;
    let id = ids[usize::from(tape.byte() % 3)];
    match tape.byte() % 8 {
        0 => drop(stack.add_addr6(cx, EM0, IfaceAddr6::new(addr(tape), tape.byte() % 129))),
        1 => drop(stack.remove_addr6(cx, EM0, addr(tape))),
        2 => {
            let vias = [Via6::Link(EM0), Via6::Gateway(EM0, FAR), Via6::Link(id), Via6::Reject, Via6::Local(id)];
            let via = vias[usize::from(tape.byte()) % vias.len()];
            let _ = stack.add_route6(cx, Prefix6::masked(addr(tape).to_bits(), tape.byte() % 129), via);
        }
        3 => stack.set_tunnel_mtu(cx, id, tape.word()),
        4 => stack.set_up(cx, EM0, tape.byte() & 1 != 0),
        5 => drop(stack.remove_neighbor6(cx, EM0, addr(tape))),
        6 => stack.set_mtu(EM0, 1280 + tape.word() % 300),
        _ => stack.sysctls.forwarding6.set(i64::from(tape.byte() & 1)),
    }
    Some(stack.routes6(cx).len())
}

#[cfg(test)]
mod tests {
    use super::super::kept;
    use super::*;

    /// Returns seeds that cover each kind of input. Missing ones are written to disk, as for the
    /// other fuzz targets.
    fn seeds() -> Vec<(String, Vec<u8>)> {
        let later = [6, 2, 0];
        let ping = |hops: u8| vec![0, 4, 0, 0, 40, 0, 0, hops];
        let mut all =
            vec![("ping".to_string(), [&[1][..], &later, &ping(0), &ping(0), &[5, 1, 5, 20, 200], &ping(0)].concat())];
        for (name, kind) in [("solicit", 1u8), ("advert", 3), ("query", 5)] {
            let step = [&[0u8, 4, 9, 0, 4, kind, 0, 2, 3, 0, 0][..], &later].concat();
            all.push((name.to_string(), [&[1][..], &later, &step.repeat(3)].concat()));
        }
        let chain = |n: u8, kinds: &[u8]| {
            let mut step = vec![0, 4, 0, 0, 8, 0, 160 + n];
            kinds.iter().for_each(|kind| step.extend([*kind, 0x1e, 4, 0]));
            step.push(0);
            step
        };
        all.push((
            "chains".to_string(),
            [&[1][..], &later, &chain(9, &[1; 9]), &chain(2, &[3, 4]), &chain(3, &[0, 6, 1])].concat(),
        ));
        all.push((
            "fragments".to_string(),
            [&[1][..], &later, &chain(1, &[4]), &chain(1, &[5]), &[6, 255, 255], &chain(2, &[4, 4])].concat(),
        ));
        let nested = [&[195u8, 4, 0, 0, 4, 0, 0, 0][..], &[3, 4, 11, 4, 60, 1, 2, 3]].concat();
        all.push(("tunnels".to_string(), [&[1][..], &later, &nested.repeat(4), &[5, 1, 5, 20, 200]].concat()));
        let set: Vec<u8> = (0..8).flat_map(|what| [7, what, what, 14, 7, 64, 0, 0]).collect();
        all.push(("set".to_string(), [&[1][..], &later, &set, &ping(0), &set].concat()));
        let scan: Vec<u8> = (0..40).flat_map(|n| [0, 4, 14, 0, n, 4, 0, 0, 0, 0, 2]).collect();
        let router =
            |n: u8, life: u8| [0, 8, 10, 0, 0, 6, 8, 1, 44, 2, 0, 2, 7, 9, 192, life, life / 2, 14, 0, n, 0, 0];
        let routers = [router(1, 200), router(2, 1), router(1, 0), router(3, 255)].concat();
        all.push(("routers".to_string(), [&[2][..], &later, &routers, &[6, 255, 255, 6, 255, 255], &routers].concat()));
        // From port 1000 of FAR to port 7 here.
        let sent = |kind: u8, rest: &[u8]| [&[0, 4, 0, kind, 0, 7, 0][..], rest].concat();
        let datagram = sent(0x40, &[20, 0, 0]);
        let answered = [&[0x45, 9][..], &[1; 9], &[6, 0, 1]].concat();
        all.push(("datagrams".to_string(), [&[5][..], &later, &datagram, &answered, &datagram, &answered].concat()));
        let syn = sent(0xc0, &[0, 1, 1, 0, 0, 4, 2, 4, 5, 180, 0, 0]);
        let answer = |how: u8, text: &[u8]| [&[0x45, how, 0, 0][..], text].concat();
        let talk = [answer(0, &[]), answer(2, &[100]), answer(2, &[255]), answer(0, &[])].concat();
        let end = [&answer(4, &[])[..], &[6, 0, 50], &answer(0, &[]), &answer(0, &[])].concat();
        all.push(("stream".to_string(), [&[5][..], &later, &syn, &talk, &end, &[6, 255, 255]].concat()));
        let wrong: Vec<u8> = (200..=255).flat_map(|off| [0x45, 2, off, 255 - off, 9]).collect();
        all.push(("stream_that_lies".to_string(), [&[5][..], &later, &syn, &talk, &wrong, &answer(5, &[])].concat()));
        all.push(("stream_left".to_string(), [&[5][..], &later, &syn, &talk, &[6, 255, 255].repeat(9)].concat()));
        all.push(("scan".to_string(), [&[1][..], &later, &scan, &[6, 4, 0]].concat()));
        all
    }

    #[test]
    fn seeds_hold_and_are_on_disk() {
        kept::seeds_hold_and_are_on_disk("inet_six", &seeds(), six);
    }

    #[test]
    fn the_service_echoes() {
        let seeds = seeds();
        let echoed = |name: &str| play(&seeds.iter().find(|(seed, _)| seed == name).unwrap().1);
        assert_eq!(echoed("datagrams"), Echoed { datagrams: 4, ..Echoed::default() });
        assert_eq!(echoed("stream"), Echoed { connections: 1, text: 4 * (100 + 255), ..Echoed::default() });
        assert!(echoed("stream_that_lies").text > 4 * (100 + 255));
    }

    #[test]
    fn damaged_seeds_and_any_bytes_hold() {
        kept::damaged_seeds_and_any_bytes_hold(0x51c5, &seeds(), 400, six);
    }
}
