//! The HTTP server. It has one thread, which no frame passes. A client has two seconds to send its
//! request and two to read the answer, and the number of clients is limited, so slow clients do not
//! keep others away for long.

#[cfg(test)]
mod tests;

use crate::families::{Times, families};
use crate::request::{Parsed, Request, RequestError, parse};
use clock::Duration;
use node::config::MetricsAddress;
use node::figures::{Collected, Collector};
use port::os::unix::{SocketFile, listen};
use std::io::{self, ErrorKind, Read, Write};
use std::net::{Shutdown, TcpListener, TcpStream};
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::net::{UnixListener, UnixStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::{Instant, SystemTime, UNIX_EPOCH};

/// Maximum number of clients. If there are more, the first one without an answer is disconnected.
pub(crate) const CLIENTS_MAX: usize = 64;
/// Time for a client to send its request and to read the answer.
pub(crate) const PATIENCE: Duration = Duration::from_secs(2);
/// Maximum time to wait for the figures of the nodes.
const COLLECT: Duration = Duration::from_secs(1);
/// Age up to which figures are used again, so that many clients do not burden the nodes.
const FRESH: Duration = Duration::from_millis(20);
/// Interval at which the server checks whether it is to end, and clients whose time is over.
const TICK: Duration = Duration::from_millis(100);
/// Interval between attempts to write the rest of an answer to a client that reads slowly.
const WRITE: Duration = Duration::from_millis(2);

/// Byte stream of a client.
trait Stream: Read + Write + AsFd + Send {
    /// Ends the sending direction.
    fn finish(&self);
}

impl Stream for TcpStream {
    fn finish(&self) {
        let _ = self.shutdown(Shutdown::Write); // fails if the client has closed already
    }
}

impl Stream for UnixStream {
    fn finish(&self) {
        let _ = self.shutdown(Shutdown::Write); // fails if the client has closed already
    }
}

#[derive(Debug)]
enum Listener {
    Tcp(TcpListener),
    Unix(UnixListener, #[expect(dead_code, reason = "its drop removes the file")] SocketFile),
}

impl Listener {
    fn open(address: &MetricsAddress) -> io::Result<Listener> {
        Ok(match address {
            MetricsAddress::Tcp(addr) => {
                let listener = TcpListener::bind(addr)?;
                listener.set_nonblocking(true)?;
                Listener::Tcp(listener)
            }
            MetricsAddress::Unix(path) => {
                let (listener, file) = listen(path)?;
                Listener::Unix(listener, file)
            }
        })
    }

    fn accept(&self) -> io::Result<Box<dyn Stream>> {
        Ok(match self {
            Listener::Tcp(listener) => {
                let (stream, _) = listener.accept()?;
                stream.set_nonblocking(true)?;
                Box::new(stream)
            }
            Listener::Unix(listener, _) => {
                let (stream, _) = listener.accept()?;
                stream.set_nonblocking(true)?;
                Box::new(stream)
            }
        })
    }

    fn fd(&self) -> BorrowedFd<'_> {
        match self {
            Listener::Tcp(listener) => listener.as_fd(),
            Listener::Unix(listener, _) => listener.as_fd(),
        }
    }
}

/// A client, and what is done for it until its time is over.
struct Client {
    stream: Box<dyn Stream>,
    state: State,
    until: Instant,
}

enum State {
    /// Its request is incomplete.
    Reads(Vec<u8>),
    /// Its answer is written; the number is that of the bytes written so far.
    Writes(Vec<u8>, usize),
    /// The answer was written. What the client still sends is read and discarded, since closing the
    /// connection before would reset it, and the client might not see the answer.
    Drains,
}

/// Address at which a [`Server`] will answer. Clients that connect meanwhile wait.
#[derive(Debug)]
pub struct Bound {
    listener: Listener,
    address: MetricsAddress,
    started: f64,
}

impl Bound {
    /// Listens at `address`.
    ///
    /// # Errors
    /// Returns errors of the system: the address is in use or not permitted.
    pub fn new(address: &MetricsAddress) -> io::Result<Bound> {
        let listener = Listener::open(address)?;
        let address = match &listener {
            Listener::Tcp(listener) => MetricsAddress::Tcp(listener.local_addr()?), // the port may have been 0
            Listener::Unix(..) => address.clone(),
        };
        let started = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_secs_f64();
        Ok(Bound { listener, address, started })
    }

    /// Returns the address.
    pub fn address(&self) -> &MetricsAddress {
        &self.address
    }

    /// Answers with the figures of `collector`, at most `series_max` samples at once, in a thread
    /// of its own. Called when all nodes run and the process has dropped its privileges.
    ///
    /// # Errors
    /// Returns errors of the system: no thread can be created.
    pub fn serve(self, collector: Arc<Collector>, series_max: usize) -> io::Result<Server> {
        let Bound { listener, started, .. } = self;
        let is_over = Arc::new(AtomicBool::new(false));
        let over = is_over.clone();
        let mut serving = Serving { listener, collector, series_max, started, clients: Vec::new(), last: None };
        let thread = dispatch::spawn_worker("metrics", None, move |_| {
            while !over.load(Ordering::Relaxed) {
                serving.round();
            }
        })?;
        Ok(Server { is_over, thread: Some(thread) })
    }
}

/// Server of the metrics of a process. Dropping it ends its thread.
#[derive(Debug)]
pub struct Server {
    is_over: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

impl Drop for Server {
    fn drop(&mut self) {
        self.is_over.store(true, Ordering::Relaxed);
        if let Some(thread) = self.thread.take() {
            let _ = thread.join(); // a panic of the thread was already reported
        }
    }
}

/// State of the server's thread.
struct Serving {
    listener: Listener,
    collector: Arc<Collector>,
    series_max: usize,
    started: f64,
    clients: Vec<Client>,
    /// The last figures, with their time and the duration of collecting them.
    last: Option<(Instant, Duration, Collected)>,
}

impl Serving {
    /// Waits for clients, accepts them, and continues reading from and writing to each of them.
    fn round(&mut self) {
        let is_writing = |client: &&Client| matches!(client.state, State::Writes(..));
        let readers = self.clients.iter().filter(|client| !is_writing(client));
        let mut fds = vec![self.listener.fd()];
        fds.extend(readers.map(|client| client.stream.as_fd()));
        let timeout = if self.clients.iter().any(|client| is_writing(&client)) { WRITE } else { TICK };
        if dispatch::wait_readable(&fds, Some(timeout)).is_err() {
            std::thread::sleep(WRITE); // no memory for the call: later
        }
        self.accept();
        let mut clients = std::mem::take(&mut self.clients);
        // A request that has arrived is answered, even if another client took the time meanwhile.
        clients.retain_mut(|client| self.turn(client) && Instant::now() < client.until);
        self.clients = clients;
    }

    fn accept(&mut self) {
        for _ in 0..CLIENTS_MAX {
            let stream = match self.listener.accept() {
                Ok(stream) => stream,
                Err(why) => {
                    if why.kind() != ErrorKind::WouldBlock {
                        std::thread::sleep(WRITE); // too many open descriptors: the listener stays readable
                    }
                    return;
                }
            };
            if self.clients.len() >= CLIENTS_MAX {
                let reads = |client: &Client| !matches!(client.state, State::Writes(..));
                self.clients.remove(self.clients.iter().position(reads).unwrap_or(0));
            }
            self.clients.push(Client { stream, state: State::Reads(Vec::new()), until: Instant::now() + PATIENCE });
        }
    }

    /// Reads from or writes to a client, as far as possible without waiting. Returns `false` if the
    /// connection is to be closed.
    fn turn(&mut self, client: &mut Client) -> bool {
        if let State::Reads(request) = &mut client.state {
            let mut bytes = [0; 2048];
            match client.stream.read(&mut bytes) {
                Ok(0) => return false,
                Ok(read) => request.extend(bytes.get(..read).unwrap_or_default()),
                Err(why) => return is_temporary(&why),
            }
            let answer = match parse(request) {
                Ok(None) => return true,
                Ok(Some(parsed)) => self.answer(parsed),
                Err(why) => refusal(why, request.starts_with(b"HEAD ")),
            };
            client.state = State::Writes(answer, 0);
            client.until = Instant::now() + PATIENCE;
        }
        if let State::Writes(answer, sent) = &mut client.state {
            match client.stream.write(answer.get(*sent..).unwrap_or_default()) {
                Ok(written) => *sent += written,
                Err(why) => return is_temporary(&why),
            }
            if *sent < answer.len() {
                return true;
            }
            client.stream.finish();
            client.state = State::Drains;
        }
        loop {
            match client.stream.read(&mut [0; 2048]) {
                Ok(0) => return false,
                Ok(_) => {}
                Err(why) => return is_temporary(&why),
            }
        }
    }

    fn answer(&mut self, parsed: Parsed) -> Vec<u8> {
        let (status, media_type, body) = match parsed.request {
            Request::Healthy => ("200 OK", "text/plain", "The process runs.\n".to_owned()),
            Request::Ready => match self.collected() {
                (_, collected) if collected.silent.is_empty() => {
                    ("200 OK", "text/plain", "All nodes run.\n".to_owned())
                }
                (_, collected) => {
                    let silent = collected.silent.join(", ");
                    ("503 Service Unavailable", "text/plain", format!("No answer from: {silent}\n"))
                }
            },
            Request::Metrics(format) => {
                let (started, series_max) = (self.started, self.series_max);
                let (took, collected) = self.collected();
                let families = families(collected, Times { started, took: took.as_secs_f64() }, series_max);
                ("200 OK", format.media_type(), format.text(&families))
            }
        };
        response(status, media_type, &body, parsed.is_head)
    }

    /// Returns figures that are at most [`FRESH`] old, and the duration of collecting them.
    fn collected(&mut self) -> (Duration, &Collected) {
        let now = Instant::now();
        if self.last.as_ref().is_none_or(|(at, ..)| now.duration_since(*at) > FRESH) {
            let collected = self.collector.collect(COLLECT);
            self.last = Some((Instant::now(), now.elapsed(), collected));
        }
        let (_, took, collected) = self
            .last
            .get_or_insert_with(|| (now, Duration::ZERO, Collected { figures: Vec::new(), silent: Vec::new() }));
        (*took, collected)
    }
}

fn is_temporary(why: &io::Error) -> bool {
    matches!(why.kind(), ErrorKind::WouldBlock | ErrorKind::Interrupted)
}

fn refusal(why: RequestError, is_head: bool) -> Vec<u8> {
    let status = why.status();
    response(status, "text/plain", &format!("{status}: GET /metrics, /-/healthy or /-/ready\n"), is_head)
}

fn response(status: &str, media_type: &str, body: &str, is_head: bool) -> Vec<u8> {
    let allow = if status.starts_with("405") { "Allow: GET, HEAD\r\n" } else { "" };
    let head = format!(
        "HTTP/1.1 {status}\r\nContent-Type: {media_type}\r\nContent-Length: {}\r\n{allow}Connection: close\r\n\r\n",
        body.len()
    );
    let mut out = head.into_bytes();
    if !is_head {
        out.extend(body.as_bytes());
    }
    out
}
