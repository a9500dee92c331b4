//! Who may have an address and a port.
//!
//! Linux's rules, which are BSD's made stricter for listeners: a port is somebody's as long as a socket is bound to it, or a
//! connection, even one that nobody holds any more or one in TIME-WAIT, has it. Two share it if both say SO_REUSEADDR and
//! neither listens, or both say SO_REUSEPORT. Listeners that share a port by SO_REUSEPORT share the connections.
//!
//! A socket that says IP_BINDANY and is bound to 0.0.0.0:0 listens to every address and port that is routed to this host
//! and that nobody else listens to: a transparent proxy. One host has one of these.

use super::{Kind, Sock, TcpError, core_ends};
use crate::Stack;
use crate::demux::Ends4;
use crate::route::Via;
use crate::udp::v4_end;
use lock::{Cx, Locks};
use std::net::SocketAddr;
use std::sync::atomic::Ordering;
use wire::{L4Port, Proto};

/// What somebody who wants a port says about sharing it.
#[derive(Clone, Copy)]
struct Sharing {
    addr: bool,
    port: bool,
    /// Wants to listen, not only to be bound.
    listens: bool,
}

impl Sharing {
    fn of<L: Locks>(sock: &Sock<L>) -> Sharing {
        let options = sock.options();
        Sharing { addr: options.reuse_addr, port: options.reuse_port, listens: sock.is_listening() }
    }

    fn allows(self, other: Sharing) -> bool {
        self.port && other.port || self.addr && other.addr && !self.listens && !other.listens
    }
}

impl<L: Locks> Stack<L> {
    /// Binds socket `id`; port 0 picks one, but not for who may bind any address and names none: that stays any port. Says
    /// where it is bound.
    ///
    /// # Errors
    /// [`TcpError`]; nothing has changed then.
    pub fn tcp_bind(&self, cx: Cx, id: usize, addr: SocketAddr) -> Result<SocketAddr, TcpError> {
        let (local, port) = v4_end(&addr).ok_or(TcpError::Family)?;
        let v4 = local.to_v4().ok_or(TcpError::Family)?;
        let (fresh, any, sharing) = self
            .with_sock(cx, id, |sock| {
                let fresh = !sock.is_bound() && matches!(sock.kind, Kind::Fresh);
                (fresh, sock.options().bind_any, Sharing::of(sock))
            })
            .ok_or(TcpError::NoSocket)?;
        if !fresh {
            return Err(TcpError::Already);
        }
        if v4.is_multicast() || v4.is_broadcast() {
            return Err(TcpError::NotOurs);
        }
        let ours = || matches!(self.ways.lookup(cx, v4).map(|hop| hop.via), Some(Via::Local(_)));
        if !v4.is_unspecified() && !any && !ours() {
            return Err(TcpError::NotOurs);
        }
        let mut ends = Ends4 { local: v4.to_bits(), local_port: port, ..Ends4::default() };
        let every_port = any && v4.is_unspecified() && port.0 == 0;
        if port.0 == 0 && !every_port {
            ends.local_port = self.tcp_ephemeral(cx, ends)?;
        }
        // Held until the socket stands in it: nobody else is told meanwhile that the port is free.
        let mut bound = self.tcp.bound.lock(cx);
        if port.0 != 0 && self.tcp_is_taken(cx, id, ends, sharing) {
            return Err(TcpError::InUse);
        }
        self.with_sock(cx, id, |sock| (sock.ends, sock.bound) = (ends, true)).ok_or(TcpError::NoSocket)?;
        bound.entry(ends.local_port.0).or_default().push(id);
        Ok(SocketAddr::from((v4, ends.local_port.0)))
    }

    /// Does somebody have that port who does not share it? Every socket is asked, and TIME-WAIT: a program binds once, and
    /// connections that come and go keep no second index for it.
    fn tcp_is_taken(&self, cx: Cx, id: usize, ends: Ends4, sharing: Sharing) -> bool {
        let overlaps = |local: u32| local == 0 || ends.local == 0 || local == ends.local;
        let mut taken = false;
        self.tcp.socks.for_each(cx, |other, sock| {
            let near = other != id && sock.ends.local_port == ends.local_port && overlaps(sock.ends.local);
            taken |= near && (sock.bound || sock.is_found()) && !sharing.allows(Sharing::of(sock));
        });
        // What is in TIME-WAIT does not remember what it allowed: that the newcomer shares is enough, as in BSD.
        let late = || {
            let local = core_ends(ends).local;
            let late = self.tcp.late.lock(cx);
            late.any(|other| other.local_port == ends.local_port && (ends.local == 0 || other.local == local))
        };
        taken || !(sharing.addr || sharing.port) && late()
    }

