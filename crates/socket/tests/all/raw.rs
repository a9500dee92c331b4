//! Raw and ICMP sockets, used through descriptors and through `net`, each with IPv4 and IPv6.

use crate::common::*;
use inet::raw::SEND_ONLY;
use linerate_socket::net::{Alone, IcmpSocket, RawSocket};
use linerate_socket::{Domain, Errno, Events, IcmpFilter, Opt, OptKind, PollFd};
use lock::{Light, Locks, Up};
use std::io::ErrorKind;
use std::net::SocketAddr;
use std::time::Duration;
use wire::{Proto, icmp4, icmp6};

const BOTH: [(Domain, &str, Proto, [u8; 2]); 2] = [
    (Domain::Inet, "127.0.0.1:0", Proto::ICMP, [icmp4::ty::ECHO_REQUEST, icmp4::ty::ECHO_REPLY]),
    (Domain::Inet6, "[::1]:0", Proto::IPV6_ICMP, [icmp6::ty::ECHO_REQUEST, icmp6::ty::ECHO_REPLY]),
];

fn host<L: Locks>() -> Alone<L> {
    let host = Alone::new("h").unwrap();
    let here = inet::ip6::IfaceAddr6::new(std::net::Ipv6Addr::LOCALHOST, 128);
    let cx = lock::Cx::enter(lock::How::Register, host.now());
    host.stack().add_addr6(cx, inet::iface::LOOPBACK, here).unwrap();
    host
}

fn pings<L: Locks>() {
    let host = host::<L>();
    for (domain, here, proto, types) in BOTH {
        let (socket, raw) =
            (IcmpSocket::open(&&host, domain).unwrap(), RawSocket::open(&&host, domain, proto).unwrap());
        raw.set_option(Opt::IcmpFilter(IcmpFilter::BLOCK_ALL.pass(types[0]))).unwrap();
        for seq in 1..=3 {
            socket.send_echo(seq, b"data", here).unwrap();
            let mut buf = [0; 3];
            let reply = socket.recv_reply(&mut buf).unwrap();
            assert_eq!((reply.seq, reply.from, reply.len, &buf), (seq, here.parse().unwrap(), 3, b"dat"));
            let mut packet = [0; 64];
            let (n, from) = raw.recv_from(&mut packet).unwrap();
            let message = if domain == Domain::Inet { &packet[20..n] } else { &packet[..n] };
            assert_eq!((message.len(), message[0], from), (12, types[0], here.parse().unwrap()));
            assert_eq!(message[4..6], socket.local_addr().unwrap().port().to_be_bytes());
        }
        raw.set_nonblocking(true).unwrap();
        assert_eq!(raw.recv_from(&mut [0; 9]).unwrap_err().kind(), ErrorKind::WouldBlock, "the filter blocks replies");
        socket.set_read_timeout(Some(Duration::from_millis(50))).unwrap();
        assert_eq!(socket.recv_reply(&mut []).unwrap_err().kind(), ErrorKind::WouldBlock);
        assert_eq!(socket.send_to(b"no request", here).unwrap_err().kind(), ErrorKind::InvalidInput);
        assert_eq!(socket.set_ttl(256).unwrap_err().kind(), ErrorKind::InvalidInput);
        assert_eq!(socket.take_error().unwrap().map(|error| error.kind()), None);
    }
}

#[test]
fn a_host_of_one_thread_pings() {
    pings::<Up>();
}

#[test]
fn a_host_of_many_threads_pings() {
    pings::<Light>();
}

#[test]
fn a_traceroute_finds_the_path() {
    let w = World::<Up>::new();
    let a = w.a();
    let fd = a.icmp_socket(Domain::Inet).unwrap();
    let request = [icmp4::ty::ECHO_REQUEST, 0, 0, 0, 0, 0, 0, 1];
    assert_eq!(a.send_to(fd, &request, &at(2, 0)), Ok(8));
    let mut reply = [0; 64];
    assert_eq!(a.recv_from(fd, &mut reply), Ok((8, at(2, 0))));
    assert_eq!(reply[0], icmp4::ty::ECHO_REPLY);
    // No host has this address: when ARP fails, the socket reports the error.
    assert_eq!(a.send_to(fd, &request, &at(9, 0)), Ok(8));
    assert_eq!(a.recv_from(fd, &mut reply), Err(Errno::EHOSTUNREACH));
    a.close(fd).unwrap();
    assert_eq!(a.recv_from(fd, &mut reply), Err(Errno::EBADF));
}

