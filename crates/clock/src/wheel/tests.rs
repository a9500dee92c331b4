use super::*;
use proptest::prelude::*;
use std::collections::BTreeMap;

const MS: Duration = Duration::from_millis(1);

fn at(ms: u64) -> Instant {
    Instant::from_millis(ms)
}

fn due(wheel: &mut Wheel, now: Instant) -> Vec<u32> {
    let mut keys = Vec::new();
    assert!(!wheel.expire(now, usize::MAX, |key| keys.push(key)));
    keys
}

#[test]
fn an_entry_is_half_a_cache_line() {
    assert!(size_of::<Entry>() <= 32);
}

#[test]
fn a_key_is_due_at_its_deadline_and_not_before() {
    let mut wheel = Wheel::new(MS);
    let deadline = Instant::from_nanos(5_000_123_456);
    wheel.set(7, deadline);
    assert_eq!((wheel.armed(), wheel.deadline(7)), (1, deadline));
    let mut wakes = 0;
    while wheel.next() < deadline {
        let next = wheel.next();
        assert_eq!(due(&mut wheel, next), [], "early");
        wakes += 1;
    }
    assert!(wakes <= LEVELS, "each wake takes it a level down");
    assert_eq!(due(&mut wheel, Instant::from_nanos(deadline.nanos() - 1)), []);
    assert_eq!(due(&mut wheel, deadline), [7]);
    assert_eq!((wheel.armed(), wheel.deadline(7), wheel.next()), (0, Instant::NEVER, Instant::NEVER));
}

#[test]
fn never_is_no_deadline() {
    let mut wheel = Wheel::new(MS);
    wheel.set(u32::MAX - 1, Instant::NEVER);
    assert!(wheel.entries.is_empty(), "and costs no memory");
    wheel.set(3, at(10));
    wheel.set(3, Instant::NEVER);
    assert_eq!((wheel.armed(), wheel.next()), (0, Instant::NEVER));
    assert_eq!(due(&mut wheel, at(1 << 40)), []);
}

#[test]
fn moving_later_leaves_a_key_where_it_is_filed() {
    let mut wheel = Wheel::new(MS);
    wheel.set(0, at(200));
    let place = wheel.entries[0].place;
    for ms in 201..100_000 {
        wheel.set(0, at(ms));
        assert_eq!(wheel.entries[0].place, place);
    }
    assert!(wheel.next() <= at(200), "early, which is the price");
    assert_eq!(due(&mut wheel, at(99_998)), []);
    assert_eq!(due(&mut wheel, at(99_999)), [0]);
}

#[test]
fn within_the_present_granule_keys_come_in_order() {
    let mut wheel = Wheel::new(MS);
    due(&mut wheel, at(1));
    let us = |us: u64| Instant::from_micros(1_000 + us);
    for (key, when) in [(0, us(300)), (1, us(100)), (2, us(200)), (3, us(5)), (4, us(290))] {
        wheel.set(key, when);
    }
    assert_eq!(wheel.next(), us(5), "exact, to a nanosecond");
    wheel.cancel(1);
    wheel.set(4, us(1));
    assert_eq!(due(&mut wheel, us(250)), [4, 3, 2]);
    assert_eq!(due(&mut wheel, us(300)), [0]);
}

#[test]
fn a_limit_bounds_the_work_of_a_call() {
    let mut wheel = Wheel::new(MS);
    for key in 0..10_000 {
        wheel.set(key, at(5_000));
    }
    let (mut calls, mut handed) = (1, 0);
    while wheel.expire(at(5_000), 64, |_| handed += 1) {
        assert!(wheel.next() <= at(5_000), "there is more");
        calls += 1;
        assert!(handed <= calls * 64);
    }
    assert_eq!(handed, 10_000);
    assert!(calls <= 10_000 * 4 / 64 + 1, "{calls} calls: each key is filed a few times");
    assert_eq!(wheel.next(), Instant::NEVER);
}

