//! A host that many threads use: one thread runs it, and the others wait on signals. The tests use
//! real time and the loopback interface.

use buf::{Pool, PoolConfig, PoolLocks};
use clock::{Clock, Strategy};
use inet::{Config, Stack};
use linerate_socket::net::{Net, TcpListener, TcpStream, UdpSocket};
use linerate_socket::{Calls, Errno, Events, Opt, Poller};
use lock::{Cx, How, Light, Locks};
use std::io::{ErrorKind, Read, Write};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

pub struct Host {
    pub stack: Stack<Light>,
    clock: Clock,
    over: AtomicBool,
}

impl Host {
    pub fn cx(&self) -> Cx {
        Cx::enter(How::Register, self.clock.now())
    }
}

impl Net for Host {
    type Locks = Light;
    fn with<R>(&self, f: impl FnOnce(&Calls<'_, Light>) -> R) -> R {
        f(&Calls::new(&self.stack, self.cx()))
    }
}

/// Runs `work` while another thread runs the host.
pub fn with_host(work: impl FnOnce(&Arc<Host>)) {
    with_host_of(16_384, work);
}

/// Runs `work` while another thread runs a host that has this number of buffers.
pub fn with_host_of(buffers: usize, work: impl FnOnce(&Arc<Host>)) {
    let pool = Pool::new(&PoolConfig { buffers, locks: PoolLocks::Light, ..PoolConfig::default() }).unwrap();
    let clock = Clock::live(Strategy::default());
    let cx = Cx::enter(How::Register, clock.now());
    let stack = Stack::new(cx, Config { seed: Some(5), ..Config::new("shared", pool) });
    let host = Arc::new(Host { stack, clock, over: AtomicBool::new(false) });
    std::thread::scope(|scope| {
        let pump = host.clone();
        scope.spawn(move || {
            while !pump.over.load(Ordering::Relaxed) {
                pump.stack.poll(pump.cx());
                std::thread::yield_now();
            }
        });
        let done = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| work(&host)));
        host.over.store(true, Ordering::Relaxed);
        done.unwrap_or_else(|why| std::panic::resume_unwind(why));
    });
}

pub fn byte(i: usize) -> u8 {
    (i * 31 + (i >> 9) * 7) as u8
}

/// Writes 4 MB in pieces of odd sizes, reads as many bytes, and checks each byte.
fn both_ways<N: Net>(stream: &TcpStream<N>) -> usize {
    const TOTAL: usize = 4 << 20;
    let data: Vec<u8> = (0..TOTAL).map(byte).collect();
    let (mut sent, mut got, mut buf) = (0, 0, vec![0; 30_011]);
    while got < TOTAL || sent < TOTAL {
        if sent < TOTAL {
            let end = TOTAL.min(sent + 9973);
            (&*stream).write_all(&data[sent..end]).unwrap();
            sent = end;
        }
        if got == TOTAL {
            continue;
        }
        let n = (&*stream).read(&mut buf).unwrap();
        assert!(n > 0, "closed after {got}");
        assert!(buf[..n] == data[got..got + n], "wrong after {got}");
        got += n;
    }
    assert_eq!(sent, TOTAL);
    got
}

#[test]
fn two_threads_move_megabytes_both_ways() {
    with_host(|host| {
        let listener = TcpListener::bind(host, "127.0.0.1:80").unwrap();
        std::thread::scope(|scope| {
            let server = scope.spawn(|| both_ways(&listener.accept().unwrap().0));
            let client = TcpStream::connect(host, "127.0.0.1:80").unwrap();
            let client = scope.spawn(move || both_ways(&client)); // a stream may go to another thread
            assert_eq!((server.join().unwrap(), client.join().unwrap()), (4 << 20, 4 << 20));
        });
    });
}

/// Two threads read and write on two handles of one connection, made by `try_clone`.
#[test]
fn one_connection_in_two_threads() {
    with_host(|host| {
        let listener = TcpListener::bind(host, "127.0.0.1:80").unwrap();
        std::thread::scope(|scope| {
            scope.spawn(|| {
                let (stream, _) = listener.accept().unwrap();
                std::io::copy(&mut &stream, &mut &stream).unwrap(); // echo
            });
            let stream = TcpStream::connect(host, "127.0.0.1:80").unwrap();
            let mut writer = stream.try_clone().unwrap();
            scope.spawn(move || {
                let data: Vec<u8> = (0..1 << 20).map(byte).collect();
                writer.write_all(&data).unwrap();
                writer.shutdown(std::net::Shutdown::Write).unwrap();
            });
            let mut echo = Vec::new();
            (&stream).read_to_end(&mut echo).unwrap();
            assert!(echo.len() == 1 << 20 && echo.iter().enumerate().all(|(i, b)| *b == byte(i)));
        });
    });
}

