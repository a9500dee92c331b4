//! Conversations through the C interface of the library that the build of this package has
//! produced.
#![allow(unsafe_code)]

mod common;

use common::{Loaded, PEER_PORT, PORT, Version, address, call, errno, ip_packet};
use libc::c_int;
use std::ptr;
use std::sync::atomic::{AtomicI32, Ordering};
use wire::tcp::Flags;

const ACK: Flags = Flags::ACK;
const PSH: Flags = Flags(Flags::PSH.0 | Flags::ACK.0);
const FIN: Flags = Flags(Flags::FIN.0 | Flags::ACK.0);

/// `tcpi_state` and `tcpi_snd_cwnd` in `struct tcp_info`.
const STATE: usize = 0;
const CWND: usize = 80;

#[test]
fn a_whole_connection() {
    Loaded::each("", |linux| {
        let listener = linux.listener();
        let (fd, ours, theirs) = linux.accepted(listener);
        linux.input(&linux.packet(PSH, theirs, ours, b"hello"));
        assert_eq!(linux.read(fd, 100).unwrap(), b"hello");
        assert_eq!(linux.write(fd, b"world"), 5);
        let (seen, _) = linux.output().unwrap();
        assert_eq!((seen.flags, seen.ack, seen.text.as_slice()), (ACK, theirs + 5, b"".as_slice()));
        let (seen, _) = linux.output().unwrap();
        assert_eq!((seen.flags, seen.seq, seen.text.as_slice()), (PSH, ours, b"world".as_slice()));
        linux.input(&linux.packet(FIN, theirs + 5, ours + 5, &[]));
        assert_eq!(linux.output().unwrap().0.ack, theirs + 6);
        assert_eq!(linux.read(fd, 100).unwrap(), b"");
        assert_eq!(call!(linux.close(fd)), 0);
        let (seen, _) = linux.output().unwrap();
        assert_eq!((seen.flags, seen.seq), (FIN, ours + 5));
        linux.input(&linux.packet(ACK, theirs + 6, ours + 6, &[]));
        assert_eq!(call!(linux.close(listener)), 0);
        assert!(linux.output().is_none(), "nothing is left to come");
        // The descriptor is not closed again, since its number may already belong to another test.
        assert_eq!((call!(linux.shutdown(fd, libc::SHUT_RDWR)), errno()), (-1, libc::EBADF));
    });
}

#[test]
fn an_active_open() {
    Loaded::each("", |linux| {
        let fd = linux.stream();
        assert_eq!(call!(linux.fcntl(fd, libc::F_SETFL, i64::from(libc::O_NONBLOCK))), 0);
        let to = linux.name(linux.version.peer(), PORT);
        let len = to.len() as u32;
        assert_eq!((call!(linux.connect(fd, address(&to), len)), errno()), (-1, libc::EINPROGRESS));
        let (syn, at) = linux.output().unwrap();
        assert_eq!((syn.flags, syn.src), (Flags::SYN, linux.version.us()));
        assert_eq!(syn.options[..4], [2, 4, 5, 180], "MSS first, as Linux orders them");
        // The SYN is not answered. It is retransmitted after a second of virtual time, and no real
        // time.
        let (again, later) = linux.output().unwrap();
        assert_eq!((again.flags, again.seq), (Flags::SYN, syn.seq));
        assert!((999_000..=1_001_000).contains(&(later - at)), "{}", later - at);
        let reply = Flags::SYN | ACK;
        let ports = (PORT, syn.ports.0);
        linux.input(&linux.packet_between(ports, reply, 7000, syn.seq.wrapping_add(1), &[2, 4, 5, 180]));
        assert_eq!(linux.output().unwrap().0.ack, 7001);
        assert_eq!(linux.option(fd, libc::SOL_SOCKET, libc::SO_ERROR), Ok(0));
        assert_eq!(call!(linux.connect(fd, address(&to), len)), 0, "the end of the handshake is told once");
        assert_eq!((call!(linux.connect(fd, address(&to), len)), errno()), (-1, libc::EISCONN));
    });
}

