//! Path MTUs learned from the ICMP errors "fragmentation needed" (RFC 1191) and "packet too big"
//! (RFC 8201), in a bounded table. Entries expire.

use crate::neigh::Address;
use clock::{Duration, Instant};
use std::collections::HashMap;
use std::net::Ipv4Addr;
use wire::hash::{Key, Keyed};

/// Largest IPv4 packet in bytes.
pub const LARGEST: usize = 65_535;
/// Smallest IPv4 path MTU, in bytes; smaller reported values are raised to it. Without a minimum,
/// forged errors could make this host send tiny packets. FreeBSD and Linux use 552 too.
pub const FLOOR: usize = 552;
/// Smallest IPv6 path MTU, in bytes, which every IPv6 link must support (RFC 8200 5).
pub const FLOOR6: usize = 1280;
/// Time after which an entry expires and a larger MTU is tried again (RFC 1191 6.3).
pub const AGE: Duration = Duration::from_secs(600);
const ENTRIES: usize = 1024;

/// Table of path MTUs by destination. It contains only those that a router reported.
pub struct PathMtus<A = Ipv4Addr> {
    known: HashMap<A, (usize, Instant), Keyed>,
    floor: usize,
}

/// Result of storing a reported MTU.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Noted<A = Ipv4Addr> {
    /// The report does not lower the path MTU.
    Nothing,
    /// The path MTU was lowered.
    Narrower,
    /// The path MTU was lowered. The table was full, so the oldest entry was evicted. The value is
    /// the destination of that entry.
    InPlaceOf(A),
}

impl<A: Address> PathMtus<A> {
    /// Creates an empty table. Reported MTUs below `floor` bytes are raised to `floor`.
    pub(crate) fn new(key: Key, floor: usize) -> PathMtus<A> {
        PathMtus { known: HashMap::with_hasher(Keyed(key)), floor }
    }

    /// Returns the path MTU to `dst` in bytes; [`LARGEST`] if there is no entry.
    pub fn get(&self, dst: A, now: Instant) -> usize {
        if self.known.is_empty() {
            return LARGEST;
        }
        self.known.get(&dst).filter(|(_, since)| now.since(*since) < AGE).map_or(LARGEST, |(mtu, _)| *mtu)
    }

    /// Stores a reported MTU if it lowers the path MTU.
    pub fn note(&mut self, dst: A, mtu: usize, now: Instant) -> Noted<A> {
        let mtu = mtu.max(self.floor);
        if mtu >= self.get(dst, now) {
            return Noted::Nothing;
        }
        let mut noted = Noted::Narrower;
        if self.known.len() >= ENTRIES {
            self.known.retain(|_, (_, since)| now.since(*since) < AGE);
        }
        if self.known.len() >= ENTRIES
            && let Some(oldest) = self.known.iter().min_by_key(|(_, (_, since))| *since).map(|(dst, _)| *dst)
        {
            self.known.remove(&oldest);
            noted = Noted::InPlaceOf(oldest);
        }
        self.known.insert(dst, (mtu, now));
        noted
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lower_mtus_are_accepted_down_to_the_minimum_and_expire() {
        let mut paths = PathMtus::new(Key::seeded(1), FLOOR);
        let (dst, t0) = (Ipv4Addr::new(10, 0, 0, 1), Instant::from_millis(1));
        assert_eq!(paths.get(dst, t0), LARGEST);
        assert_eq!(paths.note(dst, 1400, t0), Noted::Narrower);
        assert_eq!(paths.note(dst, 1450, t0), Noted::Nothing, "a larger MTU is ignored");
        assert_eq!(paths.note(dst, 68, t0), Noted::Narrower);
        assert_eq!(paths.get(dst, t0), FLOOR);
        assert_eq!(paths.get(dst, t0.after(AGE)), LARGEST);
    }

    #[test]
    fn the_number_of_entries_is_bounded() {
        let mut paths = PathMtus::new(Key::seeded(1), FLOOR);
        let mut evicted = 0;
        for i in 0..5000u32 {
            let noted = paths.note(Ipv4Addr::from(i), 600, Instant::from_millis(u64::from(i)));
            evicted += usize::from(matches!(noted, Noted::InPlaceOf(oldest) if oldest == Ipv4Addr::from(i - 1024)));
        }
        assert_eq!(evicted, 5000 - ENTRIES);
        assert_eq!(paths.known.len(), ENTRIES);
        assert_eq!(paths.get(Ipv4Addr::from(4999), Instant::from_millis(5000)), 600);
    }
}
