//! A host's sockets as `ss` and `netstat` list them: UDP's, raw and ICMP's, TCP's, and connections that are in TIME-WAIT only.

use super::Ctl;
use clock::Duration;
use inet::demux::Tuple;
use inet::raw::{RawKind, RawState};
use inet::tcp::{Memory, Options, SOCK_BIT, Sock, Timer};
use lock::Locks;
use std::net::SocketAddr;
use tcp::{Info, State};

/// Whose socket.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(super) enum Netid {
    Raw,
    Icmp,
    Udp,
    Tcp,
}

/// What it is in. UDP knows two: with a peer, and without.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum SockState {
    Listen,
    Tcp(State),
}

/// One socket.
#[derive(Clone, Debug)]
pub(super) struct Socket {
    pub netid: Netid,
    /// `None`: no process has it any more.
    pub fd: Option<usize>,
    pub state: SockState,
    /// Bytes to be read; of a listener, connections to be accepted.
    pub recv_q: usize,
    /// Bytes not acknowledged; of a listener, its backlog.
    pub send_q: usize,
    /// Datagrams to be read.
    pub datagrams: usize,
    pub memory: Memory,
    pub local: SocketAddr,
    /// Port 0: no peer.
    pub peer: SocketAddr,
    /// What it waits for, how long, and how often it did so in vain.
    pub timer: Option<(Timer, Duration, u8)>,
    /// A listener's handshakes under way, and how many there may be.
    pub embryonic: Option<(usize, usize)>,
    pub info: Option<Box<Info>>,
    pub options: Option<Box<Options>>,
}

impl SockState {
    /// Linux's word.
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

    /// BSD's word.
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

    /// Neither waiting for a peer nor only remembered: what `ss` and `netstat` list unasked.
    pub(super) fn is_connected(self) -> bool {
        let unasked = [State::Closed, State::SynReceived, State::TimeWait];
        matches!(self, SockState::Tcp(state) if !unasked.contains(&state))
    }

    /// Waiting for whoever comes.
    pub(super) fn is_waiting(self) -> bool {
        matches!(self, SockState::Listen | SockState::Tcp(State::Closed))
    }
}

fn ends(tuple: Tuple) -> (SocketAddr, SocketAddr) {
    (tuple.local_addr(), tuple.remote_addr())
}

/// All sockets: UDP's by descriptor, TCP's by descriptor, handshakes under way and TIME-WAIT by address.
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
    stack.for_each_late(cx, |tuple, left| late.push(bare(State::TimeWait, tuple, (Timer::TimeWait, left, 0))));
    late.sort_by_key(|socket| (socket.local, socket.peer));
    sockets.extend(late);
    sockets
}

/// What is remembered of a connection without a socket.
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
    // In TIME-WAIT the table has it; the process's socket only gives back its descriptor.
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
