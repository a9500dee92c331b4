//! Raw and ICMP sockets, ancillary data and source filters against the kernel over a TAP device,
//! with both address families.

use crate::common::driven::{drive, word};
use crate::common::{has, isolated, kernel};
use crate::six::{end, ours, ping, printed, ready, settle, sysctl};
use lock::Up;
use node::Host;
use socket::{Ancillary, Domain, Errno, Fd, Membership, Message, Opt, SourceChange};
use std::net::{IpAddr, SocketAddr, UdpSocket};
use wire::{Proto, icmp4, icmp6};

/// Values of one address family: its domain, our address, the kernel's address, and an unused
/// address beyond the kernel.
struct Kin {
    domain: Domain,
    ours: &'static str,
    theirs: &'static str,
    beyond: &'static str,
    icmp: Proto,
    request: u8,
    reply: u8,
    exceeded: u8,
    /// Length in bytes of the header that a raw socket receives.
    header: usize,
}

const BOTH: [Kin; 2] = [
    Kin {
        domain: Domain::Inet,
        ours: "10.0.0.2",
        theirs: "10.0.0.1",
        beyond: "198.51.100.7",
        icmp: Proto::ICMP,
        request: icmp4::ty::ECHO_REQUEST,
        reply: icmp4::ty::ECHO_REPLY,
        exceeded: icmp4::ty::TIME_EXCEEDED,
        header: 20,
    },
    Kin {
        domain: Domain::Inet6,
        ours: "fd00::2",
        theirs: "fd00::1",
        beyond: "2001:db8::7",
        icmp: Proto::IPV6_ICMP,
        request: icmp6::ty::ECHO_REQUEST,
        reply: icmp6::ty::ECHO_REPLY,
        exceeded: icmp6::ty::TIME_EXCEEDED,
        header: 0,
    },
];

fn at(ip: &str, port: u16) -> SocketAddr {
    SocketAddr::new(ip.parse().unwrap(), port)
}

/// Creates our host with addresses of both families, and with the kernel as its router.
fn host() -> Host<Up> {
    let host = ours(&["tap0"]);
    kernel("-6 addr add fd00::1/64 dev tap0 nodad");
    kernel("route add 198.51.100.0/24 via 10.0.0.3");
    kernel("-6 route add 2001:db8::/32 via fd00::3");
    sysctl("ipv4/ip_forward", "1");
    sysctl("ipv6/conf/all/forwarding", "1");
    word(&host, "ifconfig tap0 inet6 fd00::2/64");
    settle(&[&host]);
    for kin in &BOTH {
        let six = if kin.domain == Domain::Inet6 { "-6 " } else { "" };
        word(&host, &format!("route {six}add default {}", kin.theirs));
    }
    host
}

fn quiet(host: &Host<Up>, fd: Fd) -> Fd {
    host.calls().set_option(fd, Opt::NonBlocking(true)).unwrap();
    fd
}

/// Returns the next packet that `fd` receives and that `wanted` accepts, while the host is stepped.
fn next(host: &Host<Up>, fd: Fd, what: &str, wanted: impl Fn(&[u8]) -> bool) -> Result<(Message, Vec<u8>), Errno> {
    let mut found = None;
    drive(&[host], what, || {
        let mut into = [0; 2048];
        match host.calls().recv_msg(fd, &mut into) {
            Err(Errno::EAGAIN) => {}
            Err(error) => found = Some(Err(error)),
            Ok(message) if wanted(&into[..message.len]) => found = Some(Ok((message, into[..message.len].to_vec()))),
            Ok(_) => {}
        }
        found.is_some()
    });
    found.unwrap()
}

