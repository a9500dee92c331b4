use super::*;
use clock::Duration;
use std::collections::HashSet;

const ME: Ipv4Addr = Ipv4Addr::new(10, 0, 0, 1);

fn peer(n: u32) -> Ipv4Addr {
    Ipv4Addr::from(0xc000_0200 + n)
}

/// Returns the differences between consecutive identifications of packets to one peer. The packets
/// are `wait` apart, with `others` packets to other peers in between.
fn gaps(seed: u64, wait: Duration, others: u32) -> Vec<u16> {
    let (mut idents, mut now) = (Idents::new(Key::seeded(seed)), Instant::from_millis(1));
    let mut last = idents.next(ME, peer(0), Proto::UDP, now);
    let mut gaps = Vec::new();
    for _ in 0..500 {
        for n in 1..=others {
            idents.next(ME, peer(n), Proto::UDP, now);
        }
        now = now.after(wait);
        let next = idents.next(ME, peer(0), Proto::UDP, now);
        gaps.push(next.wrapping_sub(last));
        last = next;
    }
    gaps
}

#[test]
fn at_the_same_time_identifications_count_by_one() {
    assert!(gaps(1, Duration::ZERO, 0).iter().all(|gap| *gap == 1), "so that 65,536 datagrams a moment differ");
}

/// RFC 6864 4.2: no number repeats within the two minutes of a datagram's lifetime, at 100 packets
/// a second.
#[test]
fn no_identification_repeats_within_two_minutes() {
    let mut idents = Idents::new(Key::seeded(1));
    let mut seen = HashSet::new();
    for n in 0..12_000u64 {
        let now = Instant::from_millis(1_000_000 + n * 10);
        assert!(seen.insert(idents.next(ME, peer(0), Proto::UDP, now)), "number {n} again");
    }
}

#[test]
fn the_step_is_a_random_fraction_of_the_elapsed_time() {
    let gaps = gaps(1, Duration::from_secs(1), 0); // 250 units
    assert!(gaps.iter().all(|gap| (1..=250).contains(gap)), "{gaps:?}");
    let (small, large) = (gaps.iter().filter(|gap| **gap <= 125).count(), gaps.len());
    assert!((200..300).contains(&small), "{small} of {large} in the lower half");
    assert!(gaps.iter().collect::<HashSet<_>>().len() > 150, "hardly two alike");
}

/// Idle scan: packets from the zombie to the victim must not be observable in its answers to the
/// scanner.
#[test]
fn traffic_to_other_peers_is_not_observable() {
    let (silent, busy) = (gaps(7, Duration::from_secs(1), 0), gaps(7, Duration::from_secs(1), 20));
    let mean = |gaps: &[u16]| gaps.iter().map(|gap| f64::from(*gap)).sum::<f64>() / gaps.len() as f64;
    assert!(busy.iter().all(|gap| (1..=250).contains(gap)));
    assert!((mean(&silent) - mean(&busy)).abs() < 15.0, "{} and {}", mean(&silent), mean(&busy));
}

#[test]
fn each_pair_protocol_and_host_has_its_own_start() {
    let now = Instant::from_millis(1);
    let starts = |seed: u64| -> HashSet<u16> {
        let mut idents = Idents::new(Key::seeded(seed));
        let udp: Vec<u16> = (0..2000).map(|n| idents.next(ME, peer(n), Proto::UDP, now)).collect();
        assert!(udp.windows(2).filter(|two| two[1].wrapping_sub(two[0]) < 256).count() < 30, "they follow each other");
        assert_ne!(idents.next(ME, peer(0), Proto::UDP, now), idents.next(ME, peer(0), Proto::ICMP, now));
        udp.into_iter().collect()
    };
    let (one, other) = (starts(1), starts(2));
    assert!(one.len() > 1900 && other.len() > 1900, "{} and {} of 2000 differ", one.len(), other.len());
    assert!(one.intersection(&other).count() < 200, "as many as chance gives are common: about 60");
}

#[test]
fn a_wrapping_clock_gives_one_step() {
    let mut idents = Idents::new(Key::seeded(1));
    let far = Instant::from_nanos(u64::from(u32::MAX) * UNIT_NS);
    let before = idents.next(ME, peer(0), Proto::UDP, far);
    let after = idents.next(ME, peer(0), Proto::UDP, far.after(Duration::from_millis(40)));
    assert!((1..=10).contains(&after.wrapping_sub(before)), "ten units later");
}