#[test]
fn a_blocking_call_returns_when_its_packet_arrives() {
    Loaded::each("", |linux| {
        let listener = linux.listener();
        let (fd, ours, theirs) = linux.accepted(listener);
        let began = linux.now();
        let thread = AtomicI32::new(0);
        std::thread::scope(|scope| {
            let reader = scope.spawn(|| {
                // SAFETY: no pointers.
                thread.store(unsafe { libc::gettid() }, Ordering::Relaxed);
                (linux.read(fd, 100).unwrap(), linux.now())
            });
            while !sleeps(thread.load(Ordering::Relaxed)) {
                std::thread::yield_now();
            }
            assert_eq!(call!(linux.usleep(50_000)), 0);
            linux.input(&linux.packet(PSH, theirs, ours, b"late"));
            assert_eq!(call!(linux.usleep(500_000)), 0);
            let (bytes, ended) = reader.join().unwrap();
            assert_eq!(bytes, b"late");
            let took = ended - began;
            assert!((50_000..51_000).contains(&took), "its clock shows when the packet came: {took} us");
        });
    });
}

/// Returns whether a thread sleeps, by the method with which packetdrill detects a blocking call.
fn sleeps(thread: i32) -> bool {
    let stat = std::fs::read_to_string(format!("/proc/self/task/{thread}/stat")).unwrap_or_default();
    stat.rsplit_once(") ").is_some_and(|(_, rest)| rest.starts_with('S'))
}

#[test]
fn a_single_blocking_call_advances_time() {
    Loaded::each("", |linux| {
        let listener = linux.listener();
        let (fd, ..) = linux.accepted(listener);
        let timeout = [3i64.to_ne_bytes(), 0i64.to_ne_bytes()].concat();
        let set = call!(linux.setsockopt(fd, libc::SOL_SOCKET, libc::SO_RCVTIMEO, timeout.as_ptr().cast(), 16));
        assert_eq!(set, 0);
        let began = linux.now();
        assert_eq!(linux.read(fd, 1), Err(libc::EAGAIN));
        let took = linux.now() - began;
        assert!((3_000_000..3_001_000).contains(&took), "{took} us of the script's time");
    });
}

#[test]
fn tcp_info_is_available_past_the_interface() {
    Loaded::each("", |linux| {
        let listener = linux.listener();
        let (fd, ..) = linux.accepted(listener);
        let mut through = [0u8; 280];
        let mut len = through.len() as u32;
        let into: *mut libc::c_void = through.as_mut_ptr().cast();
        assert_eq!(call!(linux.getsockopt(fd, libc::IPPROTO_TCP, libc::TCP_INFO, into, &raw mut len)), 0);
        assert_eq!((len, through[STATE], through[CWND]), (280, 1, 10));
        // packetdrill itself calls the C library's function.
        let mut past = [0u8; 280];
        // SAFETY: space for `len` bytes.
        let done =
            unsafe { libc::getsockopt(fd, libc::IPPROTO_TCP, libc::TCP_INFO, past.as_mut_ptr().cast(), &raw mut len) };
        assert_eq!((done, past[STATE], past[CWND]), (0, 1, 10));
        // Calls on a kernel descriptor are passed to the kernel.
        let socket = std::net::UdpSocket::bind("127.0.0.1:0").unwrap();
        let (mut kind, mut len): (c_int, u32) = (0, 4);
        let raw = std::os::fd::AsRawFd::as_raw_fd(&socket);
        // SAFETY: space for an int.
        let done =
            unsafe { libc::getsockopt(raw, libc::SOL_SOCKET, libc::SO_TYPE, (&raw mut kind).cast(), &raw mut len) };
        assert_eq!((done, kind), (0, libc::SOCK_DGRAM));
    });
}

#[test]
fn linux_option_numbers_are_accepted() {
    let linux = Loaded::of(Version::V4, "cc=reno");
    let fd = linux.stream();
    assert_eq!(linux.set_option(fd, libc::SOL_SOCKET, libc::SO_SNDBUF, 10_000), Ok(()));
    assert_eq!(linux.option(fd, libc::SOL_SOCKET, libc::SO_SNDBUF), Ok(20_000));
    assert_eq!(linux.set_option(fd, libc::IPPROTO_TCP, libc::TCP_KEEPIDLE, 0), Err(libc::EINVAL));
    assert_eq!(linux.set_option(fd, libc::IPPROTO_TCP, libc::TCP_NODELAY, 1), Ok(()));
    assert_eq!(linux.option(fd, libc::IPPROTO_TCP, libc::TCP_NODELAY), Ok(1));
    assert_eq!(linux.option(fd, libc::SOL_SOCKET, libc::SO_TYPE), Ok(libc::SOCK_STREAM));
    assert_eq!(linux.option(fd, libc::IPPROTO_TCP, 9999), Err(libc::ENOPROTOOPT));
    let (mut algorithm, mut len) = ([0u8; 16], 16u32);
    let into: *mut libc::c_void = algorithm.as_mut_ptr().cast();
    assert_eq!(call!(linux.getsockopt(fd, libc::IPPROTO_TCP, libc::TCP_CONGESTION, into, &raw mut len)), 0);
    assert_eq!(&algorithm[..5], b"reno\0");
    assert_eq!(
        (call!(linux.socket(libc::AF_INET, libc::SOCK_STREAM, libc::IPPROTO_UDP)), errno()),
        (-1, libc::EPROTONOSUPPORT)
    );
    assert_eq!((call!(linux.socket(libc::AF_UNIX, libc::SOCK_STREAM, 0)), errno()), (-1, libc::EAFNOSUPPORT));
}

