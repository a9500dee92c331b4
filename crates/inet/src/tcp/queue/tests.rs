//! Tests that compare the queues with plain byte strings.

use super::*;
use buf::{Pool, PoolConfig};

const SMALL_TEXT: usize = 1000;

fn pool() -> Pool {
    Pool::new(&PoolConfig { buffers: 512, ..PoolConfig::default() }).unwrap()
}

fn sizes(aligned: bool) -> Sizes {
    Sizes { small: SMALL_TEXT, large: 0, aligned }
}

/// Returns bytes that differ from their neighbors and from bytes at other positions.
fn bytes(from: usize, len: usize) -> Vec<u8> {
    (from..from + len).map(|n| (n.wrapping_mul(0x9e37_79b9) >> 16) as u8).collect()
}

/// Returns a pseudo-random number below `below` (Marsaglia's xorshift).
fn chance(state: &mut u64, below: usize) -> usize {
    *state ^= *state << 13;
    *state ^= *state >> 7;
    *state ^= *state << 17;
    (*state % below.max(1) as u64) as usize
}

#[test]
fn segments_of_any_size_carry_the_written_data() {
    let pool = pool();
    for seed in 1..=200u64 {
        let (mut state, mut queue) = (seed, SendQueue::new(20_000));
        queue.front = 0u32.wrapping_sub(seed as u32 * 100); // stream positions wrap around
        let (mut released, mut written) = (0, 0);
        for _ in 0..200 {
            match chance(&mut state, 3) {
                0 => {
                    let wanted = bytes(written, chance(&mut state, 3000));
                    let aligned = chance(&mut state, 2) == 0;
                    let sums = if chance(&mut state, 4) == 0 { Sums::Ports } else { Sums::Ours };
                    written += queue.append(&wanted, sizes(aligned), sums, |_| pool.get());
                }
                1 if !queue.is_empty() => {
                    let at = chance(&mut state, queue.len());
                    let len = 1 + chance(&mut state, (queue.len() - at).min(1400));
                    let mut copied = pool.get().unwrap();
                    let sum = queue.copy(at as u32, len as u32, &mut copied).unwrap();
                    assert_eq!(copied.bytes(), bytes(released + at, len), "seed {seed}");
                    assert!(sum.is_none_or(|sum| sum == checksum::sum(copied.bytes())), "seed {seed}");
                    if let Range::Front(index) = queue.locate(at as u32, len as u32) {
                        let (lent, sum) = queue.lend(index, len as u32).unwrap();
                        assert_eq!(lent.bytes(), copied.bytes(), "seed {seed}");
                        assert!(sum.is_none_or(|sum| sum == checksum::sum(lent.bytes())), "seed {seed}");
                    }
                }
                _ => {
                    let gone = chance(&mut state, queue.len() + 1);
                    queue.release(gone as u32);
                    released += gone;
                }
            }
            assert_eq!(queue.len(), written - released, "seed {seed}");
        }
    }
    assert_eq!(pool.stats().gets, pool.stats().puts, "all buffers have been returned");
}

#[test]
fn a_checksum_is_known_only_for_data_without_checksum_offload() {
    let pool = pool();
    let text = bytes(0, 3 * SMALL_TEXT);
    let mut queue = SendQueue::new(20_000);
    // In the first piece the port computes the checksums, in the second the port and the stack in
    // turn, in the third the stack.
    let parts = [(0..1000, Sums::Ports), (1000..1500, Sums::Ours), (1500..1800, Sums::Ports), (1800..3000, Sums::Ours)];
    for (part, sums) in parts {
        queue.append(&text[part], sizes(false), sums, |_| pool.get());
    }
    let mut lent = |n: u32| {
        let Range::Front(index) = queue.locate(n * 1000, 1000) else { panic!("the range must be a whole piece") };
        queue.lend(index, 1000).unwrap().1
    };
    assert_eq!([lent(0), lent(1), lent(2)], [None, None, Some(checksum::sum(&text[2000..]))]);
    let mut copied = |at: u32, len: u32| queue.copy(at, len, &mut pool.get().unwrap()).unwrap();
    assert_eq!([copied(500, 1000), copied(1900, 500)], [None, None], "the range includes a piece without a checksum");
    assert_eq!(copied(2100, 333), Some(checksum::sum(&text[2100..2433])));
}

/// Only part of the queue is in the second piece, although the length of the piece equals that of
/// the released data before it. `lend_all` must not return it.
#[test]
fn lend_all_needs_one_piece_from_its_first_byte() {
    let (pool, mut queue) = (pool(), SendQueue::new(20_000));
    for (from, len) in [(0, 100), (100, 40)] {
        queue.append(&bytes(from, len), sizes(true), Sums::Ours, |_| pool.get());
    }
    assert!(queue.lend_all(140).is_none(), "the data is in two pieces");
    queue.release(40);
    assert_eq!(queue.len(), 100);
    assert!(queue.lend_all(100).is_none(), "the first piece has this length but begins before the queue");
    queue.release(60);
    let (lent, _) = queue.lend_all(40).unwrap();
    assert_eq!(lent.bytes(), bytes(100, 40));
}

