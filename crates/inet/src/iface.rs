//! An iface: a port seen from the stack, with addresses, an MTU, and a short queue in front of the port.
//!
//! The stack does not know ports. It hands bursts to an [`Output`], which the node makes of a port's transmitting half, one
//! for each queue of the port; what that does not take waits here, up to `net.link.tx_queue` frames per queue.

mod id;
mod queue;

use crate::ip6::Six;
use crate::tunnel::Kind as TunnelKind;
use buf::Frame;
pub use id::{IfaceId, LOOPBACK};
use lock::{Cx, Guarded, Locks};
pub use queue::Output;
pub(crate) use queue::{AtOnce, AtomicQueueSet, Queue, QueueSet, Queues, TxStage};
use stats::Counter;
use std::net::Ipv4Addr;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use wire::Mac;
use wire::eth::{self, EtherType};

/// What kind of link it is.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum IfaceKind {
    /// Ethernet, with ARP.
    Ethernet,
    /// The host itself: frames sent are queued and come in again.
    Loopback,
    /// A path to one other host through other networks, for IP packets: no link header, no ARP, no broadcast.
    Tunnel,
}

/// An address of an iface.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct IfaceAddr {
    /// The address.
    pub addr: Ipv4Addr,
    /// Length of the on-link prefix in bits.
    pub len: u8,
}

impl IfaceAddr {
    /// The prefix as a mask.
    pub fn mask(self) -> u32 {
        u32::MAX.checked_shl(32 - u32::from(self.len)).unwrap_or(0)
    }

    /// The directed broadcast address; `None` for prefixes of 31 and 32 bits (RFC 3021).
    pub fn broadcast(self) -> Option<Ipv4Addr> {
        (self.len < 31).then(|| Ipv4Addr::from(u32::from(self.addr) | !self.mask()))
    }

    /// Is `other` on this link?
    pub fn contains(self, other: Ipv4Addr) -> bool {
        (u32::from(self.addr) ^ u32::from(other)) & self.mask() == 0
    }
}

/// Offload switches of an iface (`ifconfig pg0 ip4csum udp4csum`).
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Offload {
    /// Leave IPv4 header checksums to the port.
    pub tx_ip: bool,
    /// Leave TCP and UDP checksums to the port.
    pub tx_l4: bool,
    /// Leave it to the port to cut up large TCP segments (`tso4`); needs `tx_l4`.
    pub tso: bool,
    /// Believe the port's verdict on received checksums.
    pub rx: bool,
}

/// What went one way through an iface that has no port to count it, loopback or a tunnel.
#[derive(Debug, Default)]
pub struct Traffic {
    /// Packets, or frames where a tunnel carries those.
    pub packets: Counter,
    /// Their bytes, without what a tunnel puts in front of them.
    pub bytes: Counter,
    /// Those that could not go on. As with gif(4), what fails after it was taken in to be sent is in `packets` too.
    pub errors: Counter,
}

impl Traffic {
    pub(crate) fn passed(&self, frame: &Frame) {
        self.packets.bump();
        self.bytes.add(frame.len() as u64);
    }
}

/// One iface.
pub struct Iface<L: Locks> {
    /// Its number.
    pub id: IfaceId,
    /// Its name.
    pub name: String,
    /// Its kind.
    pub kind: IfaceKind,
    /// Its MAC address.
    pub mac: Mac,
    /// What the port can do, whatever is switched on now.
    pub capable: Offload,
    /// It has no port: what it sends goes through a tunnel of this kind.
    pub tunnel: Option<TunnelKind>,
    /// What came in, if it has no port: written under the lock of the queue it waits in, errors under that of the tunnels.
    pub rx: Traffic,
    /// What was sent, if it has no port: written under the lock of loopback's queue or of the tunnels.
    pub tx: Traffic,
    gone: AtomicBool,
    own_source_seen: AtomicBool,
    mtu: AtomicU32,
    /// MTU for IPv6 from a router advertisement; `u32::MAX` if there is none.
    pub(crate) advertised_mtu: AtomicU32,
    up: AtomicBool,
    offload: AtomicU32,
    pub(crate) addrs: Guarded<L, Vec<IfaceAddr>>,
    /// IPv4 address that is about to be used.
    pub(crate) probe: crate::arp::Probe,
    pub(crate) speaks6: AtomicBool,
    /// An address to which a route leads may be tentative, a duplicate or gone.
    pub(crate) unsure6: AtomicBool,
    pub(crate) six: Guarded<L, Six>,
    pub(crate) queues: Queues<L>,
}

impl<L: Locks> Iface<L> {
    pub(crate) fn new(id: IfaceId, name: &str, kind: IfaceKind, mac: Mac, mtu: u16, capable: Offload) -> Iface<L> {
        Iface {
            id,
            name: name.to_string(),
            kind,
            mac,
            capable,
            tunnel: None,
            rx: Traffic::default(),
            tx: Traffic::default(),
            gone: AtomicBool::new(false),
            own_source_seen: AtomicBool::new(false),
            mtu: AtomicU32::new(u32::from(mtu)),
            advertised_mtu: AtomicU32::new(u32::MAX),
            up: AtomicBool::new(true),
            offload: AtomicU32::new(0),
            addrs: Guarded::new(Vec::new()),
            probe: crate::arp::Probe::default(),
            speaks6: AtomicBool::new(false),
            unsure6: AtomicBool::new(false),
            six: Guarded::default(),
            queues: Queues::new(id),
        }
    }

