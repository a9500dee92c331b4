use super::*;

#[cfg(loom)]
#[test]
fn loom_a_report_gives_back_all_that_was_lent_before_it() {
    loom::model(|| {
        let (mut driver, mut card) = descriptors::<u32>(4);
        let worker = loom::thread::spawn(move || {
            for _ in 0..3 {
                if card.with_next(|value, _| *value.as_mut().unwrap() += 10).is_some() {
                    card.finish();
                }
            }
        });
        driver.put(1, 0).unwrap();
        driver.put(2, RS).unwrap();
        driver.announce();
        driver.put(3, RS).unwrap();
        driver.announce();
        let mut got = Vec::new();
        for _ in 0..2 {
            driver.find_reported();
            driver.take_done(9, |value| got.extend(value));
        }
        worker.join().unwrap();
        driver.find_reported();
        driver.take_done(9, |value| got.extend(value));
        assert_eq!(got, [11, 12, 13][..got.len()]);
    });
}

#[cfg(loom)]
#[test]
fn loom_each_descriptor_is_harvested_once_and_lent_again() {
    loom::model(|| {
        let (mut driver, mut card) = descriptors::<u32>(2);
        driver.put(1, 0).unwrap();
        driver.announce();
        let worker = loom::thread::spawn(move || {
            for _ in 0..2 {
                if card.with_next(|value, _| *value.as_mut().unwrap() += 10).is_some() {
                    card.finish_and_report();
                }
            }
        });
        if driver.find_done(1) == 1 {
            driver.take_done(1, |value| assert_eq!(value, Some(11)));
            driver.put(2, 0).unwrap();
            driver.announce();
        }
        worker.join().unwrap();
        driver.find_done(1);
        driver.take_done(1, |value| assert!(value == Some(11) || value == Some(12)));
    });
}

#[cfg(not(loom))]
mod std_tests {
    use super::*;
    use proptest::prelude::*;
    use std::collections::VecDeque;

    #[test]
    fn one_entry_stays_free_and_only_announced_entries_are_visible() {
        let (mut driver, mut card) = descriptors::<u32>(4);
        (0..3).for_each(|i| driver.put(i, 0).unwrap());
        assert_eq!((driver.put(9, 0), driver.room(), driver.unannounced(), card.ready()), (Err(9), 0, 3, 0));
        driver.announce();
        assert_eq!((card.ready(), driver.unannounced(), driver.pending()), (3, 0, 3));
        assert_eq!(card.with_next(|value, _| value.take()), Some(Some(0)));
        card.finish_and_report();
        assert_eq!((driver.find_done(9), driver.pending()), (1, 2));
        driver.look_ahead(1, |_| panic!("the card's"));
        assert_eq!(driver.take_done(9, |value| assert_eq!(value, None)), 1);
        assert_eq!(driver.room(), 1);
    }

    #[test]
    fn a_run_of_descriptors_is_filled_as_far_as_there_is_room() {
        let (mut driver, mut card) = descriptors::<u32>(8);
        let mut values = (0..20).map(|i| (i, if i % 3 == 2 { RS } else { 0 }));
        assert_eq!((driver.put_from(2, || values.next()), driver.put_from(9, || values.next())), (2, 5));
        assert_eq!((values.next(), driver.put_from(9, || values.next()), driver.room()), (Some((7, 0)), 0, 0));
        driver.announce();
        (0..5).for_each(|_| card.finish());
        assert_eq!((driver.find_reported(), driver.filled()), (3, 7), "0, 1 and 2; 5 is not done yet");
        let mut got = Vec::new();
        driver.take_done(2, |value| got.extend(value));
        driver.take_done(2, |value| got.extend(value));
        assert_eq!(got, [0, 1, 2]);
    }

    #[test]
    fn dropping_the_ring_frees_its_entries() {
        let value = std::sync::Arc::new(());
        let (mut driver, card) = descriptors(4);
        driver.put(value.clone(), 0).unwrap();
        driver.announce();
        drop(driver);
        assert_eq!(std::sync::Arc::strong_count(&value), 2);
        drop(card);
        assert_eq!(std::sync::Arc::strong_count(&value), 1);
    }

    proptest! {
        #[test]
        fn values_come_back_in_order_once_their_report_is_there(
            size in 2usize..9, every in 1u32..5, steps in prop::collection::vec((0u8..4, 1usize..6), 0..300)
        ) {
            let (mut driver, mut card) = descriptors::<u32>(size);
            let (mut model, mut next, mut worked, mut back) = (VecDeque::new(), 0u32, 0u32, 0u32);
            for (what, n) in steps {
                match what {
                    0 => for _ in 0..n {
                        let command = if (next + 1).is_multiple_of(every) { RS } else { 0 };
                        if driver.put(next, command).is_ok() {
                            model.push_back(next);
                            next += 1;
                        }
                    },
                    1 => driver.announce(),
                    2 => for _ in 0..n {
                        if card.with_next(|value, _| assert_eq!(*value, Some(worked))).is_some() {
                            card.finish();
                            worked += 1;
                        }
                    },
                    _ => {
                        let reported = driver.find_reported();
                        prop_assert_eq!(reported as u32, (worked / every * every).saturating_sub(back));
                        back += driver.take_done(n, |value| assert_eq!(value, model.pop_front())) as u32;
                    }
                }
                prop_assert_eq!(driver.filled(), model.len());
                prop_assert_eq!(driver.pending() as u32, next - worked);
            }
        }
    }

    #[test]
    fn a_card_on_a_thread_of_its_own_keeps_order() {
        const N: u64 = 300_000;
        let (mut driver, mut card) = descriptors::<u64>(256);
        let worker = std::thread::spawn(move || {
            let mut worked = 0;
            while worked < N {
                match card.with_next(|value, _| value.iter_mut().for_each(|v| *v += 1)) {
                    Some(()) => {
                        card.finish();
                        worked += 1;
                    }
                    None => std::thread::yield_now(),
                }
            }
        });
        let (mut next, mut want) = (0, 0);
        while want < N {
            while next < N && driver.put(next, if next % 8 == 7 { RS } else { 0 }).is_ok() {
                next += 1;
            }
            driver.announce();
            if driver.find_reported() == 0 {
                std::thread::yield_now();
            }
            driver.take_done(usize::MAX, |value| {
                assert_eq!(value, Some(want + 1));
                want += 1;
            });
        }
        worker.join().unwrap();
    }
}
