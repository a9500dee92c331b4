//! Opening, binding, connecting and closing UDP sockets: what keeps demux and Pcbs in step.

use super::{Pcb, ReadySet, v4_end};
use crate::Stack;
use crate::demux::{Addr, Ends4, Tuple};
use crate::iface::IfaceId;
use crate::ip4::output::OutputError;
use crate::route::Via;
use lock::{Cx, Locks};
use stats::DropReason;
use std::net::{Ipv4Addr, SocketAddr};
use std::sync::Arc;
use wire::{L4Port, Proto};

/// Why a socket was not bound or connected.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum BindError {
    /// No such socket.
    NoSocket,
    /// Bound already.
    AlreadyBound,
    /// Somebody else has that address and port.
    InUse,
    /// Not an address of this host.
    NotOurs,
    /// An address of a family that is not spoken here.
    Family,
    /// Every ephemeral port is taken.
    NoPorts,
    /// Port 0 or address 0 to connect to.
    Invalid,
    /// Connecting to a broadcast address without the broadcast option.
    Broadcast,
    /// No way there.
    Output(OutputError),
    /// Not connected.
    NotConnected,
}

/// IANA's dynamic range (RFC 6335 6).
const EPHEMERAL: std::ops::RangeInclusive<u16> = 49_152..=65_535;

impl<L: Locks> Stack<L> {
    /// Opens a UDP socket; `None` when there are too many.
    pub fn udp_open(&self, cx: Cx) -> Option<usize> {
        self.pcbs.insert(cx, Pcb::new(self.knobs.udp_recvspace.get() as usize))
    }

    /// Runs `f` on socket `id`; `None` if there is no such socket.
    #[inline]
    pub fn with_pcb<R>(&self, cx: Cx, id: usize, f: impl FnOnce(&mut Pcb<L>) -> R) -> Option<R> {
        self.pcbs.get(id)?.lock(cx).as_mut().map(f)
    }

    /// Runs `f` on every socket.
    pub fn for_each_pcb(&self, cx: Cx, f: impl FnMut(usize, &mut Pcb<L>)) {
        self.pcbs.for_each(cx, f);
    }

    /// Closes a socket: its datagrams are dropped, its groups left; `false` if there is no such socket.
    pub fn udp_close(&self, cx: Cx, id: usize) -> bool {
        let Some(tuple) = self.with_pcb(cx, id, |pcb| pcb.tuple()) else { return false };
        self.unfind(cx, id, &tuple);
        let Some(mut pcb) = self.pcbs.remove(cx, id) else { return false };
        for (iface, group) in std::mem::take(pcb.groups_mut()) {
            self.leave_group(cx, iface, group);
        }
        pcb.drain().into_iter().for_each(|frame| self.drop_frame(cx, frame, DropReason::UdpClosed));
        self.flush(cx);
        true
    }

    fn unfind(&self, cx: Cx, id: usize, tuple: &Tuple) {
        if tuple.local_port.0 != 0 {
            self.udp.remove(cx, tuple, id);
            self.unconnected.lock(cx).remove(tuple.local_port, id);
        }
    }

    fn make_findable(&self, cx: Cx, id: usize, tuple: &Tuple) {
        self.udp.insert(cx, tuple, id);
        let shares = |pcb: &mut Pcb<L>| pcb.options.reuse_port || pcb.options.reuse_addr;
        let shares = self.with_pcb(cx, id, shares).unwrap_or(false);
        let mut by_port = self.unconnected.lock(cx);
        if tuple.remote_port.0 == 0 {
            by_port.add(tuple.local_port, id);
        } else if !shares {
            by_port.hold(tuple.local_port, id);
        }
    }

