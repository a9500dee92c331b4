//! TCP sockets of this host. They use the state machine of the `tcp` crate (the core), which has no
//! access to the data.
//!
//! ```text
//!  in   input    header, checksum, demux; Tcb::on_segment decides; the frame is queued for reading
//!  out  output   Tcb::poll_segment decides; the frame borrows the payload's buffer
//!  time timers   one timer wheel for all connections
//!       calls    calls of the socket layer; bind: allocation of ports
//!       memory   memory limits of connections, and the connections dropped above them
//! ```
//!
//! A [`Sock`] is a socket: new, listening, or a connection. Written data is copied once, into the
//! buffers that are sent ([`queue::SendQueue`]). Received data is copied once, to the reader.
//! Segments of one connection that arrive in a burst are processed and answered together, as with
//! GRO.

mod bind;
mod calls;
mod charge;
mod connect;
mod counts;
mod error;
mod finish;
mod headers;
mod held;
mod hold;
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
use crate::prefixes::PrefixTable;
use crate::ready::ReadySet;
use crate::requests::Requests;
use crate::stack::LockUse;
use ::tcp::listen::Listener;
use ::tcp::ports::PortChooser;
use ::tcp::siphash;
use ::tcp::time_wait::TimeWaitTable;
use ::tcp::{Config, Ends, Events, State, Tcb};
use charge::{Charge, MemoryWait, Used};
use clock::{Duration, Instant, Wheel};
use headers::{Headers, Peers};
use held::HeldSyn;
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

/// Options of a socket. They may be set before the connection begins, and stay set after it ends.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Options {
    /// Time to live of sent packets; `None` selects the value of the sysctl.
    pub ttl: Option<u8>,
    /// Type of service of sent packets, without the ECN bits.
    pub tos: u8,
    /// Allows binding while earlier connections still use the local address and port.
    pub reuse_addr: bool,
    /// Allows several listeners on one port.
    pub reuse_port: bool,
    /// Allows binding to any address, local or not (`IP_BINDANY`, `IP_TRANSPARENT`).
    pub bind_any: bool,
    /// Calls on this socket never block.
    pub nonblocking: bool,
    /// Maximum time that a receive or accept waits; `None` waits forever.
    pub recv_timeout: Option<Duration>,
    /// Maximum time that a send or connect waits; `None` waits forever.
    pub send_timeout: Option<Duration>,
    /// `SO_LINGER`: maximum time that `close` waits until the peer has acknowledged all data;
    /// `None` if it does not wait. With 0, `close` resets the connection.
    pub linger: Option<Duration>,
    /// `TCP_NODELAY`: sends short segments without waiting (Nagle off).
    pub nodelay: bool,
    /// `TCP_NODELAY` was set in the current call, so queued data is sent. This flag is never
    /// stored.
    pub flush: bool,
    /// `TCP_CORK`: holds back segments that are not full.
    pub cork: bool,
    /// `SO_KEEPALIVE`: probes an idle peer.
    pub keepalive: bool,
    /// `TCP_KEEPIDLE`: idle time before the first probe; `None` selects the sysctl.
    pub keep_idle: Option<Duration>,
    /// `TCP_KEEPINTVL`: time between probes; `None` selects the sysctl.
    pub keep_interval: Option<Duration>,
    /// `TCP_KEEPCNT`: number of unanswered probes after which the connection fails; `None` selects
    /// the sysctl.
    pub keep_count: Option<u8>,
    /// `TCP_USER_TIMEOUT`: maximum time that sent data may stay unacknowledged; `None` selects the
    /// default.
    pub user_timeout: Option<Duration>,
    /// `TCP_MAXSEG`: maximum segment size in bytes.
    pub maxseg: Option<u16>,
    /// True if keepalive or the user timeout was ever set. Unsetting it must then update the
    /// connection.
    rare_set: bool,
    /// `TCP_CONGESTION`: congestion control algorithm.
    pub congestion: Option<tcp::cc::Algorithm>,
    /// `TCP_NOTSENT_LOWAT`: number of unsent bytes below which the socket is writable.
    pub notsent_lowat: Option<u32>,
    /// `IPV6_V6ONLY`: the socket accepts no IPv4 connections.
    pub v6only: bool,
    /// `SO_RCVBUF`: fixed size of the receive buffer in bytes, without auto-tuning.
    pub recv_space: Option<u32>,
    /// `SO_SNDBUF`: fixed size of the send buffer in bytes, without auto-tuning.
    pub send_space: Option<u32>,
}

