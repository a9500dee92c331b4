use super::*;
use clock::Instant;
use std::sync::Arc;

fn cx() -> Cx {
    Cx::enter(How::Register, Instant::ZERO)
}

fn counts_what_it_guards<L: Locks>() {
    let value: Guarded<L, u64> = Guarded::new(0);
    for _ in 0..5 {
        *value.lock(cx()) += 2;
    }
    assert_eq!(*value.lock(cx()), 10);
    assert_eq!(value.acquisitions(), 6);
}

#[test]
fn every_kind_guards_and_counts() {
    counts_what_it_guards::<Up>();
    counts_what_it_guards::<Light>();
    counts_what_it_guards::<Heavy>();
}

fn shares<L: Locks>()
where
    Guarded<L, u64>: Send + Sync,
{
    let value: Arc<Guarded<L, u64>> = Arc::new(Guarded::new(0));
    std::thread::scope(|scope| {
        for _ in 0..4 {
            scope.spawn(|| (0..2_000).for_each(|_| *value.lock(cx()) += 1));
        }
    });
    assert_eq!(*value.lock(cx()), 8_000);
    assert_eq!(value.acquisitions(), 8_001);
}

#[test]
fn shared_kinds_exclude_each_other() {
    shares::<Light>();
    shares::<Heavy>();
}

fn panics_when_taken_twice<L: Locks>() {
    let value: Guarded<L, u64> = Guarded::new(0);
    let _first = value.lock(cx());
    let _second = value.lock(cx());
}

#[test]
#[should_panic(expected = "taken twice")]
fn up_taken_twice_panics() {
    panics_when_taken_twice::<Up>();
}

#[test]
#[should_panic(expected = "taken twice")]
fn light_taken_twice_panics() {
    panics_when_taken_twice::<Light>();
}

#[test]
#[should_panic(expected = "taken twice")]
fn heavy_taken_twice_panics() {
    panics_when_taken_twice::<Heavy>();
}

#[test]
fn the_three_contexts_find_the_same_thread() {
    let here = [How::Register, How::Inline, How::Call].map(|how| Cx::enter(how, Instant::ZERO).current());
    assert!(here.iter().all(|&index| index == thread_index()));
    let there = std::thread::spawn(|| (Cx::enter(How::Call, Instant::ZERO).current(), thread_token())).join().unwrap();
    assert_ne!(there.1, thread_token());
}

/// Maximum number of threads of other tests in this process that may run at the same time,
/// including those of `threads_alive_together_have_different_indexes`.
const BESIDE: usize = 512;

#[test]
fn an_index_returns_when_its_thread_ends() {
    for _ in 0..1000 {
        assert!(std::thread::spawn(thread_index).join().unwrap() < BESIDE);
    }
}

/// Destructors of thread-local values may use a stack, even those that run last.
#[test]
fn an_index_returns_after_destructors_that_take_one() {
    struct Uses;
    impl Drop for Uses {
        fn drop(&mut self) {
            thread_index();
        }
    }
    thread_local! {
        static BEFORE: Uses = const { Uses };
        static AFTER: Uses = const { Uses };
    }
    for _ in 0..1000 {
        let thread = std::thread::spawn(|| {
            BEFORE.with(|_| {});
            let index = thread_index();
            AFTER.with(|_| {});
            index
        });
        assert!(thread.join().unwrap() < BESIDE);
    }
}

#[test]
fn threads_alive_together_have_different_indexes() {
    let all = std::sync::Barrier::new(300);
    let mut indexes: Vec<_> = std::thread::scope(|scope| {
        let index = || {
            let index = thread_index();
            all.wait();
            index
        };
        let threads: Vec<_> = (0..300).map(|_| scope.spawn(index)).collect();
        threads.into_iter().map(|thread| thread.join().unwrap()).collect()
    });
    indexes.sort_unstable();
    indexes.dedup();
    assert_eq!(indexes.len(), 300);
}

#[test]
fn context_names_match_the_setting() {
    for word in ["register", "inline", "call"] {
        assert_eq!(word.parse::<How>().unwrap().to_string(), word);
    }
    assert!("osmosis".parse::<How>().is_err());
}