#[test]
fn after_a_short_segment_the_next_ones_are_lent() {
    let pool = pool();
    let lent = |aligned: bool| {
        let mut queue = SendQueue::new(20_000);
        assert_eq!(queue.append(&bytes(0, 100), sizes(true), Sums::Ours, |_| pool.get()), 100);
        assert_eq!(queue.append(&bytes(100, 3000), sizes(aligned), Sums::Ours, |_| pool.get()), 3000);
        (0..3).filter(|n| matches!(queue.locate(100 + n * 1000, 1000), Range::Front(_))).count()
    };
    assert_eq!((lent(true), lent(false)), (3, 0));
}

#[test]
fn a_queue_is_limited_by_its_space_and_by_free_buffers() {
    let pool = Pool::new(&PoolConfig { buffers: 2, ..PoolConfig::default() }).unwrap();
    let mut queue = SendQueue::new(1500);
    assert_eq!(queue.append(&bytes(0, 9000), sizes(false), Sums::Ours, |_| pool.get()), 1500);
    assert_eq!((queue.room(), queue.buffers()), (0, 2));
    let mut other = SendQueue::new(1500);
    assert_eq!(other.append(&bytes(0, 9000), sizes(false), Sums::Ours, |_| pool.get()), 0, "no buffer is left");
    queue.release(1000);
    assert_eq!(other.append(&bytes(0, 9000), sizes(false), Sums::Ours, |_| pool.get()), 1000, "a buffer was returned");
}

#[test]
fn received_frames_and_bytes_are_read_unchanged() {
    let pool = pool();
    for seed in 1..=200u64 {
        let (mut state, mut queue) = (seed, RecvQueue::new(0));
        let (mut came, mut read) = (0, 0);
        for _ in 0..100 {
            let text = bytes(came, 1 + chance(&mut state, 1400));
            match chance(&mut state, 4) {
                0 => {
                    queue.push_bytes(&text);
                    came += text.len();
                }
                1 => {
                    let mut frame = pool.get().unwrap();
                    frame.append(text.len()).unwrap().copy_from_slice(&text);
                    queue.push(frame);
                    came += text.len();
                }
                _ => {
                    let mut into = vec![0; chance(&mut state, 2500)];
                    let peeked = queue.peek(&mut into);
                    assert_eq!(into[..peeked], bytes(read, peeked), "seed {seed}");
                    let n = queue.read(&mut into);
                    assert_eq!((n, &into[..n]), (peeked, &bytes(read, n)[..]), "seed {seed}");
                    read += n;
                }
            }
            assert_eq!((queue.len(), queue.end()), (came - read, came as u64), "seed {seed}");
        }
    }
}

#[test]
fn out_of_order_data_is_delivered_in_order() {
    for seed in 1..=100u64 {
        let (mut state, mut early, mut queue) = (seed, OutOfOrder::default(), RecvQueue::new(0));
        let len = 1 + chance(&mut state, 30_000);
        let mut cuts: Vec<usize> = (0..20).map(|_| chance(&mut state, len)).chain([0, len]).collect();
        cuts.sort_unstable();
        let mut ranges: Vec<(usize, usize)> = cuts.windows(2).map(|cut| (cut[0], cut[1])).collect();
        while !ranges.is_empty() {
            let (from, to) = ranges.swap_remove(chance(&mut state, ranges.len()));
            early.insert(from as u64, &bytes(from, to - from));
        }
        assert!(early.take(0, len as u64, &mut queue));
        let mut all = vec![0; len + 1];
        assert_eq!(queue.read(&mut all), len, "seed {seed}");
        assert_eq!(all[..len], bytes(0, len), "seed {seed}");
        assert!(early.bytes() <= PAGE as usize, "seed {seed}: pages that were read are free");
    }
}

#[test]
fn queues_and_their_elements_are_small() {
    assert_eq!((size_of::<SendQueue>(), size_of::<RecvQueue>()), (48, 48));
    assert_eq!((size_of::<Piece>(), size_of::<Chunk>()), (24, 24));
}

/// Missing acknowledged data is reported: the reader must not receive other bytes instead.
#[test]
fn missing_out_of_order_data_is_reported() {
    let (mut early, mut queue) = (OutOfOrder::default(), RecvQueue::new(0));
    early.insert(PAGE + 5, b"text");
    assert!(early.take(PAGE + 5, 4, &mut queue));
    assert!(!early.take(3 * PAGE, 4, &mut queue));
    assert_eq!(queue.len(), 4);
}
