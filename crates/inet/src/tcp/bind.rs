//! Allocation of local addresses and ports.
//!
//! The rules are those of Linux, which are stricter than BSD's for listeners. A port is in use
//! while a socket is bound to it or a connection uses it. This includes orphans (connections whose
//! socket is closed) and connections in TIME-WAIT. Two sockets can share a port if both set
//! SO_REUSEADDR and neither listens, or if both set SO_REUSEPORT. Listeners that share a port by
//! SO_REUSEPORT share its connections.
//!
//! A socket with IP_BINDANY that is bound to 0.0.0.0:0 or \[::\]:0 is a transparent proxy: it
//! listens on every address and port that is routed to this host and has no other listener, or on
//! the addresses of a prefix. A host can have one such socket for each prefix.

use super::net::Net;
use super::{Kind, Sock, TcpError};
use crate::Stack;
use crate::demux::{Addr, Ends, Tuple};
use crate::ends::{SockEnds, Unfit};
use crate::prefixes::AnyPrefix;
use crate::zone;
use lock::{Cx, Locks};
use std::net::SocketAddr;
use std::sync::atomic::Ordering;
use wire::{L4Port, Proto};

/// Options of a socket that decide whether it may share a port.
#[derive(Clone, Copy)]
struct Sharing {
    addr: bool,
    port: bool,
    /// True if the socket listens or will listen.
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
    /// Binds socket `id` and returns its address. Port 0 selects a free port. With IP_BINDANY and
    /// the unspecified address, port 0 stays 0 and means any port.
    ///
    /// # Errors
    /// [`TcpError`]; the socket is then unchanged.
    #[inline(never)]
    pub fn tcp_bind(&self, cx: Cx, id: usize, addr: SocketAddr) -> Result<SocketAddr, TcpError> {
        let (fresh, any, sharing, domain, v6only) = self
            .with_sock(cx, id, |sock| {
                let fresh = !sock.is_bound() && matches!(sock.kind, Kind::Fresh);
                let options = sock.options();
                (fresh, options.bind_any, Sharing::of(sock), sock.domain(), options.v6only)
            })
            .ok_or(TcpError::NoSocket)?;
        let (local, port) = (domain.end(v6only, &addr)?, L4Port(addr.port()));
        if !fresh {
            return Err(TcpError::Already);
        }
        let for_many = match local.to_v4() {
            Some(v4) => v4.is_multicast() || v4.is_broadcast(),
            None => zone::split(local.0).0.is_multicast(),
        };
        let ours = || local.is_any() || any || self.owns(cx, local).unwrap_or(false);
        if for_many || !ours() {
            return Err(TcpError::NotOurs);
        }
        let every_port = any && local.is_any() && port.0 == 0;
        let local_port = match port.0 {
            0 if !every_port => self.tcp_ephemeral(cx, SockEnds::bound(local, port).tuple())?,
            _ => port,
        };
        let ends =
            if local == Addr::ANY6 { domain.any(v6only, local_port) } else { SockEnds::bound(local, local_port) };
        // The lock is held until the socket is in the table, so that no other thread can allocate
        // the port.
        let mut bound = self.tcp.bound.lock(cx);
        if port.0 != 0 && self.tcp_is_taken(cx, id, ends, sharing) {
            return Err(TcpError::InUse);
        }
        let bind = |sock: &mut Sock<L>| {
            sock.set_ends(ends);
            sock.set_bound();
            sock.local_addr()
        };
        let addr = self.with_sock(cx, id, bind).ok_or(TcpError::NoSocket)?;
        bound.entry(local_port.0).or_default().push(id);
        Ok(addr)
    }

    /// Returns whether the port is in use by a socket that does not share it. Scans all sockets and
    /// TIME-WAIT entries. Binding is rare, and connections thus need no second index.
    fn tcp_is_taken(&self, cx: Cx, id: usize, ends: SockEnds, sharing: Sharing) -> bool {
        let local_port = ends.tuple().local_port;
        let mut taken = false;
        self.tcp.socks.for_each(cx, |other, sock| {
            let near = other != id && sock.ends.local_port == local_port && sock.ends().overlaps(ends);
            taken |= near && (sock.place.is_bound() || sock.is_found()) && !sharing.allows(Sharing::of(sock));
        });
        // TIME-WAIT entries do not store their sharing options. It is sufficient that the new
        // socket permits sharing, as in BSD.
        let late = || {
            let is_near = |tuple: Tuple, other: u128| {
                other == tuple.local.0 || tuple.local.is_any() && Addr(other).any() == tuple.local
            };
            let late = self.tcp.late.lock(cx);
            late.any(|other| other.local_port == local_port && ends.tuples().any(|tuple| is_near(tuple, other.local)))
        };
        taken || !(sharing.addr || sharing.port) && late()
    }

