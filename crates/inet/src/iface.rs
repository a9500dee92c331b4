//! Interface: a port as seen by the stack, with addresses, an MTU and a short transmit queue.
//!
//! The stack has no access to ports. It passes bursts to an [`Output`], which the crate `node`
//! creates from the transmit half of a port, one per transmit queue of the port. Frames that the
//! output does not accept wait in the interface, up to `net.link.tx_queue` frames per queue.

mod id;
mod queue;

use crate::ip6::Six;
use crate::limit::Policers;
use crate::tunnel::Kind as TunnelKind;
use buf::Frame;
pub use id::{IfaceId, LOOPBACK};
use lock::{Cx, Guarded, Locks};
pub use queue::Output;
pub(crate) use queue::{AtOnce, AtomicQueueSet, Queue, QueueSet, Queues, TxStage};
use stats::Counter;
use std::net::Ipv4Addr;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, AtomicU16, AtomicU32, Ordering};
use wire::Mac;
use wire::eth::{self, EtherType};

/// Link type of an interface.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum IfaceKind {
    /// Ethernet, with ARP.
    Ethernet,
    /// Loopback: sent frames are queued and received again.
    Loopback,
    /// Point-to-point tunnel for IP packets through other networks. It has no link header, no ARP
    /// and no broadcast.
    Tunnel,
    /// Mirror of another interface: a device of the kernel to which packets for the control plane
    /// are passed, and whose frames are sent by the other interface. It has no addresses.
    Mirror,
}

impl IfaceKind {
    /// Returns whether interfaces of this kind send through a port.
    #[inline]
    pub(crate) fn has_port(self) -> bool {
        matches!(self, IfaceKind::Ethernet | IfaceKind::Mirror)
    }
}

/// An IPv4 address of an interface.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct IfaceAddr {
    /// Address of this host.
    pub addr: Ipv4Addr,
    /// Length of the on-link prefix in bits.
    pub len: u8,
}

impl IfaceAddr {
    /// Returns the netmask in host byte order.
    pub fn mask(self) -> u32 {
        u32::MAX.checked_shl(32 - u32::from(self.len)).unwrap_or(0)
    }

    /// Returns the directed broadcast address; `None` for prefixes of 31 and 32 bits (RFC 3021).
    pub fn broadcast(self) -> Option<Ipv4Addr> {
        (self.len < 31).then(|| Ipv4Addr::from(u32::from(self.addr) | !self.mask()))
    }

    /// Returns whether `other` is in the on-link prefix.
    pub fn contains(self, other: Ipv4Addr) -> bool {
        (u32::from(self.addr) ^ u32::from(other)) & self.mask() == 0
    }
}

/// Offloads of an interface; each is on or off (as set by `ifconfig pg0 ip4csum udp4csum`).
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Offload {
    /// The port computes the IPv4 header checksums of sent packets.
    pub tx_ip: bool,
    /// The port computes the TCP and UDP checksums of sent packets.
    pub tx_l4: bool,
    /// The port splits large TCP segments (`tso4`); needs `tx_l4`.
    pub tso: bool,
    /// Received checksums that the port has verified are not verified again.
    pub rx: bool,
}

/// Traffic counters of one direction of a loopback or tunnel interface, which has no port with
/// counters.
#[derive(Debug, Default)]
pub struct Traffic {
    /// Number of packets; for tunnels that carry frames, number of frames.
    pub packets: Counter,
    /// Number of bytes, without the tunnel's encapsulation.
    pub bytes: Counter,
    /// Number of errors. As with gif(4), a packet that fails after it was accepted for sending is
    /// counted in `packets` too.
    pub errors: Counter,
}

impl Traffic {
    pub(crate) fn passed(&self, frame: &Frame) {
        self.packets.bump();
        self.bytes.add(frame.len() as u64);
    }
}

