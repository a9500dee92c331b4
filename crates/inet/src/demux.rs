//! Demux: finds the protocol control block (Pcb) for the addresses and L4 ports of a packet. The
//! cost of a lookup does not depend on the number of Pcbs.
//!
//! The demux is an open-addressing table of pairs (hash, Pcb number). It is at most half full and
//! has four entries per cache line. The hash has 64 bits and is computed from the addresses and
//! ports with a secret key. The table does not store the addresses: the caller confirms a match
//! with the Pcb, which it accesses anyway. A lookup tries the four-tuple first, then the local
//! address and port, then the local port alone. It skips the steps for which there are no Pcbs.
//! IPv4 addresses are hashed as IPv4-mapped IPv6 addresses, so one table serves both families. A
//! dual-stack socket has one entry per family.

use crate::zone;
use lock::{CachePadded, Cx, Guarded, Lock, Locks};
use stats::hint::cold_path;
use std::hint::select_unpredictable;
use std::net::{Ipv4Addr, SocketAddr, SocketAddrV6};
use std::ops::BitAnd;
use std::sync::atomic::{AtomicUsize, Ordering};
use wire::L4Port;
use wire::hash::Key;

/// An address of either family. An IPv4 address is stored as `::ffff:a.b.c.d`. An IPv6 link-local
/// address includes the number of its interface ([`zone::embed`]). The unspecified address of a
/// family means any address of that family.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default)]
pub struct Addr(pub u128);

const MAPPED: u128 = 0xffff_0000_0000;

impl Addr {
    /// The unspecified IPv4 address, which means any IPv4 address.
    pub const ANY4: Addr = Addr(MAPPED);
    /// The unspecified IPv6 address, which means any IPv6 address.
    pub const ANY6: Addr = Addr(0);

    /// Converts an IPv4 address.
    #[inline(always)]
    pub fn v4(addr: Ipv4Addr) -> Addr {
        Addr(MAPPED | u128::from(u32::from(addr)))
    }

    /// Returns the IPv4 address; `None` for an IPv6 address.
    #[inline(always)]
    pub fn to_v4(self) -> Option<Ipv4Addr> {
        (self.0 >> 32 == MAPPED >> 32).then(|| Ipv4Addr::from(self.0 as u32))
    }

    /// Returns whether this is the unspecified address of its family.
    #[inline(always)]
    pub fn is_any(self) -> bool {
        self == self.any()
    }

    /// Returns the unspecified address of the same family.
    #[inline(always)]
    pub fn any(self) -> Addr {
        if self.0 >> 32 == MAPPED >> 32 { Addr::ANY4 } else { Addr::ANY6 }
    }

    /// Returns the address with a port, as shown to programs.
    pub(crate) fn with_port(self, port: L4Port) -> SocketAddr {
        if let Some(v4) = self.to_v4() {
            return SocketAddr::from((v4, port.0));
        }
        let (addr, iface) = zone::split(self.0);
        SocketAddr::V6(SocketAddrV6::new(addr, port.0, 0, iface.map_or(0, zone::scope_id)))
    }
}

/// An address as an integer, as stored in sockets and datagrams: [`u32`] for IPv4, [`u128`] for
/// IPv6. 0 means any address.
pub(crate) trait Bits: Copy + Eq + Default + BitAnd<Output = Self> {
    /// All bits set: the mask that compares the whole address.
    const ALL: Self;
    /// Type for the addresses and ports of a datagram, with the layout of the packet's headers.
    type Wire: Copy + Default + Into<Ends<Self>>;

    /// Returns the address as 128 bits, with IPv4 mapped into IPv6.
    fn addr(self) -> Addr;
    /// Returns whether `one` and `other` are equal in all fields that `probe` hashes, so that their
    /// hashes are equal too.
    fn is_same(probe: &EndsProbe<Self>, one: Self::Wire, other: Self::Wire) -> bool;
}

impl Bits for u32 {
    const ALL: u32 = u32::MAX;
    type Wire = WireEnds;

    #[inline(always)]
    fn addr(self) -> Addr {
        Addr(MAPPED | u128::from(self))
    }

    #[inline(always)]
    fn is_same(probe: &EndsProbe<u32>, one: WireEnds, other: WireEnds) -> bool {
        let addrs = (one.addrs ^ other.addrs) & (u64::from(probe.remote) << 32 | u64::from(probe.local));
        let ports = u64::from(one.ports ^ other.ports) & (probe.ports << 16 | probe.ports >> 16);
        addrs | ports == 0
    }
}

impl Bits for u128 {
    const ALL: u128 = u128::MAX;
    type Wire = Ends6;

