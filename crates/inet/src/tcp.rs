//! TCP on this host: sockets around the sequence-number machine of the `tcp` crate, which sees no byte of what it moves.
//!
//! ```text
//!  in   input    header, checksum, demux; Tcb::on_segment says what to keep; the frame itself waits in the receive queue
//!  out  output   Tcb::poll_segment says what leaves; the payload's buffer is lent to the frame that travels
//!  time timers   one wheel for all connections
//!       calls    what the socket layer asks for
//! ```
//!
//! A [`Sock`] is a socket: fresh, listening, or a connection. What an application writes is copied once, into the buffers
//! that are sent ([`queue::SendQueue`]); what arrives is copied once, to the reader. Segments of one connection that come
//! in a burst are taken together and answered together, as GRO would have it.

mod calls;
mod input;
mod output;
pub mod queue;
mod timers;

use crate::demux::{Demux, Ends4, Tuple};
use crate::hash;
use crate::udp::ReadySet;
use ::tcp::listen::Listener;
use ::tcp::ports::PortChooser;
use ::tcp::siphash;
use ::tcp::time_wait::TimeWaitTable;
use ::tcp::{Config, Ends, Events, Tcb};
use clock::{Duration, Instant, Wheel};
use lock::{Cx, Guarded, Locks, Signal};
use output::Headers;
use queue::{OutOfOrder, RecvQueue, SendQueue};
use std::collections::VecDeque;
use std::sync::Arc;

pub use calls::{Linger, TcpError};
pub(crate) use input::mss_of;

/// What is set on a socket and outlives, or comes before, its connection.
#[derive(Clone, Debug)]
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
    /// `TCP_CONGESTION`.
    pub congestion: Option<tcp::cc::Algorithm>,
    /// `SO_RCVBUF`: fixed, no auto-tuning.
    pub recv_space: Option<u32>,
    /// `SO_SNDBUF`: fixed.
    pub send_space: Option<u32>,
}

impl Default for Options {
    fn default() -> Options {
        Options {
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
            cork: false,
            keepalive: false,
            keep_idle: None,
            keep_interval: None,
            keep_count: None,
            user_timeout: None,
            maxseg: None,
            congestion: None,
            recv_space: None,
            send_space: None,
        }
    }
}

/// One TCP socket.
#[derive(Debug)]
pub struct Sock<L: Locks> {
    pub(crate) ends: Ends4,
    pub(crate) kind: Kind,
    watch: Option<Arc<ReadySet<L>>>,
    signal: Option<Arc<Signal>>,
    error: Option<TcpError>,
    /// The process has closed it: it lives on until the connection is over.
    orphan: bool,
    shut_read: bool,
    /// In the table of L4 ports, and in the demux.
    bound: bool,
    found: bool,
    options: Option<Box<Options>>, // made when one is set
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

/// A listening socket's own.
#[derive(Debug)]
pub(crate) struct Listening {
    listener: Listener,
    config: Arc<Config>,
    /// What the ifaces take: `TCP_MAXSEG` goes below it.
    mss: u16,
    ready: VecDeque<usize>,
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
}

impl Stream {
    fn new(tcb: Tcb, send_space: u32, recv_offset: u64) -> Stream {
        Stream {
            tcb,
            send: SendQueue::new(send_space),
            recv: RecvQueue::new(recv_offset),
            ooo: None,
            headers: Headers::default(),
            armed: Instant::NEVER,
            dirty: false,
            connected: false,
        }
    }
}

static NO_OPTIONS: std::sync::LazyLock<Options> = std::sync::LazyLock::new(Options::default);

impl<L: Locks> Sock<L> {
    fn new(kind: Kind) -> Sock<L> {
        Sock {
            ends: Ends4::default(),
            kind,
            watch: None,
            signal: None,
            error: None,
            orphan: false,
            shut_read: false,
            bound: false,
            found: false,
            options: None,
        }
    }

    /// Where it is bound and connected.
    pub fn tuple(&self) -> Tuple {
        self.ends.into()
    }

    /// Is it bound?
    pub fn is_bound(&self) -> bool {
        self.ends.local_port.0 != 0
    }

    /// Does it have a peer?
    pub fn is_connected(&self) -> bool {
        matches!(&self.kind, Kind::Stream(stream) if stream.connected)
    }

    /// Does it listen?
    pub fn is_listening(&self) -> bool {
        matches!(self.kind, Kind::Listening(_))
    }

    /// Its options.
    pub fn options(&self) -> &Options {
        self.options.as_deref().unwrap_or(&NO_OPTIONS)
    }

