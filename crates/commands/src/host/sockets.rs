//! The sockets of a host, for `ss` and `netstat`: UDP, raw, ICMP and TCP sockets, and connections
//! in TIME-WAIT, which have no socket.

use super::context::Ctl;
use clock::Duration;
use inet::demux::Tuple;
use inet::raw::{RawKind, RawState};
use inet::tcp::{Memory, Options, SOCK_BIT, Sock, Timer};
use lock::Locks;
use std::net::SocketAddr;
use tcp::{Info, State};

/// Protocol of a socket.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(super) enum Netid {
    Raw,
    Icmp,
    Udp,
    Tcp,
}

/// State of a socket. A UDP socket is either connected to a peer or not.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum SockState {
    Listen,
    Tcp(State),
}

#[derive(Clone, Debug)]
pub(super) struct Socket {
    pub netid: Netid,
    /// Descriptor; `None` if the process has closed it.
    pub fd: Option<usize>,
    pub state: SockState,
    /// Number of unread bytes; for a listener, number of connections that wait to be accepted.
    pub recv_q: usize,
    /// Number of unacknowledged bytes; for a listener, its backlog.
    pub send_q: usize,
    /// Number of unread datagrams.
    pub datagrams: usize,
    pub memory: Memory,
    pub local: SocketAddr,
    /// Remote address and port; port 0 if the socket has no peer.
    pub peer: SocketAddr,
    /// Running timer, time left, and number of expirations so far; `None` if no timer runs.
    pub timer: Option<(Timer, Duration, u8)>,
    /// For a listener: (number of pending handshakes, maximum of this number).
    pub embryonic: Option<(usize, usize)>,
    pub info: Option<Box<Info>>,
    pub options: Option<Box<Options>>,
}

impl SockState {
    /// Returns Linux's name of the state.
    pub(super) fn ss(self) -> &'static str {
        match self {
            SockState::Listen => "LISTEN",
            SockState::Tcp(State::Closed) => "UNCONN",
            SockState::Tcp(State::SynSent) => "SYN-SENT",
            SockState::Tcp(State::SynReceived) => "SYN-RECV",
            SockState::Tcp(State::Established) => "ESTAB",
            SockState::Tcp(State::CloseWait) => "CLOSE-WAIT",
            SockState::Tcp(State::FinWait1) => "FIN-WAIT-1",
            SockState::Tcp(State::FinWait2) => "FIN-WAIT-2",
            SockState::Tcp(State::Closing) => "CLOSING",
            SockState::Tcp(State::LastAck) => "LAST-ACK",
            SockState::Tcp(State::TimeWait) => "TIME-WAIT",
        }
    }

    /// Returns BSD's name of the state.
    pub(super) fn bsd(self) -> &'static str {
        match self {
            SockState::Listen => "LISTEN",
            SockState::Tcp(State::Closed) => "CLOSED",
            SockState::Tcp(State::SynSent) => "SYN_SENT",
            SockState::Tcp(State::SynReceived) => "SYN_RCVD",
            SockState::Tcp(State::Established) => "ESTABLISHED",
            SockState::Tcp(State::CloseWait) => "CLOSE_WAIT",
            SockState::Tcp(State::FinWait1) => "FIN_WAIT_1",
            SockState::Tcp(State::FinWait2) => "FIN_WAIT_2",
            SockState::Tcp(State::Closing) => "CLOSING",
            SockState::Tcp(State::LastAck) => "LAST_ACK",
            SockState::Tcp(State::TimeWait) => "TIME_WAIT",
        }
    }

    /// Returns whether the socket has a peer and is in neither SYN-RECEIVED nor TIME-WAIT. `ss` and
    /// `netstat` list only such sockets by default.
    pub(super) fn is_connected(self) -> bool {
        let unasked = [State::Closed, State::SynReceived, State::TimeWait];
        matches!(self, SockState::Tcp(state) if !unasked.contains(&state))
    }

    /// Returns whether the socket waits for packets or connections from any peer.
    pub(super) fn is_waiting(self) -> bool {
        matches!(self, SockState::Listen | SockState::Tcp(State::Closed))
    }
}