#[test]
fn raw_sockets_are_polled_connected_and_shut_down_like_others() {
    let w = World::<Up>::new();
    let (a, b) = (w.a(), w.b());
    let proto = Proto(253);
    let (tx, rx) = (a.raw_socket(Domain::Inet, proto).unwrap(), b.raw_socket(Domain::Inet, proto).unwrap());
    let requested = Events { readable: true, ..Events::default() };
    let mut fds = [PollFd { fd: rx, requested, reported: Events::default() }];
    assert_eq!(b.poll(&mut fds), 0);
    b.connect(rx, at(1, 0)).unwrap();
    assert_eq!((b.peer_addr(rx), b.local_addr(rx)), (Ok(at(1, 0)), Ok(at(2, 0))));
    assert_eq!(a.send_to(tx, b"text", &at(2, 0)), Ok(4));
    let mut packet = [0; 64];
    assert_eq!(b.recv(rx, &mut packet), Ok(24));
    assert_eq!(&packet[20..24], b"text");
    assert_eq!(b.send(rx, b"back"), Ok(4));
    assert_eq!(a.recv_from(tx, &mut packet), Ok((24, at(2, 0))));
    assert_eq!(a.send_to(tx, b"text", &at(2, 0)), Ok(4));
    let mut read = 0;
    assert_eq!(b.recv_burst(rx, 8, |bytes, from| read += bytes.len() + usize::from(from == at(1, 0))), Ok(1));
    assert_eq!(read, 25);
    b.shutdown(rx, std::net::Shutdown::Both).unwrap();
    assert_eq!((b.recv(rx, &mut packet), b.send(rx, b"x")), (Ok(0), Err(Errno::EPIPE)));
}

#[test]
fn options_are_accepted_by_matching_sockets_only() {
    let w = World::<Up>::new();
    let a = w.a();
    assert_eq!(a.raw_socket(Domain::Inet, Proto(0)), Err(Errno::EPROTONOSUPPORT));
    let udp = a.socket().unwrap();
    let [four, six] = [Domain::Inet, Domain::Inet6].map(|domain| a.raw_socket(domain, Proto(253)).unwrap());
    let icmp6 = a.raw_socket(Domain::Inet6, Proto::IPV6_ICMP).unwrap();
    let ping = a.icmp_socket(Domain::Inet).unwrap();
    let (header, checksum) = (Opt::HeaderIncluded(true), Opt::Checksum(Some(2)));
    let filter = Opt::IcmpFilter(IcmpFilter::BLOCK_ALL);
    let none = Err(Errno::ENOPROTOOPT);
    for (fd, expected) in [
        (udp, [none, none, none]),
        (ping, [none, none, none]),
        (four, [Ok(()), none, none]),
        (six, [none, Ok(()), none]),
        (icmp6, [none, Err(Errno::EINVAL), Ok(())]),
    ] {
        assert_eq!([header, checksum, filter].map(|opt| a.set_option(fd, opt)), expected);
    }
    assert_eq!(a.set_option(six, Opt::Checksum(Some(3))), Err(Errno::EINVAL));
    assert_eq!(a.set_option(six, Opt::V6Only(false)), Err(Errno::EINVAL));
    assert_eq!(a.option(four, OptKind::HeaderIncluded), Ok(header));
    assert_eq!(a.option(six, OptKind::Checksum), Ok(checksum));
    assert_eq!(a.option(icmp6, OptKind::Checksum), Ok(checksum), "always");
    assert_eq!(a.option(icmp6, OptKind::IcmpFilter), Ok(filter));
    assert_eq!(a.option(udp, OptKind::IcmpFilter), Err(Errno::ENOPROTOOPT));
    let send_only = a.raw_socket(Domain::Inet, SEND_ONLY).unwrap();
    assert_eq!(a.option(send_only, OptKind::HeaderIncluded), Ok(header));
    assert_eq!(a.send_to(send_only, b"no header", &at(2, 0)), Err(Errno::EINVAL));
    assert_eq!(a.send_to(four, b"text", &SocketAddr::from(([10, 0, 0, 2], 0))), Err(Errno::EINVAL), "no header either");
}