impl Options {
    /// Default options, with none set.
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

/// A TCP socket. Together with its lock and the tag of its slot, it fits into a cache line.
#[derive(Debug)]
pub struct Sock<L: Locks> {
    ends: Ends4,
    pub(crate) kind: Kind,
    rest: Option<Box<Rest<L>>>,
    options: Option<Arc<Options>>,
    error: Option<Failure>,
    /// True if the process has closed the socket. The socket exists until its connection ends.
    orphan: bool,
    shut_read: bool,
    place: Place,
}

/// State that few sockets need: the poller and the signal that are notified of events, and IPv6
/// addresses.
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

/// Failure of a connection, stored until the next call returns it.
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

/// State of a socket.
#[derive(Debug)]
pub(crate) enum Kind {
    /// The socket is neither connected nor listening.
    Fresh,
    Listening(Box<Listening>),
    /// The socket has a connection, which may have ended.
    Stream(Box<Stream>),
}

/// Configurations for the connections that a listener accepts, by family.
#[derive(Debug)]
pub(crate) struct ListenConfigs {
    four: Arc<Config>,
    six: Arc<Config>,
}

/// State of a listening socket.
#[derive(Debug)]
pub(crate) struct Listening {
    listener: Listener,
    configs: ListenConfigs,
    ready: VecDeque<usize>,
    /// Options that accepted connections inherit.
    inherited: Option<Arc<Options>>,
    /// SYNs that wait for a decision of the application; `None` if SYNs are answered at once.
    held: Option<Box<Requests<HeldSyn>>>,
    armed: Instant,
}

/// State of a connection.
#[derive(Debug)]
pub(crate) struct Stream {
    tcb: Tcb,
    send: SendQueue,
    recv: RecvQueue,
    ooo: Option<Box<OutOfOrder>>,
    headers: Headers,
    /// Time at which this connection's entry in the timer wheel expires.
    armed: Instant,
    /// Set if a segment must be sent or a timer must be set before the socket's lock is released.
    dirty: bool,
    /// True if the handshake is complete.
    connected: bool,
    /// True if the connection has an entry in the demux.
    found: bool,
    /// True if a thread is about to remove the socket.
    freed: bool,
    /// State in which the connection was last counted.
    counted: State,
    /// True if the peer's FIN has arrived. A reset after the FIN is not reported to a reader.
    ended: bool,
    /// True if a host unreachable error was received, and no segment since then.
    has_soft_error: bool,
    /// Set while the writer waits for memory.
    memory_wait: MemoryWait,
    /// Time at which the peer last accepted data, or at which data or a FIN was queued while no
    /// other data was queued, whichever is later.
    last_progress: Instant,
    /// Latest time that was passed to the connection. The clocks of a shared host's threads are
    /// read in no fixed order. If a timestamp decreased, the peer would treat the segment as an old
    /// duplicate (RFC 7323 5.3).
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
            freed: false,
            counted: State::Closed,
            ended: false,
            has_soft_error: false,
            memory_wait: MemoryWait::No,
            last_progress: Instant::ZERO,
            latest: Instant::ZERO,
            charge,
        }
    }

    /// Resets everything except the connection itself, when the memory of an ended connection is
    /// reused.
    #[cfg_attr(not(debug_assertions), inline(always))]
    fn reinit(&mut self, send_space: u32, now: Instant) {
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
            freed,
            counted,
            ended,
            has_soft_error,
            memory_wait,
            last_progress,
            latest,
            charge: _,
        } = self;
        send.set_space(send_space);
        (*headers, *armed, *counted) = (Headers::default(), Instant::NEVER, State::Closed);
        (*dirty, *connected, *found, *freed, *ended, *has_soft_error) = (false, false, false, false, false, false);
        (*last_progress, *latest, *memory_wait) = (now, now, MemoryWait::No);
    }

    /// Returns `cx` with a time that is not before any time passed to the connection earlier.
    #[inline]
    fn on_time(&mut self, cx: Cx) -> Cx {
        self.latest = self.latest.max(cx.now);
        cx.at(self.latest)
    }

    /// Frees memory of empty queues.
    ///
    /// Called when a timer expires. Every segment sent or received sets a timer, which no ACK
    /// cancels ([`Stack::tcp_output`]). The timer of an idle connection therefore expires once, one
    /// retransmission timeout after the last segment. The timer of a busy connection hardly ever
    /// expires.
    fn release_memory(&mut self) {
        if self.send.is_empty() && self.recv.is_empty() {
            self.tcb.release_memory();
            self.send.shrink();
            self.recv.shrink();
        }
    }

    /// Returns whether a writer can be notified: enough of the send buffer is free, little data is
    /// unsent, and the writer does not wait for memory.
    #[inline]
    fn has_room(&self) -> bool {
        self.send.is_roomy() && self.tcb.is_unsent_low() && self.memory_wait != MemoryWait::Starved
    }

    /// Returns whether the connection has a peer: it was opened and has not ended. As in Linux and
    /// BSD, a connection in TIME-WAIT has ended.
    fn has_peer(&self) -> bool {
        self.connected && !matches!(self.tcb.state(), State::Closed | State::TimeWait)
    }

    /// Returns whether the connection failed before it was established. The socket may then connect
    /// again.
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

    /// Returns whether the socket is bound.
    pub fn is_bound(&self) -> bool {
        self.place.is_bound() || self.ends.local_port.0 != 0
    }

    /// Returns whether the socket has an entry in the demux.
    fn is_found(&self) -> bool {
        match &self.kind {
            Kind::Fresh => false,
            Kind::Listening(_) => true,
            Kind::Stream(stream) => stream.found,
        }
    }

    /// Returns whether the connection is in TIME-WAIT and its record is in the table of such
    /// connections.
    fn is_late(&self) -> bool {
        matches!(&self.kind, Kind::Stream(stream) if !stream.found && stream.tcb.state() == State::TimeWait)
    }

    /// Returns whether the socket was connected. The connection may have ended.
    pub fn is_connected(&self) -> bool {
        matches!(&self.kind, Kind::Stream(stream) if stream.connected)
    }

    /// Returns whether the socket has a peer.
    pub fn has_peer(&self) -> bool {
        matches!(&self.kind, Kind::Stream(stream) if stream.has_peer())
    }

    /// Returns whether `close` may linger: the peer still has to acknowledge data or the FIN, and
    /// `close` would not send a reset.
    pub fn may_linger(&self) -> bool {
        use ::tcp::State::{Closing, FinWait1, LastAck};
        let Kind::Stream(stream) = &self.kind else { return false };
        let state = stream.tcb.state();
        stream.recv.is_empty() && (state.may_queue() || matches!(state, FinWait1 | Closing | LastAck))
    }

    /// Returns whether the socket is listening.
    pub fn is_listening(&self) -> bool {
        matches!(self.kind, Kind::Listening(_))
    }

    /// Returns the options.
    pub fn options(&self) -> &Options {
        self.options.as_deref().unwrap_or(&NO_OPTIONS)
    }

    /// Returns the connection, if there is one.
    pub fn tcb(&self) -> Option<&Tcb> {
        match &self.kind {
            Kind::Stream(stream) => Some(&stream.tcb),
            _ => None,
        }
    }

    /// Returns the number of bytes that can be read, and the number of bytes that are written but
    /// not acknowledged. For a listener, returns the number of connections that can be accepted,
    /// and the backlog.
    pub fn queues(&self) -> (usize, usize) {
        match &self.kind {
            Kind::Stream(stream) => (stream.recv.len(), stream.send.len()),
            Kind::Listening(listening) => (listening.ready.len(), listening.listener.limits().backlog as usize),
            Kind::Fresh => (0, 0),
        }
    }

    /// Returns whether a receive or accept would not block.
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

    /// Returns whether a send would not block. A third of the buffer must be free, so that a writer
    /// is not woken for each segment.
    pub fn is_writable(&self) -> bool {
        match &self.kind {
            _ if self.error.is_some() => true,
            Kind::Stream(stream) if stream.connected => !stream.tcb.state().may_queue() || stream.has_room(),
            Kind::Stream(stream) => stream.is_stillborn(),
            _ => false,
        }
    }

    /// Returns whether an error is pending.
    pub fn has_error(&self) -> bool {
        self.error.is_some()
    }

    /// Removes and returns the pending error.
    pub fn take_error(&mut self) -> Option<TcpError> {
        self.error.take().map(TcpError::from)
    }

    /// Returns whether the peer has closed its sending side, or the socket is shut down for
    /// reading.
    pub fn has_peer_closed(&self) -> bool {
        self.shut_read || matches!(&self.kind, Kind::Stream(s) if s.connected && !s.tcb.state().may_receive())
    }

    /// Returns whether both directions have ended.
    pub fn is_hung_up(&self) -> bool {
        let Kind::Stream(stream) = &self.kind else { return false };
        stream.is_stillborn() || self.has_peer_closed() && !stream.tcb.state().may_queue()
    }

    /// Returns whether urgent data was announced and has not been read yet.
    pub fn is_urgent(&self) -> bool {
        matches!(&self.kind, Kind::Stream(stream) if stream.tcb.urgent_mark().is_some())
    }

    /// Returns whether the next byte is the last urgent one (`sockatmark`).
    pub fn is_at_mark(&self) -> bool {
        matches!(&self.kind, Kind::Stream(stream) if stream.tcb.urgent_mark() == Some(1))
    }

    /// Returns the signal that is raised at events of this socket.
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

    /// Processes the events that the core returned: stores an error for the next call, and wakes
    /// waiting threads.
    fn note(&mut self, cx: Cx, id: usize, events: Events) {
        if events == Events::NONE {
            return;
        }
        let (ended, has_soft_error) = match &self.kind {
            Kind::Stream(stream) => (stream.ended && !stream.tcb.has_shut_send(), stream.has_soft_error),
            _ => (false, false),
        };
        let error = match events {
            _ if events.contains(Events::RESET) && ended => Some(Failure::Shut), // as Linux in CLOSE-WAIT
            _ if events.contains(Events::REFUSED) => Some(Failure::Refused),
            _ if events.contains(Events::RESET) => Some(Failure::Reset),
            // RFC 9293 3.9.2.2: a soft error does not end the connection, but is reported as the
            // reason if the connection times out.
            _ if events.contains(Events::TIMED_OUT) && has_soft_error => Some(Failure::HostUnreachable),
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
            stream.has_soft_error |= events.contains(Events::SOFT_ERROR);
        }
        self.wake(cx, id);
    }
}