#[test]
fn icmp_sockets_and_the_kernel() {
    let test = "icmp_sockets_and_the_kernel";
    isolated(test, || {
        if !ready(test) {
            return;
        }
        let host = host();
        for kin in &BOTH {
            let fd = quiet(&host, host.calls().icmp_socket(kin.domain).unwrap());
            host.calls().set_option(fd, Opt::RecvTtl(true)).unwrap();
            for len in [0, 1, 56, 1000, 1472, 1900] {
                let message = [&[kin.request, 0, 0, 0, 0, 0, 0, 1][..], &vec![len as u8; len]].concat();
                host.calls().send_to(fd, &message, &at(kin.theirs, 0)).unwrap();
                let (got, reply) = next(&host, fd, "a reply", |_| true).unwrap();
                assert_eq!((got.from, got.ancillary.ttl), (at(kin.theirs, 0), Some(64)));
                assert_eq!((reply[0], &reply[8..]), (kin.reply, &message[8..]), "{len} bytes");
            }
            // The kernel, as a router, reports a packet whose hop limit is exceeded, which becomes
            // an error of the socket.
            let far = Ancillary { ttl: Some(1), ..Ancillary::default() };
            let message = [kin.request, 0, 0, 0, 0, 0, 0, 2];
            host.calls().send_msg(fd, &message, Some(&at(kin.beyond, 0)), &far).unwrap();
            assert_eq!(next(&host, fd, "an error", |_| true).unwrap_err(), Errno::EHOSTUNREACH);
            host.calls().close(fd).unwrap();
        }
        end(&host);
    });
}

#[test]
fn raw_sockets_see_the_kernels_pings() {
    let test = "raw_sockets_see_the_kernels_pings";
    isolated(test, || {
        if !ready(test) {
            return;
        }
        let host = host();
        for kin in &BOTH {
            let raw = quiet(&host, host.calls().raw_socket(kin.domain, kin.icmp).unwrap());
            ping(&[&host], kin.ours);
            let is_request = |packet: &[u8]| packet.get(kin.header) == Some(&kin.request);
            for seq in 1..=3u8 {
                let (got, packet) = next(&host, raw, "a request", is_request).unwrap();
                assert_eq!((got.from, packet[kin.header + 7]), (at(kin.theirs, 0), seq));
            }
            host.calls().close(raw).unwrap();
        }
        end(&host);
    });
}

/// A traceroute: datagrams with low hop limits, and the errors about them, which a raw socket
/// receives.
#[test]
fn a_raw_socket_traces_the_route() {
    let test = "a_raw_socket_traces_the_route";
    isolated(test, || {
        if !ready(test) {
            return;
        }
        let host = host();
        for kin in &BOTH {
            let raw = quiet(&host, host.calls().raw_socket(kin.domain, kin.icmp).unwrap());
            let udp = host.calls().socket_of(kin.domain).unwrap();
            host.calls().set_option(udp, Opt::Ttl(1)).unwrap();
            host.calls().send_to(udp, b"probe", &at(kin.beyond, 33_434)).unwrap();
            let is_exceeded = |packet: &[u8]| packet.get(kin.header) == Some(&kin.exceeded);
            let (got, packet) = next(&host, raw, "time exceeded", is_exceeded).unwrap();
            assert_eq!(got.from, at(kin.theirs, 0));
            assert!(packet.ends_with(b"probe"), "it quotes the probe");
            // The kernel does not support this protocol. Its ICMP error becomes an error of the
            // connected socket.
            let odd = quiet(&host, host.calls().raw_socket(kin.domain, Proto(253)).unwrap());
            host.calls().connect(odd, at(kin.theirs, 0)).unwrap();
            host.calls().send(odd, b"longer than 8 bytes").unwrap();
            let error = next(&host, odd, "protocol unreachable", |_| true).unwrap_err();
            assert!(matches!(error, Errno::ECONNREFUSED | Errno::ENOPROTOOPT), "{error}");
            for fd in [raw, udp, odd] {
                host.calls().close(fd).unwrap();
            }
        }
        end(&host);
    });
}