#[test]
fn a_key_may_move_while_its_slot_waits() {
    let mut wheel = Wheel::new(MS);
    for key in 0..100 {
        wheel.set(key, at(5_000));
    }
    assert!(wheel.expire(at(5_000), 1, |_| ()));
    for key in 0..100 {
        match key % 3 {
            0 => wheel.set(key, at(4_000)),
            1 => wheel.set(key, at(6_000)),
            _ => wheel.cancel(key),
        }
    }
    assert_eq!(due(&mut wheel, at(5_000)).len(), 34);
    assert_eq!(due(&mut wheel, at(6_000)).len(), 33);
    assert_eq!(wheel.armed(), 0);
}

#[test]
fn a_day_passes_in_few_steps() {
    let mut wheel = Wheel::new(MS);
    wheel.set(1, Instant::from_nanos(u64::MAX - 1));
    wheel.set(2, at(24 * 3600 * 1000));
    assert_eq!(due(&mut wheel, at(24 * 3600 * 1000)), [2]);
    assert_eq!(due(&mut wheel, Instant::NEVER), [1]);
}

#[test]
fn memory_grows_with_keys_and_not_with_use() {
    let mut wheel = Wheel::new(MS);
    for round in 0..20u64 {
        for key in 0..1_000 {
            wheel.set(key, at(round * 100 + u64::from(key % 90)));
        }
        due(&mut wheel, at(round * 100 + 50));
    }
    assert_eq!(wheel.entries.len(), 1_000);
    assert!(wheel.near.first().is_none() && wheel.armed() < 1_000);
}

#[derive(Clone, Debug)]
enum Step {
    Set(u32, u64),
    Cancel(u32),
    /// Time passes, and each call checks at most the given number of keys.
    Pass(u64, usize),
    /// Time passes exactly to `next()`.
    ToNext,
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let spans = prop_oneof![0..2_000_000u64, 0..100_000_000u64, 0..20_000_000_000_000u64];
    let step = prop_oneof![
        6 => (0..40u32, spans.clone()).prop_map(|(key, span)| Step::Set(key, span)),
        2 => (0..40u32).prop_map(Step::Cancel),
        2 => (spans, 1..50usize).prop_map(|(span, limit)| Step::Pass(span, limit)),
        3 => Just(Step::ToNext),
    ];
    prop::collection::vec(step, 1..200)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(400))]

    /// The wheel behaves like a sorted map: at any time, exactly the keys that are due expire, and
    /// `next` is never too late.
    #[test]
    fn behaves_like_a_sorted_map(steps in steps(), start in 0..u64::MAX / 4, granularity in 1..4_000_000u64) {
        let mut wheel = Wheel::new(Duration::from_nanos(granularity));
        let mut model: BTreeMap<u32, Instant> = BTreeMap::new();
        let mut now = Instant::from_nanos(start);
        for step in steps {
            let mut limit = usize::MAX;
            match step {
                Step::Set(key, span) => {
                    // sometimes a deadline in the past
                    let when = Instant::from_nanos((now.nanos() + span).saturating_sub(500_000));
                    wheel.set(key, when);
                    model.insert(key, when);
                    continue;
                }
                Step::Cancel(key) => {
                    wheel.cancel(key);
                    model.remove(&key);
                    continue;
                }
                Step::Pass(span, most) => {
                    limit = most;
                    now = now.after(Duration::from_nanos(span));
                }
                Step::ToNext => now = if wheel.next() == Instant::NEVER { now } else { now.max(wheel.next()) },
            }
            let soonest = model.values().min().copied().unwrap_or(Instant::NEVER);
            prop_assert!(wheel.next() <= soonest, "{:?} is late for {soonest:?}", wheel.next());
            let mut handed = Vec::new();
            while wheel.expire(now, limit, |key| handed.push(key)) {
                prop_assert!(wheel.armed() == 0 || wheel.next() <= now, "only cancelled ones may be left unannounced");
            }
            handed.sort_unstable();
            let expected: Vec<u32> = model.iter().filter(|(_, when)| **when <= now).map(|(key, _)| *key).collect();
            prop_assert_eq!(&handed, &expected);
            model.retain(|_, when| *when > now);
            prop_assert_eq!(wheel.armed(), model.len());
            for (key, when) in &model {
                prop_assert_eq!(wheel.deadline(*key), *when);
            }
        }
    }
}