/// TCP state of a stack.
pub(crate) struct Tcp<L: Locks> {
    pub(crate) socks: crate::slots::Slots<L, Sock<L>>,
    pub(crate) demux: Demux<L>,
    /// Sockets bound to each L4 port.
    bound: Guarded<L, std::collections::HashMap<u16, Vec<usize>>>,
    /// Sockets that listen on all ports, by the prefix of the addresses.
    any_port: Guarded<L, PrefixTable<usize>>,
    /// Number of sockets in `any_port`.
    any_port_count: AtomicUsize,
    used: Arc<Used>,
    /// Sockets whose writers wait for memory.
    starved: Guarded<L, Vec<usize>>,
    /// Time of the next check for free memory, in nanoseconds.
    retry_at: AtomicU64,
    reap_at: Guarded<L, Instant>,
    /// Memory limit of TCP in bytes, which applies while the sysctl `net.inet.tcp.memlimit` is 0.
    share: usize,
    late: Guarded<L, TimeWaitTable>,
    wheel: Guarded<L, Wheel>,
    /// Time in nanoseconds at which the timer wheel of a shared host expires next. It is written
    /// under the wheel's lock and read without it.
    next_timer: AtomicU64,
    ports: Guarded<L, PortChooser>,
    configs: Guarded<L, Configs>,
    /// Option sets that sockets share.
    options: Guarded<L, Vec<Arc<Options>>>,
    peers: Guarded<L, Peers>,
    /// Memory of ended connections, for reuse.
    #[expect(clippy::vec_box, reason = "the boxes are what is kept: a socket takes one as it is")]
    spare: Guarded<L, Vec<Box<Stream>>>,
    secret: siphash::Key,
}