#[test]
fn ancillary_data_of_the_kernels_datagrams() {
    let test = "ancillary_data_of_the_kernels_datagrams";
    isolated(test, || {
        if !ready(test) {
            return;
        }
        let host = host();
        let tap0 = host.stack.iface_named("tap0").unwrap().id;
        for kin in &BOTH {
            let fd = quiet(&host, host.calls().socket_of(kin.domain).unwrap());
            for opt in [Opt::RecvPacketInfo(true), Opt::RecvTtl(true), Opt::RecvTos(true)] {
                host.calls().set_option(fd, opt).unwrap();
            }
            host.calls().bind(fd, at(kin.ours, 9)).unwrap();
            let theirs = UdpSocket::bind(at(kin.theirs, 0)).unwrap();
            if kin.domain == Domain::Inet {
                theirs.set_ttl(77).unwrap();
            }
            theirs.send_to(b"text", at(kin.ours, 9)).unwrap();
            let (got, text) = next(&host, fd, "a datagram", |_| true).unwrap();
            let ttl = if kin.domain == Domain::Inet { 77 } else { 64 };
            let info = got.ancillary.info.unwrap();
            assert_eq!((got.from, &text[..]), (theirs.local_addr().unwrap(), &b"text"[..]));
            assert_eq!((got.ancillary.ttl, got.ancillary.tos), (Some(ttl), Some(0)));
            assert_eq!((info.addr, info.iface), (kin.ours.parse::<IpAddr>().unwrap(), Some(tap0)));
            // The reply is sent through the iface of the request, from the address to which the
            // request was sent.
            let answer = Ancillary { info: got.ancillary.info, ttl: Some(255), tos: Some(0x20) };
            host.calls().send_msg(fd, b"back", Some(&got.from), &answer).unwrap();
            host.step();
            let mut back = [0; 8];
            let (n, from) = theirs.recv_from(&mut back).unwrap();
            assert_eq!((&back[..n], from), (&b"back"[..], at(kin.ours, 9)));
            host.calls().close(fd).unwrap();
        }
        end(&host);
    });
}

/// The kernel's bridge snoops IGMPv3 and MLDv2. The test reads what it has learned of our source
/// filters.
#[test]
fn the_kernels_bridge_learns_our_sources() {
    let test = "the_kernels_bridge_learns_our_sources";
    isolated(test, || {
        if !ready(test) || !has("bridge") {
            return println!("skipped: {test}: no bridge(8)");
        }
        let host = ours(&["tap0"]);
        kernel("link add br0 type bridge mcast_snooping 1 mcast_igmp_version 3 mcast_mld_version 2 mcast_querier 1");
        kernel("link set tap0 master br0");
        kernel("link set br0 up");
        word(&host, "ifconfig tap0 inet6 fd00::2/64");
        settle(&[&host]);
        let tap0 = Some(host.stack.iface_named("tap0").unwrap().id);
        let learned = |what: &str, holds: &dyn Fn(&str) -> bool| {
            let mut text = String::new();
            let deadline = std::time::Instant::now() + std::time::Duration::from_secs(10);
            drive(&[&host], what, || {
                text = printed(&[&host], "bridge -d mdb show dev br0").unwrap_or_default();
                assert!(std::time::Instant::now() < deadline, "{what}: {text}");
                holds(&text)
            });
        };
        for (domain, group, source) in
            [(Domain::Inet, "239.1.2.3", "192.0.2.7"), (Domain::Inet6, "ff05::1:3", "2001:db8::7")]
        {
            let fd = host.calls().socket_of(domain).unwrap();
            let (group_ip, source_ip) = (group.parse().unwrap(), source.parse().unwrap());
            let change = |change| {
                let membership = Membership { group: group_ip, source: source_ip, iface: tap0 };
                host.calls().set_option(fd, Opt::Source(change, membership)).unwrap();
            };
            let line = |text: &str| text.lines().find(|line| line.contains(group)).map(str::to_owned);
            change(SourceChange::Join);
            learned("a source", &|text| line(text).is_some() && text.contains(source));
            host.calls().set_option(fd, Opt::Leave(group_ip, tap0)).unwrap();
            learned("no source", &|text| !text.contains(source) || text.contains("blocked"));
            host.calls().set_option(fd, Opt::Join(group_ip, tap0)).unwrap();
            change(SourceChange::Block);
            learned("all but one", &|text| text.contains(source) && text.contains("exclude"));
            host.calls().close(fd).unwrap();
        }
        end(&host);
    });
}
