//! Opening, binding, connecting and closing of UDP sockets. These calls keep the demux consistent
//! with the Pcbs.

use super::{BindError, Domain, Options, Pcb, ReadySet, Reception, SockEnds};
use crate::Stack;
use crate::demux::{Addr, Tuple};
use crate::raw::CONNECTED;
use crate::zone;
use lock::{Cx, Locks};
use stats::DropReason;
use std::net::{Ipv4Addr, SocketAddr};
use std::sync::Arc;
use wire::{L4Port, Proto};

/// Dynamic port range of IANA (RFC 6335 6).
const EPHEMERAL: std::ops::RangeInclusive<u16> = 49_152..=65_535;

impl<L: Locks> Stack<L> {
    /// Opens a UDP socket. Returns its number, or `None` if there are too many sockets.
    pub fn udp_open(&self, cx: Cx, domain: Domain) -> Option<usize> {
        let options = Options { v6only: self.sysctls.v6only.on(), ..Options::default() };
        self.pcbs.insert(cx, Pcb::new(domain, options, self.sysctls.udp_recvspace.get() as usize))
    }

    /// Runs `f` on socket `id`. Returns `None` if the socket does not exist.
    #[inline]
    pub fn with_pcb<R>(&self, cx: Cx, id: usize, f: impl FnOnce(&mut Pcb<L>) -> R) -> Option<R> {
        self.pcbs.get(id)?.lock(cx).as_mut().map(f)
    }

    /// Runs `f` on every socket.
    pub fn for_each_pcb(&self, cx: Cx, f: impl FnMut(usize, &mut Pcb<L>)) {
        self.pcbs.for_each(cx, f);
    }

    /// Closes a socket: drops its queued datagrams and leaves its multicast groups. Returns `false`
    /// if there is no such socket.
    #[inline(never)]
    pub fn udp_close(&self, cx: Cx, id: usize) -> bool {
        let Some((ends, is_raw)) = self.with_pcb(cx, id, |pcb| (pcb.ends(), pcb.raw().is_some())) else { return false };
        let why = if is_raw { DropReason::RawClosed } else { DropReason::UdpClosed };
        match is_raw {
            true => self.raw_close(cx, id),
            false => self.unfind(cx, id, ends),
        }
        let Some(mut pcb) = self.pcbs.remove(cx, id) else { return false };
        for joined in std::mem::take(pcb.groups_mut()) {
            self.set_membership(cx, id, (joined.iface, joined.group), None);
        }
        pcb.drain().into_iter().for_each(|frame| self.drop_frame(cx, frame, why));
        self.flush(cx);
        true
    }

    fn unfind(&self, cx: Cx, id: usize, ends: SockEnds) {
        let local_port = ends.tuple().local_port;
        if local_port.0 != 0 {
            ends.tuples().for_each(|tuple| self.udp.remove(cx, &tuple, id));
            self.unconnected.lock(cx).remove(local_port, id);
        }
    }

    pub(super) fn make_findable(&self, cx: Cx, id: usize, ends: SockEnds) {
        ends.tuples().for_each(|tuple| self.udp.insert(cx, &tuple, id));
        let shares = |pcb: &mut Pcb<L>| pcb.options.reuse_port || pcb.options.reuse_addr;
        let shares = self.with_pcb(cx, id, shares).unwrap_or(false);
        let (tuple, mut by_port) = (ends.tuple(), self.unconnected.lock(cx));
        if tuple.remote_port.0 == 0 {
            by_port.add(tuple.local_port, id);
        } else if !shares {
            by_port.hold(tuple.local_port, id);
        }
    }

