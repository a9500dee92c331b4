//! TCP on this host: sockets around the sequence-number machine of the `tcp` crate, which sees no byte of what it moves.
//!
//! ```text
//!  in   input    header, checksum, demux; Tcb::on_segment says what to keep; the frame itself waits in the receive queue
//!  out  output   Tcb::poll_segment says what leaves; the payload's buffer is lent to the frame that travels
//!  time timers   one wheel for all connections
//!       calls    what the socket layer asks for; bind, who may have which port
//!       memory   what connections may hold, and who goes when it is too much
//! ```
//!
//! A [`Sock`] is a socket: fresh, listening, or a connection. What an application writes is copied once, into the buffers
//! that are sent ([`queue::SendQueue`]); what arrives is copied once, to the reader. Segments of one connection that come
//! in a burst are taken together and answered together, as GRO would have it.

mod bind;
mod calls;
mod charge;
mod connect;
mod counts;
mod error;
mod finish;
mod headers;
mod input;
mod memory;
mod net;
mod options;
mod output;
mod owner;
mod place;
mod predict;
pub mod queue;
mod show;
mod timers;
mod unowned;

pub(crate) use net::Net;

use crate::demux::{Bits, Demux, Ends4, Ends6};
use crate::ends::Domain;
use crate::ready::ReadySet;
use crate::stack::LockUse;
use ::tcp::listen::Listener;
use ::tcp::ports::PortChooser;
use ::tcp::siphash;
use ::tcp::time_wait::TimeWaitTable;
use ::tcp::{Config, Ends, Events, State, Tcb};
use charge::{Charge, MemoryWait, Used};
use clock::{Duration, Instant, Wheel};
use headers::{Headers, Peers};
use lock::{Cx, Guarded, Locks, Signal};
use place::Place;
use queue::{OutOfOrder, RecvQueue, SendQueue};
use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize};
use wire::hash;

pub use crate::ready::SOCK_BIT;
pub use calls::Linger;
pub(crate) use charge::share_of;
pub use error::TcpError;
pub use finish::Unacknowledged;
pub(crate) use input::mss_of;
pub use show::{Memory, Timer};

/// What is set on a socket and outlives, or comes before, its connection.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Options {
    /// Time to live; `None`: the knob's.
    pub ttl: Option<u8>,
    /// Type of service, without the ECN bits.
    pub tos: u8,
    /// The local address and port may be bound while connections of before still use them.
    pub reuse_addr: bool,
    /// Several listeners may have one port.
    pub reuse_port: bool,
    /// May bind any address, ours or not (`IP_BINDANY`, `IP_TRANSPARENT`).
    pub bind_any: bool,
    /// Calls on this socket never wait.
    pub nonblocking: bool,
    /// How long a receive, or an accept, may wait; `None`: for ever.
    pub recv_timeout: Option<Duration>,
    /// How long a send, or a connect, may wait; `None`: for ever.
    pub send_timeout: Option<Duration>,
    /// What `close` does with what is unsent.
    pub linger: Option<Duration>,
    /// `TCP_NODELAY`.
    pub nodelay: bool,
    /// `TCP_NODELAY` was set just now: what waits leaves. Never in what is kept.
    pub flush: bool,
    /// `TCP_CORK`.
    pub cork: bool,
    /// `SO_KEEPALIVE`.
    pub keepalive: bool,
    /// `TCP_KEEPIDLE`.
    pub keep_idle: Option<Duration>,
    /// `TCP_KEEPINTVL`.
    pub keep_interval: Option<Duration>,
    /// `TCP_KEEPCNT`.
    pub keep_count: Option<u8>,
    /// `TCP_USER_TIMEOUT`.
    pub user_timeout: Option<Duration>,
    /// `TCP_MAXSEG`.
    pub maxseg: Option<u16>,
    /// Keepalive or the user timeout was set once: taken back, they must be told so.
    rare_set: bool,
    /// `TCP_CONGESTION`.
    pub congestion: Option<tcp::cc::Algorithm>,
    /// `TCP_NOTSENT_LOWAT`.
    pub notsent_lowat: Option<u32>,
    /// `IPV6_V6ONLY`.
    pub v6only: bool,
    /// `SO_RCVBUF`: fixed, no auto-tuning.
    pub recv_space: Option<u32>,
    /// `SO_SNDBUF`: fixed.
    pub send_space: Option<u32>,
}