/// An interface of a stack.
pub struct Iface<L: Locks> {
    /// Number within the stack.
    pub id: IfaceId,
    /// Name, such as `em0`.
    pub name: String,
    /// Link type.
    pub kind: IfaceKind,
    /// MAC address of this interface.
    pub mac: Mac,
    /// Offloads that the port supports; [`Iface::offload`] returns those that are on.
    pub capable: Offload,
    /// Kind of the tunnel by which the interface sends; `None` for an interface with a port.
    pub tunnel: Option<TunnelKind>,
    /// Received traffic of an interface without a port. The counters are written under the lock of
    /// the interface's input queue, except `errors`, which is written under the lock of the
    /// tunnels.
    pub rx: Traffic,
    /// Sent traffic of an interface without a port. The counters are written under the lock of the
    /// loopback queue or of the tunnels.
    pub tx: Traffic,
    gone: AtomicBool,
    own_source_seen: AtomicBool,
    /// Number of the mirror of this interface or, of a mirror, of the interface that it mirrors; 0,
    /// the loopback interface, if there is none.
    pub(crate) peer: AtomicU16,
    /// Rate limits of the packets for the mirror.
    pub(crate) policers: Guarded<L, Policers>,
    mtu: AtomicU32,
    /// IPv6 MTU from a router advertisement, in bytes; `u32::MAX` if there is none.
    pub(crate) advertised_mtu: AtomicU32,
    up: AtomicBool,
    link_down: AtomicBool,
    offload: AtomicU32,
    pub(crate) addrs: Guarded<L, Vec<IfaceAddr>>,
    /// Probe that detects whether another station uses an IPv4 address, before this interface uses
    /// it.
    pub(crate) probe: crate::arp::Probe,
    pub(crate) speaks6: AtomicBool,
    /// True if the FIB may contain an IPv6 address of this interface that is tentative or
    /// duplicate. The fast path then checks the state of each destination address.
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
            peer: AtomicU16::new(LOOPBACK.0),
            policers: Guarded::default(),
            mtu: AtomicU32::new(u32::from(mtu)),
            advertised_mtu: AtomicU32::new(u32::MAX),
            up: AtomicBool::new(true),
            link_down: AtomicBool::new(false),
            offload: AtomicU32::new(0),
            addrs: Guarded::new(Vec::new()),
            probe: crate::arp::Probe::default(),
            speaks6: AtomicBool::new(false),
            unsure6: AtomicBool::new(false),
            six: Guarded::default(),
            queues: Queues::new(id),
        }
    }

    /// Converts the interface into a tunnel.
    pub(crate) fn tunnelling(self, kind: TunnelKind) -> Iface<L> {
        Iface { tunnel: Some(kind), ..self }
    }

    /// Returns whether the interface was removed. A removed interface keeps its number and may be
    /// restored.
    #[inline]
    pub(crate) fn is_gone(&self) -> bool {
        self.gone.load(Ordering::Relaxed)
    }

    pub(crate) fn set_gone(&self, gone: bool) {
        self.gone.store(gone, Ordering::Relaxed);
    }

    /// Returns whether a frame has ever arrived with this interface's own MAC address as its
    /// source. Then another station on the link uses the same address, or there is a loop in the
    /// link.
    pub fn is_own_source_seen(&self) -> bool {
        self.own_source_seen.load(Ordering::Relaxed)
    }

    pub(crate) fn set_own_source_seen(&self) {
        self.own_source_seen.store(true, Ordering::Relaxed);
    }

    /// Returns the mirror of this interface or, of a mirror, the interface that it mirrors.
    #[inline]
    pub fn peer(&self) -> Option<IfaceId> {
        Some(IfaceId(self.peer.load(Ordering::Relaxed))).filter(|peer| *peer != LOOPBACK)
    }

    /// Returns the MTU: the size of the largest IP packet, in bytes.
    #[inline]
    pub fn mtu(&self) -> usize {
        self.mtu.load(Ordering::Relaxed) as usize
    }

    pub(crate) fn set_mtu(&self, mtu: u16) {
        self.mtu.store(u32::from(mtu), Ordering::Relaxed);
    }

    /// Returns whether the interface is up.
    #[inline]
    pub fn is_up(&self) -> bool {
        self.up.load(Ordering::Relaxed)
    }

    pub(crate) fn set_up(&self, up: bool) {
        self.up.store(up, Ordering::Relaxed);
    }

    /// Returns whether the link is up.
    #[inline]
    pub fn has_link(&self) -> bool {
        !self.link_down.load(Ordering::Relaxed)
    }

    pub(crate) fn set_link(&self, is_up: bool) {
        self.link_down.store(!is_up, Ordering::Relaxed);
    }

    /// Returns the offloads that are on.
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

    /// Returns the Ethernet header of a packet of `ethertype` from this interface to the MAC
    /// address `dst`.
    #[inline]
    pub(crate) fn header_to(&self, dst: Mac, ethertype: EtherType) -> [u8; eth::HEADER_LEN] {
        let mut header = [0; eth::HEADER_LEN];
        eth::Header { dst, src: self.mac, ethertype }.emit(&mut header);
        header
    }

    /// Returns the IPv4 addresses, the primary one first.
    pub fn addrs(&self, cx: Cx) -> Vec<IfaceAddr> {
        self.addrs.lock(cx).clone()
    }

    /// Returns the number of frames that wait in the transmit queues for the port.
    pub fn staged(&self, cx: Cx) -> usize {
        self.queues.iter().map(|queue| queue.lock(cx).burst.len()).sum()
    }

    /// Removes the frames that wait for the port and appends them to `ended`.
    pub(crate) fn end_staged(&self, cx: Cx, ended: &mut Vec<Frame>) {
        self.queues.iter().for_each(|queue| ended.extend(queue.lock(cx).burst.drain()));
    }
}

/// Interfaces of a stack, by number. An interface never moves in memory. When it is removed, it is
/// only marked as removed.
pub(crate) struct Ifaces<L: Locks>(Box<[OnceLock<Box<Iface<L>>>]>);

/// Maximum number of interfaces of a stack.
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

    /// Restores a removed interface with this name and MAC address for which `like` returns true;
    /// `None` if there is none. Restoring prevents repeated removal and creation from using up the
    /// interface numbers.
    pub(crate) fn bring_back(&self, name: &str, mac: Mac, like: impl Fn(&Iface<L>) -> bool) -> Option<&Iface<L>> {
        let mut all = self.0.iter().map_while(|slot| slot.get()).map(|iface| &**iface);
        let gone = all.find(|iface| iface.is_gone() && iface.name == name && iface.mac == mac && like(iface))?;
        gone.set_gone(false);
        gone.set_up(true);
        gone.set_link(true);
        Some(gone)
    }
}
