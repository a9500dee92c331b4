//! Unpredictable ephemeral ports: double-hash port selection (RFC 6056 3.3.4, algorithm 4).
//!
//! port = first + (F(ends) + table[G(ends)]) mod count. The ports used for one peer are sequential,
//! so that each is reused as late as possible. The ports used for different peers are unrelated.
//! The table is large and its steps are random; otherwise a peer that shares a cell with other
//! peers could count their connections (CVE-2022-1012; Kol, Klein, Gilad 2022).

use crate::Ends;
use crate::siphash::Key;
use alloc::vec;
use alloc::vec::Vec;
use core::ops::RangeInclusive;
use wire::L4Port;

/// Number of cells of the table: 128 KiB, of which the system commits only the pages in use.
const CELLS: usize = 1 << 16;
/// Maximum random step by which a cell of the table grows; steps are 1 to 8.
const MAX_STEP: u64 = 8;

/// Selector of ephemeral ports.
#[derive(Debug)]
pub struct PortChooser {
    key: Key,
    range: RangeInclusive<u16>,
    increments: Vec<u16>,
}

/// FreeBSD's default range of ephemeral ports (`IPPORT_EPHEMERALFIRST`). A port in it has 15.8 bits
/// of entropy; one in IANA's dynamic range (from 49152) has 14.
pub const EPHEMERAL: RangeInclusive<u16> = 10_000..=u16::MAX;

impl PortChooser {
    /// Creates a selector for `range`; an empty range is replaced by [`EPHEMERAL`].
    pub fn new(key: Key, range: RangeInclusive<u16>) -> PortChooser {
        let range = if range.is_empty() { EPHEMERAL } else { range };
        PortChooser { key, range, increments: Vec::new() }
    }

    /// Returns the next port for which `is_free` returns true; `None` if all ports of the range are
    /// in use. `chance` is a random number.
    pub fn choose(
        &mut self,
        local: u128,
        remote: u128,
        remote_port: L4Port,
        chance: u64,
        mut is_free: impl FnMut(L4Port) -> bool,
    ) -> Option<L4Port> {
        let (first, count) = (u32::from(*self.range.start()), self.range.len() as u32);
        let hash = Ends { local, remote, local_port: L4Port(0), remote_port }.sip24(self.key);
        // F and G are the two halves of one hash.
        let (offset, cell) = (hash as u32, (hash >> 32) as usize % CELLS);
        if self.increments.is_empty() {
            self.increments = vec![0; CELLS];
        }
        // each cell begins at a random position, although the table starts as zeros
        let begin = self.key.sip13(&[cell as u64]) as u32;
        let passed = self.increments.get(cell).copied().unwrap_or(0);
        let from = (u64::from(offset) + u64::from(begin) + u64::from(passed)) % u64::from(count.max(1));
        for tried in 0..count {
            let at = (from as u32).wrapping_add(tried) % count;
            let port = L4Port(first.wrapping_add(at) as u16);
            if is_free(port) {
                let step = tried.wrapping_add(1).wrapping_add((chance % MAX_STEP) as u32);
                // kept below `count`: a 16-bit wrap-around would return to used ports, since
                // `count` need not divide 2^16
                let next = u32::from(passed).wrapping_add(step) % count;
                if let Some(cell) = self.increments.get_mut(cell) {
                    *cell = next as u16;
                }
                return Some(port);
            }
        }
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::{HashMap, HashSet};

    const KEY: Key = Key(3, 4);

    fn entropy<T: std::hash::Hash + Eq>(values: impl Iterator<Item = T>) -> f64 {
        let mut seen: HashMap<T, u32> = HashMap::new();
        let mut n = 0.0;
        for value in values {
            *seen.entry(value).or_default() += 1;
            n += 1.0;
        }
        seen.values().map(|times| f64::from(*times) / n).map(|p| -p * p.log2()).sum()
    }

    #[test]
    fn ports_across_peers_have_15_bits_of_entropy() {
        let mut chooser = PortChooser::new(KEY, EPHEMERAL);
        let ports: Vec<u16> =
            (0..100_000u128).map(|n| chooser.choose(1, n, L4Port(443), n as u64 ^ 5, |_| true).unwrap().0).collect();
        let own = entropy(ports.iter().copied());
        // for uniform numbers this would be 15.3, since 10^5 draws from 55,536 do not show all
        // 15.76 bits
        assert!(own >= 15.0, "{own}");
        let differences = entropy(ports.windows(2).map(|pair| pair[1].wrapping_sub(pair[0])));
        assert!(differences >= 15.0, "{differences}");
        assert!(ports.iter().all(|port| EPHEMERAL.contains(port)));
    }

    #[test]
    fn ports_to_one_peer_repeat_late() {
        let mut chooser = PortChooser::new(KEY, 20_000..=29_999);
        let mut seen = HashSet::new();
        let mut again = 0;
        for chance in 0..2_000u64 {
            let port =
                chooser.choose(1, 2, L4Port(80), chance.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 32, |_| true).unwrap();
            again += u32::from(!seen.insert(port));
        }
        assert_eq!(again, 0, "steps are 4.5 on average: no port of 10,000 again within 2,000");
    }

    #[test]
    fn steps_are_random() {
        let mut chooser = PortChooser::new(KEY, EPHEMERAL);
        let ports: Vec<u16> = (0..8).map(|n| chooser.choose(1, 2, L4Port(80), n, |_| true).unwrap().0).collect();
        let steps: Vec<u16> = ports.windows(2).map(|pair| pair[1].wrapping_sub(pair[0])).collect();
        assert_eq!(steps, [1, 2, 3, 4, 5, 6, 7], "one more than `chance` modulo 8");
    }

    #[test]
    fn every_free_port_and_no_used_port_is_found() {
        let mut chooser = PortChooser::new(KEY, 100..=355);
        let mut taken = HashSet::new();
        for n in 0..256u64 {
            let port = chooser.choose(1, 2, L4Port(80), n, |port| !taken.contains(&port)).unwrap();
            assert!((100..=355).contains(&port.0) && taken.insert(port));
        }
        let mut requested = 0;
        let none = chooser.choose(1, 2, L4Port(80), 7, |_| {
            requested += 1;
            false
        });
        assert_eq!((none, requested), (None, 256), "asks for each once");
    }

    #[test]
    fn the_largest_and_the_smallest_range() {
        let mut all = PortChooser::new(KEY, 0..=u16::MAX);
        assert!(all.choose(1, 2, L4Port(80), 0, |port| port.0 == u16::MAX).is_some());
        let mut one = PortChooser::new(KEY, 7..=7);
        assert_eq!(one.choose(1, 2, L4Port(80), 0, |_| true), Some(L4Port(7)));
        #[allow(clippy::reversed_empty_ranges)]
        let mut empty = PortChooser::new(KEY, 9..=7);
        assert!(EPHEMERAL.contains(&empty.choose(1, 2, L4Port(80), 0, |_| true).unwrap().0));
    }

    #[test]
    fn peers_in_different_cells_do_not_affect_each_other() {
        let mut chooser = PortChooser::new(KEY, EPHEMERAL);
        let mine = |chooser: &mut PortChooser| i64::from(chooser.choose(1, 99, L4Port(1), 0, |_| true).unwrap().0);
        let before = mine(&mut chooser);
        for n in 0..500 {
            chooser.choose(1, 1_000 + n, L4Port(443), n as u64, |_| true);
        }
        assert_eq!(mine(&mut chooser), before + 1, "500 connections of others moved it by nothing");
    }
}