    /// Binds socket `id` to `addr`; port 0 selects an ephemeral port. Returns the local address.
    ///
    /// # Errors
    ///
    /// [`BindError`]; the socket is then unchanged.
    #[inline(never)]
    pub fn udp_bind(&self, cx: Cx, id: usize, addr: SocketAddr) -> Result<SocketAddr, BindError> {
        let seen = |pcb: &mut Pcb<L>| (pcb.domain(), pcb.is_bound(), *pcb.options, pcb.raw().is_some());
        let (domain, bound, options, is_raw) = self.with_pcb(cx, id, seen).ok_or(BindError::NoSocket)?;
        let local = domain.end(options.v6only, &addr)?;
        if !self.is_bindable(cx, local)? && !options.bind_any {
            return Err(BindError::NotOurs);
        }
        if is_raw {
            return self.raw_bind(cx, id, local, L4Port(addr.port()));
        }
        if bound {
            return Err(BindError::AlreadyBound);
        }
        let shares = options.reuse_port || options.reuse_addr;
        loop {
            let local_port = match addr.port() {
                0 => self.ephemeral(cx, local, local.any(), L4Port(0))?,
                port => L4Port(port),
            };
            let ends = match local {
                Addr::ANY6 => domain.any(options.v6only, local_port),
                _ => SockEnds::bound(local, local_port),
            };
            // The port is checked and entered under one lock, so that two threads cannot get the
            // same port.
            let mut by_port = self.unconnected.lock(cx);
            let others = by_port.get(local_port);
            if addr.port() == 0 && !others.is_empty() {
                continue; // another thread has bound this port: try the next
            }
            if self.conflicts(cx, others, ends, shares) || by_port.is_held(local_port) {
                return Err(BindError::InUse);
            }
            let bind = |pcb: &mut Pcb<L>| match pcb.is_bound() {
                true => Err(BindError::AlreadyBound),
                false => {
                    pcb.set_ends(ends);
                    Ok(pcb.local_addr())
                }
            };
            let bound = self.with_pcb(cx, id, bind).ok_or(BindError::NoSocket)??;
            by_port.add(local_port, id);
            drop(by_port);
            ends.tuples().for_each(|tuple| self.udp.insert(cx, &tuple, id));
            return Ok(bound);
        }
    }

    /// Returns whether a socket may be bound to `local`, which must be an address of this host, a
    /// multicast group, or a broadcast address.
    ///
    /// # Errors
    ///
    /// [`BindError::Invalid`] for a link-local address without an interface.
    fn is_bindable(&self, cx: Cx, local: Addr) -> Result<bool, BindError> {
        let for_many = match local.to_v4() {
            Some(v4) => v4.is_multicast() || self.is_broadcast(cx, v4),
            None => zone::split(local.0).0.is_multicast(),
        };
        Ok(local.is_any() || for_many || self.owns(cx, local).ok_or(BindError::Invalid)?)
    }

    /// Returns whether binding to `ends` conflicts with one of the sockets in `others`. As in BSD,
    /// two sockets may share a port if their addresses differ and neither is a wildcard, or if both
    /// permit sharing.
    fn conflicts(&self, cx: Cx, others: &[usize], ends: SockEnds, shares: bool) -> bool {
        others.iter().any(|&other| {
            self.with_pcb(cx, other, |pcb| {
                let both_share = shares && (pcb.options.reuse_port || pcb.options.reuse_addr);
                pcb.ends().overlaps(ends) && !both_share
            })
            .unwrap_or(false)
        })
    }

    /// Returns a free ephemeral port, which cannot be predicted from earlier ports (double hash
    /// with a random increment, RFC 6056 3.3.4).
    fn ephemeral(&self, cx: Cx, local: Addr, remote: Addr, remote_port: L4Port) -> Result<L4Port, BindError> {
        let (first, count) = (u64::from(*EPHEMERAL.start()), u64::from(EPHEMERAL.end() - EPHEMERAL.start()) + 1);
        let ends = self.secret.hash4(local.0 as u64, remote.0 as u64, u64::from(remote_port.0), 0x6056);
        let drawn = self.secret.hash2(ends, cx.now.nanos() ^ u64::from(self.limiter.lock(cx).next_id(ends)) << 40);
        for step in 0..count {
            let port = L4Port((first + (ends.wrapping_add(drawn).wrapping_add(step)) % count) as u16);
            let tuple = Tuple { local, local_port: port, remote, remote_port };
            let taken = match remote_port.0 {
                0 => !self.unconnected.lock(cx).get(port).is_empty(),
                _ => self.udp.contains(cx, &tuple, |_| true) || !self.unconnected.lock(cx).get(port).is_empty(),
            };
            if !taken && self.leads_here(Proto::UDP, &tuple) {
                return Ok(port);
            }
        }
        Err(BindError::NoPorts)
    }

