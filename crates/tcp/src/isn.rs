//! Unpredictable initial sequence numbers and timestamp offsets (RFC 6528, RFC 7323 5.4).
//!
//! ISN = M + F(ends, secret). M is a 4 µs clock, so that the numbers of successive incarnations of
//! a connection increase and old segments fall outside the new window. F is SipHash-2-4, so that
//! one connection's numbers reveal nothing about another's (NUMBER:JACK; CVE-2001-0288).

use crate::siphash::Key;
use crate::{Ends, SeqNum};
use clock::Instant;

/// Nanoseconds per increment of M (RFC 9293 3.4.1).
const TICK_NS: u64 = 4_000;

/// The function F. One half of its result is used for sequence numbers, the other half for
/// timestamps.
fn prf(key: Key, ends: &Ends) -> (u32, u32) {
    let hash = ends.sip24(key);
    (hash as u32, (hash >> 32) as u32)
}

/// Returns the initial sequence number and the timestamp offset of a connection that begins at
/// `now`. The values are the same as from [`isn`] and [`ts_offset`], but only one hash is computed.
pub fn numbers(key: Key, ends: &Ends, now: Instant) -> (SeqNum, u32) {
    let (number, offset) = prf(key, ends);
    (SeqNum(number).plus((now.nanos() / TICK_NS) as u32), offset)
}

/// Returns the initial sequence number of a connection that begins at `now`.
pub fn isn(key: Key, ends: &Ends, now: Instant) -> SeqNum {
    numbers(key, ends, now).0
}

/// Returns the offset added to our millisecond clock to compute TSval. The offset is the same for
/// each incarnation of a connection, so that RFC 6191 and PAWS work across incarnations. It differs
/// between addresses and ports, so that TSval does not reveal our uptime.
pub fn ts_offset(key: Key, ends: &Ends) -> u32 {
    prf(key, ends).1
}

/// Returns our millisecond clock (RFC 7323 5.4), without the offset of the connection.
pub fn ts_clock(now: Instant) -> u32 {
    (now.nanos() / 1_000_000) as u32
}

#[cfg(test)]
mod tests {
    use super::*;
    use wire::L4Port;

    const KEY: Key = Key(0x1234_5678_9abc_def0, 0x0fed_cba9_8765_4321);

    fn ends(n: u32) -> Ends {
        Ends {
            local: 0xffff_0a00_0001,
            remote: 0xffff_0a00_0100 + u128::from(n >> 16),
            local_port: L4Port(80),
            remote_port: L4Port(n as u16),
        }
    }

    /// Computes chi-square over 1024 cells. For uniform numbers the mean is 1023 and the standard
    /// deviation 45.
    fn chi_square(values: impl Iterator<Item = u32>) -> f64 {
        let (mut cells, mut n) = ([0u32; 1024], 0u32);
        for value in values {
            cells[(value >> 22) as usize] += 1;
            n += 1;
        }
        let expected = f64::from(n) / 1024.0;
        cells.iter().map(|seen| (f64::from(*seen) - expected).powi(2) / expected).sum()
    }

    #[test]
    fn a_million_numbers_tell_nothing_of_each_other() {
        let now = Instant::from_millis(12_345);
        let isns: Vec<SeqNum> = (0..1_000_000).map(|n| isn(KEY, &ends(n), now)).collect();
        let neighbours = chi_square(isns.windows(2).map(|pair| pair[1].since(pair[0])));
        let low = chi_square(isns.windows(2).map(|pair| pair[1].since(pair[0]) << 22));
        let distant = chi_square(isns.windows(257).map(|many| many[256].since(many[0])));
        for chi in [neighbours, low, distant] {
            assert!((823.0..1223.0).contains(&chi), "{chi}: beyond 4.4 standard deviations");
        }
    }

    #[test]
    fn the_uniformity_test_detects_a_global_counter() {
        let counter = chi_square((0..100_000u32).map(|n| n.wrapping_mul(64_000) % 1_000_000));
        assert!(counter > 1e6);
    }

    #[test]
    fn within_one_pair_of_ends_numbers_grow_by_one_each_4_us() {
        let mut last = isn(KEY, &ends(7), Instant::ZERO);
        for step in 1..1_000_000u64 {
            let next = isn(KEY, &ends(7), Instant::from_nanos(step * 37_000));
            assert!(next.after(last));
            last = next;
        }
        assert_eq!(last.since(isn(KEY, &ends(7), Instant::ZERO)), (999_999u64 * 37 / 4) as u32);
    }

    #[test]
    fn each_bit_of_the_ends_and_of_the_key_matters() {
        let base = ends(5);
        let now = Instant::ZERO;
        let others = [
            Ends { local: base.local ^ 1 << 127, ..base },
            Ends { remote: base.remote ^ 1, ..base },
            Ends { local_port: L4Port(81), ..base },
            Ends { remote_port: L4Port(6), ..base },
            base.reversed(),
        ];
        for other in others {
            assert_ne!(isn(KEY, &other, now), isn(KEY, &base, now));
            assert_ne!(ts_offset(KEY, &other), ts_offset(KEY, &base));
        }
        assert_ne!(isn(Key(1, 2), &base, now), isn(Key(1, 3), &base, now));
        assert_ne!(isn(KEY, &base, now).0, ts_offset(KEY, &base), "one secret, two functions");
    }

    #[test]
    fn an_offset_depends_only_on_the_ends() {
        let differences = chi_square((0..100_000).map(|n| ts_offset(KEY, &ends(n))));
        assert!((823.0..1223.0).contains(&differences), "{differences}");
        assert_eq!(ts_offset(KEY, &ends(1)), ts_offset(KEY, &ends(1)));
    }
}