    /// Checks whether socket `id` can listen on `ends`, to which it is bound. If it is bound to any
    /// port, also registers it as the listener for all ports of the addresses of `prefix`.
    ///
    /// # Errors
    ///
    /// [`TcpError::InUse`] if another listener uses the port.
    pub(super) fn tcp_may_listen(&self, cx: Cx, id: usize, ends: SockEnds, prefix: AnyPrefix) -> Result<(), TcpError> {
        let local_port = ends.tuple().local_port;
        if local_port.0 == 0 {
            let mut table = self.tcp.any_port.lock(cx);
            let is_free = table.add(prefix, id);
            self.tcp.any_port_count.store(table.len(), Ordering::Release);
            return if is_free { Ok(()) } else { Err(TcpError::InUse) };
        }
        let wants = self.with_sock(cx, id, |sock| Sharing::of(sock)).ok_or(TcpError::NoSocket)?;
        let bound = self.tcp.bound.lock(cx);
        let others = bound.get(&local_port.0).map_or(&[][..], Vec::as_slice);
        let listens = |sock: &mut Sock<L>| {
            sock.is_listening() && sock.ends().overlaps(ends) && !(wants.port && sock.options().reuse_port)
        };
        let taken = others.iter().any(|other| *other != id && self.with_sock(cx, *other, listens).unwrap_or(false));
        if taken { Err(TcpError::InUse) } else { Ok(()) }
    }

    /// Returns the socket that listens on all ports of `local`, if there is one. Of several
    /// prefixes that contain the address, the longest applies.
    #[inline(never)]
    pub(super) fn tcp_any_port(&self, cx: Cx, local: Addr) -> Option<usize> {
        if self.tcp.any_port_count.load(Ordering::Acquire) == 0 {
            return None;
        }
        self.tcp.any_port.lock(cx).lookup_mut(local).copied()
    }

    /// Selects the listener for a peer among those that share `id`'s port. The selection for a peer
    /// stays the same as long as the listeners do not change.
    #[cold]
    pub(super) fn tcp_spread<A: Net>(&self, cx: Cx, id: usize, ends: Ends<A>) -> usize {
        let Some(own) = self.with_sock(cx, id, |sock| sock.ends()) else { return id };
        let mut sharing = self.tcp.bound.lock(cx).get(&ends.local_port.0).cloned().unwrap_or_default();
        let shares = |sock: &mut Sock<L>| sock.is_listening() && sock.ends() == own && sock.options().reuse_port;
        sharing.retain(|other| self.with_sock(cx, *other, shares).unwrap_or(false));
        let hash = self.secret.hash2(folded(ends.remote.addr()), ends.remote_port.0.into());
        let at = (hash >> 32) as usize % sharing.len().max(1);
        sharing.get(at).copied().unwrap_or(id)
    }

    /// Returns a free ephemeral port that cannot be predicted (RFC 6056).
    pub(super) fn tcp_ephemeral(&self, cx: Cx, ends: Tuple) -> Result<L4Port, TcpError> {
        let chance = self.secret.hash2(cx.now.nanos(), folded(ends.remote) << 16 ^ u64::from(ends.remote_port.0));
        let free = |local_port: L4Port| {
            let whole = Tuple { local_port, ..ends };
            let taken = self.tcp.bound.lock(cx).get(&local_port.0).is_some_and(|socks| !socks.is_empty())
                || ends.remote_port.0 != 0
                    && (self.tcp.demux.contains(cx, &whole, |_| true)
                        || self.tcp.late.lock(cx).contains(&whole.into()));
            !taken && self.leads_here(Proto::TCP, &whole)
        };
        let mut ports = self.tcp.ports.lock(cx);
        ports.choose(ends.local.0, ends.remote.0, ends.remote_port, chance, free).ok_or(TcpError::NoPorts)
    }

    /// Removes a socket from the demux and, if `is_bound`, from the table of L4 ports.
    pub(super) fn tcp_unfind(&self, cx: Cx, id: usize, ends: SockEnds, is_bound: bool) {
        ends.tuples().for_each(|tuple| self.tcp.demux.remove(cx, &tuple, id));
        let local_port = ends.tuple().local_port;
        if local_port.0 == 0 {
            let mut table = self.tcp.any_port.lock(cx);
            table.retain(|other| *other != id);
            self.tcp.any_port_count.store(table.len(), Ordering::Release);
        }
        if !is_bound {
            return;
        }
        let mut bound = self.tcp.bound.lock(cx);
        if let Some(socks) = bound.get_mut(&local_port.0) {
            socks.retain(|&other| other != id);
            if socks.is_empty() {
                bound.remove(&local_port.0);
            }
        }
    }
}

impl From<Unfit> for TcpError {
    fn from(unfit: Unfit) -> TcpError {
        match unfit {
            Unfit::Family => TcpError::Family,
            Unfit::Mapped => TcpError::Invalid,
        }
    }
}

impl From<Tuple> for ::tcp::Ends {
    fn from(tuple: Tuple) -> ::tcp::Ends {
        let Tuple { local, remote, local_port, remote_port } = tuple;
        ::tcp::Ends { local: local.0, remote: remote.0, local_port, remote_port }
    }
}

/// Folds an address into a word for hashing.
fn folded(addr: Addr) -> u64 {
    (addr.0 >> 64) as u64 ^ addr.0 as u64
}