#[test]
fn waiting_ends_in_time() {
    with_host(|host| {
        let listener = TcpListener::bind(host, "127.0.0.1:80").unwrap();
        let client = TcpStream::connect(host, "127.0.0.1:80").unwrap();
        let (server, _) = listener.accept().unwrap();
        client.set_read_timeout(Some(Duration::from_millis(30))).unwrap();
        let start = Instant::now();
        assert_eq!((&client).read(&mut [0; 1]).unwrap_err().kind(), ErrorKind::WouldBlock);
        assert!(start.elapsed() >= Duration::from_millis(30) && start.elapsed() < Duration::from_secs(5));
        client.set_write_timeout(Some(Duration::from_millis(30))).unwrap();
        let mut full = None;
        for _ in 0..10_000 {
            if let Err(error) = (&client).write_all(&[0; 10_000]) {
                full = Some(error.kind());
                break;
            }
        }
        assert_eq!(full, Some(ErrorKind::WouldBlock), "the peer does not read");
        assert_eq!(client.set_read_timeout(Some(Duration::ZERO)).unwrap_err().kind(), ErrorKind::InvalidInput);
        host.with(|calls| calls.set_option(listener.fd(), Opt::RecvTimeout(Some(Duration::from_millis(20))))).unwrap();
        assert_eq!(listener.accept().unwrap_err().kind(), ErrorKind::WouldBlock);
        let socket = UdpSocket::bind(host, "127.0.0.1:0").unwrap();
        socket.set_read_timeout(Some(Duration::from_millis(20))).unwrap();
        assert_eq!(socket.recv(&mut [0; 1]).unwrap_err().kind(), ErrorKind::WouldBlock);
        drop(server);
    });
}

/// A thread that waits on a descriptor returns when another thread closes the descriptor.
#[test]
fn closing_wakes_waiting_threads() {
    with_host(|host| {
        let fd = host.with(|calls| {
            let fd = calls.stream_socket().unwrap();
            calls.bind(fd, "127.0.0.1:80".parse().unwrap()).unwrap();
            calls.listen(fd, 1).unwrap();
            fd
        });
        std::thread::scope(|scope| {
            let waiter = scope.spawn(|| host.with(|calls| calls.accept(fd)));
            std::thread::sleep(Duration::from_millis(50));
            host.with(|calls| calls.close(fd)).unwrap();
            assert_eq!(waiter.join().unwrap(), Err(Errno::EBADF));
        });
    });
}

#[test]
fn a_poller_wakes_a_thread_for_connections_and_data() {
    with_host(|host| {
        let listener = TcpListener::bind(host, "127.0.0.1:80").unwrap();
        listener.set_nonblocking(true).unwrap();
        let poller = Poller::default();
        host.with(|calls| calls.watch(&poller, listener.fd())).unwrap();
        std::thread::scope(|scope| {
            scope.spawn(|| {
                std::thread::sleep(Duration::from_millis(30));
                let mut client = TcpStream::connect(host, "127.0.0.1:80").unwrap();
                std::thread::sleep(Duration::from_millis(30));
                client.write_all(b"text").unwrap();
            });
            let wait = || host.with(|calls| poller.wait(calls, Some(Duration::from_secs(10))));
            assert_eq!(wait(), Some(listener.fd()));
            let (stream, _) = listener.accept().unwrap();
            host.with(|calls| calls.watch(&poller, stream.fd())).unwrap();
            let mut buf = [0; 8];
            stream.set_nonblocking(true).unwrap();
            let n = loop {
                match (&stream).read(&mut buf) {
                    Ok(n) => break n,
                    Err(error) => assert_eq!(error.kind(), ErrorKind::WouldBlock),
                }
                assert_eq!(wait(), Some(stream.fd()));
            };
            assert_eq!(&buf[..n], b"text");
        });
    });
}

#[test]
fn many_threads_connect_at_once() {
    with_host(|host| {
        let listener = TcpListener::bind(host, "127.0.0.1:80").unwrap();
        std::thread::scope(|scope| {
            for client in 0..8u8 {
                let host = host.clone();
                scope.spawn(move || {
                    for round in 0..20u8 {
                        let mut stream = TcpStream::connect(&host, "127.0.0.1:80").unwrap();
                        stream.write_all(&[client, round]).unwrap();
                        let mut answer = [0; 1];
                        stream.read_exact(&mut answer).unwrap();
                        assert_eq!(answer[0], client ^ round);
                    }
                });
            }
            for stream in listener.incoming().take(160) {
                let mut stream = stream.unwrap();
                let mut question = [0; 2];
                stream.read_exact(&mut question).unwrap();
                stream.write_all(&[question[0] ^ question[1]]).unwrap();
            }
        });
    });
}