impl Options {
    /// Nothing set.
    const NONE: Options = Options {
        ttl: None,
        tos: 0,
        reuse_addr: false,
        reuse_port: false,
        bind_any: false,
        nonblocking: false,
        recv_timeout: None,
        send_timeout: None,
        linger: None,
        nodelay: false,
        flush: false,
        cork: false,
        keepalive: false,
        keep_idle: None,
        keep_interval: None,
        keep_count: None,
        user_timeout: None,
        maxseg: None,
        rare_set: false,
        congestion: None,
        notsent_lowat: None,
        v6only: false,
        recv_space: None,
        send_space: None,
    };
}

impl Default for Options {
    fn default() -> Options {
        Options::NONE
    }
}

/// One TCP socket: with its lock and its place's tag a cache line.
#[derive(Debug)]
pub struct Sock<L: Locks> {
    ends: Ends4,
    pub(crate) kind: Kind,
    rest: Option<Box<Rest<L>>>,
    options: Option<Arc<Options>>,
    error: Option<Failure>,
    /// The process has closed it: it lives on until the connection is over.
    orphan: bool,
    shut_read: bool,
    place: Place,
}

/// The part that few sockets have: receivers of their events, and addresses of IPv6.
#[derive(Debug)]
struct Rest<L: Locks> {
    watch: Option<Arc<ReadySet<L>>>,
    signal: Option<Arc<Signal>>,
    ends6: Ends6,
}

impl<L: Locks> Default for Rest<L> {
    fn default() -> Rest<L> {
        Rest { watch: None, signal: None, ends6: Ends6::default() }
    }
}

/// What has become of a connection, until the next call tells.
#[derive(Clone, Copy, Debug)]
enum Failure {
    Shut,
    Refused,
    Reset,
    TimedOut,
    HostUnreachable,
}

impl From<Failure> for TcpError {
    fn from(failure: Failure) -> TcpError {
        match failure {
            Failure::Shut => TcpError::Shut,
            Failure::Refused => TcpError::Refused,
            Failure::Reset => TcpError::Reset,
            Failure::TimedOut => TcpError::TimedOut,
            Failure::HostUnreachable => TcpError::HostUnreachable,
        }
    }
}

/// What a socket is now.
#[derive(Debug)]
pub(crate) enum Kind {
    /// Neither connected nor listening.
    Fresh,
    /// It listens.
    Listening(Box<Listening>),
    /// It is a connection, or was one.
    Stream(Box<Stream>),
}

/// Configurations of the connections that a listener makes, by their family.
#[derive(Debug)]
pub(crate) struct ListenConfigs {
    four: Arc<Config>,
    six: Arc<Config>,
}

/// A listening socket's own.
#[derive(Debug)]
pub(crate) struct Listening {
    listener: Listener,
    configs: ListenConfigs,
    ready: VecDeque<usize>,
    /// What an accepted connection has of its options.
    inherited: Option<Arc<Options>>,
    armed: Instant,
}

/// A connection.
#[derive(Debug)]
pub(crate) struct Stream {
    tcb: Tcb,
    send: SendQueue,
    recv: RecvQueue,
    ooo: Option<Box<OutOfOrder>>,
    headers: Headers,
    /// What the wheel was told.
    armed: Instant,
    /// Something is to be sent, or the timer to be set, before the lock is given back.
    dirty: bool,
    /// The handshake is done.
    connected: bool,
    /// In the demux.
    found: bool,
    /// The state that was counted last.
    counted: State,
    /// The peer's FIN came: a reset after it is no news to a reader.
    ended: bool,
    /// The host was said to be unreachable, and nothing has come from it since.
    soft: bool,
    /// Whether its writer waits for memory.
    memory_wait: MemoryWait,
    /// When the peer last took something, or there was nothing to take.
    progress: Instant,
    /// The latest time that the connection was told: threads of a shared host do not take turns in the order of their
    /// clocks, and a timestamp that went back would be an old duplicate to the peer (RFC 7323 5.3).
    latest: Instant,
    charge: Charge,
}

impl Stream {
    fn new(tcb: Tcb, charge: Charge) -> Stream {
        Stream {
            tcb,
            send: SendQueue::new(0),
            recv: RecvQueue::new(0),
            ooo: None,
            headers: Headers::default(),
            armed: Instant::NEVER,
            dirty: false,
            connected: false,
            found: false,
            counted: State::Closed,
            ended: false,
            soft: false,
            memory_wait: MemoryWait::No,
            progress: Instant::ZERO,
            latest: Instant::ZERO,
            charge,
        }
    }