    /// Binds socket `id` to `addr`; port 0 picks an ephemeral one. Says where it is bound now.
    ///
    /// # Errors
    /// [`BindError`]; nothing has changed then.
    pub fn udp_bind(&self, cx: Cx, id: usize, addr: SocketAddr) -> Result<SocketAddr, BindError> {
        let (local, port) = v4_end(&addr).ok_or(BindError::Family)?;
        let v4 = local.to_v4().ok_or(BindError::Family)?;
        if !v4.is_unspecified() && !v4.is_multicast() && !v4.is_broadcast() && !self.is_bindable(cx, v4) {
            return Err(BindError::NotOurs);
        }
        let (bound, options) = self.with_pcb(cx, id, |pcb| (pcb.is_bound(), pcb.options)).ok_or(BindError::NoSocket)?;
        if bound {
            return Err(BindError::AlreadyBound);
        }
        let shares = options.reuse_port || options.reuse_addr;
        loop {
            let local_port = match port.0 {
                0 => self.ephemeral(cx, local, Addr::ANY, L4Port(0))?,
                port => L4Port(port),
            };
            let ends = Ends4 { local: v4.to_bits(), local_port, ..Ends4::default() };
            let tuple = Tuple::from(ends);
            // Looked at and taken under one lock: of two threads that ask for a port one gets it.
            let mut by_port = self.unconnected.lock(cx);
            let others = by_port.get(local_port);
            if port.0 == 0 && !others.is_empty() {
                continue; // somebody was faster: another one
            }
            if self.conflicts(cx, others, &tuple, shares) || by_port.is_held(local_port) {
                return Err(BindError::InUse);
            }
            let bind = |pcb: &mut Pcb<L>| match pcb.is_bound() {
                true => Err(BindError::AlreadyBound),
                false => {
                    pcb.set_ends(ends);
                    Ok(())
                }
            };
            self.with_pcb(cx, id, bind).ok_or(BindError::NoSocket)??;
            by_port.add(local_port, id);
            drop(by_port);
            self.udp.insert(cx, &tuple, id);
            return Ok(SocketAddr::from((v4, local_port.0)));
        }
    }

    fn is_bindable(&self, cx: Cx, addr: Ipv4Addr) -> bool {
        matches!(self.ways.lookup(cx, addr).map(|hop| hop.via), Some(Via::Local(_) | Via::Broadcast(_)))
    }

    /// BSD's rule: two sockets may share a port if their addresses differ and neither is "any", or if both say so.
    fn conflicts(&self, cx: Cx, others: &[usize], tuple: &Tuple, shares: bool) -> bool {
        others.iter().any(|&other| {
            self.with_pcb(cx, other, |pcb| {
                let bound = pcb.tuple().local;
                let overlap = bound == tuple.local || bound.is_any() || tuple.local.is_any();
                overlap && !(shares && (pcb.options.reuse_port || pcb.options.reuse_addr))
            })
            .unwrap_or(false)
        })
    }

