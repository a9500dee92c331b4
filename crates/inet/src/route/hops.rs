//! Next hops as forwarding threads read them: without a lock, while routes and neighbors change.
//!
//! A next hop is stored in a cell of atomic words. The target (`via`) of a cell is written before
//! any route uses the cell. The cell is reused only when no pinned reader can have its number. The
//! cached Ethernet header is written, under a seqlock, by the thread that resolved the gateway's
//! address. A reader that observes a write in progress treats the header as missing and uses the
//! neighbor table. Cells are in segments of 64, 64, 128, 256 ..., which never move.
//!
//! The cell of a next hop object ([`super::objects`]) contains the number of another next hop, its
//! target. Readers of the object read the target, so that one store changes the target of all its
//! routes.

use super::via::{PathsId, Via};
use crate::iface::IfaceId;
use clock::Instant;
use fib::{AddrBits, NextHopId};
use std::net::{Ipv4Addr, Ipv6Addr};
use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering, fence};

const FIRST: usize = 64;
const SEGMENTS: usize = 15;
/// Maximum number of next hops: two million, of 64 bytes each.
pub(super) const HOPS_MAX: usize = FIRST << SEGMENTS;

/// Next hop that a route lookup returned, by value.
#[derive(Clone, Copy, Debug)]
pub struct Hop<G = Ipv4Addr> {
    /// Target of the route.
    pub via: Via<G>,
    /// Number of the next hop, for [`super::RouteReader::remember`].
    pub id: NextHopId,
    /// Ethernet header of the last packet to this gateway. It is valid if `epoch` equals the
    /// stack's link epoch (count of changes to neighbors, addresses and interfaces).
    pub adjacency: [u8; 14],
    /// Link epoch at which the header was stored; 0 if none was stored.
    pub epoch: u64,
}

/// Ethernet header for a next hop, as two words in memory order. The second word contains the last
/// six bytes of the header.
#[derive(Clone, Copy, Debug, Default)]
pub struct Adjacency([u64; 2]);

impl Adjacency {
    /// Writes the header to `to`.
    #[cfg_attr(not(debug_assertions), inline(always))]
    pub fn write(self, to: &mut [u8; 14]) {
        let Adjacency([front, back]) = self;
        // Two overlapping stores of eight bytes instead of three smaller stores.
        if let Some(first) = to.first_chunk_mut() {
            *first = front.to_le_bytes();
        }
        if let Some(last) = to.last_chunk_mut() {
            *last = (front >> 48 | back << 16).to_le_bytes();
        }
    }
}

#[derive(Default)]
#[repr(align(64))]
struct Cell {
    /// Kind, interface, and low 32 bits of a gateway's address.
    via: AtomicU64,
    /// The other bits of an IPv6 gateway's address, also for IPv4 routes.
    gateway: [AtomicU64; 2],
    /// Sequence number of the seqlock: odd while `epoch` and `link` are being written.
    sequence: AtomicU64,
    epoch: AtomicU64,
    link: [AtomicU64; 2],
    /// Time in nanoseconds until which the gateway is treated as dead; 0 if it is alive.
    dead_until: AtomicU64,
}

impl Cell {
    #[cfg_attr(not(debug_assertions), inline(always))]
    fn via<A: AddrBits>(&self) -> Via<A::Addr> {
        let word = self.via.load(Ordering::Acquire);
        let mut bits = u128::from(word as u32);
        if A::BITS > 32 || word >> 56 == GATEWAY6 {
            let [low, high] = [0, 1].map(|at| self.gateway.get(at).map_or(0, |word| word.load(Ordering::Relaxed)));
            bits |= u128::from(low) << 32 | u128::from(high) << 96;
        }
        decode::<A>(word, bits)
    }

    fn set<A: AddrBits>(&self, via: Via<A::Addr>) {
        let bits = gateway_bits::<A>(via);
        for (word, value) in self.gateway.iter().zip([bits >> 32, bits >> 96]) {
            word.store(value as u64, Ordering::Relaxed);
        }
        self.via.store(encode(via, bits), Ordering::Release);
    }