    /// All but the connection itself as new, in the place of one that was [retired](Stream::retire).
    #[inline(always)]
    fn renew(&mut self, send_space: u32, now: Instant) {
        let Stream {
            tcb: _,
            send,
            recv: _,
            ooo: _,
            headers,
            armed,
            dirty,
            connected,
            found,
            counted,
            ended,
            soft,
            memory_wait,
            progress,
            latest,
            charge: _,
        } = self;
        send.set_space(send_space);
        (*headers, *armed, *counted) = (Headers::default(), Instant::NEVER, State::Closed);
        (*dirty, *connected, *found, *ended, *soft) = (false, false, false, false, false);
        (*progress, *latest, *memory_wait) = (now, now, MemoryWait::No);
    }

    /// The context at the connection's time.
    #[inline]
    fn on_time(&mut self, cx: Cx) -> Cx {
        self.latest = self.latest.max(cx.now);
        cx.at(self.latest)
    }

    /// Gives back what its queues have grown to, when nothing is in them.
    ///
    /// Called when a timer goes off. Whatever was sent or received set one, which no ACK takes back ([`Stack::tcp_settle`]): so a
    /// connection that has fallen silent comes here once, a retransmission timeout later, and one that is busy hardly ever does.
    fn release_memory(&mut self) {
        if self.send.is_empty() && self.recv.is_empty() {
            self.tcb.release_memory();
            self.send.shrink();
            self.recv.shrink();
        }
    }

    /// Is so much of the send buffer free that a writer should be told?
    #[inline]
    fn has_room(&self) -> bool {
        self.send.is_roomy() && self.tcb.is_unsent_low() && self.memory_wait != MemoryWait::Starved
    }

    /// Is it a connection that is not over? In TIME-WAIT it is (Linux, BSD).
    fn has_peer(&self) -> bool {
        self.connected && !matches!(self.tcb.state(), State::Closed | State::TimeWait)
    }

    /// Has it failed before it was a connection? Then it may be tried again.
    fn is_stillborn(&self) -> bool {
        !self.connected && self.tcb.state() == ::tcp::State::Closed
    }
}

static NO_OPTIONS: Options = Options::NONE;

impl<L: Locks> Sock<L> {
    fn new(kind: Kind, domain: Domain) -> Sock<L> {
        Sock {
            ends: Ends4::default(),
            kind,
            rest: None,
            options: None,
            error: None,
            orphan: false,
            shut_read: false,
            place: Place::new(domain),
        }
    }

    /// Is it bound?
    pub fn is_bound(&self) -> bool {
        self.place.is_bound() || self.ends.local_port.0 != 0
    }

    /// Is it in the demux?
    fn is_found(&self) -> bool {
        match &self.kind {
            Kind::Fresh => false,
            Kind::Listening(_) => true,
            Kind::Stream(stream) => stream.found,
        }
    }

    /// Has it been connected? The connection may be over by now.
    pub fn is_connected(&self) -> bool {
        matches!(&self.kind, Kind::Stream(stream) if stream.connected)
    }

    /// Does it have a peer?
    pub fn has_peer(&self) -> bool {
        matches!(&self.kind, Kind::Stream(stream) if stream.has_peer())
    }

    /// Does `close` have something to linger for: text or FIN that the peer has not acknowledged, and no reset in its place?
    pub fn may_linger(&self) -> bool {
        use ::tcp::State::{Closing, FinWait1, LastAck};
        let Kind::Stream(stream) = &self.kind else { return false };
        let state = stream.tcb.state();
        stream.recv.is_empty() && (state.may_queue() || matches!(state, FinWait1 | Closing | LastAck))
    }

    /// Does it listen?
    pub fn is_listening(&self) -> bool {
        matches!(self.kind, Kind::Listening(_))
    }

    /// Its options.
    pub fn options(&self) -> &Options {
        self.options.as_deref().unwrap_or(&NO_OPTIONS)
    }

    /// The connection, if it is one.
    pub fn tcb(&self) -> Option<&Tcb> {
        match &self.kind {
            Kind::Stream(stream) => Some(&stream.tcb),
            _ => None,
        }
    }

    /// Bytes to be read; bytes written and not acknowledged. For a listener: connections to be accepted, and its backlog.
    pub fn queues(&self) -> (usize, usize) {
        match &self.kind {
            Kind::Stream(stream) => (stream.recv.len(), stream.send.len()),
            Kind::Listening(listening) => (listening.ready.len(), listening.listener.limits().backlog as usize),
            Kind::Fresh => (0, 0),
        }
    }