    /// The same as a tunnel's.
    pub(crate) fn tunnelling(self, kind: TunnelKind) -> Iface<L> {
        Iface { tunnel: Some(kind), ..self }
    }

    /// Was it removed? It keeps its number, and may come back.
    #[inline]
    pub(crate) fn is_gone(&self) -> bool {
        self.gone.load(Ordering::Relaxed)
    }

    pub(crate) fn set_gone(&self, gone: bool) {
        self.gone.store(gone, Ordering::Relaxed);
    }

    /// Returns whether a frame arrived with this iface's own MAC address as its source: another
    /// station on the link has the same address, or the link loops.
    pub fn is_own_source_seen(&self) -> bool {
        self.own_source_seen.load(Ordering::Relaxed)
    }

    pub(crate) fn set_own_source_seen(&self) {
        self.own_source_seen.store(true, Ordering::Relaxed);
    }

    /// The largest IP packet, in bytes.
    #[inline]
    pub fn mtu(&self) -> usize {
        self.mtu.load(Ordering::Relaxed) as usize
    }

    pub(crate) fn set_mtu(&self, mtu: u16) {
        self.mtu.store(u32::from(mtu), Ordering::Relaxed);
    }

    /// Is it up?
    #[inline]
    pub fn is_up(&self) -> bool {
        self.up.load(Ordering::Relaxed)
    }

    pub(crate) fn set_up(&self, up: bool) {
        self.up.store(up, Ordering::Relaxed);
    }

    /// What is left to the port now.
    #[inline]
    pub fn offload(&self) -> Offload {
        let bits = self.offload.load(Ordering::Relaxed);
        Offload { tx_ip: bits & 1 != 0, tx_l4: bits & 2 != 0, rx: bits & 4 != 0, tso: bits & 8 != 0 }
    }

    pub(crate) fn set_offload(&self, offload: Offload) {
        let on = [offload.tx_ip, offload.tx_l4, offload.rx, offload.tso];
        let bits = on.into_iter().rev().fold(0, |bits, on| bits << 1 | u32::from(on));
        self.offload.store(bits, Ordering::Relaxed);
    }

    /// Returns the Ethernet header of a packet of `ethertype` from here to the station `dst`.
    #[inline]
    pub(crate) fn header_to(&self, dst: Mac, ethertype: EtherType) -> [u8; eth::HEADER_LEN] {
        let mut header = [0; eth::HEADER_LEN];
        eth::Header { dst, src: self.mac, ethertype }.emit(&mut header);
        header
    }

    /// Its addresses, the primary one first.
    pub fn addrs(&self, cx: Cx) -> Vec<IfaceAddr> {
        self.addrs.lock(cx).clone()
    }

    /// Returns the number of frames waiting for the port.
    pub fn staged(&self, cx: Cx) -> usize {
        self.queues.iter().map(|queue| queue.lock(cx).burst.len()).sum()
    }

    /// Moves the frames that wait for the port into `ended`.
    pub(crate) fn end_staged(&self, cx: Cx, ended: &mut Vec<Frame>) {
        self.queues.iter().for_each(|queue| ended.extend(queue.lock(cx).burst.drain()));
    }
}

/// Ifaces by number: they come, go down, and are never moved.
pub(crate) struct Ifaces<L: Locks>(Box<[OnceLock<Box<Iface<L>>>]>);

/// Ifaces a stack can have.
pub const IFACES_MAX: usize = 256;

impl<L: Locks> Ifaces<L> {
    pub(crate) fn new() -> Self {
        Ifaces((0..IFACES_MAX).map(|_| OnceLock::new()).collect())
    }

    #[inline(always)]
    pub(crate) fn get(&self, id: IfaceId) -> Option<&Iface<L>> {
        self.0.get(usize::from(id.0))?.get().map(|iface| &**iface)
    }

    pub(crate) fn add(&self, make: impl Fn(IfaceId) -> Iface<L>) -> Option<IfaceId> {
        for (i, slot) in self.0.iter().enumerate() {
            let id = IfaceId(i as u16);
            if slot.get().is_none() && slot.set(Box::new(make(id))).is_ok() {
                return Some(id);
            }
        }
        None
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = &Iface<L>> {
        self.0.iter().map_while(|slot| slot.get()).map(|iface| &**iface).filter(|iface| !iface.is_gone())
    }

    /// An iface that was removed and is made again, `like` it was: numbers are not used up by making and removing the same one.
    pub(crate) fn bring_back(&self, name: &str, mac: Mac, like: impl Fn(&Iface<L>) -> bool) -> Option<&Iface<L>> {
        let mut all = self.0.iter().map_while(|slot| slot.get()).map(|iface| &**iface);
        let gone = all.find(|iface| iface.is_gone() && iface.name == name && iface.mac == mac && like(iface))?;
        gone.set_gone(false);
        gone.set_up(true);
        Some(gone)
    }
}
