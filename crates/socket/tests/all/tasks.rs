//! Sockets for tasks, on a host that another thread runs, without a runtime.

use crate::shared::{EACH, FEW, Host, byte, with_host, with_host_of};
use linerate_socket::net::tasks::{TcpListener, TcpStream, UdpSocket, lookup, sleep};
use std::io::{ErrorKind, IoSlice, IoSliceMut};
use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Context, Poll, Wake, Waker};
use std::time::{Duration, Instant};

struct Unpark(std::thread::Thread);
impl Wake for Unpark {
    fn wake(self: Arc<Self>) {
        self.0.unpark();
    }
}

/// Runs a future on this thread. A wake-up that is lost ends the test.
fn run<F: Future>(future: F) -> F::Output {
    let waker = Waker::from(Arc::new(Unpark(std::thread::current())));
    let (mut cx, mut future) = (Context::from_waker(&waker), pin!(future));
    loop {
        match future.as_mut().poll(&mut cx) {
            Poll::Ready(done) => return done,
            Poll::Pending => {
                let began = Instant::now();
                std::thread::park_timeout(Duration::from_secs(20));
                assert!(began.elapsed() < Duration::from_secs(20), "a wake-up was lost");
            }
        }
    }
}

/// Polls a future once and drops it.
fn poll_and_drop<F: Future>(future: F) {
    let mut cx = Context::from_waker(Waker::noop());
    assert!(pin!(future).as_mut().poll(&mut cx).is_pending());
}

type Stream = TcpStream<Arc<Host>>;

async fn echo(stream: Stream) {
    let mut buf = vec![0; 10_000];
    while let n @ 1.. = stream.read(&mut buf).await.unwrap() {
        stream.write_all(&buf[..n]).await.unwrap();
    }
}

/// Writes `total` bytes in one task, and checks in another that they come back.
fn exchange<'s>(scope: &'s std::thread::Scope<'s, '_>, client: Stream, total: usize) {
    let (reader, writer) = client.into_split();
    scope.spawn(move || run(async { writer.write_all(&(0..total).map(byte).collect::<Vec<_>>()).await.unwrap() }));
    scope.spawn(move || {
        run(async {
            let (mut got, mut buf) = (0, vec![0; 10_000]);
            while let n @ 1.. = reader.read(&mut buf).await.unwrap() {
                assert!(buf[..n].iter().enumerate().all(|(i, b)| *b == byte(got + i)));
                got += n;
            }
            assert_eq!(got, total); // the dropped writer has shut the connection down
        });
    });
}

/// The halves of a borrowed stream, and reads and writes of several buffers.
#[test]
fn one_task_uses_both_halves_and_several_buffers() {
    with_host(|host| {
        let listener = run(TcpListener::bind(host, "127.0.0.1:80")).unwrap();
        let mut client = run(TcpStream::connect(host, "127.0.0.1:80")).unwrap();
        let server = run(listener.accept()).unwrap().0;
        let (mut first, mut rest) = ([0; 2], [0; 20]);
        poll_and_drop(server.read_vectored(&mut [&mut first[..], &mut rest].map(IoSliceMut::new)));
        let (reader, writer) = client.split();
        run(writer.write_all(b"asked")).unwrap();
        let mut asked = [0; 5];
        run(server.read_exact(&mut asked)).unwrap();
        assert_eq!(&asked, b"asked");
        let answer: [&[u8]; 3] = [b"ans", b"", b"wer"];
        assert_eq!(run(server.write_vectored(&answer.map(IoSlice::new))).unwrap(), 6);
        while run(reader.stream().peek(&mut rest)).unwrap() < 6 {}
        let mut bufs = [&mut first[..], &mut rest].map(IoSliceMut::new);
        assert_eq!(run(reader.stream().read_vectored(&mut bufs)).unwrap(), 6);
        assert_eq!((&first, &rest[..4]), (b"an", &b"swer"[..]));
        drop(server);
        assert_eq!(run(reader.read(&mut rest)).unwrap(), 0);
    });
}

/// The tasks write more than memory can hold: writes are pending, and no task fails with ENOBUFS.
#[test]
fn tasks_wait_for_memory() {
    for streams in [4, 64] {
        with_host_of(FEW, |host| {
            let listener = run(TcpListener::bind(host, "127.0.0.1:80")).unwrap();
            std::thread::scope(|scope| {
                for _ in 0..streams {
                    let client = run(TcpStream::connect(host, "127.0.0.1:80")).unwrap();
                    let server = run(listener.accept()).unwrap().0;
                    scope.spawn(move || run(echo(server)));
                    exchange(scope, client, EACH);
                }
            });
        });
    }
}

#[test]
fn tasks_echo_a_megabyte() {
    with_host(|host| {
        std::thread::scope(|scope| {
            let listener = run(TcpListener::bind(host, "127.0.0.1:80")).unwrap();
            scope.spawn(move || run(async { echo(listener.accept().await.unwrap().0).await }));
            exchange(scope, run(TcpStream::connect(host, "127.0.0.1:80")).unwrap(), 1 << 20);
        });
    });
}

