//! Tests of the calls on one host over loopback, and of their errors.

use super::*;
use buf::{Pool, PoolConfig};
use clock::{Duration, Instant};
use inet::{Config, Stack};
use lock::{Cx, How, Light, Locks, Up};
use std::net::SocketAddr;
use std::sync::Arc;

fn cx() -> Cx {
    Cx::enter(How::Register, Instant::from_millis(1))
}

fn stack<L: Locks>() -> Stack<L> {
    let pool = Pool::new(&PoolConfig { buffers: 256, locks: buf::PoolLocks::Light, ..PoolConfig::default() }).unwrap();
    Stack::new(cx(), Config { seed: Some(1), ..Config::new("test", pool) })
}

fn addr(text: &str) -> SocketAddr {
    text.parse().unwrap()
}

/// Runs a stack that has only loopback.
struct Loop<'s>(&'s Stack<Up>);

impl Drive for Loop<'_> {
    fn drive(&self, until: Instant) -> Option<Instant> {
        self.0.poll(cx());
        Some(until)
    }
}

#[test]
fn a_looped_back_datagram_is_queued_and_then_received() {
    let stack = stack::<Up>();
    let calls = Calls::new(&stack, cx());
    let (a, b) = (calls.socket().unwrap(), calls.socket().unwrap());
    calls.bind(b, addr("127.0.0.1:7000")).unwrap();
    assert_eq!(calls.send_to(a, b"hello", &addr("127.0.0.1:7000")), Ok(5));
    calls.set_option(b, Opt::NonBlocking(true)).unwrap();
    let mut buf = [0; 16];
    assert_eq!(calls.recv_from(b, &mut buf), Err(Errno::EAGAIN), "loopback always queues packets");
    stack.poll(cx());
    let peek = RecvFlags { peek: true, ..RecvFlags::default() };
    let (n, from) = calls.recv_from_flags(b, &mut buf, peek).unwrap();
    assert_eq!((&buf[..n], from.ip()), (&b"hello"[..], addr("127.0.0.1:0").ip()));
    let trunc = RecvFlags { trunc: true, ..RecvFlags::default() };
    assert_eq!(calls.recv_from_flags(b, &mut buf[..2], trunc).unwrap().0, 5, "the full length, not the 2 copied bytes");
    assert_eq!(calls.recv_from(b, &mut buf), Err(Errno::EAGAIN));
    calls.close(a).unwrap();
    calls.close(b).unwrap();
    assert_eq!(stack.audit(cx()).imbalance(), 0);
    assert_eq!(stack.pool.stats().live(), 0);
}

#[test]
fn a_blocking_receive_drives_its_host_and_times_out() {
    let stack = stack::<Up>();
    let driver = Loop(&stack);
    let calls = Calls::driving(&stack, cx(), &driver);
    let (a, b) = (calls.socket().unwrap(), calls.socket().unwrap());
    let at = calls.bind(b, addr("127.0.0.1:0")).unwrap();
    assert!(at.port() >= 49152);
    calls.connect(a, at).unwrap();
    assert_eq!(calls.peer_addr(a), Ok(at));
    calls.send(a, b"x").unwrap();
    let mut buf = [0; 4];
    assert_eq!(calls.recv_from(b, &mut buf).unwrap(), (1, calls.local_addr(a).unwrap()));
    calls.set_option(b, Opt::RecvTimeout(Some(Duration::from_millis(5)))).unwrap();
    assert_eq!(calls.recv_from(b, &mut buf), Err(Errno::EAGAIN));
}

#[test]
fn a_reader_of_a_shared_stack_sleeps_until_another_thread_delivers() {
    let stack = Arc::new(stack::<Light>());
    let calls = Calls::new(&*stack, cx());
    let fd = calls.socket().unwrap();
    calls.bind(fd, addr("127.0.0.1:9")).unwrap();
    std::thread::scope(|scope| {
        let there = stack.clone();
        scope.spawn(move || {
            let calls = Calls::new(&*there, cx());
            let fd = calls.socket().unwrap();
            std::thread::sleep(Duration::from_millis(20));
            calls.send_to(fd, b"awake", &addr("127.0.0.1:9")).unwrap();
            there.poll(cx());
        });
        calls.set_option(fd, Opt::RecvTimeout(Some(Duration::from_secs(10)))).unwrap();
        let mut buf = [0; 8];
        assert_eq!(calls.recv_from(fd, &mut buf).unwrap().0, 5);
    });
}