    #[inline(always)]
    fn addr(self) -> Addr {
        Addr(self)
    }

    #[inline(always)]
    fn is_same(probe: &EndsProbe<u128>, one: Ends6, other: Ends6) -> bool {
        let addrs = (one.local ^ other.local) & probe.local | (one.remote ^ other.remote) & probe.remote;
        let ports = |ends: Ends6| u64::from(ends.local_port.0) << 16 | u64::from(ends.remote_port.0);
        addrs == 0 && (ports(one) ^ ports(other)) & probe.ports == 0
    }
}

/// Key of a Pcb: local and remote address and L4 port.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default)]
pub struct Tuple {
    /// Local address; unspecified: any address.
    pub local: Addr,
    /// Remote address; unspecified: any address.
    pub remote: Addr,
    /// Local L4 port.
    pub local_port: L4Port,
    /// Remote L4 port; 0: any port.
    pub remote_port: L4Port,
}

impl Tuple {
    fn kind(&self) -> usize {
        match (self.remote.is_any(), self.local.is_any()) {
            (false, _) => 0,
            (true, false) => 1,
            (true, true) => 2,
        }
    }

    /// Returns the tuple with remote address and port set to any.
    fn bound(self) -> Tuple {
        Tuple { remote: self.local.any(), remote_port: L4Port(0), ..self }
    }

    /// Returns the tuple with everything but the local port set to any.
    fn any(self) -> Tuple {
        Tuple { local: self.local.any(), ..self.bound() }
    }

    /// Returns the local address and port, as shown to programs.
    pub fn local_addr(&self) -> SocketAddr {
        self.local.with_port(self.local_port)
    }

    /// Returns the remote address and port, as shown to programs.
    pub fn remote_addr(&self) -> SocketAddr {
        self.remote.with_port(self.remote_port)
    }
}

/// Addresses and ports of a datagram or a socket, in one address family; 0 means any.
///
/// A [`Tuple`] takes 48 bytes, most of them zeros for IPv4. `Ends` takes 12 bytes for IPv4 and fits
/// into the first cache line of a Pcb.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(crate) struct Ends<A> {
    pub(crate) local: A,
    pub(crate) remote: A,
    pub(crate) local_port: L4Port,
    pub(crate) remote_port: L4Port,
}

pub(crate) type Ends4 = Ends<u32>;
/// Addresses and ports of IPv6. Link-local addresses include the interface number.
pub(crate) type Ends6 = Ends<u128>;

impl<A: Bits> Ends<A> {
    /// Returns whether a socket with the addresses and ports `self` accepts a datagram with the
    /// addresses and ports `other`.
    #[inline(always)]
    pub(crate) fn accepts(self, other: Ends<A>) -> bool {
        self.local_port == other.local_port
            && (self.local == other.local || self.local == A::default())
            && (self.remote_port.0 == 0 || self.remote_port == other.remote_port && self.remote == other.remote)
    }
}

/// Addresses and ports of an IPv4 datagram in two words, in the order of the headers: source before
/// destination.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(crate) struct WireEnds {
    pub(crate) addrs: u64,
    pub(crate) ports: u32,
}

impl From<WireEnds> for Ends4 {
    #[cfg_attr(not(debug_assertions), inline(always))]
    fn from(ends: WireEnds) -> Ends4 {
        Ends4 {
            local: ends.addrs as u32,
            remote: (ends.addrs >> 32) as u32,
            local_port: L4Port(ends.ports as u16),
            remote_port: L4Port((ends.ports >> 16) as u16),
        }
    }
}

impl From<Ends4> for WireEnds {
    #[inline(always)]
    fn from(ends: Ends4) -> WireEnds {
        WireEnds {
            addrs: u64::from(ends.remote) << 32 | u64::from(ends.local),
            ports: u32::from(ends.remote_port.0) << 16 | u32::from(ends.local_port.0),
        }
    }
}

impl<A: Bits> From<Ends<A>> for Tuple {
    #[cfg_attr(not(debug_assertions), inline(always))]
    fn from(ends: Ends<A>) -> Tuple {
        Tuple {
            local: ends.local.addr(),
            remote: ends.remote.addr(),
            local_port: ends.local_port,
            remote_port: ends.remote_port,
        }
    }
}

/// Step of a lookup. It determines which addresses and ports of a packet are compared with the
/// Pcbs.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Probe {
    /// Local and remote address and port, as for a connected socket.
    Connected,
    /// Local address and port, as for a bound socket.
    Bound,
    /// Local port only.
    Any,
}