#[test]
fn flags_reach_the_wire() {
    Loaded::each("tcp_timestamps=0,tcp_sack=0,tcp_window_scaling=0", |linux| {
        linux.listener();
        let options = [2, 4, 5, 180, 4, 2, 8, 10, 0, 0, 0, 1, 0, 0, 0, 0, 3, 3, 7, 1];
        linux.input(&linux.packet(Flags::SYN, 1000, 0, &options));
        assert_eq!(linux.output().unwrap().0.options, [2, 4, 5, 180]);
    });
}

#[test]
fn a_bad_pointer_is_an_error() {
    Loaded::each("", |linux| {
        let listener = linux.listener();
        let (fd, ours, theirs) = linux.accepted(listener);
        assert_eq!((call!(linux.write(fd, ptr::null(), 10)), errno()), (-1, libc::EFAULT));
        linux.input(&linux.packet(PSH, theirs, ours, b"text"));
        assert_eq!((call!(linux.read(fd, ptr::null_mut(), 10)), errno()), (-1, libc::EFAULT));
        assert_eq!(linux.read(fd, 10).unwrap(), b"text", "it was not lost");
        assert_eq!((call!(linux.bind(fd, ptr::null(), 16)), errno()), (-1, libc::EFAULT));
        assert_eq!((call!(linux.netdev_send([0u8; 3].as_ptr().cast(), 3)), errno()), (-1, libc::EINVAL));
    });
}

#[test]
fn readiness_by_level_and_edge() {
    Loaded::each("", |linux| {
        let listener = linux.listener();
        let (fd, ours, theirs) = linux.accepted(listener);
        let epoll = call!(linux.epoll_create(1));
        let mut event = libc::epoll_event { events: (libc::EPOLLIN | libc::EPOLLET) as u32, u64: 77 };
        assert_eq!(call!(linux.epoll_ctl(epoll, libc::EPOLL_CTL_ADD, fd, &raw mut event)), 0);
        assert_eq!(call!(linux.epoll_ctl(epoll, libc::EPOLL_CTL_ADD, fd, &raw mut event)), -1);
        assert_eq!(errno(), libc::EEXIST);
        let wait = |timeout| {
            let mut reported = libc::epoll_event { events: 0, u64: 0 };
            let n = call!(linux.epoll_wait(epoll, &raw mut reported, 1, timeout));
            (n, { reported.events }, { reported.u64 })
        };
        let poll = || {
            let mut fds = libc::pollfd { fd, events: libc::POLLIN | libc::POLLOUT, revents: 0 };
            assert_eq!(call!(linux.poll(&raw mut fds, 1, 0)), 1);
            fds.revents
        };
        assert_eq!(wait(0), (0, 0, 0));
        assert_eq!(poll(), libc::POLLOUT);
        linux.input(&linux.packet(PSH, theirs, ours, b"ab"));
        assert_eq!(wait(0), (1, libc::EPOLLIN as u32, 77));
        assert_eq!(wait(0), (0, 0, 0), "an edge is told once");
        assert_eq!(poll(), libc::POLLIN | libc::POLLOUT, "a level as often as it is asked for");
        linux.input(&linux.packet(PSH, theirs + 2, ours, b"cd"));
        assert_eq!(wait(0), (1, libc::EPOLLIN as u32, 77), "more text is another edge");
        let began = linux.now();
        assert_eq!(wait(250), (0, 0, 0));
        assert!((250_000..251_000).contains(&(linux.now() - began)));
        assert_eq!(call!(linux.epoll_ctl(epoll, libc::EPOLL_CTL_DEL, fd, ptr::null_mut())), 0);
        assert_eq!(call!(linux.close(epoll)), 0);
    });
}