#[test]
fn errors_are_those_of_blocking_sockets() {
    with_host(|host| {
        let kind = |address: &str| run(TcpStream::connect(host, address)).unwrap_err().kind();
        assert_eq!(kind("127.0.0.1:81"), ErrorKind::ConnectionRefused);
        assert_eq!(kind("192.0.2.1:81"), ErrorKind::NetworkUnreachable);
        assert_eq!(kind("nonsense"), ErrorKind::InvalidInput);
        assert_eq!(run(lookup(host, "example.net:80")).unwrap_err().kind(), ErrorKind::Other, "no name server");
        let listener = run(TcpListener::bind(host, "127.0.0.1:80")).unwrap();
        assert_eq!(run(TcpListener::bind(host, "127.0.0.1:80")).unwrap_err().kind(), ErrorKind::AddrInUse);
        let client = run(TcpStream::connect(host, listener.local_addr().unwrap())).unwrap();
        drop(run(listener.accept()).unwrap());
        assert_eq!(run(client.read(&mut [0])).unwrap(), 0);
        assert_eq!(run(client.read_exact(&mut [0])).unwrap_err().kind(), ErrorKind::UnexpectedEof);
    });
}

/// Futures that are dropped before they are complete lose no connection, no byte and no datagram.
#[test]
fn dropped_futures_lose_nothing() {
    with_host(|host| {
        let listener = run(TcpListener::bind(host, "127.0.0.1:80")).unwrap();
        poll_and_drop(listener.accept());
        let client = run(TcpStream::connect(host, "127.0.0.1:80")).unwrap();
        let server = run(listener.accept()).unwrap().0;
        let mut buf = [0; 8];
        poll_and_drop(server.read(&mut buf));
        poll_and_drop(server.peek(&mut buf));
        run(client.write_all(b"bytes")).unwrap();
        run(server.readable()).unwrap();
        assert_eq!(run(server.peek(&mut buf)).unwrap(), 5);
        run(server.read_exact(&mut buf[..5])).unwrap();
        assert_eq!(&buf[..5], b"bytes");

        let socket = run(UdpSocket::bind(host, "127.0.0.1:0")).unwrap();
        poll_and_drop(socket.recv_from(&mut buf));
        let to = socket.local_addr().unwrap();
        run(socket.send_to(b"datagram", to)).unwrap();
        run(socket.readable()).unwrap();
        assert_eq!(run(socket.recv_from(&mut buf)).unwrap(), (8, to));
        poll_and_drop(TcpStream::connect(host, "127.0.0.1:80")); // closes its socket
        let sockets = || {
            let mut open = 0;
            host.stack.for_each_sock(host.cx(), |_, _| open += 1);
            open
        };
        let deadline = Instant::now() + Duration::from_secs(10);
        while sockets() != 3 {
            assert!(Instant::now() < deadline, "{} sockets: not only listener, client and server", sockets());
            std::thread::yield_now();
        }
    });
}

/// A task that sends faster than the host has buffers waits; a blocking socket would get ENOBUFS.
#[test]
fn a_sender_of_datagrams_waits_for_buffers() {
    with_host_of(64, |host| {
        let (sender, receiver) = (run(UdpSocket::bind(host, "127.0.0.1:0")).unwrap(), "127.0.0.1:9");
        let sink = run(UdpSocket::bind(host, receiver)).unwrap();
        let is_over = AtomicBool::new(false);
        std::thread::scope(|scope| {
            scope.spawn(|| {
                run(async {
                    let mut buf = [0; 1000];
                    while sink.recv(&mut buf).await.unwrap() > 1 {}
                });
                is_over.store(true, Ordering::Relaxed);
            });
            run(async {
                for _ in 0..20_000 {
                    assert_eq!(sender.send_to(&[7; 1000], receiver).await.unwrap(), 1000);
                }
                while !is_over.load(Ordering::Relaxed) {
                    sender.send_to(b"e", receiver).await.unwrap(); // dropped if the receiver's queue is full
                    sleep(host, Duration::from_millis(1)).await;
                }
            });
        });
    });
}

#[test]
fn a_sleep_takes_its_time_and_a_stopped_host_ends_all_waits() {
    with_host(|host| {
        let began = Instant::now();
        run(sleep(host, Duration::from_millis(30)));
        assert!(began.elapsed() >= Duration::from_millis(30));

        let listener = run(TcpListener::bind(host, "127.0.0.1:80")).unwrap();
        let socket = run(UdpSocket::bind(host, "127.0.0.1:9")).unwrap();
        let blocking = linerate_socket::net::TcpListener::bind(host, "127.0.0.1:81").unwrap();
        std::thread::scope(|scope| {
            let kinds = [
                scope.spawn(|| run(listener.accept()).unwrap_err().kind()),
                scope.spawn(|| run(socket.recv(&mut [0])).unwrap_err().kind()),
                scope.spawn(|| blocking.accept().unwrap_err().kind()),
            ];
            std::thread::sleep(Duration::from_millis(20));
            host.stack.stop(host.cx());
            for kind in kinds {
                assert_eq!(kind.join().unwrap(), ErrorKind::ConnectionAborted);
            }
        });
        assert_eq!(run(listener.accept()).unwrap_err().kind(), ErrorKind::ConnectionAborted);
    });
}