    #[cfg_attr(not(debug_assertions), inline(always))]
    fn object_target(&self) -> Option<NextHopId> {
        let word = self.via.load(Ordering::Acquire);
        if word >> 56 == OBJECT { NextHopId::new(word as u32) } else { None }
    }

    /// Returns the cached Ethernet header and its epoch. The epoch is 0 during a concurrent write.
    #[cfg_attr(not(debug_assertions), inline(always))]
    fn adjacency(&self) -> ([u8; 14], u64) {
        let sequence = self.sequence.load(Ordering::Acquire);
        let epoch = self.epoch.load(Ordering::Relaxed);
        let [front, back] = [0, 1].map(|at| self.link.get(at).map_or(0, |word| word.load(Ordering::Relaxed)));
        fence(Ordering::Acquire);
        let whole = sequence & 1 == 0 && self.sequence.load(Ordering::Relaxed) == sequence;
        let bytes = u128::from(front) | u128::from(back) << 64;
        let mut link = [0; 14];
        link.copy_from_slice(bytes.to_le_bytes().first_chunk::<14>().unwrap_or(&[0; 14]));
        (link, if whole { epoch } else { 0 })
    }

    /// Caches an Ethernet header. Returns without a change if another thread is writing one, since
    /// that one is equally new.
    fn remember(&self, link: [u8; 14], epoch: u64) {
        let sequence = self.sequence.load(Ordering::Relaxed);
        let taken = |to| self.sequence.compare_exchange(sequence, to, Ordering::Acquire, Ordering::Relaxed);
        if sequence & 1 != 0 || taken(sequence + 1).is_err() {
            return;
        }
        fence(Ordering::Release);
        let mut bytes = [0; 16];
        bytes.iter_mut().zip(link).for_each(|(byte, from)| *byte = from);
        let words = u128::from_le_bytes(bytes);
        for (word, value) in self.link.iter().zip([words as u64, (words >> 64) as u64]) {
            word.store(value, Ordering::Relaxed);
        }
        self.epoch.store(epoch, Ordering::Relaxed);
        self.sequence.store(sequence + 2, Ordering::Release);
    }
}

/// Next hops by number.
pub(super) struct Hops {
    /// Cells of the first next hops. Hosts and most routers need no other cells.
    first: [Cell; FIRST],
    segments: [OnceLock<Box<[Cell]>>; SEGMENTS],
    /// Set once there has been an object.
    has_objects: AtomicBool,
    /// Number of diverted objects.
    diverted: AtomicUsize,
    /// Number of dead next hops. It is usually 0, and then path selection avoids no path.
    dead: AtomicUsize,
}

impl Default for Hops {
    fn default() -> Self {
        Hops {
            first: std::array::from_fn(|_| Cell::default()), // `Default` is for at most 32 elements
            segments: Default::default(),
            has_objects: AtomicBool::default(),
            diverted: AtomicUsize::default(),
            dead: AtomicUsize::default(),
        }
    }
}

impl Hops {
    #[cfg_attr(not(debug_assertions), inline(always))]
    fn cell(&self, id: NextHopId) -> Option<&Cell> {
        let at = id.index();
        match self.first.get(at) {
            Some(cell) => Some(cell),
            None => self.far_cell(at),
        }
    }

    #[inline(never)]
    fn far_cell(&self, at: usize) -> Option<&Cell> {
        let segment = segment_of(at)?;
        self.segments.get(segment)?.get()?.get(at - (FIRST << segment))
    }

    /// Returns the cell of next hop `id`, or the cell of its target if it is an object, with the
    /// number of the cell.
    #[cfg_attr(not(debug_assertions), inline(always))]
    fn target(&self, id: NextHopId) -> Option<(NextHopId, &Cell)> {
        let cell = self.cell(id)?;
        match cell.object_target() {
            None => Some((id, cell)),
            Some(target) => Some((target, self.cell(target)?)),
        }
    }

    /// Returns the target of the object `id`; `None` if the next hop is not an object.
    pub(super) fn object_target(&self, id: NextHopId) -> Option<NextHopId> {
        self.cell(id)?.object_target()
    }

    #[inline(always)]
    pub(super) fn has_objects(&self) -> bool {
        self.has_objects.load(Ordering::Relaxed)
    }

