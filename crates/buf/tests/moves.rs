//! Moves frames between pools, bursts and single variables in all possible ways, in sizes small
//! enough for Miri (`cargo xtask miri`), which checks each memory access: a moved frame is moved
//! once, a dropped frame returns to its pool once, and nothing else is read.

use linerate_buf::{BURST_MAX, Burst, Frame, Held, Kind, Pool, PoolConfig, PoolLocks};

const KINDS: [Kind; 4] = [Kind::Stack, Kind::Freelist, Kind::Zone, Kind::Malloc];

fn pool(kind: Kind, buffers: usize) -> Pool {
    Pool::new(&PoolConfig { kind, buffers, data: 256, locks: PoolLocks::Light, ..PoolConfig::default() }).unwrap()
}

/// Returns `n` frames that contain their numbers, starting with `from`.
fn numbered(pool: &Pool, from: u8, n: u8) -> Burst {
    let mut burst = Burst::new();
    for number in from..from + n {
        let mut frame = pool.get().unwrap();
        frame.extend(&[number; 3]).unwrap();
        burst.push(frame).unwrap();
    }
    burst
}

fn numbers(burst: &Burst) -> Vec<u8> {
    burst.as_slice().iter().map(|frame| frame.bytes()[0]).collect()
}

/// Checks that a borrower that pulls, truncates and writes does not change the bytes that the
/// holder keeps for retransmission.
#[test]
fn a_borrower_cannot_change_the_holders_bytes() {
    const KEPT: &[u8; 16] = b"kept until acked";
    for kind in KINDS {
        let pool = pool(kind, 4);
        let mut frame = pool.get().unwrap();
        frame.extend(KEPT).unwrap();
        let mut held = Held::new(frame).unwrap();
        for pulled in 0..=KEPT.len() {
            for cut in 0..=KEPT.len() {
                let mut lent = held.lend().unwrap();
                assert!(lent.pull(pulled));
                lent.truncate(cut);
                assert_eq!(lent.headroom() > 0, pulled == 0);
                if let Some(front) = lent.push::<4>() {
                    *front = [0xee; 4];
                    assert_eq!(pulled, 0);
                    assert!(lent.pull(4));
                }
                assert_eq!(lent.push_n(5).map(|front| front.fill(0xee)).is_some(), pulled == 0);
                if pulled == 0 {
                    assert!(lent.pull(5));
                }
                let len = lent.len();
                let pushed = lent.push_if(|front: &mut [u8; 3], _: &mut [u8; 0]| {
                    *front = [0xee; 3];
                    true
                });
                assert_eq!((pushed, lent.len()), (pulled == 0, len + if pushed { 3 } else { 0 }));
                assert!(lent.append(1).is_none() && lent.extend(b"!").is_none());
                lent.bytes_mut().fill(0xee);
                assert_eq!(held.bytes(), KEPT, "{kind}: {pulled} pulled, cut to {cut}");
                // A frame in its own buffer can be written everywhere.
                assert!(lent.make_own());
                lent.push::<4>().unwrap().fill(0xee);
                lent.append(1).unwrap().fill(0xee);
                assert_eq!(held.bytes(), KEPT);
            }
        }
        drop(held);
        assert_eq!(pool.stats().live(), 0);
    }
}

#[test]
fn drained_frames_are_moved_and_the_rest_is_dropped() {
    let pool = pool(Kind::Stack, 16);
    for taken in 0..=5 {
        let mut burst = numbered(&pool, 0, 5);
        let first = burst.pop().unwrap(); // the head is now after the first slot
        let mut drain = burst.drain();
        let kept: Vec<Frame> = drain.by_ref().take(taken).collect();
        assert_eq!(drain.len(), 4 - taken.min(4));
        drop(drain);
        assert!(burst.is_empty());
        assert_eq!(pool.stats().live(), 1 + kept.len() as u64, "after {taken}");
        assert!(kept.iter().map(|frame| frame.bytes()[0]).eq(1..=taken.min(4) as u8));
        drop((first, kept));
        burst.push(pool.get().unwrap()).unwrap();
        burst.clear();
        assert_eq!(pool.stats().live(), 0);
    }
}