#[test]
fn every_misuse_has_its_errno() {
    let stack = stack::<Up>();
    let calls = Calls::new(&stack, cx());
    let fd = calls.socket().unwrap();
    let none = Fd(99);
    assert_eq!(calls.bind(none, addr("127.0.0.1:1")), Err(Errno::EBADF));
    assert_eq!(calls.send(none, b""), Err(Errno::EBADF));
    assert_eq!(calls.recv_from(none, &mut []), Err(Errno::EBADF));
    assert_eq!(calls.close(none), Err(Errno::EBADF));
    assert_eq!(calls.send(fd, b""), Err(Errno::EDESTADDRREQ));
    assert_eq!(calls.send_to(fd, b"", &addr("8.8.8.8:1")), Err(Errno::ENETUNREACH));
    assert_eq!(calls.send_to(fd, b"", &addr("[::1]:1")), Err(Errno::EAFNOSUPPORT));
    assert_eq!(calls.bind(fd, addr("10.9.9.9:1")), Err(Errno::EADDRNOTAVAIL));
    assert_eq!(calls.send_to(fd, &[0; 65_508], &addr("127.0.0.1:1")), Err(Errno::EMSGSIZE));
    assert_eq!(calls.send_to(fd, &[0; 65_507], &addr("127.0.0.1:1")), Ok(65_507));
    let other = calls.socket().unwrap();
    let at = calls.local_addr(fd).unwrap();
    assert_eq!(calls.bind(other, addr(&format!("0.0.0.0:{}", at.port()))), Err(Errno::EADDRINUSE));
    assert_eq!(calls.bind(fd, addr("127.0.0.1:5")), Err(Errno::EINVAL));
    assert_eq!(calls.peer_addr(fd), Err(Errno::ENOTCONN));
    assert_eq!(calls.shutdown(fd, std::net::Shutdown::Both), Err(Errno::ENOTCONN));
    calls.connect(fd, addr("127.0.0.1:77")).unwrap();
    assert_eq!(calls.send_to(fd, b"", &addr("127.0.0.1:78")), Err(Errno::EISCONN));
    calls.send(fd, b"anybody?").unwrap();
    stack.poll(cx()); // no socket is bound to the port, so port unreachable arrives at once
    stack.poll(cx());
    assert_eq!(calls.send(fd, b"again"), Err(Errno::ECONNREFUSED));
    calls.shutdown(fd, std::net::Shutdown::Both).unwrap();
    assert_eq!(calls.send(fd, b"x"), Err(Errno::EPIPE));
    assert_eq!(calls.recv_from(fd, &mut [0; 4]).map(|r| r.0), Ok(0));
    assert_eq!(calls.set_option(fd, Opt::Ttl(0)), Err(Errno::EINVAL));
    assert_eq!(calls.set_option(fd, Opt::RecvBuffer(1)), Err(Errno::EINVAL));
}

#[test]
fn a_full_receive_buffer_and_an_exhausted_pool_are_counted() {
    let stack = stack::<Up>();
    let calls = Calls::new(&stack, cx());
    let (a, b) = (calls.socket().unwrap(), calls.socket().unwrap());
    calls.bind(b, addr("127.0.0.1:7000")).unwrap();
    calls.set_option(b, Opt::RecvBuffer(5000)).unwrap();
    for _ in 0..20 {
        calls.send_to(a, &[1; 484], &addr("127.0.0.1:7000")).unwrap();
    }
    stack.poll(cx());
    assert_eq!(stack.counter("inet.udp.in.buffer_full"), 10, "each is charged 500 bytes with the sender's address");
    let held: Vec<_> = std::iter::from_fn(|| stack.pool.get()).collect();
    assert_eq!(calls.send_to(a, b"x", &addr("127.0.0.1:7000")), Err(Errno::ENOBUFS));
    assert!(stack.pool.stats().empty >= 1);
    drop(held);
    assert_eq!(stack.audit(cx()).imbalance(), 0);
}

#[test]
fn options_read_back_as_they_were_set() {
    let stack = stack::<Up>();
    let calls = Calls::new(&stack, cx());
    let fd = calls.socket().unwrap();
    for (kind, opt) in [
        (OptKind::RecvBuffer, Opt::RecvBuffer(4096)),
        (OptKind::RecvTimeout, Opt::RecvTimeout(Some(Duration::from_secs(2)))),
        (OptKind::NonBlocking, Opt::NonBlocking(true)),
        (OptKind::Broadcast, Opt::Broadcast(true)),
        (OptKind::ReuseAddr, Opt::ReuseAddr(true)),
        (OptKind::ReusePort, Opt::ReusePort(true)),
        (OptKind::Ttl, Opt::Ttl(3)),
        (OptKind::Tos, Opt::Tos(0x10)),
        (OptKind::DontFragment, Opt::DontFragment(true)),
        (OptKind::MulticastTtl, Opt::MulticastTtl(9)),
        (OptKind::MulticastLoop, Opt::MulticastLoop(false)),
    ] {
        assert_ne!(calls.option(fd, kind), Ok(opt));
        calls.set_option(fd, opt).unwrap();
        assert_eq!(calls.option(fd, kind), Ok(opt));
    }
}

#[test]
fn a_poller_reports_edges_and_poll_reports_levels() {
    let stack = stack::<Up>();
    let calls = Calls::new(&stack, cx());
    let poller = Poller::default();
    let (a, b) = (calls.socket().unwrap(), calls.socket().unwrap());
    calls.bind(b, addr("127.0.0.1:7000")).unwrap();
    calls.watch(&poller, b).unwrap();
    let mut ready = Vec::new();
    poller.ready(&calls, 8, &mut ready);
    assert!(ready.is_empty());
    calls.send_to(a, b"1", &addr("127.0.0.1:7000")).unwrap();
    calls.send_to(a, b"2", &addr("127.0.0.1:7000")).unwrap();
    stack.poll(cx());
    poller.ready(&calls, 8, &mut ready);
    assert_eq!(ready, [b.0]);
    let requested = Events { readable: true, ..Events::default() };
    let mut fds = [a, b, Fd(77)].map(|fd| PollFd { fd, requested, reported: Events::default() });
    assert_eq!(calls.poll(&mut fds), 2);
    assert!(!fds[0].reported.readable && fds[1].reported.readable && fds[2].reported.invalid);
    assert_eq!(calls.recv_burst(b, 8, |bytes, _| assert_eq!(bytes.len(), 1)), Ok(2));
}
