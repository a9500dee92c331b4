//! Implements [`Streams`] by the kernel's sockets through std::net, so that stock clients can
//! connect to the servers under test.
//!
//! std has no poll, so every descriptor is tried again after a fraction of a millisecond. It has no
//! linger option either, so an abort only closes the connection.

use linerate_apps::app::App;
use linerate_apps::serve::Server;
use linerate_apps::streams::{Ends, Failure, StreamInfo, StreamOption, Streams};
use std::collections::BTreeMap;
use std::io::{self, ErrorKind, Read, Write};
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc;
use std::thread::JoinHandle;
use std::time::Duration;

enum Sock {
    Listener(TcpListener),
    Stream(TcpStream),
}

/// Sockets, numbered by this module.
#[derive(Default)]
pub struct Kernel {
    socks: BTreeMap<u32, Sock>,
    next: u32,
}

fn failure(error: io::Error) -> Failure {
    match error.kind() {
        ErrorKind::WouldBlock | ErrorKind::Interrupted => Failure::Again,
        ErrorKind::ConnectionRefused => Failure::Refused,
        ErrorKind::TimedOut => Failure::TimedOut,
        ErrorKind::AddrInUse => Failure::InUse,
        ErrorKind::InvalidInput | ErrorKind::AddrNotAvailable => Failure::Invalid,
        _ => Failure::Gone,
    }
}

impl Kernel {
    fn add(&mut self, sock: Sock) -> u32 {
        self.next += 1;
        self.socks.insert(self.next, sock);
        self.next
    }

    fn stream(&self, fd: u32) -> Result<&TcpStream, Failure> {
        match self.socks.get(&fd) {
            Some(Sock::Stream(stream)) => Ok(stream),
            _ => Err(Failure::Invalid),
        }
    }
}

fn ends(stream: &TcpStream) -> Result<Ends, Failure> {
    Ok(Ends { local: stream.local_addr().map_err(failure)?, peer: stream.peer_addr().map_err(failure)? })
}

impl Streams for Kernel {
    type Fd = u32;

    fn listen(&mut self, at: SocketAddr, _backlog: usize) -> Result<u32, Failure> {
        let listener = TcpListener::bind(at).map_err(failure)?;
        listener.set_nonblocking(true).map_err(failure)?;
        Ok(self.add(Sock::Listener(listener)))
    }

    fn local(&self, fd: u32) -> Result<SocketAddr, Failure> {
        match self.socks.get(&fd) {
            Some(Sock::Listener(listener)) => listener.local_addr().map_err(failure),
            Some(Sock::Stream(stream)) => stream.local_addr().map_err(failure),
            None => Err(Failure::Invalid),
        }
    }

    fn accept(&mut self, listener: u32) -> Result<(u32, Ends), Failure> {
        let Some(Sock::Listener(listener)) = self.socks.get(&listener) else { return Err(Failure::Invalid) };
        let (stream, _) = listener.accept().map_err(failure)?;
        stream.set_nonblocking(true).map_err(failure)?;
        let ends = ends(&stream)?;
        Ok((self.add(Sock::Stream(stream)), ends))
    }

    fn connect(&mut self, _from: SocketAddr, to: SocketAddr) -> Result<u32, Failure> {
        let stream = TcpStream::connect_timeout(&to, Duration::from_secs(1)).map_err(failure)?;
        stream.set_nonblocking(true).map_err(failure)?;
        Ok(self.add(Sock::Stream(stream)))
    }

    fn connected(&mut self, fd: u32) -> Result<Ends, Failure> {
        ends(self.stream(fd)?)
    }

    fn send(&mut self, fd: u32, bytes: &[u8]) -> Result<usize, Failure> {
        (&mut self.stream(fd)?).write(bytes).map_err(failure)
    }

    fn recv(&mut self, fd: u32, into: &mut [u8]) -> Result<usize, Failure> {
        (&mut self.stream(fd)?).read(into).map_err(failure)
    }

    fn shutdown(&mut self, fd: u32) -> Result<(), Failure> {
        self.stream(fd)?.shutdown(Shutdown::Write).map_err(failure)
    }

    fn close(&mut self, fd: u32) {
        self.socks.remove(&fd);
    }

    fn abort(&mut self, fd: u32) {
        self.socks.remove(&fd);
    }

    fn set(&mut self, fd: u32, option: StreamOption) -> Result<(), Failure> {
        match option {
            StreamOption::NoDelay(on) => self.stream(fd)?.set_nodelay(on).map_err(failure),
            _ => Err(Failure::Invalid),
        }
    }

    fn info(&self, _fd: u32) -> Option<StreamInfo> {
        None
    }

    fn poll(&mut self, ready: &mut Vec<u32>, timeout: Duration) {
        if !timeout.is_zero() {
            std::thread::sleep(timeout.min(Duration::from_micros(200)));
        }
        ready.extend(self.socks.keys());
    }
}

/// A function that is called with the application between two turns of its server.
type Ask<A> = Box<dyn FnOnce(&A) + Send>;

/// A server that runs on a thread of its own.
pub struct Running<A> {
    /// Address at which the server listens.
    pub at: SocketAddr,
    ask: mpsc::Sender<Ask<A>>,
    stop: Arc<AtomicBool>,
    thread: JoinHandle<(A, usize)>,
}

impl<A: App + Send + 'static> Running<A> {
    /// Starts a server at a free port of 127.0.0.1.
    pub fn start(app: A) -> Running<A> {
        let (tell, reported) = mpsc::channel();
        let (ask, requested) = mpsc::channel::<Ask<A>>();
        let stop = Arc::new(AtomicBool::new(false));
        let stopped = stop.clone();
        let thread = std::thread::spawn(move || {
            let (clock, mut kernel) = (clock::Clock::live(clock::Strategy::Timespec), Kernel::default());
            let any = SocketAddr::from(([127, 0, 0, 1], 0));
            let mut server = Server::open(app, &mut kernel, &[any], clock.now()).unwrap();
            tell.send(server.at(&kernel)[0]).unwrap();
            while !stopped.load(Ordering::Relaxed) {
                server.turn(&mut kernel, clock.now(), Duration::from_millis(10));
                requested.try_iter().for_each(|ask| ask(&server.app));
            }
            let app = server.close(&mut kernel);
            (app, kernel.socks.len())
        });
        Running { at: reported.recv().unwrap(), ask, stop, thread }
    }

    /// Waits, at most 20 s, until `reached` returns true for the application. When a client exits,
    /// the server may not have read all its data yet.
    pub fn wait_until(&self, what: &str, reached: impl Fn(&A) -> bool + Send + Copy + 'static) {
        for _ in 0..2_000 {
            let (tell, reported) = mpsc::channel();
            self.ask.send(Box::new(move |app| tell.send(reached(app)).unwrap())).unwrap();
            if reported.recv().unwrap() {
                return;
            }
            std::thread::sleep(Duration::from_millis(10));
        }
        panic!("not within 20 s: {what}");
    }

    /// Stops the server and returns its application; checks that it has closed all descriptors.
    pub fn stop(self) -> A {
        self.stop.store(true, Ordering::Relaxed);
        let (app, left) = self.thread.join().unwrap();
        assert_eq!(left, 0, "descriptors left");
        app
    }
}
