//! The listener and the stream of a routing engine.

use super::FpmCounts;
use super::config::FpmConfig;
use super::engine::Engine;
use super::paths::Links;
use super::status::{FpmStatus, NextHopStatus};
use super::tables::Tables;
use clock::{Clock, Duration, Instant};
use inet::Stack;
use inet::fib::{Prefix, Prefix6};
use inet::route::{ObjectId, Protocol};
use lock::{Cx, How, Locks};
use port::os::event::Event;
use stats::Entry;
use std::collections::BTreeMap;
use std::io::{self, ErrorKind, Read};
use std::net::{IpAddr, SocketAddr, TcpListener, TcpStream};
use std::os::fd::{AsFd, BorrowedFd};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;
use wire::fpm::{FpmError, whole_frames};

/// Size of the buffer for the stream, at least two frames.
const CHUNK: usize = 128 * 1024;
/// Limit of bytes that were read and not yet applied; above it, nothing is read. 64 MB are almost
/// the whole table of the Internet. Tests use a lower limit.
pub(super) const QUEUED_MAX: u64 = if cfg!(test) { 4 << 20 } else { 64 << 20 };
/// Maximum number of frames that are applied under one lock of the tables.
const AT_ONCE: usize = 32;
/// Time after which a pause of the stream shows that the engine has announced all routes. `zebra`
/// itself pauses for a second each time its buffer is full.
const PAUSE: Duration = Duration::from_millis(1500);
/// Interval at which the thread checks for an error of the listener.
const TICK: Duration = Duration::from_secs(1);
/// Time to wait if the queue is full, or if no descriptor is available.
const LATER: Duration = Duration::from_millis(1);

/// Message of the reading thread to the thread of the host.
enum Received {
    Connected(SocketAddr),
    /// Whole frames.
    Frames(Vec<u8>),
    /// End of the connection, with the reason if the stream was invalid.
    Ended(Option<FpmError>),
}

/// Host whose tables are changed, as its thread has it.
pub(crate) struct Target<'h, L: Locks> {
    pub(crate) stack: &'h Stack<L>,
    pub(crate) clock: &'h Clock,
    pub(crate) how: How,
    pub(crate) links: Links,
}

impl<L: Locks> Target<'_, L> {
    fn cx(&self) -> Cx {
        Cx::enter(self.how, self.clock.now())
    }
}

/// State that both threads use.
#[derive(Debug)]
struct Shared {
    /// Raised when something was received.
    received: Event,
    /// Raised when the thread is to end.
    stop: Event,
    /// Set while there may be something to apply.
    is_pending: AtomicBool,
    /// Number of bytes that were read and not yet applied.
    queued: AtomicU64,
    refused: AtomicU64,
    /// Time in nanoseconds at which stale routes are removed; `u64::MAX` if there are none.
    due: AtomicU64,
}

/// Server to which a routing engine connects. One engine can be connected at a time.
#[derive(Debug)]
pub struct FpmServer {
    address: SocketAddr,
    shared: Arc<Shared>,
    state: Mutex<State>,
    thread: Option<JoinHandle<()>>,
}

#[derive(Debug)]
struct State {
    engine: Engine,
    received: Receiver<Received>,
    /// Ifaces of the host when the engine was last served.
    links: Links,
    /// Frames that are being applied, and the number of bytes applied.
    chunk: Option<(Vec<u8>, usize)>,
    peer: Option<SocketAddr>,
    since: Instant,
    last_frame: Option<Instant>,
    resync: Option<Duration>,
    /// Messages for the user that were not yet reported.
    notices: Vec<String>,
}

impl std::fmt::Debug for Received {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Received::Connected(peer) => write!(f, "Connected({peer})"),
            Received::Frames(frames) => write!(f, "Frames({} bytes)", frames.len()),
            Received::Ended(why) => write!(f, "Ended({why:?})"),
        }
    }
}