    pub(super) fn has_diverted(&self) -> bool {
        self.diverted.load(Ordering::Relaxed) != 0
    }

    pub(super) fn note_diverted(&self, count: usize) {
        self.diverted.store(count, Ordering::Relaxed);
    }

    /// Returns next hop `id`. The caller must be pinned.
    #[inline(always)]
    pub(super) fn get<A: AddrBits>(&self, id: NextHopId) -> Option<Hop<A::Addr>> {
        let (id, cell) = self.target(id)?;
        let (adjacency, epoch) = cell.adjacency();
        Some(Hop { via: cell.via::<A>(), id, adjacency, epoch })
    }

    /// Returns the cached Ethernet header of next hop `id`, if the next hop is a gateway on `out`
    /// and the header is valid at `epoch`. The caller must be pinned.
    #[cfg_attr(not(debug_assertions), inline(always))]
    pub(super) fn adjacency_to(&self, id: NextHopId, out: IfaceId, epoch: u64) -> Option<Adjacency> {
        let (_, cell) = self.target(id)?;
        let sequence = cell.sequence.load(Ordering::Acquire);
        let to = cell.via.load(Ordering::Acquire) >> 32;
        let leads_there = to & !((GATEWAY ^ GATEWAY6) << 24) == GATEWAY << 24 | u64::from(out.0);
        let is_good = cell.epoch.load(Ordering::Relaxed) == epoch;
        let link = Adjacency([cell.link[0].load(Ordering::Relaxed), cell.link[1].load(Ordering::Relaxed)]);
        fence(Ordering::Acquire);
        let whole = sequence & 1 == 0 && cell.sequence.load(Ordering::Relaxed) == sequence;
        (leads_there && is_good && whole).then_some(link)
    }

    /// Returns the target of next hop `id`.
    #[inline(always)]
    pub(super) fn via<A: AddrBits>(&self, id: NextHopId) -> Option<Via<A::Addr>> {
        Some(self.target(id)?.1.via::<A>())
    }

    /// Makes `id` an object with the next hop `target`, or changes the target of the object.
    /// Readers see the change as one store.
    pub(super) fn set_object(&self, id: NextHopId, target: NextHopId) {
        if let Some(cell) = self.cell_to_set(id) {
            self.has_objects.store(true, Ordering::Release); // before a route has the number
            cell.via.store(OBJECT << 56 | target.index() as u64, Ordering::Release);
        }
    }

    /// Returns the cell of `id`, and allocates its segment if necessary.
    fn cell_to_set(&self, id: NextHopId) -> Option<&Cell> {
        if let Some(segment) = segment_of(id.index())
            && let Some(cells) = self.segments.get(segment)
        {
            cells.get_or_init(|| (0..FIRST << segment).map(|_| Cell::default()).collect());
        }
        self.cell(id)
    }

    /// Sets the target of `id` and clears its cached header. No reader may have the number `id`.
    pub(super) fn set<A: AddrBits>(&self, id: NextHopId, via: Via<A::Addr>) {
        if let Some(cell) = self.cell_to_set(id) {
            self.mark_alive(id);
            cell.remember([0; 14], 0);
            cell.set::<A>(via);
        }
    }

    /// Caches the Ethernet header for a gateway, if `via` is still the target of `id`. The caller
    /// must be pinned.
    pub(super) fn remember<A: AddrBits>(&self, id: NextHopId, via: Via<A::Addr>, link: [u8; 14], epoch: u64) {
        if let Some(cell) = self.cell(id).filter(|cell| cell.via::<A>() == via) {
            cell.remember(link, epoch);
        }
    }

    /// Marks a gateway that did not answer as dead until `until`. A dead gateway is avoided if the
    /// route has another path.
    pub(super) fn mark_dead(&self, id: NextHopId, until: Instant) {
        if let Some(cell) = self.cell(id)
            && cell.dead_until.swap(until.nanos().max(1), Ordering::AcqRel) == 0
        {
            self.dead.fetch_add(1, Ordering::AcqRel);
        }
    }