#[test]
fn poll_reports_requested_events_to_threads() {
    with_host(|host| {
        let socket = UdpSocket::bind(host, "127.0.0.1:9").unwrap();
        let requested = Events { readable: true, ..Events::default() };
        let reported = || {
            let mut fds = [linerate_socket::PollFd { fd: socket.fd(), requested, reported: Events::default() }];
            host.with(|calls| calls.poll(&mut fds));
            fds[0].reported.readable
        };
        assert!(!reported());
        socket.send_to(b"x", "127.0.0.1:9").unwrap();
        let until = Instant::now() + Duration::from_secs(10);
        while !reported() && Instant::now() < until {
            std::thread::yield_now();
        }
        assert!(reported());
        assert_eq!(Light::NAME, "light");
    });
}

/// Number of buffers of a host that many connections exhaust: 4 MiB, of which TCP may use three
/// quarters.
pub const FEW: usize = 2048;
/// Number of bytes that each stream sends.
pub const EACH: usize = 200_000;

/// Echoes all received data until the peer shuts down its side.
fn echo(mut stream: TcpStream<Arc<Host>>) {
    let mut buf = vec![0; 10_000];
    loop {
        match stream.read(&mut buf).unwrap() {
            0 => return,
            n => stream.write_all(&buf[..n]).unwrap(),
        }
    }
}

/// Sends [`EACH`] bytes and receives as many at the same time.
fn exchange(stream: TcpStream<Arc<Host>>) {
    let (mut writer, mut reader) = (stream.try_clone().unwrap(), stream);
    std::thread::scope(|scope| {
        scope.spawn(move || {
            writer.write_all(&(0..EACH).map(byte).collect::<Vec<_>>()).unwrap();
            writer.shutdown(std::net::Shutdown::Write).unwrap();
        });
        let mut got = Vec::new();
        reader.read_to_end(&mut got).unwrap();
        assert!(got.len() == EACH && got.iter().enumerate().all(|(i, b)| *b == byte(i)), "{}", got.len());
    });
}

/// The threads write more than memory can hold: writers wait, and no call fails with ENOBUFS.
#[test]
fn blocking_echo_streams_wait_for_memory() {
    for streams in [4, 64] {
        with_host_of(FEW, |host| {
            let listener = TcpListener::bind(host, "127.0.0.1:80").unwrap();
            std::thread::scope(|scope| {
                let connect = |_| {
                    let client = TcpStream::connect(host, "127.0.0.1:80").unwrap();
                    (client, listener.accept().unwrap().0)
                };
                for (client, server) in (0..streams).map(connect).collect::<Vec<_>>() {
                    scope.spawn(|| echo(server));
                    scope.spawn(|| exchange(client));
                }
            });
            assert!(streams == 4 || host.stack.counter("inet.tcp.memory.sends_refused") > 0, "memory was not short");
        });
    }
}

/// Connections whose peers do not read keep their data in memory, but leave memory for other
/// connections.
#[test]
fn unread_connections_do_not_stop_another() {
    with_host_of(FEW, |host| {
        let listener = TcpListener::bind(host, "127.0.0.1:80").unwrap();
        let mut held = Vec::new();
        for _ in 0..64 {
            let mut client = TcpStream::connect(host, "127.0.0.1:80").unwrap();
            client.set_nonblocking(true).unwrap();
            let server = listener.accept().unwrap().0;
            let text = vec![7; 20_000];
            let deadline = Instant::now() + Duration::from_millis(20);
            while Instant::now() < deadline {
                match client.write(&text) {
                    Ok(sent) => assert!(sent > 0),
                    Err(why) => assert_eq!(why.kind(), ErrorKind::WouldBlock, "{why}"),
                }
            }
            held.push((client, server));
        }
        assert!(host.stack.counter("inet.tcp.memory.sends_refused") > 0, "memory was not short");
        let client = TcpStream::connect(host, "127.0.0.1:80").unwrap();
        let server = listener.accept().unwrap().0;
        std::thread::scope(|scope| {
            scope.spawn(|| echo(server));
            exchange(client);
        });
        drop(held);
    });
}

