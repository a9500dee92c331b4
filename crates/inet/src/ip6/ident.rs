//! Fragment identifications of this host: a counter of 32 bits per address pair, with a secret
//! start and unpredictable steps (RFC 7739 5.3; CVE-2021-45485). The numbers reveal nothing to a
//! receiver about packets to other hosts.

use std::net::Ipv6Addr;
use wire::hash::Key;

const COUNTERS: usize = 1024;
/// Maximum step from one identification to the next. At 10,000 datagrams per second, the
/// identifications of an address pair repeat after 10 hours.
const STEP_MAX: u64 = 16;

/// Identification counters of a host.
pub(crate) struct Idents6 {
    key: Key,
    counters: Box<[u32]>,
    drawn: u64,
}

impl Idents6 {
    pub(crate) fn new(key: Key) -> Idents6 {
        Idents6 { key, counters: vec![0; COUNTERS].into(), drawn: 0 }
    }

    /// Returns the next identification for datagrams from `src` to `dst`.
    pub(crate) fn next(&mut self, src: Ipv6Addr, dst: Ipv6Addr) -> u32 {
        let ([a, b], [c, d]) = (halves(src), halves(dst));
        let hash = self.key.hash4(a, b, c, d);
        self.drawn = self.drawn.wrapping_add(1);
        let step = 1 + self.key.hash2(self.drawn, hash) % STEP_MAX;
        let Some(counter) = self.counters.get_mut(hash as usize % COUNTERS) else { return step as u32 };
        *counter = counter.wrapping_add(step as u32);
        counter.wrapping_add((hash >> 32) as u32)
    }
}

fn halves(addr: Ipv6Addr) -> [u64; 2] {
    let bits = addr.to_bits();
    [(bits >> 64) as u64, bits as u64]
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::HashSet;

    #[test]
    fn identifications_of_a_pair_do_not_repeat_and_differ_between_hosts() {
        let at = |n: u16| Ipv6Addr::new(0xfd00, 0, 0, 0, 0, 0, 0, n);
        let draw = |seed, dst| {
            let mut idents = Idents6::new(Key::seeded(seed));
            (0..50_000).map(|_| idents.next(at(1), at(dst))).collect::<Vec<u32>>()
        };
        let numbers = draw(1, 2);
        assert_eq!(numbers.iter().collect::<HashSet<_>>().len(), numbers.len());
        let steps: HashSet<u32> = numbers.windows(2).map(|pair| pair[1].wrapping_sub(pair[0])).collect();
        assert_eq!(steps.len(), 16, "the steps 1 to 16 all occur");
        assert!(draw(2, 2)[0] != numbers[0] && draw(1, 3)[0] != numbers[0]);
    }
}
