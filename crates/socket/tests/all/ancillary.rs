//! Tests of `sendmsg` and `recvmsg` with ancillary data, of the options that request it, and of
//! source filters, each with IPv4 and IPv6.

use crate::common::*;
use inet::iface::{IfaceId, LOOPBACK};
use inet::ip6::IfaceAddr6;
use linerate_socket::{Ancillary, Calls, Domain, Errno, Fd, FilterMode, Membership, Message, Opt, OptKind, PacketInfo};
use linerate_socket::{SourceChange, SourceFilter};
use lock::Up;
use std::net::{IpAddr, SocketAddr};

const BOTH: [(Domain, &str); 2] = [(Domain::Inet, "127.0.0.1"), (Domain::Inet6, "::1")];

fn world() -> World<Up> {
    let w = World::new();
    let here = IfaceAddr6::new(std::net::Ipv6Addr::LOCALHOST, 128);
    w.nodes[0].stack.add_addr6(w.cx(), LOOPBACK, here).unwrap();
    w
}

fn bound(calls: &Calls<'_, Up>, (domain, here): (Domain, &str)) -> (Fd, SocketAddr) {
    let fd = calls.socket_of(domain).unwrap();
    let at = calls.bind(fd, SocketAddr::new(here.parse().unwrap(), 0)).unwrap();
    (fd, at)
}

#[test]
fn a_message_comes_with_what_was_requested() {
    let w = world();
    let a = w.a();
    for kin in BOTH {
        let ((tx, from), (rx, to)) = (bound(&a, kin), bound(&a, kin));
        let here: IpAddr = kin.1.parse().unwrap();
        let requests = [
            (Opt::RecvPacketInfo(true), OptKind::RecvPacketInfo),
            (Opt::RecvTtl(true), OptKind::RecvTtl),
            (Opt::RecvTos(true), OptKind::RecvTos),
        ];
        let mut expected = Ancillary::default();
        for n in 0..=requests.len() {
            let sent = Ancillary { ttl: Some(9), tos: Some(0x88), ..Ancillary::source(here) };
            assert_eq!(a.send_msg(tx, b"text", Some(&to), &sent), Ok(4));
            let mut into = [0; 3];
            assert_eq!(a.recv_msg(rx, &mut into), Ok(Message { len: 3, from, ancillary: expected }), "{n}");
            let Some((opt, kind)) = requests.get(n) else { break };
            a.set_option(rx, *opt).unwrap();
            assert_eq!(a.option(rx, *kind), Ok(*opt));
            match kind {
                OptKind::RecvTtl => expected.ttl = Some(9),
                OptKind::RecvTos => expected.tos = Some(0x88),
                _ => expected.info = Some(PacketInfo { addr: here, iface: Some(LOOPBACK) }),
            }
        }
        // A connected socket needs no destination.
        a.connect(tx, to).unwrap();
        assert_eq!(a.send_msg(tx, b"text", None, &Ancillary { ttl: Some(3), ..Ancillary::default() }), Ok(4));
        assert_eq!(a.recv_msg(rx, &mut [0; 9]).map(|message| message.ancillary.ttl), Ok(Some(3)));
        assert_eq!(a.send_msg(tx, b"text", Some(&to), &Ancillary::default()), Err(Errno::EISCONN));
    }
}

#[test]
fn errors_are_those_of_the_kernel() {
    let w = world();
    let a = w.a();
    for kin in BOTH {
        let ((tx, _), (_, to)) = (bound(&a, kin), bound(&a, kin));
        let foreign = if kin.0 == Domain::Inet { "192.0.2.7" } else { "2001:db8::7" };
        let sends = |ancillary| a.send_msg(tx, b"text", Some(&to), &ancillary);
        assert_eq!(sends(Ancillary::source(foreign.parse().unwrap())), Err(Errno::EADDRNOTAVAIL));
        let info = PacketInfo { addr: kin.1.parse().unwrap(), iface: Some(IfaceId(9)) };
        assert_eq!(sends(Ancillary { info: Some(info), ..Ancillary::default() }), Err(Errno::ENODEV));
        assert_eq!(a.set_option(tx, Opt::Ttl(0)), Err(Errno::EINVAL));
    }
    let stream = a.stream_socket().unwrap();
    assert_eq!(a.set_option(stream, Opt::RecvTtl(true)), Err(Errno::ENOPROTOOPT));
    assert_eq!(a.option(stream, OptKind::RecvPacketInfo), Err(Errno::ENOPROTOOPT));
    assert_eq!(a.send_msg(stream, b"text", None, &Ancillary::default()), Err(Errno::ENOTCONN));
}

#[test]
fn source_filters_are_options() {
    let w = world();
    let a = w.a();
    for (domain, group, source) in
        [(Domain::Inet, "239.1.2.3", "192.0.2.7"), (Domain::Inet6, "ff05::1:3", "2001:db8::7")]
    {
        let (fd, iface) = (a.socket_of(domain).unwrap(), Some(EM0));
        let (group, source): (IpAddr, IpAddr) = (group.parse().unwrap(), source.parse().unwrap());
        let change = |change| a.set_option(fd, Opt::Source(change, Membership { group, source, iface }));
        let filter = |mode| SourceFilter { mode, sources: [source].into() };
        assert_eq!(a.source_filter(fd, group, iface), Err(Errno::EADDRNOTAVAIL));
        assert_eq!(change(SourceChange::Join), Ok(()));
        assert_eq!(a.source_filter(fd, group, iface), Ok(filter(FilterMode::Include)));
        assert_eq!(change(SourceChange::Join), Err(Errno::EADDRNOTAVAIL));
        assert_eq!(change(SourceChange::Block), Err(Errno::EINVAL));
        assert_eq!(a.set_option(fd, Opt::Join(group, iface)), Err(Errno::EADDRINUSE));
        assert_eq!(change(SourceChange::Leave), Ok(()));
        assert_eq!(change(SourceChange::Leave), Err(Errno::EADDRNOTAVAIL));
        a.set_option(fd, Opt::Join(group, iface)).unwrap();
        assert_eq!(change(SourceChange::Block), Ok(()));
        assert_eq!(a.source_filter(fd, group, iface), Ok(filter(FilterMode::Exclude)));
        assert_eq!(change(SourceChange::Unblock), Ok(()));
        assert_eq!(a.set_source_filter(fd, group, iface, filter(FilterMode::Include)), Ok(()));
        let many = (1..=65).map(|n| IpAddr::from([192, 0, 2, n])).collect();
        let many = SourceFilter { mode: FilterMode::Include, sources: many };
        let expected = if domain == Domain::Inet { Errno::ENOBUFS } else { Errno::EINVAL };
        assert_eq!(a.set_source_filter(fd, group, iface, many), Err(expected));
        assert_eq!(a.set_source_filter(fd, group, iface, SourceFilter::default()), Ok(()));
        assert_eq!(a.set_option(fd, Opt::Leave(group, iface)), Err(Errno::EADDRNOTAVAIL));
    }
    let stream = a.stream_socket().unwrap();
    assert_eq!(a.source_filter(stream, "239.1.2.3".parse().unwrap(), None), Err(Errno::EOPNOTSUPP));
}