/// A writer that waits for memory becomes writable in poll when other connections free memory.
#[test]
fn poll_reports_freed_memory() {
    with_host_of(FEW, |host| {
        let listener = TcpListener::bind(host, "127.0.0.1:80").unwrap();
        let mut held = Vec::new();
        while host.stack.counter("inet.tcp.memory.sends_refused") == 0 {
            let mut client = TcpStream::connect(host, "127.0.0.1:80").unwrap();
            client.set_nonblocking(true).unwrap();
            let server = listener.accept().unwrap().0;
            for _ in 0..100 {
                let _ = client.write(&[7; 20_000]);
            }
            held.push((client, server));
        }
        let (client, server) = held.pop().unwrap();
        let (poller, calls) = (Poller::default(), Calls::new(&host.stack, host.cx()));
        while (&client).write(&[7; 20_000]).is_ok() {}
        calls.watch(&poller, client.fd()).unwrap();
        poller.ready(&calls, 16, &mut Vec::new()); // discards earlier events
        drop(held); // resets the connections, which frees the unread data
        let reported = poller.wait(&calls, Some(Duration::from_secs(30)));
        assert_eq!(reported, Some(client.fd()));
        while let Err(why) = (&client).write(&[7; 20_000]) {
            assert_eq!(why.kind(), ErrorKind::WouldBlock);
            assert_eq!(poller.wait(&calls, Some(Duration::from_secs(30))), Some(client.fd()));
        }
        drop(server);
    });
}

/// While the host's thread moves a connection to TIME-WAIT, the process closes its socket and opens
/// the next one, which gets the same number. The late cleanup must not affect the new connection.
#[test]
fn a_socket_number_is_reused_while_its_last_connection_ends() {
    with_host(|host| {
        let listener = TcpListener::bind(host, "127.0.0.1:80").unwrap();
        std::thread::scope(|scope| {
            scope.spawn(|| {
                while let Ok((mut stream, _)) = listener.accept() {
                    while stream.read(&mut [0]).unwrap_or(0) > 0 {}
                }
            });
            let exchange = || {
                let at = "127.0.0.1:80".parse().unwrap();
                let mut client = TcpStream::connect_timeout(host, &at, Duration::from_secs(10))?;
                client.write_all(b"x")?;
                client.shutdown(std::net::Shutdown::Write)?;
                client.read(&mut [0])
            };
            let failed = (0..3000).find_map(|n| exchange().err().map(|why| (n, why)));
            host.stack.stop(host.cx()); // ends the thread that accepts
            assert!(failed.is_none(), "(connection, error): {failed:?}");
        });
    });
}

/// More threads than usual (64) use one stack at the same time: each sends datagrams to itself and
/// closes its own sockets.
#[test]
fn three_hundred_threads_use_one_stack_at_the_same_time() {
    const THREADS: usize = 300;
    with_host(|host| {
        let all = std::sync::Barrier::new(THREADS);
        std::thread::scope(|scope| {
            for n in 0..THREADS {
                let (host, all) = (host.clone(), &all);
                scope.spawn(move || {
                    let socket = UdpSocket::bind(&host, "127.0.0.1:0").unwrap();
                    let listener = TcpListener::bind(&host, "127.0.0.1:0").unwrap();
                    all.wait(); // until all threads have sockets
                    let text = (n as u32).to_be_bytes();
                    socket.send_to(&text, socket.local_addr().unwrap()).unwrap();
                    let mut got = [0; 8];
                    assert_eq!(socket.recv(&mut got).unwrap(), text.len());
                    assert_eq!(got[..4], text);
                    let mut client = TcpStream::connect(&host, listener.local_addr().unwrap()).unwrap();
                    let mut server = listener.accept().unwrap().0;
                    client.write_all(&text).unwrap();
                    server.read_exact(&mut got[..4]).unwrap();
                    assert_eq!(got[..4], text);
                    all.wait(); // until no thread needs its sockets any more
                });
            }
        });
        assert_eq!(host.stack.counter("inet.udp.delivered"), THREADS as u64);
        let deadline = Instant::now() + Duration::from_secs(20);
        while host.stack.audit(host.cx()).imbalance() != 0 {
            assert!(Instant::now() < deadline, "{:#?}", host.stack.audit(host.cx())); // exact after all FINs
            std::thread::yield_now();
        }
    });
}

/// A socket that a thread leaves in a thread-local value is closed when the thread ends.
#[test]
fn sockets_of_ten_thousand_ended_threads_are_closed() {
    thread_local! {
        static LEFT: std::cell::RefCell<Option<UdpSocket<Arc<Host>>>> = const { std::cell::RefCell::new(None) };
    }
    with_host(|host| {
        let open = host.stack.counter("inet.udp.sent");
        for _ in 0..10_000 {
            let host = host.clone();
            let thread = std::thread::spawn(move || {
                let socket = UdpSocket::bind(&host, "127.0.0.1:0").unwrap();
                socket.send_to(b"x", socket.local_addr().unwrap()).unwrap();
                LEFT.with(|left| left.replace(Some(socket)));
                lock::thread_index()
            });
            assert!(thread.join().unwrap() < 1000, "the indexes of ended threads are reused");
        }
        assert_eq!(host.stack.counter("inet.udp.sent"), open + 10_000);
        assert_eq!(host.with(|calls| calls.socket()).unwrap(), linerate_socket::Fd(0), "all sockets were closed");
    });
}
