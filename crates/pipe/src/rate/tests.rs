use super::*;
use crate::Time;
use crate::queue::Full;
use proptest::prelude::*;

/// Passes `came` frames of `len` bytes to a stage at once, then advances the time from event to
/// event. Returns the times at which the frames leave.
fn departures(stage: &mut Rate, came: usize, len: usize) -> Vec<u64> {
    let (mut frames, mut out) = (Frames::new(), Vec::new());
    for _ in 0..came {
        frames.push(&vec![0; len], Time::None);
    }
    loop {
        stage.run(&mut frames).unwrap();
        out.extend(std::iter::repeat_n(stage.now.nanos(), frames.len()));
        frames.clear();
        let Some(next) = stage.next_event() else { return out };
        stage.at(next);
    }
}

fn rate(unit: Unit, bits: Bits, burst: u64) -> Rate {
    let mut stage = Rate::new(unit, bits, Some(burst), Limit::default());
    stage.at(Instant::from_millis(1000));
    stage
}

#[test]
fn a_64_byte_frame_takes_672_ns_at_a_gigabit() {
    let mut stage = rate(Unit::Bits(1_000_000_000), Bits::Wire, 0);
    let left = departures(&mut stage, 1000, 60);
    let first = left[0];
    assert!(left.iter().zip(0..).all(|(at, n)| at - first == n * 672), "{left:?}");
}

#[test]
fn payload_rate_counts_480_bits_per_frame() {
    let mut stage = rate(Unit::Bits(1_000_000), Bits::Payload, 0);
    assert_eq!(
        departures(&mut stage, 3, 60).iter().map(|at| at - 1_000_000_000).collect::<Vec<_>>(),
        [0, 480_000, 960_000]
    );
}

#[test]
fn burst_is_sent_at_once_and_the_rest_at_the_rate() {
    let mut stage = rate(Unit::Frames(100), Bits::Wire, 3);
    let left: Vec<u64> = departures(&mut stage, 6, 60).iter().map(|at| at / 1_000_000 - 1000).collect();
    assert_eq!(left, [0, 0, 0, 10, 20, 30]);
    // Idle time fills the bucket, but only up to its size.
    stage.at(Instant::from_millis(9000));
    let left: Vec<u64> = departures(&mut stage, 4, 60).iter().map(|at| at / 1_000_000 - 9000).collect();
    assert_eq!(left, [0, 0, 0, 10]);
}

#[test]
fn frames_beyond_the_queue_limit_are_dropped_and_counted() {
    let limit = Limit { bytes: 1000, full: Full::Drop };
    let mut stage = Rate::new(Unit::Frames(1), Bits::Wire, Some(1), limit);
    assert_eq!(departures(&mut stage, 100, 60).len(), 8);
    assert_eq!(stage.report().unwrap(), "rate: 8 frames passed, 92 dropped (queue full), 0 still queued at the end");
}

proptest! {
    /// In any period, the stage passes at most the size of the bucket plus the rate times the
    /// period. Over the whole test it passes no less.
    #[test]
    fn output_never_exceeds_bucket_plus_rate(
        mbps in 1..2000_u64, burst in 0..20_000_u64, sizes in prop::collection::vec((14..2000_usize, 0..40_000_u64), 1..80)
    ) {
        let mut stage = rate(Unit::Bits(mbps * 1_000_000), Bits::Wire, burst);
        let mut now = 1_000_000_000_u64;
        let mut left: Vec<(u64, u64)> = Vec::new();
        let mut frames = Frames::new();
        for (len, pause) in &sizes {
            now += pause;
            stage.at(Instant::from_nanos(now));
            frames.push(&vec![0; *len], Time::None);
            stage.run(&mut frames).unwrap();
            left.extend(frames.iter().map(|(bytes, _)| (now, on_wire(bytes.len()) * 8)));
            frames.clear();
        }
        while let Some(next) = stage.next_event() {
            now = next.nanos();
            stage.at(next);
            stage.run(&mut frames).unwrap();
            left.extend(frames.iter().map(|(bytes, _)| (now, on_wire(bytes.len()) * 8)));
            frames.clear();
        }
        prop_assert_eq!(left.len(), sizes.len());
        let most = left.iter().map(|(_, bits)| *bits).max().unwrap_or(0).max(burst * 8);
        for from in 0..left.len() {
            let mut sum = 0;
            for (at, bits) in &left[from..] {
                sum += bits;
                let flowed = u128::from(at - left[from].0) * u128::from(mbps) / 1000;
                prop_assert!(u128::from(sum) <= u128::from(most) + flowed + 1, "{sum} bits in {} ns", at - left[from].0);
            }
        }
    }
}