    /// May socket `id`, bound to `ends`, begin to listen? For any port it is entered then.
    pub(super) fn tcp_may_listen(&self, cx: Cx, id: usize, ends: Ends4) -> Result<(), TcpError> {
        if ends.local_port.0 == 0 {
            let taken = self.tcp.any_port.compare_exchange(0, id + 1, Ordering::AcqRel, Ordering::Acquire);
            return if taken.is_ok() { Ok(()) } else { Err(TcpError::InUse) };
        }
        let wants = self.with_sock(cx, id, |sock| Sharing::of(sock)).ok_or(TcpError::NoSocket)?;
        let bound = self.tcp.bound.lock(cx);
        let others = bound.get(&ends.local_port.0).map_or(&[][..], Vec::as_slice);
        let listens = |sock: &mut Sock<L>| {
            let overlap = sock.ends.local == 0 || ends.local == 0 || sock.ends.local == ends.local;
            sock.is_listening() && overlap && !(wants.port && sock.options().reuse_port)
        };
        let taken = others.iter().any(|other| *other != id && self.with_sock(cx, *other, listens).unwrap_or(false));
        if taken { Err(TcpError::InUse) } else { Ok(()) }
    }

    /// The listener for any address and port.
    pub(super) fn tcp_any_port(&self) -> Option<usize> {
        self.tcp.any_port.load(Ordering::Acquire).checked_sub(1)
    }

    /// The listener for a peer among those that share `id`'s port: always the same while they are the same.
    #[cold]
    pub(super) fn tcp_spread(&self, cx: Cx, id: usize, ends: Ends4) -> usize {
        let Some(local) = self.with_sock(cx, id, |sock| sock.ends.local) else { return id };
        let mut sharing = self.tcp.bound.lock(cx).get(&ends.local_port.0).cloned().unwrap_or_default();
        let shares = |sock: &mut Sock<L>| sock.is_listening() && sock.ends.local == local && sock.options().reuse_port;
        sharing.retain(|other| self.with_sock(cx, *other, shares).unwrap_or(false));
        let hash = self.secret.hash2(ends.remote.into(), ends.remote_port.0.into());
        let at = (hash >> 32) as usize % sharing.len().max(1);
        sharing.get(at).copied().unwrap_or(id)
    }

    /// A free port that nobody can guess (RFC 6056).
    pub(super) fn tcp_ephemeral(&self, cx: Cx, ends: Ends4) -> Result<L4Port, TcpError> {
        let core = core_ends(ends);
        let chance = self.secret.hash2(cx.now.nanos(), u64::from(ends.remote) << 16 | u64::from(ends.remote_port.0));
        let free = |port: L4Port| {
            let whole = Ends4 { local_port: port, ..ends };
            let taken = self.tcp.bound.lock(cx).get(&port.0).is_some_and(|socks| !socks.is_empty())
                || ends.remote_port.0 != 0
                    && (self.tcp.demux.contains(cx, &whole.into(), |_| true)
                        || self.tcp.late.lock(cx).contains(&core_ends(whole)));
            !taken && self.leads_here(Proto::TCP, &whole)
        };
        let mut ports = self.tcp.ports.lock(cx);
        ports.choose(core.local, core.remote, core.remote_port, chance, free).ok_or(TcpError::NoPorts)
    }

    /// Takes a socket out of the tables by which others find it; `is_bound`: that of L4 ports is one of them.
    pub(super) fn tcp_unfind(&self, cx: Cx, id: usize, ends: Ends4, is_bound: bool) {
        self.tcp.demux.remove(cx, &ends.into(), id);
        if ends.local_port.0 == 0 {
            let _ = self.tcp.any_port.compare_exchange(id + 1, 0, Ordering::AcqRel, Ordering::Acquire);
        }
        if !is_bound {
            return;
        }
        let mut bound = self.tcp.bound.lock(cx);
        if let Some(socks) = bound.get_mut(&ends.local_port.0) {
            socks.retain(|&other| other != id);
            if socks.is_empty() {
                bound.remove(&ends.local_port.0);
            }
        }
    }
}