    /// A free ephemeral port that nobody can guess from others: RFC 6056 3.3.4, double-hash with a random increment.
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
            let ends = Ends4 {
                local: local.to_v4().map_or(0, Ipv4Addr::to_bits),
                remote: remote.to_v4().map_or(0, Ipv4Addr::to_bits),
                local_port: port,
                remote_port,
            };
            if !taken && self.leads_here(Proto::UDP, &ends) {
                return Ok(port);
            }
        }
        Err(BindError::NoPorts)
    }

    /// Connects socket `id` to `addr`: it sends there and receives only from there. Binds it if need be.
    ///
    /// # Errors
    /// [`BindError`]; nothing has changed then.
    pub fn udp_connect(&self, cx: Cx, id: usize, addr: SocketAddr) -> Result<(), BindError> {
        let (remote, remote_port) = v4_end(&addr).ok_or(BindError::Family)?;
        let v4 = remote.to_v4().ok_or(BindError::Family)?;
        if remote_port.0 == 0 || v4.is_unspecified() {
            return Err(BindError::Invalid);
        }
        let (before, options) = self.with_pcb(cx, id, |pcb| (pcb.ends(), pcb.options)).ok_or(BindError::NoSocket)?;
        let broadcast =
            v4.is_broadcast() || matches!(self.ways.lookup(cx, v4).map(|hop| hop.via), Some(Via::Broadcast(_)));
        if broadcast && !options.broadcast {
            return Err(BindError::Broadcast);
        }
        let chosen = before.local == 0 || self.with_pcb(cx, id, |pcb| pcb.chosen_local) == Some(true);
        let local = match chosen {
            true => self.source_towards(cx, v4, options.multicast_iface).map_err(BindError::Output)?,
            false => Ipv4Addr::from_bits(before.local),
        };
        let local_port = match before.local_port.0 {
            0 => self.ephemeral(cx, Addr::v4(local), remote, remote_port)?,
            port => L4Port(port),
        };
        let ends = Ends4 { local: local.to_bits(), remote: v4.to_bits(), local_port, remote_port };
        let tuple = Tuple::from(ends);
        if self.udp.contains(cx, &tuple, |other| other as usize != id) {
            return Err(BindError::InUse);
        }
        self.unfind(cx, id, &before.into());
        self.with_pcb(cx, id, |pcb| {
            pcb.set_ends(ends);
            pcb.chosen_local = chosen;
        });
        self.make_findable(cx, id, &tuple);
        Ok(())
    }

    /// Dissolves the connection (connect to AF_UNSPEC): the socket stays bound to its port.
    ///
    /// # Errors
    /// [`BindError::NoSocket`], [`BindError::NotConnected`].
    pub fn udp_disconnect(&self, cx: Cx, id: usize) -> Result<(), BindError> {
        let before = self.with_pcb(cx, id, |pcb| pcb.ends()).ok_or(BindError::NoSocket)?;
        if before.remote_port.0 == 0 {
            return Err(BindError::NotConnected);
        }
        let ends = Ends4 { local_port: before.local_port, ..Ends4::default() };
        let tuple = Tuple::from(ends);
        self.unfind(cx, id, &before.into());
        self.with_pcb(cx, id, |pcb| pcb.set_ends(ends));
        self.make_findable(cx, id, &tuple);
        Ok(())
    }

    /// Joins a multicast group with socket `id`, on `iface` or where the routes lead.
    ///
    /// # Errors
    /// [`BindError::Invalid`] for what is no group, [`BindError::InUse`] when joined already, [`BindError::NoPorts`]
    /// when no more groups can be joined.
    pub fn udp_join(&self, cx: Cx, id: usize, group: Ipv4Addr, iface: Option<IfaceId>) -> Result<(), BindError> {
        if !group.is_multicast() {
            return Err(BindError::Invalid);
        }
        let iface = match iface {
            Some(iface) => iface,
            None => self.exit_for(cx, group, None).map_err(BindError::Output)?.iface,
        };
        let known = self.with_pcb(cx, id, |pcb| pcb.groups().contains(&(iface, group))).ok_or(BindError::NoSocket)?;
        if known {
            return Err(BindError::InUse);
        }
        if !self.join_group(cx, iface, group) {
            return Err(BindError::NoPorts);
        }
        self.with_pcb(cx, id, |pcb| pcb.groups_mut().push((iface, group)));
        self.flush(cx);
        Ok(())
    }

    /// Leaves a multicast group.
    ///
    /// # Errors
    /// [`BindError::NotOurs`] when it was not joined.
    pub fn udp_leave(&self, cx: Cx, id: usize, group: Ipv4Addr, iface: Option<IfaceId>) -> Result<(), BindError> {
        let left = self
            .with_pcb(cx, id, |pcb| {
                let at = pcb.groups().iter().position(|(on, g)| *g == group && iface.is_none_or(|i| i == *on))?;
                Some(pcb.groups_mut().swap_remove(at))
            })
            .ok_or(BindError::NoSocket)?;
        let (iface, group) = left.ok_or(BindError::NotOurs)?;
        self.leave_group(cx, iface, group);
        self.flush(cx);
        Ok(())
    }

    /// Stops reading, writing, or both. What comes after is dropped, what is queued can still be read.
    pub fn udp_shutdown(&self, cx: Cx, id: usize, read: bool, write: bool) -> Result<(), BindError> {
        self.with_pcb(cx, id, |pcb| {
            pcb.shut_read |= read;
            pcb.shut_write |= write;
            pcb.wake(cx, id);
        })
        .ok_or(BindError::NoSocket)
    }

    /// Reports socket `id` to `set` whenever it becomes readable (`None`: no longer).
    pub fn udp_watch(&self, cx: Cx, id: usize, set: Option<Arc<ReadySet<L>>>) -> Result<(), BindError> {
        self.with_pcb(cx, id, |pcb| pcb.set_watch(cx, id, set)).ok_or(BindError::NoSocket)
    }
}