fn ends(tuple: Tuple) -> (SocketAddr, SocketAddr) {
    (tuple.local_addr(), tuple.remote_addr())
}

/// Returns all sockets: UDP and TCP sockets by descriptor, then handshakes and connections in
/// TIME-WAIT by address.
pub(super) fn all<L: Locks>(ctl: &Ctl<'_, L>) -> Vec<Socket> {
    let (stack, cx) = (&ctl.host.stack, ctl.cx);
    let mut sockets = Vec::new();
    stack.for_each_pcb(cx, |fd, pcb| {
        let (local, mut peer) = ends(pcb.tuple());
        if pcb.raw().is_some() {
            peer.set_port(0);
        }
        sockets.push(Socket {
            netid: match pcb.raw().map(RawState::kind) {
                None => Netid::Udp,
                Some(RawKind::Icmp) => Netid::Icmp,
                Some(RawKind::Raw(_)) => Netid::Raw,
            },
            fd: Some(fd),
            state: SockState::Tcp(if pcb.is_connected() { State::Established } else { State::Closed }),
            recv_q: pcb.queued_bytes(),
            send_q: 0,
            datagrams: pcb.queued(),
            memory: Memory { recv: pcb.queued_bytes(), recv_space: pcb.recv_limit(), ..Memory::default() },
            local,
            peer,
            timer: None,
            embryonic: None,
            info: None,
            options: None,
        });
    });
    stack.for_each_sock(cx, |id, sock| sockets.push(stream(ctl, id, sock)));
    let mut late = Vec::new();
    stack.for_each_sock(cx, |_, sock| {
        let handshakes = sock.handshakes(cx.now).into_iter();
        late.extend(handshakes.map(|(tuple, left, again)| bare(State::SynReceived, tuple, (Timer::On, left, again))));
    });
    stack.for_each_time_wait(cx, |tuple, left| late.push(bare(State::TimeWait, tuple, (Timer::TimeWait, left, 0))));
    late.sort_by_key(|socket| (socket.local, socket.peer));
    sockets.extend(late);
    sockets
}

/// Returns the entry of a connection that has no socket, such as one in TIME-WAIT.
fn bare(state: State, tuple: Tuple, timer: (Timer, Duration, u8)) -> Socket {
    let (local, peer) = ends(tuple);
    Socket {
        netid: Netid::Tcp,
        fd: None,
        state: SockState::Tcp(state),
        recv_q: 0,
        send_q: 0,
        datagrams: 0,
        memory: Memory::default(),
        local,
        peer,
        timer: Some(timer),
        embryonic: None,
        info: None,
        options: None,
    }
}

fn stream<L: Locks>(ctl: &Ctl<'_, L>, id: usize, sock: &Sock<L>) -> Socket {
    let now = ctl.cx.now;
    let (local, peer) = ends(sock.tuple());
    let (recv_q, send_q) = sock.queues();
    // A connection in TIME-WAIT is listed from the table of TIME-WAIT connections. The socket of
    // the process is only a descriptor that has not been closed yet.
    let state = match sock.tcb().map(tcp::Tcb::state) {
        _ if sock.is_listening() => SockState::Listen,
        Some(State::TimeWait) | None => SockState::Tcp(State::Closed),
        Some(state) => SockState::Tcp(state),
    };
    let info = sock.tcb().map(|tcb| Box::new(tcb.info(now)));
    let tries = info.as_ref().map_or(0, |info| info.retransmits.max(info.probes));
    Socket {
        netid: Netid::Tcp,
        fd: (!sock.is_orphan()).then_some(id | SOCK_BIT),
        state,
        recv_q,
        send_q,
        datagrams: 0,
        memory: sock.memory(),
        local,
        peer,
        timer: sock.timer(now).map(|(timer, left)| (timer, left, tries)),
        embryonic: sock.embryonic(),
        info,
        options: Some(Box::new(sock.options().clone())),
    }
}