impl Probe {
    /// Returns `tuple` with the fields that this probe does not compare set to any.
    pub fn of(self, tuple: Tuple) -> Tuple {
        match self {
            Probe::Connected => tuple,
            Probe::Bound => tuple.bound(),
            Probe::Any => tuple.any(),
        }
    }
}

/// Bit masks that select the fields that a [`Probe`] compares. With these masks, hashing a datagram
/// needs no branch and no [`Tuple`].
#[derive(Clone, Copy)]
pub(crate) struct EndsProbe<A> {
    key: Key,
    local: A,
    remote: A,
    ports: u64,
}

impl<A: Bits> EndsProbe<A> {
    /// Returns the [`Demux::hash`] of the masked addresses and ports of a datagram.
    #[inline(always)]
    pub(crate) fn hash(&self, ends: Ends<A>) -> u64 {
        let ports = u64::from(ends.local_port.0) << 16 | u64::from(ends.remote_port.0);
        hash(self.key, (ends.local & self.local).addr(), (ends.remote & self.remote).addr(), ports & self.ports)
    }

    /// Returns whether the fields of this probe decide which datagrams `socket` accepts: of the
    /// datagrams that are equal in these fields, it accepts all or none.
    #[inline(always)]
    pub(crate) fn covers(&self, socket: Ends<A>) -> bool {
        (self.local == A::ALL || socket.local == A::default()) && (self.remote == A::ALL || socket.remote_port.0 == 0)
    }
}

/// Computes the keyed hash of addresses and ports. The upper halves of the two addresses are
/// combined into one word of the hash input, since they are constant for IPv4.
#[inline(always)]
fn hash(key: Key, Addr(local): Addr, Addr(remote): Addr, ports: u64) -> u64 {
    let upper = ((local >> 64) as u64).wrapping_mul(0x9e37_79b9_7f4a_7c15) ^ ((remote >> 64) as u64).rotate_left(21);
    key.hash4(local as u64, remote as u64, ports, upper)
}

#[derive(Clone, Copy, Default)]
#[repr(C, align(16))]
struct Slot {
    hash: u64,
    pcb: u32,
    used: u32,
}

#[derive(Default)]
struct Table {
    slots: Vec<Slot>,
    len: usize,
}

const SMALLEST: usize = 16;

impl Table {
    /// Returns the first Pcb with exactly this hash; `None` if there is none.
    #[cfg_attr(not(debug_assertions), inline(always))]
    fn first(&self, hash: u64) -> Option<u32> {
        let mask = self.slots.len().checked_sub(1)?;
        let at = hash as usize & mask;
        let (home, next) = (self.slots.get(at)?, self.slots.get((at + 1) & mask)?);
        // The entry is in the first slot in three of four cases and in the first two in nine of
        // ten. The choice between the two slots has no branch, since a mispredicted branch costs
        // more than the second comparison.
        let slot = select_unpredictable(home.hash == hash, home, next);
        if slot.hash == hash && slot.used != 0 {
            return Some(slot.pcb);
        }
        cold_path();
        self.find(hash, |_| true)
    }

    fn find(&self, hash: u64, mut is_it: impl FnMut(u32) -> bool) -> Option<u32> {
        let mask = self.slots.len().checked_sub(1)?;
        let mut at = hash as usize & mask;
        loop {
            let slot = self.slots.get(at)?;
            if slot.used == 0 {
                return None;
            }
            if slot.hash == hash && is_it(slot.pcb) {
                return Some(slot.pcb);
            }
            at = (at + 1) & mask;
        }
    }

    fn insert(&mut self, hash: u64, pcb: u32) {
        if (self.len + 1) * 2 > self.slots.len() {
            self.grow();
        }
        self.place(Slot { hash, pcb, used: 1 });
        self.len += 1;
    }

    fn place(&mut self, new: Slot) {
        let mask = self.slots.len().wrapping_sub(1);
        let mut at = new.hash as usize & mask;
        while let Some(slot) = self.slots.get_mut(at) {
            if slot.used == 0 {
                *slot = new;
                return;
            }
            at = (at + 1) & mask;
        }
    }

    fn grow(&mut self) {
        let bigger = (self.slots.len() * 2).max(SMALLEST);
        let mut slots = Vec::with_capacity(bigger);
        buf::mem::advise_huge(slots.spare_capacity_mut());
        slots.resize(bigger, Slot::default());
        let old = std::mem::replace(&mut self.slots, slots);
        old.into_iter().filter(|slot| slot.used != 0).for_each(|slot| self.place(slot));
    }