    /// Connects socket `id` to `addr`. The socket then sends to this address and receives only from
    /// it. Binds the socket if it is not bound.
    ///
    /// # Errors
    /// [`BindError`]; the socket is then unchanged.
    #[inline(never)]
    pub fn udp_connect(&self, cx: Cx, id: usize, addr: SocketAddr) -> Result<(), BindError> {
        let seen = |pcb: &mut Pcb<L>| (pcb.domain(), pcb.ends(), *pcb.options, pcb.chosen_local, pcb.raw().is_some());
        let (domain, before, options, was_chosen, is_raw) = self.with_pcb(cx, id, seen).ok_or(BindError::NoSocket)?;
        let remote = domain.end(options.v6only, &addr)?;
        let remote_port = if is_raw { CONNECTED } else { L4Port(addr.port()) };
        if remote_port.0 == 0 || remote.is_any() {
            return Err(BindError::Invalid);
        }
        let own = before.tuple();
        let chosen = own.local.is_any() || was_chosen;
        if !chosen && own.local.any() != remote.any() {
            return Err(BindError::Family); // if bound to an address of the other family
        }
        let iface = self.connected_iface(&addr, &options);
        let local = match (chosen, remote.to_v4()) {
            (false, Some(v4)) => self.may_broadcast(cx, v4, &options).map(|()| own.local)?,
            (false, None) => own.local,
            (true, Some(v4)) => {
                self.may_broadcast(cx, v4, &options)?;
                Addr::v4(self.source_towards(cx, v4, options.multicast_iface).map_err(BindError::Output)?)
            }
            (true, None) => {
                let (v6, zone) = zone::split(remote.0);
                let found = self.source6_at(cx, v6, zone.or(iface)).map_err(BindError::Output)?;
                Addr(zone::embed(found.0, Some(found.1)))
            }
        };
        let local_port = match own.local_port.0 {
            0 if is_raw => L4Port(self.udp_bind(cx, id, domain.unspecified())?.port()),
            0 => self.ephemeral(cx, local, remote, remote_port)?,
            port => L4Port(port),
        };
        let ends = SockEnds::between(local, remote, local_port, remote_port);
        if !is_raw {
            if self.udp.contains(cx, &ends.tuple(), |other| other as usize != id) {
                return Err(BindError::InUse);
            }
            self.unfind(cx, id, before);
        }
        self.with_pcb(cx, id, |pcb| {
            pcb.set_ends(ends);
            pcb.chosen_local = chosen;
            pcb.options.multicast_iface = iface;
        });
        if !is_raw {
            self.make_findable(cx, id, ends);
        }
        Ok(())
    }

    /// Returns the outgoing interface of a socket that is connected to `addr`. For a multicast
    /// group, the scope id of `addr` determines the interface.
    fn connected_iface(&self, addr: &SocketAddr, options: &Options) -> Option<crate::iface::IfaceId> {
        match addr {
            SocketAddr::V6(v6) if v6.ip().is_multicast() => zone::iface_of(v6.scope_id()).or(options.multicast_iface),
            _ => options.multicast_iface,
        }
    }

    fn may_broadcast(&self, cx: Cx, dst: Ipv4Addr, options: &Options) -> Result<(), BindError> {
        if !options.broadcast && self.is_broadcast(cx, dst) { Err(BindError::Broadcast) } else { Ok(()) }
    }

    /// Disconnects the socket, as a connect to AF_UNSPEC does. The socket stays bound to its port.
    ///
    /// # Errors
    ///
    /// [`BindError::NoSocket`], [`BindError::NotConnected`].
    pub fn udp_disconnect(&self, cx: Cx, id: usize) -> Result<(), BindError> {
        let seen = |pcb: &mut Pcb<L>| (pcb.domain(), pcb.ends(), pcb.options.v6only, pcb.raw().is_some());
        let (domain, before, v6only, is_raw) = self.with_pcb(cx, id, seen).ok_or(BindError::NoSocket)?;
        let Tuple { local_port, remote_port, .. } = before.tuple();
        if remote_port.0 == 0 {
            return Err(BindError::NotConnected);
        }
        let ends = domain.any(v6only, local_port);
        if !is_raw {
            self.unfind(cx, id, before);
        }
        self.with_pcb(cx, id, |pcb| pcb.set_ends(ends));
        if !is_raw {
            self.make_findable(cx, id, ends);
        }
        Ok(())
    }

    /// Shuts the socket down for reading, writing, or both. Datagrams that arrive after a shutdown
    /// for reading are dropped. Datagrams that are already queued can still be read.
    pub fn udp_shutdown(&self, cx: Cx, id: usize, read: bool, write: bool) -> Result<(), BindError> {
        self.with_pcb(cx, id, |pcb| {
            pcb.reception.set(Reception::SHUT, read || pcb.is_shut_for_reading());
            pcb.shut_write |= write;
            pcb.wake(cx, id);
        })
        .ok_or(BindError::NoSocket)
    }

    /// Adds socket `id` to `set` whenever it becomes readable. `None` stops this.
    pub fn udp_watch(&self, cx: Cx, id: usize, set: Option<Arc<ReadySet<L>>>) -> Result<(), BindError> {
        self.with_pcb(cx, id, |pcb| pcb.set_watch(cx, id, set)).ok_or(BindError::NoSocket)
    }
}
