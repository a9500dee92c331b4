use super::*;

#[cfg(loom)]
#[test]
fn loom_hands_over_every_value_once_in_order() {
    loom::model(|| {
        let (mut tx, mut rx) = ring::<u32>(2);
        let writer = loom::thread::spawn(move || {
            let mut next = 0;
            for _ in 0..4 {
                tx.push_from(|| {
                    (next < 3).then(|| {
                        next += 1;
                        next - 1
                    })
                });
            }
            next
        });
        let mut got = Vec::new();
        for _ in 0..3 {
            rx.pop_into(2, |value| got.push(value));
        }
        let written = writer.join().unwrap();
        rx.pop_into(2, |value| got.push(value));
        rx.pop_into(2, |value| got.push(value));
        assert_eq!(got, (0..written).collect::<Vec<_>>());
    });
}

#[cfg(loom)]
#[test]
fn loom_drops_what_was_never_read() {
    loom::model(|| {
        let value = loom::sync::Arc::new(());
        let (mut tx, rx) = ring(2);
        let sent = value.clone();
        let writer = loom::thread::spawn(move || drop(tx.push(sent)));
        drop(rx);
        writer.join().unwrap();
        assert_eq!(loom::sync::Arc::strong_count(&value), 1);
    });
}

#[cfg(not(loom))]
mod std_tests {
    use super::*;
    use proptest::prelude::*;
    use std::collections::VecDeque;

    proptest! {
        #[test]
        fn behaves_like_a_bounded_queue(capacity in 1usize..9, steps in prop::collection::vec((any::<bool>(), 0usize..6), 0..200)) {
            let (mut tx, mut rx) = ring(capacity);
            let room = capacity.next_power_of_two();
            let (mut model, mut next) = (VecDeque::new(), 0u32);
            for (write, n) in steps {
                if write {
                    let mut left = n;
                    let wrote = tx.push_from(|| (left > 0).then(|| { left -= 1; next += 1; next - 1 }));
                    prop_assert_eq!(wrote, n.min(room - model.len()));
                    model.extend(next - wrote as u32..next);
                } else {
                    let want: Vec<u32> = model.drain(..n.min(model.len())).collect();
                    let mut got = Vec::new();
                    rx.pop_into(n, |value| got.push(value));
                    // `ready` may return too few values only if it returns more than 0; drain the
                    // rest then.
                    while got.len() < want.len() { rx.pop_into(want.len() - got.len(), |value| got.push(value)); }
                    prop_assert_eq!(got, want);
                }
            }
        }
    }

    #[test]
    fn a_million_values_cross_threads_in_order() {
        let (mut tx, mut rx) = ring(1024);
        let writer = std::thread::spawn(move || {
            let mut next = 0u64;
            while next < 1_000_000 {
                if tx.push_from(|| {
                    (next < 1_000_000).then(|| {
                        next += 1;
                        next - 1
                    })
                }) == 0
                {
                    std::thread::yield_now();
                }
            }
        });
        let mut want = 0;
        while want < 1_000_000 {
            let got = rx.pop_into(32, |value| {
                assert_eq!(value, want);
                want += 1;
            });
            if got == 0 {
                std::thread::yield_now();
            }
        }
        writer.join().unwrap();
        assert!(rx.is_closed() && rx.pop().is_none());
    }

    #[test]
    fn unread_entries_are_dropped_with_the_ring() {
        let value = Arc::new(());
        let (mut tx, rx) = ring(4);
        tx.push(value.clone()).unwrap();
        tx.push(value.clone()).unwrap();
        drop(rx);
        assert!(tx.is_closed());
        drop(tx);
        assert_eq!(Arc::strong_count(&value), 1);
    }
}

/// Checks that bursts pass in order, whole or in part, across the ring's end, and that no frame is
/// lost.
#[cfg(not(loom))]
#[test]
fn bursts_pass_in_runs() {
    use crate::{Burst, Pool, PoolConfig};
    let pool = Pool::new(&PoolConfig { buffers: 64, ..PoolConfig::default() }).unwrap();
    let (mut to, mut from) = ring(16);
    let (mut sent, mut got) = (0_u32, 0_u32);
    let mut out = Burst::new();
    for turn in 0..500_usize {
        let mut burst = Burst::new();
        for _ in 0..turn % 23 {
            let mut frame = pool.get().unwrap();
            frame.extend(&sent.to_be_bytes()).unwrap();
            sent += 1;
            assert!(burst.push(frame).is_ok());
        }
        let left = burst.len() - to.push_burst(&mut burst);
        assert_eq!((burst.len(), to.room() == 0), (left, left > 0 || from.level() == 16));
        from.pop_burst(&mut out, turn % 11);
        for frame in out.drain() {
            assert_eq!(frame.bytes(), got.to_be_bytes());
            got += 1;
        }
        // Frames that did not fit are the first ones of the next turn.
        while !burst.is_empty() {
            from.pop_burst(&mut out, 5);
            out.drain().for_each(|frame| (assert_eq!(frame.bytes(), got.to_be_bytes()), got += 1).1);
            to.push_burst(&mut burst);
        }
    }
    while from.pop_burst(&mut out, 256) > 0 {}
    assert_eq!(got as usize + out.len(), sent as usize);
    drop((out, to, from));
    assert_eq!(pool.stats().live(), 0);
}