    /// Removes an entry and fills the gap with later entries where possible. There are no
    /// tombstones, so lookups stay short. Returns `false` if there is no such entry.
    fn remove(&mut self, hash: u64, pcb: u32) -> bool {
        let Some(mask) = self.slots.len().checked_sub(1) else { return false };
        let mut at = hash as usize & mask;
        loop {
            match self.slots.get(at) {
                Some(slot) if slot.used == 0 => return false,
                Some(slot) if slot.hash == hash && slot.pcb == pcb => break,
                Some(_) => at = (at + 1) & mask,
                None => return false,
            }
        }
        self.len -= 1;
        let mut gap = at;
        loop {
            at = (at + 1) & mask;
            let Some(&slot) = self.slots.get(at) else { return true };
            if slot.used == 0 {
                break;
            }
            let home = slot.hash as usize & mask;
            // The entry can move into the gap only if the slot that its hash selects is not between
            // the gap and its present slot.
            if (at.wrapping_sub(home) & mask) >= (at.wrapping_sub(gap) & mask) {
                if let Some(place) = self.slots.get_mut(gap) {
                    *place = slot;
                }
                gap = at;
            }
        }
        if let Some(place) = self.slots.get_mut(gap) {
            *place = Slot::default();
        }
        true
    }
}

const SHARDS: usize = 64;
/// Number of Pcbs that fit, together with their table slots, into an L1 data cache of 48 KiB.
const NEAR: usize = 256;

/// The demux table of one transport protocol.
pub struct Demux<L: Locks> {
    key: Key,
    shards: Box<[CachePadded<Guarded<L, Table>>]>,
    kinds: [AtomicUsize; 3],
}

/// A series of lookups. The shard used last stays locked between lookups, so the caller must take
/// no other lock while this value exists. A stack that threads do not share has only one shard.
pub(crate) struct Run<'a, L: Locks> {
    demux: &'a Demux<L>,
    open: Option<(usize, Open<'a, L>)>,
}

type Open<'a, L> = <<L as Locks>::Lock<Table> as Lock<Table>>::Guard<'a>;

impl<L: Locks> Run<'_, L> {
    #[cfg_attr(not(debug_assertions), inline(always))]
    fn table(&mut self, cx: Cx, hash: u64) -> Option<&Table> {
        let at = self.demux.shard_of(hash);
        if self.open.as_ref().is_none_or(|(open, _)| *open != at) {
            self.open = None; // unlocks this shard before the next one is locked
            self.open = Some((at, self.demux.shards.get(at)?.0.lock(cx)));
        }
        self.open.as_ref().map(|(_, table)| &**table)
    }

    /// Prefetches the slot at which a search for `hash` begins.
    #[inline(always)]
    pub(crate) fn prefetch(&mut self, cx: Cx, hash: u64) {
        let Some(table) = self.table(cx, hash) else { return };
        if let Some(slot) = table.slots.len().checked_sub(1).and_then(|mask| table.slots.get(hash as usize & mask)) {
            buf::prefetch(slot);
        }
    }

    /// Returns a Pcb with exactly this hash; `None` if there is none.
    #[inline(always)]
    pub(crate) fn find(&mut self, cx: Cx, hash: u64) -> Option<usize> {
        self.table(cx, hash)?.first(hash).map(|pcb| pcb as usize)
    }
}

impl<L: Locks> Demux<L> {
    /// Creates an empty table. It has 64 separately locked shards if several threads share the
    /// stack, else one.
    pub fn new(key: Key) -> Self {
        let shards = if L::SHARED { SHARDS } else { 1 };
        let shards = (0..shards).map(|_| CachePadded(Guarded::new(Table::default()))).collect();
        Demux { key, shards, kinds: Default::default() }
    }

    /// Returns the keyed hash of a tuple.
    #[inline(always)]
    pub fn hash(&self, tuple: &Tuple) -> u64 {
        let ports = u64::from(tuple.local_port.0) << 16 | u64::from(tuple.remote_port.0);
        hash(self.key, tuple.local, tuple.remote, ports)
    }

    #[inline(always)]
    fn shard_of(&self, hash: u64) -> usize {
        if L::SHARED { (hash >> 40) as usize & (SHARDS - 1) } else { 0 }
    }

    #[inline(always)]
    fn shard(&self, hash: u64) -> Option<&Guarded<L, Table>> {
        self.shards.get(self.shard_of(hash)).map(|shard| &shard.0)
    }

    /// Adds `pcb` under the key `tuple`.
    pub fn insert(&self, cx: Cx, tuple: &Tuple, pcb: usize) {
        let hash = self.hash(tuple);
        if let Some(shard) = self.shard(hash) {
            shard.lock(cx).insert(hash, pcb as u32);
            if let Some(kind) = self.kinds.get(tuple.kind()) {
                kind.fetch_add(1, Ordering::Relaxed);
            }
        }
    }

