//! Probes for an address that this host is about to use (RFC 5227 2.1.1): has another station got it?

use crate::Stack;
use crate::iface::{Iface, IfaceId};
use lock::{Cx, Locks};
use std::net::Ipv4Addr;
use std::sync::atomic::{AtomicU64, Ordering};
use wire::Mac;
use wire::arp::{Op, Packet};

/// The address that an interface probes for, in the low 32 bits, with [`Probe::IS_ON`] and
/// [`Probe::IS_TAKEN`]; 0: none.
#[derive(Debug, Default)]
pub(crate) struct Probe(AtomicU64);

impl Probe {
    const IS_ON: u64 = 1 << 32;
    const IS_TAKEN: u64 = 1 << 33;

    /// Notes that another station has the address, or probes for it too (RFC 5227 2.1.1). Returns
    /// whether `packet` is about it.
    #[inline]
    pub(super) fn heard(&self, packet: &Packet) -> bool {
        let word = self.0.load(Ordering::Relaxed);
        if word & Probe::IS_ON == 0 {
            return false;
        }
        let addr = Ipv4Addr::from_bits(word as u32);
        let is_probe = packet.op == Op::Request && packet.spa.is_unspecified() && packet.tpa == addr;
        let is_taken = packet.spa == addr || is_probe;
        if is_taken {
            self.0.store(word | Probe::IS_TAKEN, Ordering::Relaxed);
        }
        is_taken
    }
}

impl<L: Locks> Stack<L> {
    /// Sends an ARP probe for `addr` and watches for stations that have it. One address of an interface is
    /// probed for at a time.
    pub fn probe_addr(&self, cx: Cx, id: IfaceId, addr: Ipv4Addr) {
        let Some(iface) = self.ifaces.get(id) else { return };
        let wanted = u64::from(addr.to_bits()) | Probe::IS_ON;
        if iface.probe.0.load(Ordering::Relaxed) & !Probe::IS_TAKEN != wanted {
            iface.probe.0.store(wanted, Ordering::Relaxed);
        }
        self.send_probe(cx, iface, addr);
        self.flush(cx);
    }

    /// Returns whether another station has the address that `id` probes for.
    pub fn is_probed_addr_taken(&self, id: IfaceId) -> bool {
        self.ifaces.get(id).is_some_and(|iface| iface.probe.0.load(Ordering::Relaxed) & Probe::IS_TAKEN != 0)
    }

    /// Ends the probe of an interface.
    pub fn end_probe(&self, id: IfaceId) {
        if let Some(iface) = self.ifaces.get(id) {
            iface.probe.0.store(0, Ordering::Relaxed);
        }
    }

    fn send_probe(&self, cx: Cx, iface: &Iface<L>, addr: Ipv4Addr) {
        let spa = Ipv4Addr::UNSPECIFIED;
        let packet = Packet { op: Op::Request, sha: iface.mac, spa, tha: Mac::ZERO, tpa: addr };
        self.arp_send(cx, iface, Mac::BROADCAST, &packet);
        self.count(cx).arp.requests_sent.bump();
    }
}