    /// Would a receive, or an accept, not wait?
    pub fn is_readable(&self) -> bool {
        match &self.kind {
            _ if self.error.is_some() || self.shut_read => true,
            Kind::Stream(stream) => {
                let over = !stream.tcb.state().may_receive() && (stream.connected || stream.is_stillborn());
                !stream.recv.is_empty() || over
            }
            Kind::Listening(listening) => !listening.ready.is_empty(),
            Kind::Fresh => false,
        }
    }

    /// Would a send not wait? A third of the buffer must be free, so that a writer is not woken for each segment.
    pub fn is_writable(&self) -> bool {
        match &self.kind {
            _ if self.error.is_some() => true,
            Kind::Stream(stream) if stream.connected => !stream.tcb.state().may_queue() || stream.has_room(),
            Kind::Stream(stream) => stream.is_stillborn(),
            _ => false,
        }
    }

    /// Does an error wait?
    pub fn has_error(&self) -> bool {
        self.error.is_some()
    }

    /// Takes the error that waits.
    pub fn take_error(&mut self) -> Option<TcpError> {
        self.error.take().map(TcpError::from)
    }

    /// Has the peer sent all it will, or do we read no more?
    pub fn has_peer_closed(&self) -> bool {
        self.shut_read || matches!(&self.kind, Kind::Stream(s) if s.connected && !s.tcb.state().may_receive())
    }

    /// Are both directions at their end?
    pub fn is_hung_up(&self) -> bool {
        let Kind::Stream(stream) = &self.kind else { return false };
        stream.is_stillborn() || self.has_peer_closed() && !stream.tcb.state().may_queue()
    }

    /// Is urgent data announced that was not read?
    pub fn is_urgent(&self) -> bool {
        matches!(&self.kind, Kind::Stream(stream) if stream.tcb.urgent_mark().is_some())
    }

    /// Is the next byte the last urgent one (`sockatmark`)?
    pub fn is_at_mark(&self) -> bool {
        matches!(&self.kind, Kind::Stream(stream) if stream.tcb.urgent_mark() == Some(1))
    }

    /// Something to wait on for this socket.
    pub fn signal(&mut self) -> Arc<Signal> {
        self.rest().signal.get_or_insert_default().clone()
    }

    fn wake(&self, cx: Cx, id: usize) {
        let Some(rest) = &self.rest else { return };
        if let Some(watch) = &rest.watch {
            watch.push(cx, id | SOCK_BIT);
        }
        if let Some(signal) = &rest.signal {
            signal.raise();
        }
    }

    /// What the core has told: errors are kept for the next call, whoever waits is woken.
    fn note(&mut self, cx: Cx, id: usize, events: Events) {
        if events == Events::NONE {
            return;
        }
        let (ended, soft) = match &self.kind {
            Kind::Stream(stream) => (stream.ended && !stream.tcb.has_shut_send(), stream.soft),
            _ => (false, false),
        };
        let error = match events {
            _ if events.contains(Events::RESET) && ended => Some(Failure::Shut), // Linux: CLOSE-WAIT
            _ if events.contains(Events::REFUSED) => Some(Failure::Refused),
            _ if events.contains(Events::RESET) => Some(Failure::Reset),
            // RFC 9293 3.9.2.2: a soft error does not end the connection, but says why it ended.
            _ if events.contains(Events::TIMED_OUT) && soft => Some(Failure::HostUnreachable),
            _ if events.contains(Events::TIMED_OUT) => Some(Failure::TimedOut),
            _ if events.contains(Events::UNREACHABLE) => Some(Failure::HostUnreachable),
            _ => None,
        };
        if error.is_some() {
            self.error = error;
        }
        if let Kind::Stream(stream) = &mut self.kind {
            stream.connected |= events.intersects(Events::CONNECTED | Events::ACCEPTABLE);
            stream.ended |= events.contains(Events::PEER_CLOSED);
            stream.soft |= events.contains(Events::SOFT_ERROR);
        }
        self.wake(cx, id);
    }
}

