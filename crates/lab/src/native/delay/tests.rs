//! Delays through a real dd; the bounds hold on a busy machine too.

use super::*;

#[test]
fn the_rate_is_fast_ethernets() {
    assert_eq!((rate(64) as u64, rate(1518) as u64), (148_809, 8_127));
    assert_eq!(lines(64).unwrap().iter().map(Vec::len).collect::<Vec<_>>(), [169; 10]);
}

#[test]
fn a_trial_has_time_and_whole_blocks_enough() {
    let least = (rate(64) / 10.0) as u64;
    assert_eq!(frames(64, 169, Between::Pipe), least);
    assert_eq!(frames(64, 169, Between::Dd(64, Blocks::Full)), least);
    assert_eq!(frames(64, 169, Between::Dd(4 << 20, Blocks::AsRead)), least);
    assert_eq!(frames(64, 169, Between::Dd(4 << 20, Blocks::Full)), (3_u64 << 22).div_ceil(169));
}

#[test]
fn percentiles_are_those_of_the_sorted_delays() {
    let delays: Vec<u64> = (0..1000).rev().map(|at| at * 1000).collect();
    assert_eq!(percentiles(&delays).unwrap(), Delays { median: 500.0, p99: 990.0, frames: 1000 });
    assert!(percentiles(&[]).is_err());
}

#[test]
fn a_frame_waits_until_its_block_is_full_and_larger_blocks_take_longer() {
    if !is_installed("dd") {
        return println!("skipped: dd is not installed");
    }
    let delay = |block| trial(64, Between::Dd(block, Blocks::Full)).unwrap();
    let fill = |block: u64| block as f64 / (rate(64) * 169.0) * 1e6;
    let (small, large) = (delay(4 << 10), delay(1 << 20));
    // The frames of a block wait between zero and the whole time that it takes to fill the block,
    // so their median is half of that time. Other delays are added to it.
    assert!(large.median > fill(1 << 20) * 0.4 && large.p99 > fill(1 << 20) * 0.9, "{large:?} of {}", fill(1 << 20));
    assert!(small.median > fill(4 << 10) * 0.4 && small.median < large.median, "{small:?} {large:?}");
    assert!(small.p99 >= small.median && large.frames > 14_000, "{small:?} {large:?}");
}

#[test]
fn partial_blocks_are_written_without_waiting() {
    if !is_installed("dd") {
        return println!("skipped: dd is not installed");
    }
    let delays = |blocks| trial(64, Between::Dd(1 << 20, blocks)).unwrap();
    let (full, partial) = (delays(Blocks::Full), delays(Blocks::AsRead));
    assert!(partial.median < full.median, "{partial:?} {full:?}");
    let pipe = trial(1518, Between::Pipe).unwrap();
    assert_eq!(pipe.frames as u64, frames(1518, 4531, Between::Pipe));
}