#[test]
fn the_live_clock_passes() {
    let linux = Loaded::of(Version::V4, "clock=live");
    let listener = linux.listener();
    let (fd, ours, theirs) = linux.accepted(listener);
    assert_eq!(linux.write(fd, b"x"), 1);
    let (_, first) = linux.output().unwrap();
    let (again, second) = linux.output().unwrap();
    assert_eq!(again.text, b"x", "sent again");
    assert!(second - first >= 200_000, "after an RTO: {} us", second - first);
    linux.input(&linux.packet(FIN, theirs, ours + 1, &[]));
    assert_eq!(linux.read(fd, 1).unwrap(), b"");
}

#[test]
fn accept_returns_the_peer_address() {
    Loaded::each("", |linux| {
        let listener = linux.listener();
        linux.input(&linux.packet(Flags::SYN, 1000, 0, &[2, 4, 5, 180]));
        let ours = linux.output().unwrap().0.seq.wrapping_add(1);
        linux.input(&linux.packet(ACK, 1001, ours, &[]));
        let (mut peer, mut len) = ([0u8; 28], 28);
        let fd = call!(linux.accept(listener, peer.as_mut_ptr().cast(), &raw mut len));
        assert!(fd >= 0);
        let expected = linux.name(linux.version.peer(), PEER_PORT);
        assert_eq!((len as usize, &peer[..len as usize]), (expected.len(), expected.as_slice()));
        assert_eq!(linux.option(fd, libc::SOL_SOCKET, libc::SO_DOMAIN), Ok(linux.version.domain()));
    });
}

/// Options that have different numbers in IPv4 and IPv6.
#[test]
fn ip_level_options() {
    Loaded::each("", |linux| {
        let level = linux.version.level();
        let (ttl, tos) = match linux.version {
            Version::V4 => (libc::IP_TTL, libc::IP_TOS),
            _ => (libc::IPV6_UNICAST_HOPS, libc::IPV6_TCLASS),
        };
        let listener = linux.listener();
        let (fd, ours, _) = linux.accepted(listener);
        assert_eq!(linux.option(fd, level, ttl), Ok(64));
        assert_eq!(linux.set_option(fd, level, ttl, 7), Ok(()));
        assert_eq!(linux.set_option(fd, level, tos, 0xb8), Ok(()));
        assert_eq!((linux.option(fd, level, ttl), linux.option(fd, level, tos)), (Ok(7), Ok(0xb8)));
        assert_eq!(linux.set_option(fd, level, ttl, 0), Err(libc::EINVAL));
        assert_eq!(linux.write(fd, b"x"), 1);
        let (seen, _) = linux.output().unwrap();
        assert_eq!((seen.seq, seen.ttl, seen.tos), (ours, 7, 0xb8));
    });
}

/// An IPv6 socket bound to no address accepts both address families; with `IPV6_V6ONLY` it accepts
/// IPv6 only.
#[test]
fn a_dual_stack_socket() {
    for (only, version, answer) in [
        (0, Version::Mapped, Flags::SYN | ACK),
        (0, Version::V6, Flags::SYN | ACK),
        (1, Version::Mapped, Flags::RST | ACK),
        (1, Version::V6, Flags::SYN | ACK),
    ] {
        let linux = Loaded::of(version, "");
        let fd = linux.stream();
        assert_eq!(linux.set_option(fd, libc::IPPROTO_IPV6, libc::IPV6_V6ONLY, only), Ok(()));
        let any = linux.name(std::net::Ipv6Addr::UNSPECIFIED.into(), PORT);
        assert_eq!(call!(linux.bind(fd, address(&any), 28)), 0);
        assert_eq!(linux.set_option(fd, libc::IPPROTO_IPV6, libc::IPV6_V6ONLY, 0), Err(libc::EINVAL));
        assert_eq!(linux.option(fd, libc::IPPROTO_IPV6, libc::IPV6_V6ONLY), Ok(only));
        assert_eq!(call!(linux.listen(fd, 1)), 0);
        linux.input(&linux.packet(Flags::SYN, 1000, 0, &[2, 4, 5, 180]));
        assert_eq!(linux.output().unwrap().0.flags, answer, "{version:?}, IPV6_V6ONLY {only}");
    }
}