/// TCP's part of a stack.
pub(crate) struct Tcp<L: Locks> {
    pub(crate) socks: crate::slots::Slots<L, Sock<L>>,
    pub(crate) demux: Demux<L>,
    /// The bound sockets of each L4 port.
    bound: Guarded<L, std::collections::HashMap<u16, Vec<usize>>>,
    /// The listener for every address and port, and one; 0: there is none.
    any_port: AtomicUsize,
    used: Arc<Used>,
    /// Sockets whose writers wait for memory.
    starved: Guarded<L, Vec<usize>>,
    /// Time of the next look for memory for them, in nanoseconds.
    retry_at: AtomicU64,
    reap_at: Guarded<L, Instant>,
    /// What TCP may hold unless the knob says otherwise.
    share: usize,
    late: Guarded<L, TimeWaitTable>,
    wheel: Guarded<L, Wheel>,
    /// The wheel's next time in nanoseconds, of a shared host: written under the wheel's lock and read without it.
    next_timer: AtomicU64,
    ports: Guarded<L, PortChooser>,
    configs: Guarded<L, Configs>,
    /// What is set on sockets.
    options: Guarded<L, Vec<Arc<Options>>>,
    peers: Guarded<L, Peers>,
    /// Places of connections that are over, for the next.
    #[expect(clippy::vec_box, reason = "the boxes are what is kept: a socket takes one as it is")]
    spare: Guarded<L, Vec<Box<Stream>>>,
    secret: siphash::Key,
}

/// The MSS whose configuration is asked for where it makes no difference: Ethernet's.
const BASE_MSS: u16 = 1460;
/// Connections in TIME-WAIT that are remembered.
const TIME_WAIT_LIMIT: u32 = 32_768;

impl<L: Locks> Tcp<L> {
    /// `share`: bytes that it may hold unless the knob says otherwise.
    pub(crate) fn new(demux: hash::Key, secret: siphash::Key, share: usize) -> Tcp<L> {
        Tcp {
            socks: crate::slots::Slots::new(),
            demux: Demux::new(demux),
            bound: Guarded::default(),
            any_port: AtomicUsize::new(0),
            used: Arc::new(Used::new(L::SHARED)),
            starved: Guarded::default(),
            retry_at: AtomicU64::new(Instant::NEVER.nanos()),
            reap_at: Guarded::new(Instant::ZERO),
            share,
            late: Guarded::new(TimeWaitTable::new(TIME_WAIT_LIMIT, secret)),
            wheel: Guarded::new(Wheel::new(Duration::from_millis(1))),
            next_timer: AtomicU64::new(Instant::NEVER.nanos()),
            ports: Guarded::new(PortChooser::new(secret.derive(0x504f_5254), tcp::ports::EPHEMERAL)),
            configs: Guarded::default(),
            options: Guarded::default(),
            peers: Guarded::default(),
            spare: Guarded::default(),
            secret,
        }
    }

    /// How often its locks were taken.
    pub(crate) fn lock_use(&self) -> Vec<LockUse> {
        let (socks, sock_locks) = self.socks.locks();
        let (demux, demux_locks) = self.demux.locks();
        let one = |part, acquisitions| LockUse { part, locks: 1, acquisitions };
        vec![
            LockUse { part: "inet.tcp.demux", locks: demux_locks, acquisitions: demux },
            LockUse { part: "inet.tcp.sock", locks: sock_locks, acquisitions: socks },
            one("inet.tcp.bound", self.bound.acquisitions()),
            one("inet.tcp.starved", self.starved.acquisitions()),
            one("inet.tcp.reap", self.reap_at.acquisitions()),
            one("inet.tcp.timewait", self.late.acquisitions()),
            one("inet.tcp.timers", self.wheel.acquisitions()),
            one("inet.tcp.ports", self.ports.acquisitions()),
            one("inet.tcp.config", self.configs.acquisitions()),
            one("inet.tcp.options", self.options.acquisitions()),
            one("inet.tcp.peers", self.peers.acquisitions()),
            one("inet.tcp.spare", self.spare.acquisitions()),
        ]
    }
}

/// The core's configuration by family and MSS, until a knob changes.
#[derive(Debug, Default)]
struct Configs {
    generation: u64,
    kept: Vec<Arc<Config>>,
}

/// MSSs whose configuration is kept: as many as there are kinds of links.
const CONFIGS_MAX: usize = 16;

/// The ends as the core names them.
#[inline(always)]
fn core_ends<A: Bits>(ends: crate::demux::Ends<A>) -> Ends {
    let (local, remote) = (ends.local.addr().0, ends.remote.addr().0);
    Ends { local, remote, local_port: ends.local_port, remote_port: ends.remote_port }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// With its places in the tables (some 150 bytes) and the allocator's rounding it is to stay below a kilobyte.
    #[test]
    fn a_stream_is_small() {
        assert!(size_of::<Stream>() <= 840, "{} bytes", size_of::<Stream>());
    }
}