    /// Removes the entry of `pcb` under the key `tuple`.
    pub fn remove(&self, cx: Cx, tuple: &Tuple, pcb: usize) {
        let hash = self.hash(tuple);
        let removed = self.shard(hash).is_some_and(|shard| shard.lock(cx).remove(hash, pcb as u32));
        if let (true, Some(kind)) = (removed, self.kinds.get(tuple.kind())) {
            kind.fetch_sub(1, Ordering::Relaxed);
        }
    }

    #[inline(always)]
    fn any_of_kind(&self, kind: usize) -> bool {
        self.kinds.get(kind).is_some_and(|n| n.load(Ordering::Relaxed) > 0)
    }

    /// Returns the first probe of a lookup: the one that compares the most fields, among the probes
    /// for which there are Pcbs.
    #[cfg_attr(not(debug_assertions), inline(always))]
    pub fn first_probe(&self) -> Probe {
        if self.any_of_kind(0) {
            Probe::Connected
        } else if self.any_of_kind(1) {
            Probe::Bound
        } else {
            Probe::Any
        }
    }

    /// Returns whether the entries and their Pcbs do not fit into an L1 data cache. Prefetching
    /// them is useful only in this case.
    #[inline(always)]
    pub fn is_large(&self) -> bool {
        self.len() > NEAR
    }

    /// Returns [`Demux::first_probe`] as masks for the datagrams of an address family.
    #[cfg_attr(not(debug_assertions), inline(always))]
    pub(crate) fn ends_probe<A: Bits>(&self) -> EndsProbe<A> {
        let (local, remote, ports) = match self.first_probe() {
            Probe::Connected => (A::ALL, A::ALL, u64::MAX),
            Probe::Bound => (A::ALL, A::default(), 0xffff_0000),
            Probe::Any => (A::default(), A::default(), 0xffff_0000),
        };
        EndsProbe { key: self.key, local, remote, ports }
    }

    /// Starts a series of lookups.
    #[inline(always)]
    pub(crate) fn run(&self) -> Run<'_, L> {
        Run { demux: self, open: None }
    }

    /// Returns a Pcb with exactly this hash; `None` if there is none.
    #[inline(always)]
    pub fn find(&self, cx: Cx, hash: u64) -> Option<usize> {
        self.shard(hash)?.lock(cx).first(hash).map(|pcb| pcb as usize)
    }

    /// Returns the Pcb for a packet with `tuple`. `hash` is the hash of [`Demux::first_probe`] for
    /// this packet. The caller must confirm the match with the Pcb.
    #[inline(always)]
    pub fn lookup_hashed(&self, cx: Cx, tuple: impl FnOnce() -> Tuple, hash: u64) -> Option<usize> {
        match self.find(cx, hash) {
            Some(pcb) => Some(pcb),
            None => self.lookup_wider(cx, &tuple()),
        }
    }

    #[inline(never)]
    fn lookup_wider(&self, cx: Cx, tuple: &Tuple) -> Option<usize> {
        if self.any_of_kind(1)
            && let Some(pcb) = self.find(cx, self.hash(&tuple.bound()))
        {
            return Some(pcb);
        }
        if self.any_of_kind(2) { self.find(cx, self.hash(&tuple.any())) } else { None }
    }

    /// Returns the Pcb for a packet with `tuple`. The caller must confirm the match with the Pcb.
    pub fn lookup(&self, cx: Cx, tuple: &Tuple) -> Option<usize> {
        self.lookup_hashed(cx, || *tuple, self.hash(&self.first_probe().of(*tuple)))
    }

    /// Returns whether a Pcb for which `is_it` returns true has an entry with exactly the key
    /// `tuple`.
    pub fn contains(&self, cx: Cx, tuple: &Tuple, is_it: impl FnMut(u32) -> bool) -> bool {
        let hash = self.hash(tuple);
        self.shard(hash).is_some_and(|shard| shard.lock(cx).find(hash, is_it).is_some())
    }

    /// Returns the number of entries.
    pub fn len(&self) -> usize {
        self.kinds.iter().map(|n| n.load(Ordering::Relaxed)).sum()
    }

    /// Returns whether the table is empty.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Returns the number of lock acquisitions so far and the number of locks.
    pub fn locks(&self) -> (u64, usize) {
        (self.shards.iter().map(|shard| shard.0.acquisitions()).sum(), self.shards.len())
    }
}

#[cfg(test)]
mod tests;