    /// Its options, to be set.
    pub fn options_mut(&mut self) -> &mut Options {
        self.options.get_or_insert_default()
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
            Kind::Stream(stream) => !stream.recv.is_empty() || (stream.connected && !stream.tcb.state().may_receive()),
            Kind::Listening(listening) => !listening.ready.is_empty(),
            Kind::Fresh => false,
        }
    }

    /// Would a send not wait? A third of the buffer must be free, so that a writer is not woken for each segment.
    pub fn is_writable(&self) -> bool {
        match &self.kind {
            _ if self.error.is_some() => true,
            Kind::Stream(stream) if stream.connected => {
                !stream.tcb.state().may_queue() || stream.send.is_roomy() && stream.tcb.is_unsent_low()
            }
            _ => false,
        }
    }

    /// Does an error wait?
    pub fn has_error(&self) -> bool {
        self.error.is_some()
    }

    /// Takes the error that waits.
    pub fn take_error(&mut self) -> Option<TcpError> {
        self.error.take()
    }

    /// Has the peer sent all it will?
    pub fn is_hung_up(&self) -> bool {
        self.shut_read || matches!(&self.kind, Kind::Stream(s) if s.connected && !s.tcb.state().may_receive())
    }

    /// Something to wait on for this socket.
    pub fn signal(&mut self) -> Arc<Signal> {
        self.signal.get_or_insert_default().clone()
    }

    fn wake(&self, cx: Cx, id: usize) {
        if let Some(watch) = &self.watch {
            watch.push(cx, id | SOCK_BIT);
        }
        if let Some(signal) = &self.signal {
            signal.raise();
        }
    }

    /// What the core has told: errors are kept for the next call, whoever waits is woken.
    fn note(&mut self, cx: Cx, id: usize, events: Events) {
        if events == Events::NONE {
            return;
        }
        let error = match events {
            _ if events.contains(Events::REFUSED) => Some(TcpError::Refused),
            _ if events.contains(Events::RESET) => Some(TcpError::Reset),
            _ if events.contains(Events::TIMED_OUT) => Some(TcpError::TimedOut),
            _ if events.contains(Events::UNREACHABLE) => Some(TcpError::HostUnreachable),
            _ => None,
        };
        if error.is_some() {
            self.error = error;
        }
        if let Kind::Stream(stream) = &mut self.kind {
            stream.connected |= events.intersects(Events::CONNECTED | Events::ACCEPTABLE);
        }
        self.wake(cx, id);
    }
}

/// In a [`ReadySet`], and in descriptors: a TCP socket's number, not a UDP socket's.
pub const SOCK_BIT: usize = 1 << 30;

/// TCP's part of a stack.
pub(crate) struct Tcp<L: Locks> {
    pub(crate) socks: crate::slots::Slots<L, Sock<L>>,
    pub(crate) demux: Demux<L>,
    /// The bound sockets of each L4 port.
    bound: Guarded<L, std::collections::HashMap<u16, Vec<usize>>>,
    late: Guarded<L, TimeWaitTable>,
    wheel: Guarded<L, Wheel>,
    ports: Guarded<L, PortChooser>,
    configs: Guarded<L, Configs>,
    secret: siphash::Key,
}

/// The MSS whose configuration is asked for where it makes no difference: Ethernet's.
const BASE_MSS: u16 = 1460;
/// Connections in TIME-WAIT that are remembered.
const TIME_WAIT_LIMIT: u32 = 32_768;

impl<L: Locks> Tcp<L> {
    pub(crate) fn new(demux: hash::Key, secret: siphash::Key) -> Tcp<L> {
        Tcp {
            socks: crate::slots::Slots::new(),
            demux: Demux::new(demux),
            bound: Guarded::default(),
            late: Guarded::new(TimeWaitTable::new(TIME_WAIT_LIMIT, secret)),
            wheel: Guarded::new(Wheel::new(Duration::from_millis(1))),
            ports: Guarded::new(PortChooser::new(secret.derive(0x504f_5254), tcp::ports::EPHEMERAL)),
            configs: Guarded::default(),
            secret,
        }
    }
}

/// The core's configuration by MSS, until a knob changes.
#[derive(Debug, Default)]
struct Configs {
    generation: u64,
    by_mss: Vec<Arc<Config>>,
}

/// MSSs whose configuration is kept: as many as there are kinds of links.
const CONFIGS_MAX: usize = 16;

/// The ends as the core names them.
fn core_ends(ends: Ends4) -> Ends {
    let tuple = Tuple::from(ends);
    Ends { local: tuple.local.0, remote: tuple.remote.0, local_port: ends.local_port, remote_port: ends.remote_port }
}