impl FpmServer {
    /// Listens at `address`, and reads the stream of an engine in a thread of its own.
    ///
    /// # Errors
    /// Returns errors of the system: the address is in use, or no thread or descriptor is
    /// available.
    pub(crate) fn new(address: SocketAddr, config: FpmConfig, now: Instant) -> io::Result<FpmServer> {
        let listener = TcpListener::bind(address)?;
        listener.set_nonblocking(true)?;
        let address = listener.local_addr()?; // the port may have been 0
        let shared = Arc::new(Shared {
            received: Event::new()?,
            stop: Event::new()?,
            is_pending: AtomicBool::new(false),
            queued: AtomicU64::new(0),
            refused: AtomicU64::new(0),
            due: AtomicU64::new(u64::MAX),
        });
        let (send, received) = channel();
        let mut reading = Reading { listener, shared: shared.clone(), send, stream: None, bytes: Vec::new() };
        let thread = dispatch::spawn_worker("fpm", None, move |_| while reading.round() {})?;
        let state = State {
            engine: Engine::new(config),
            received,
            links: Links::new(),
            chunk: None,
            peer: None,
            since: now,
            last_frame: None,
            resync: None,
            notices: Vec::new(),
        };
        Ok(FpmServer { address, shared, state: Mutex::new(state), thread: Some(thread) })
    }

    /// Returns the address at which the server listens.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Returns the descriptor that is readable when [`FpmServer::serve`] has work.
    pub(crate) fn fd(&self) -> BorrowedFd<'_> {
        self.shared.received.fd()
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns the time at which stale routes are removed, [`Instant::NEVER`] if there are none.
    #[inline]
    pub(crate) fn due(&self) -> Instant {
        Instant::from_nanos(self.shared.due.load(Ordering::Relaxed))
    }

    /// Returns whether something was received that is not yet applied.
    #[inline]
    pub(crate) fn is_pending(&self) -> bool {
        self.shared.is_pending.load(Ordering::Acquire)
    }

    /// Applies what was received, for about `most`. Calls `notice` with a message when an engine
    /// connects or disconnects. Returns the number of applied frames.
    pub(crate) fn serve<L: Locks>(
        &self,
        host: &Target<'_, L>,
        most: Duration,
        notice: &mut dyn FnMut(String),
    ) -> usize {
        let began = host.clock.now();
        let mut state = self.state();
        self.shared.received.clear();
        let before = state.engine.counts.frames.get();
        let is_new = state.links != host.links;
        state.links.clone_from(&host.links);
        host.stack.change_routes(host.cx(), |v4, v6| {
            let has_forgotten = [v4.take_forgotten(), v6.take_forgotten()].contains(&true);
            let mut tables = Tables { v4, v6, links: &host.links, now: began };
            ((is_new || has_forgotten) && state.engine.relink(&mut tables), ())
        });
        while self.turn(&mut state, host) && host.clock.now().since(began) < most {}
        let due = state.engine.due().map_or(u64::MAX, Instant::nanos);
        self.shared.due.store(due, Ordering::Relaxed);
        state.notices.drain(..).for_each(|text| notice(format!("{}: {text}", host.stack.name)));
        (state.engine.counts.frames.get() - before) as usize
    }

    /// Applies some frames, or takes the next part of the stream. Returns `false` if there is
    /// nothing to do.
    fn turn<L: Locks>(&self, state: &mut State, host: &Target<'_, L>) -> bool {
        let (cx, links) = (host.cx(), &host.links);
        let State { engine, chunk, .. } = state;
        let is_due = engine.due().is_some_and(|due| due <= cx.now);
        if let Some((bytes, done)) = chunk {
            let rest = bytes.get(*done..).unwrap_or_default();
            let used = host.stack.change_routes(cx, |v4, v6| {
                let mut tables = Tables { v4, v6, links, now: cx.now };
                let (used, has_changed) = engine.apply(rest, AT_ONCE, &mut tables);
                let has_swept = is_due && engine.turn(&mut tables);
                (has_changed || has_swept, used)
            });
            *done += used;
            self.shared.queued.fetch_sub(used as u64, Ordering::Relaxed);
            state.last_frame = Some(cx.now);
            if used == 0 || state.chunk.as_ref().is_some_and(|(bytes, done)| *done >= bytes.len()) {
                state.chunk = None;
            }
            return true;
        }
        match state.received.try_recv() {
            Ok(received) => {
                self.take(state, received, host);
                true
            }
            Err(_) => {
                // What arrives after this sets it again.
                let was_pending = self.shared.is_pending.swap(false, Ordering::AcqRel);
                if is_due {
                    host.stack.change_routes(cx, |v4, v6| {
                        (state.engine.turn(&mut Tables { v4, v6, links, now: cx.now }), ())
                    });
                }
                was_pending || is_due
            }
        }
    }