#[test]
fn an_address_of_the_other_family_is_refused() {
    for (mine, other) in [(Version::V4, Version::V6), (Version::V6, Version::V4)] {
        let (linux, there) = (Loaded::of(mine, ""), Loaded::of(other, ""));
        let fd = linux.stream();
        let name = there.name(other.us(), PORT);
        assert_eq!((call!(linux.bind(fd, address(&name), name.len() as u32)), errno()), (-1, libc::EAFNOSUPPORT));
        assert_eq!((call!(linux.connect(fd, address(&name), name.len() as u32)), errno()), (-1, libc::EAFNOSUPPORT));
    }
    let linux = Loaded::of(Version::V6, "");
    let name = linux.name(linux.version.us(), PORT);
    let fd = linux.stream();
    assert_eq!((call!(linux.bind(fd, address(&name), 23)), errno()), (-1, libc::EINVAL), "cut short");
}

/// ICMP errors are accepted in both address families; a truncated IPv6 packet is rejected.
#[test]
fn an_unreachable_port_refuses_a_connect() {
    Loaded::each("", |linux| {
        let (us, peer) = (linux.version.us(), linux.version.peer());
        let fd = linux.stream();
        assert_eq!(call!(linux.fcntl(fd, libc::F_SETFL, i64::from(libc::O_NONBLOCK))), 0);
        let to = linux.name(peer, PORT);
        assert_eq!((call!(linux.connect(fd, address(&to), to.len() as u32)), errno()), (-1, libc::EINPROGRESS));
        let (syn, _) = linux.output().unwrap();
        let head = [&syn.ports.0.to_be_bytes()[..], &syn.ports.1.to_be_bytes(), &syn.seq.to_be_bytes()].concat();
        let quoted = ip_packet(us, peer, wire::Proto::TCP, &head);
        let packet = match (peer, us) {
            (std::net::IpAddr::V6(peer), std::net::IpAddr::V6(us)) => {
                let mut message = vec![0; 8 + quoted.len()];
                let problem = wire::icmp6::Problem::Unreachable { code: wire::icmp6::unreachable::PORT };
                wire::icmp6::emit_error(problem, (peer, us), &quoted, &mut message).unwrap();
                ip_packet(peer.into(), us.into(), wire::Proto::IPV6_ICMP, &message)
            }
            _ => {
                let mut message = [&[3, 3, 0, 0, 0, 0, 0, 0][..], &quoted].concat();
                let sum = wire::checksum::sum(&message).finish().to_be_bytes();
                message[2..4].copy_from_slice(&sum);
                ip_packet(peer, us, wire::Proto::ICMP, &message)
            }
        };
        let cut = packet.len() - 1;
        assert_eq!((call!(linux.netdev_send(packet.as_ptr().cast(), cut)), errno()), (-1, libc::EINVAL));
        linux.input(&packet);
        assert_eq!(linux.option(fd, libc::SOL_SOCKET, libc::SO_ERROR), Ok(libc::ECONNREFUSED));
    });
}

#[test]
fn datagrams_both_ways() {
    Loaded::each("", |linux| {
        let (us, peer) = (linux.version.us(), linux.version.peer());
        let fd = call!(linux.socket(linux.version.domain(), libc::SOCK_DGRAM, libc::IPPROTO_UDP));
        let name = linux.name(us, PORT);
        assert_eq!(call!(linux.bind(fd, address(&name), name.len() as u32)), 0);
        linux.input(&common::datagram((peer, PEER_PORT), (us, PORT), b"question"));
        let (mut text, mut from, mut len) = ([0u8; 100], [0u8; 28], 28);
        let (into, from_at) = (text.as_mut_ptr().cast(), from.as_mut_ptr().cast());
        assert_eq!(call!(linux.recvfrom(fd, into, 100, 0, from_at, &raw mut len)), 8);
        let expected = linux.name(peer, PEER_PORT);
        assert_eq!((&text[..8], &from[..len as usize]), (b"question".as_slice(), expected.as_slice()));
        assert_eq!(call!(linux.sendto(fd, b"answer".as_ptr().cast(), 6, 0, address(&expected), len)), 6);
        let (mut bytes, mut len, mut at) = ([0u8; 200], 200, 0);
        assert_eq!(call!(linux.netdev_receive(bytes.as_mut_ptr().cast(), &raw mut len, &raw mut at)), 0);
        let sent = common::datagram((us, PORT), (peer, PEER_PORT), b"answer");
        assert_eq!(bytes[len - 14..len], sent[sent.len() - 14..], "ports, length, checksum, payload");
    });
}
