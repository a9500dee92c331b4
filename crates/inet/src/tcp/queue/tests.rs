mod streams;

use super::*;
use buf::{Pool, PoolConfig};

const SIZES: Sizes = Sizes { small: 100, large: 0, aligned: false };

fn pool() -> Pool {
    Pool::new(&PoolConfig { buffers: 64, data: 512, ..PoolConfig::default() }).unwrap()
}

fn bytes(n: usize) -> Vec<u8> {
    (0..n).map(|i| (i * 7 + (i >> 8)) as u8).collect()
}

/// What of the queue a segment carries, lent or copied, with the sum it would be sent with.
fn taken(queue: &mut SendQueue, pool: &Pool, at: u32, len: u32) -> (Vec<u8>, Option<Partial>) {
    let lent = match queue.locate(at, len) {
        Range::Front(index) => queue.lend(index, len),
        Range::Scattered => None,
    };
    let (frame, sum) = lent.unwrap_or_else(|| {
        let mut frame = pool.get().unwrap();
        let sum = queue.copy(at, len, &mut frame).unwrap();
        (frame, sum)
    });
    (frame.bytes().to_vec(), sum)
}

#[test]
fn a_sum_that_is_told_is_that_of_the_bytes() {
    let (pool, text) = (pool(), bytes(1000));
    for step in [1, 33, 100, 150] {
        let mut queue = SendQueue::new(1000);
        for part in text.chunks(step) {
            assert_eq!(queue.append(part, SIZES, Sums::Ours, |_| pool.get()), part.len());
        }
        let (mut told, mut whole) = (0, 0);
        for (at, len) in [(0, 100), (300, 100), (250, 100), (7, 301), (100, 50), (0, 1), (999, 1), (133, 400)] {
            let (bytes, sum) = taken(&mut queue, &pool, at, len);
            assert_eq!(bytes, text[at as usize..(at + len) as usize], "{len} at {at}, written {step} at a time");
            assert!(sum.is_none_or(|sum| sum == checksum::sum(&bytes)), "{len} at {at}, written {step} at a time");
            told += usize::from(sum.is_some());
            whole += usize::from(at.is_multiple_of(100) && len == 100);
        }
        assert!(told >= whole && whole == 2, "whole pieces have theirs");
    }
    assert_eq!(pool.stats().live(), 0);
}

#[test]
fn the_ports_sums_are_not_made_and_a_mixed_piece_has_none() {
    let (pool, text) = (pool(), bytes(300));
    let mut queue = SendQueue::new(1000);
    // The first piece is the port's, the second mixed both ways round, the third ours.
    for (part, sums) in [(0..100, Sums::Ports), (100..150, Sums::Ours), (150..180, Sums::Ports), (180..300, Sums::Ours)]
    {
        queue.append(&text[part], SIZES, sums, |_| pool.get());
    }
    let mut sum_of = |at, len| {
        let (bytes, sum) = taken(&mut queue, &pool, at, len);
        assert_eq!(bytes, text[at as usize..(at + len) as usize]);
        sum
    };
    assert_eq!([sum_of(0, 100), sum_of(100, 100)], [None, None]);
    assert_eq!(sum_of(200, 100), Some(checksum::sum(&text[200..])));
    assert_eq!([sum_of(50, 200), sum_of(150, 100)], [None, None], "a range with such a piece in it");
}

#[test]
fn what_is_released_makes_room_and_what_is_left_stays_where_it_is() {
    let (pool, text) = (pool(), bytes(250));
    let mut queue = SendQueue::new(250);
    assert_eq!(queue.append(&text, SIZES, Sums::Ours, |_| pool.get()), 250);
    assert_eq!((queue.append(&[1], SIZES, Sums::Ours, |_| pool.get()), queue.buffers()), (0, 3));
    queue.release(130);
    assert_eq!((queue.len(), queue.buffers(), queue.room()), (120, 2, 130));
    assert_eq!(taken(&mut queue, &pool, 0, 120).0, text[130..]);
    queue.release(1000);
    assert!(queue.is_empty() && queue.buffers() == 0);
    assert_eq!(queue.append(&text, SIZES, Sums::Ours, |_| None), 0, "no buffer is to be had");
    assert_eq!(pool.stats().live(), 0);
}