    fn take<L: Locks>(&self, state: &mut State, received: Received, host: &Target<'_, L>) {
        let (cx, links) = (host.cx(), &host.links);
        match received {
            Received::Connected(peer) => {
                state.engine.counts.accepted.bump();
                (state.peer, state.since, state.last_frame, state.resync) = (Some(peer), cx.now, None, None);
                let engine = &mut state.engine;
                host.stack
                    .change_routes(cx, |v4, v6| (true, engine.connect(&mut Tables { v4, v6, links, now: cx.now })));
                state.notices.push(format!("routing engine connected from {peer}"));
            }
            Received::Frames(bytes) => {
                state.note_pause(cx.now);
                state.chunk = Some((bytes, 0));
            }
            Received::Ended(why) => {
                let stale = state.engine.disconnect(cx.now);
                (state.peer, state.since) = (None, cx.now);
                let why = why.map_or(String::new(), |why| {
                    state.engine.counts.not_fpm.bump();
                    format!(": {why}")
                });
                let stale = stale.as_secs();
                state.notices.push(format!("routing engine disconnected{why}; its routes stay for {stale} s"));
            }
        }
    }

    /// Returns the counters, with their names and descriptions.
    pub fn counters(&self) -> Vec<Entry> {
        let state = self.state();
        let refused = self.shared.refused.load(Ordering::Relaxed);
        let counts: &FpmCounts = &state.engine.counts;
        counts.refused.add(refused - counts.refused.get());
        stats::entries(counts)
    }

    /// Returns the state of the connection and its routes.
    pub(crate) fn status<L: Locks>(&self, host: &Target<'_, L>) -> FpmStatus {
        let mut state = self.state();
        let cx = host.cx();
        state.note_pause(cx.now);
        let seconds = |at: Instant| at.nanos() as f64 / 1e9;
        let generation = if state.engine.is_connected() { state.engine.generation() } else { 0 };
        let (routes, current, diverted, shadowed) = host.stack.change_routes(cx, |v4, v6| {
            let mut routes: BTreeMap<Protocol, [u32; 2]> = BTreeMap::new();
            for (protocol, count) in v4.learned_by_protocol() {
                routes.entry(protocol).or_default()[0] = count;
            }
            for (protocol, count) in v6.learned_by_protocol() {
                routes.entry(protocol).or_default()[1] = count;
            }
            let current = v4.learned_by(generation) + v6.learned_by(generation);
            (false, (routes, current, v4.diverted() + v6.diverted(), [v4.shadowed().count(), v6.shadowed().count()]))
        });
        let all: u32 = routes.values().flatten().sum();
        FpmStatus {
            listen: self.address,
            peer: state.peer,
            since: seconds(state.since),
            last_frame: state.last_frame.map(seconds),
            resync_s: state.resync.map(|time| time.as_secs_f64()),
            queued: self.shared.queued.load(Ordering::Relaxed),
            routes: routes.into_iter().collect(),
            stale: all - current,
            waiting: state.engine.waiting(),
            next_hops: state.engine.next_hops(),
            diverted,
            shadowed,
        }
    }

    /// Returns whether a route of connection `generation` is stale.
    pub(crate) fn is_stale(&self, generation: u8) -> bool {
        let state = self.state();
        !state.engine.is_connected() || state.engine.generation() != generation
    }

    /// Returns the number that the engine gave the next hop of the route to the first `len` bits of
    /// `dst`; `None` if the route has its next hop itself, or if the number has ended.
    pub(crate) fn next_hop_of<L: Locks>(&self, host: &Target<'_, L>, dst: IpAddr, len: u8) -> Option<u32> {
        let objects = self.state().engine.objects();
        let (object, object6) = host.stack.change_routes(host.cx(), |v4, v6| {
            let both = match dst {
                IpAddr::V4(dst) => (v4.object_at(Prefix::masked(dst.to_bits(), len)), None),
                IpAddr::V6(dst) => (None, v6.object_at(Prefix6::masked(dst.to_bits(), len))),
            };
            (false, both)
        });
        let is_it = |of: &(Option<ObjectId>, Option<ObjectId>)| {
            object.is_some() && of.0 == object || object6.is_some() && of.1 == object6
        };
        objects.into_iter().find(|(_, of)| is_it(of)).map(|(id, _)| id)
    }

    /// Returns the next hops that routes use, ordered by number.
    pub(crate) fn next_hops<L: Locks>(&self, host: &Target<'_, L>) -> Vec<NextHopStatus> {
        let objects = self.state().engine.objects();
        host.stack.change_routes(host.cx(), |v4, v6| {
            let of = |(id, (object, object6)): (u32, (Option<_>, Option<_>))| NextHopStatus {
                id,
                v4: object.map(|object| v4.object_paths(object).to_vec()),
                v6: object6.map(|object| v6.object_paths(object).to_vec()),
                uses: object.map_or(0, |object| v4.object_uses(object))
                    + object6.map_or(0, |object| v6.object_uses(object)),
            };
            (false, objects.into_iter().map(of).collect())
        })
    }
}

