//! Probes for address conflicts before an address is used (RFC 5227 2.1.1).

use std::net::Ipv4Addr;
use std::sync::atomic::{AtomicU64, Ordering};
use wire::arp::{Op, Packet};

/// State of an address probe in one word: the probed address in the low 32 bits, and the flags
/// [`Probe::IS_ON`] and [`Probe::IS_TAKEN`]. The word is 0 while no address is probed.
#[derive(Debug, Default)]
pub(crate) struct Probe(AtomicU64);

impl Probe {
    const IS_ON: u64 = 1 << 32;
    const IS_TAKEN: u64 = 1 << 33;

    /// Starts probing for `addr`. Has no effect if `addr` is being probed already.
    pub(super) fn begin(&self, addr: Ipv4Addr) {
        let wanted = u64::from(addr.to_bits()) | Probe::IS_ON;
        if self.0.load(Ordering::Relaxed) & !Probe::IS_TAKEN != wanted {
            self.0.store(wanted, Ordering::Relaxed);
        }
    }

    /// Returns whether another station uses the probed address.
    pub(super) fn is_taken(&self) -> bool {
        self.0.load(Ordering::Relaxed) & Probe::IS_TAKEN != 0
    }

    pub(super) fn end(&self) {
        self.0.store(0, Ordering::Relaxed);
    }

    /// Returns whether `packet` shows that another station uses the probed address or probes for it
    /// too (RFC 5227 2.1.1). If so, [`Probe::is_taken`] returns true from then on.
    #[inline]
    pub(super) fn input(&self, packet: &Packet) -> bool {
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