/// MSS of Ethernet in bytes, used for a configuration whose MSS does not matter.
const BASE_MSS: u16 = 1460;
/// Maximum number of connections in TIME-WAIT.
const TIME_WAIT_LIMIT: u32 = 32_768;

impl<L: Locks> Tcp<L> {
    /// Creates the TCP state. `share` is the memory limit in bytes that applies while the sysctl
    /// `net.inet.tcp.memlimit` is 0.
    pub(crate) fn new(demux: hash::Key, secret: siphash::Key, share: usize) -> Tcp<L> {
        Tcp {
            socks: crate::slots::Slots::new(),
            demux: Demux::new(demux),
            bound: Guarded::default(),
            any_port: Guarded::default(),
            any_port_count: AtomicUsize::new(0),
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

    /// Returns the lock statistics.
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

/// Configurations of the core by family and MSS. They are valid until a sysctl changes.
#[derive(Debug, Default)]
struct Configs {
    generation: u64,
    kept: Vec<Arc<Config>>,
}

/// Maximum number of MSS values for which a configuration is stored. It is sufficient for all kinds
/// of links.
const CONFIGS_MAX: usize = 16;

/// Converts addresses and ports to the core's type.
#[inline(always)]
fn core_ends<A: Bits>(ends: crate::demux::Ends<A>) -> Ends {
    let (local, remote) = (ends.local.addr().0, ends.remote.addr().0);
    Ends { local, remote, local_port: ends.local_port, remote_port: ends.remote_port }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A stream, its entries in the tables (about 150 bytes) and the allocator's rounding must stay
    /// below one kilobyte together.
    #[test]
    fn a_stream_is_small() {
        assert!(size_of::<Stream>() <= 840, "{} bytes", size_of::<Stream>());
    }
}