impl State {
    /// Notes the end of the first announcement of all routes, if the stream pauses after it.
    fn note_pause(&mut self, now: Instant) {
        if let Some(last) = self.last_frame
            && self.resync.is_none()
            && self.peer.is_some()
            && now.since(last) > PAUSE
        {
            self.resync = Some(last.since(self.since));
        }
    }
}

impl Drop for FpmServer {
    fn drop(&mut self) {
        self.shared.stop.raise();
        if let Some(thread) = self.thread.take() {
            let _ = thread.join(); // a panic of the thread was already reported
        }
    }
}

/// State of the reading thread.
struct Reading {
    listener: TcpListener,
    shared: Arc<Shared>,
    send: Sender<Received>,
    stream: Option<TcpStream>,
    /// Bytes at the front of the stream that are no whole frame yet.
    bytes: Vec<u8>,
}

impl Reading {
    /// Waits for the stream or the listener, and reads. Returns `false` at the end.
    fn round(&mut self) -> bool {
        let mut fds = vec![self.shared.stop.fd(), self.listener.as_fd()];
        fds.extend(self.stream.as_ref().map(AsFd::as_fd));
        let _ = dispatch::wait_readable(&fds, Some(TICK)); // fails only without memory: look again
        if self.shared.stop.clear() {
            return false;
        }
        // The end of one connection is read before the next one is accepted.
        self.read() && self.accept()
    }

    fn accept(&mut self) -> bool {
        match self.listener.accept() {
            Ok((stream, peer)) if self.stream.is_none() => {
                if stream.set_nonblocking(true).is_err() {
                    return true;
                }
                self.bytes.clear();
                self.stream = Some(stream);
                self.pass(Received::Connected(peer))
            }
            // A second engine would announce other routes to the same prefixes.
            Ok(_) => {
                self.shared.refused.fetch_add(1, Ordering::Relaxed);
                true
            }
            Err(why) => {
                if why.kind() != ErrorKind::WouldBlock {
                    // Too many descriptors are open: the listener stays readable.
                    let _ = dispatch::wait_readable(&[self.shared.stop.fd()], Some(LATER));
                }
                true
            }
        }
    }

    /// Reads the stream until it is empty, and passes on the whole frames.
    fn read(&mut self) -> bool {
        while let Some(stream) = &mut self.stream {
            let have = self.bytes.len();
            self.bytes.resize(CHUNK, 0);
            let read = stream.read(self.bytes.get_mut(have..).unwrap_or_default());
            self.bytes.truncate(have + read.as_ref().map_or(0, |read| *read));
            match read {
                Ok(0) => return self.end(None),
                Ok(_) => {}
                Err(why) if why.kind() == ErrorKind::WouldBlock => return true,
                Err(why) if why.kind() == ErrorKind::Interrupted => {}
                Err(_) => return self.end(None),
            }
            let (whole, error) = match whole_frames(&self.bytes) {
                Ok(whole) => (whole, None),
                Err((whole, why)) => (whole, Some(why)),
            };
            if whole > 0 {
                // A chunk in the queue takes no more memory than its frames.
                let frames: Vec<u8> = self.bytes.drain(..whole).collect();
                if !self.pass(Received::Frames(frames)) {
                    return false;
                }
            }
            if error.is_some() {
                return self.end(error);
            }
        }
        true
    }

    fn end(&mut self, why: Option<FpmError>) -> bool {
        self.stream = None;
        self.pass(Received::Ended(why))
    }

    /// Passes something to the thread of the host; waits first while its queue is full. Returns
    /// `false` if the thread is to end.
    fn pass(&self, received: Received) -> bool {
        while self.shared.queued.load(Ordering::Relaxed) > QUEUED_MAX {
            let stop = dispatch::wait_readable(&[self.shared.stop.fd()], Some(LATER));
            if stop.is_ok_and(|readable| readable.contains(&true)) {
                return false;
            }
        }
        if let Received::Frames(frames) = &received {
            self.shared.queued.fetch_add(frames.len() as u64, Ordering::Relaxed);
        }
        if self.send.send(received).is_err() {
            return false;
        }
        self.shared.is_pending.store(true, Ordering::Release);
        self.shared.received.raise();
        true
    }
}