#[test]
fn frames_move_between_bursts_in_order_and_no_further_than_there_is_room() {
    let pool = pool(Kind::Freelist, 2 * BURST_MAX);
    for (here, there, most, moved) in [(0, 3, 2, 2), (2, 3, 9, 3), (2, 0, 4, 0), (1, 4, 0, 0)] {
        let (mut to, mut from) = (numbered(&pool, 0, here), numbered(&pool, 100, there));
        assert_eq!(to.take_some(&mut from, most), moved);
        let expected: Vec<u8> = (0..here).chain(100..100 + moved as u8).collect();
        assert_eq!(numbers(&to), expected);
        assert_eq!(numbers(&from), (100 + moved as u8..100 + there).collect::<Vec<u8>>());
        to.as_mut_slice().iter_mut().for_each(|frame| frame.bytes_mut()[0] ^= 0xff);
        assert_eq!(to.pop().map(|frame| frame.bytes()[0]), expected.first().map(|n| !n));
    }
    let mut full = Burst::new();
    while full.room() > 0 {
        assert!(pool.get_burst(full.room().min(100), &mut full) > 0);
    }
    let mut one = numbered(&pool, 7, 1);
    assert_eq!((full.take_from(&mut one), full.push(one.pop().unwrap()).is_err()), (0, true));
    drop(full);
    assert_eq!(pool.stats().live(), 0);
}

#[test]
fn every_kind_fills_bursts_and_takes_their_frames_back() {
    for kind in KINDS {
        let pool = pool(kind, 24);
        for _ in 0..3 {
            let mut burst = Burst::new();
            let got = pool.get_burst(10, &mut burst);
            assert_eq!((got, burst.len()), (10, 10), "{kind}");
            let mut clone = burst.as_slice()[0].try_clone().unwrap();
            clone.push::<14>().unwrap().fill(1);
            clone.append(5).unwrap().fill(2);
            assert_eq!((clone.len(), clone.bytes()[0], clone.bytes()[18]), (19, 1, 2), "{kind}");
            assert!(clone.pull(14) && !clone.pull(6));
            drop(burst.pop());
            burst.clear();
            drop(clone);
            assert_eq!(pool.stats().live(), 0, "{kind}");
        }
        let all: Vec<Frame> = std::iter::from_fn(|| pool.get()).collect();
        assert!(all.len() <= 24 && pool.get().is_none(), "{kind}");
        let there = std::thread::spawn(move || drop(all)); // returned by another thread
        there.join().unwrap();
        assert_eq!(pool.stats().live(), 0, "{kind}");
        // A zone keeps the buffers for the thread that returned them.
        assert!(pool.get().is_some() || kind == Kind::Zone, "{kind}");
    }
}

#[test]
fn frames_return_to_their_own_pools() {
    for runs in [&[32usize][..], &[1, 1, 1, 1, 1, 1, 1, 1], &[31, 1], &[1, 31], &[4, 9, 2, 17]] {
        let pools = [pool(Kind::Stack, 64), pool(Kind::Stack, 64), pool(Kind::Freelist, 64)];
        let (mut burst, mut one) = (Burst::new(), Burst::new());
        for (run, of) in runs.iter().zip(pools.iter().cycle()) {
            of.get_burst(*run, &mut one);
            burst.take_from(&mut one);
        }
        assert_eq!(burst.len(), runs.iter().sum::<usize>());
        drop(burst);
        for of in &pools {
            assert_eq!(of.stats().live(), 0, "{runs:?}: {:?}", of.stats());
            assert_eq!(of.get_burst(64, &mut one), 64, "each once");
            let mut at: Vec<_> = one.as_slice().iter().map(|frame| frame.bytes().as_ptr()).collect();
            at.sort();
            at.dedup();
            assert_eq!(at.len(), 64, "and none twice");
            one.clear();
        }
    }
}

/// Checks that adding a frame to a full burst, which is a bug, panics in tests, and is otherwise
/// counted without losing a buffer.
#[test]
fn an_overfull_burst_is_detected() {
    let pool = pool(Kind::Stack, BURST_MAX + 1);
    let (mut burst, mut mistakes) = (Burst::new(), 0);
    for _ in 0..BURST_MAX {
        burst.put(pool.get().unwrap(), || mistakes += 1);
    }
    assert_eq!((burst.len(), mistakes), (BURST_MAX, 0));
    let frame = pool.get().unwrap();
    let put = std::panic::AssertUnwindSafe(|| burst.put(frame, || mistakes += 1));
    let shown = std::panic::catch_unwind(put).is_err();
    assert_eq!((shown, mistakes), (cfg!(debug_assertions), u32::from(!cfg!(debug_assertions))));
    assert_eq!(pool.stats().live(), BURST_MAX as u64);
}