    /// Marks a gateway as alive, after it answered.
    pub(super) fn mark_alive(&self, id: NextHopId) {
        if self.dead.load(Ordering::Acquire) == 0 {
            return;
        }
        if let Some(cell) = self.cell(id)
            && cell.dead_until.swap(0, Ordering::AcqRel) != 0
        {
            self.dead.fetch_sub(1, Ordering::AcqRel);
        }
    }

    /// Returns whether any gateway is marked as dead.
    #[inline(always)]
    pub(super) fn any_dead(&self) -> bool {
        self.dead.load(Ordering::Acquire) != 0
    }

    /// Returns whether a packet may use the next hop. A packet may use a live gateway. When the
    /// waiting time of a dead gateway has passed, one packet may try the gateway again; other
    /// packets avoid it until `again`.
    pub(super) fn may_try(&self, id: NextHopId, now: Instant, again: Instant) -> bool {
        let Some(cell) = self.cell(id) else { return false };
        let until = cell.dead_until.load(Ordering::Acquire);
        let due = until != 0 && now.nanos() >= until;
        let mine = |to: u64| cell.dead_until.compare_exchange(until, to, Ordering::AcqRel, Ordering::Relaxed).is_ok();
        until == 0 || due && mine(again.nanos().max(1))
    }

    /// Returns the time until which the gateway is avoided; `None` if it is alive.
    pub(super) fn dead_until(&self, id: NextHopId) -> Option<Instant> {
        let until = self.cell(id)?.dead_until.load(Ordering::Acquire);
        (until != 0).then(|| Instant::from_nanos(until))
    }

    pub(super) fn bytes(&self) -> usize {
        let far = self.segments.iter().filter_map(OnceLock::get).map(|cells| cells.len()).sum::<usize>();
        (FIRST + far) * size_of::<Cell>()
    }
}

/// Returns the index of the segment that contains next hop `at`; `None` if it is in `first`.
fn segment_of(at: usize) -> Option<usize> {
    (at.max(1).ilog2() as usize).checked_sub(FIRST.ilog2() as usize)
}

/// Value of the kind field for a gateway.
const GATEWAY: u64 = 4;
/// Value of the kind field for an IPv6 gateway of an IPv4 route. It differs in one bit, so that one
/// comparison finds both.
const GATEWAY6: u64 = 12;
/// Value of the kind field for an object. The low 32 bits are the number of its target.
const OBJECT: u64 = 8;

/// Returns the address of the gateway as an integer; 0 if `via` is not a gateway.
fn gateway_bits<A: AddrBits>(via: Via<A::Addr>) -> u128 {
    match via {
        Via::Gateway(_, gateway) => A::of(gateway).to_wide(),
        Via::Gateway6(_, gateway) => gateway.to_bits(),
        _ => 0,
    }
}

/// Encodes a target as a word: kind, interface, and low 32 bits of an address.
fn encode<G>(via: Via<G>, bits: u128) -> u64 {
    let word = |kind: u64, iface: u16| kind << 56 | u64::from(iface) << 32 | u64::from(bits as u32);
    match via {
        Via::Blackhole => word(0, 0),
        Via::Local(iface) => word(1, iface.0),
        Via::Broadcast(iface) => word(2, iface.0),
        Via::Link(iface) => word(3, iface.0),
        Via::Gateway(iface, _) => word(GATEWAY, iface.0),
        Via::Gateway6(iface, _) => word(GATEWAY6, iface.0),
        Via::Reject => word(5, 0),
        Via::Prohibit => word(6, 0),
        Via::Paths(PathsId(paths)) => word(7, paths),
    }
}

#[cfg_attr(not(debug_assertions), inline(always))]
fn decode<A: AddrBits>(word: u64, gateway: u128) -> Via<A::Addr> {
    let iface = IfaceId((word >> 32) as u16);
    match word >> 56 {
        1 => Via::Local(iface),
        2 => Via::Broadcast(iface),
        3 => Via::Link(iface),
        GATEWAY => Via::Gateway(iface, A::from_wide(gateway).to_addr()),
        GATEWAY6 => Via::Gateway6(iface, Ipv6Addr::from_bits(gateway)),
        5 => Via::Reject,
        6 => Via::Prohibit,
        7 => Via::Paths(PathsId(iface.0)),
        _ => Via::Blackhole,
    }
}
