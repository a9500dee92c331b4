use super::*;
use proptest::prelude::*;

const KINDS: [Kind; 4] = [Kind::Stack, Kind::Freelist, Kind::Zone, Kind::Malloc];
const LOCKS: [PoolLocks; 3] = [PoolLocks::Owner, PoolLocks::Light, PoolLocks::Heavy];

fn config(kind: Kind, locks: PoolLocks, buffers: usize) -> PoolConfig {
    PoolConfig { kind, locks, buffers, data: 256, headroom: 64, ..PoolConfig::default() }
}

#[test]
fn every_kind_under_every_lock_gives_each_buffer_once_and_refuses_the_next() {
    for kind in KINDS {
        for locks in LOCKS {
            let pool = Pool::new(&config(kind, locks, 300)).unwrap();
            let mut frames: Vec<Frame> = (0..300).map(|_| pool.get().unwrap()).collect();
            assert!(pool.get().is_none(), "{kind} {locks:?}");
            for (i, frame) in frames.iter_mut().enumerate() {
                frame.extend(&(i as u64).to_ne_bytes()).unwrap();
            }
            for (i, frame) in frames.iter().enumerate() {
                assert_eq!(frame.bytes(), (i as u64).to_ne_bytes(), "{kind} {locks:?}: buffers overlap");
            }
            let stats = pool.stats();
            assert_eq!((stats.live(), stats.empty), (300, 1), "{kind} {locks:?}");
            drop(frames);
            assert_eq!(pool.stats().live(), 0);
            assert!(pool.get().is_some());
        }
    }
}

#[test]
fn frames_dropped_on_another_thread_come_back() {
    for kind in KINDS {
        for locks in LOCKS {
            // A zone keeps up to two buckets (256 buffers) in the cache of each thread index that
            // returned them.
            let pool = Pool::new(&config(kind, locks, 1024)).unwrap();
            for _ in 0..3 {
                let frames: Vec<Frame> = std::iter::from_fn(|| pool.get()).collect();
                assert!(frames.len() >= 1024 - 3 * 256, "{kind} {locks:?}: {}", frames.len());
                std::thread::spawn(move || drop(frames)).join().unwrap();
                assert_eq!(pool.stats().live(), 0, "{kind} {locks:?}");
            }
        }
    }
}

#[test]
fn a_released_pool_moves_to_another_thread_whole() {
    let pool = Pool::new(&config(Kind::Stack, PoolLocks::Owner, 8)).unwrap();
    drop(pool.get());
    pool.release();
    let there = pool.clone();
    let taken =
        std::thread::spawn(move || std::iter::from_fn(|| there.get()).collect::<Vec<_>>().len()).join().unwrap();
    assert_eq!(taken, 8);
}

#[test]
fn several_threads_share_a_locked_pool() {
    for kind in [Kind::Stack, Kind::Freelist, Kind::Zone] {
        let pool = Pool::new(&config(kind, PoolLocks::Light, 1024)).unwrap();
        std::thread::scope(|scope| {
            for t in 0..4u64 {
                let pool = &pool;
                scope.spawn(move || {
                    for round in 0..500u64 {
                        let mut held: Vec<Frame> = (0..20).filter_map(|_| pool.get()).collect();
                        for frame in &mut held {
                            frame.extend(&(t << 32 | round).to_ne_bytes()).unwrap();
                        }
                        assert!(held.iter().all(|f| f.bytes() == (t << 32 | round).to_ne_bytes()));
                    }
                });
            }
        });
        assert_eq!(pool.stats().live(), 0);
    }
}

/// Locked by tests with many threads, and by those that need a cache: only the first 64 threads
/// have one.
static TURN: Mutex<()> = Mutex::new(());

fn turn() -> std::sync::MutexGuard<'static, ()> {
    TURN.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Takes and returns eight buffers at a time, `rounds` times.
fn churn(pool: &Pool, rounds: u64) {
    for round in 0..rounds {
        let frames: Vec<Frame> = (0..8).filter_map(|_| pool.get()).collect();
        assert_eq!(frames.len(), 8, "{round}");
    }
}

#[test]
fn per_thread_caches_avoid_the_lock() {
    let _turn = turn();
    let pool = Pool::new(&config(Kind::Stack, PoolLocks::Light, 4096)).unwrap();
    std::thread::scope(|scope| (0..2).for_each(|_| _ = scope.spawn(|| churn(&pool, 10_000))));
    let (stats, (taken, _)) = (pool.stats(), pool.locks());
    assert_eq!((stats.gets, stats.puts, stats.live()), (160_000, 160_000, 0));
    assert!(taken < 100, "the lock was taken {taken} times");
    // A thread that takes buffers which another returns locks the list once per half a cache of
    // buffers.
    let before = pool.locks().0;
    let (give, taken) = std::sync::mpsc::sync_channel::<Frame>(64);
    std::thread::scope(|scope| {
        scope.spawn(|| taken.into_iter().for_each(drop));
        (0..16_000).for_each(|_| give.send(pool.get().unwrap()).unwrap());
        drop(give);
    });
    let times = pool.locks().0 - before;
    assert!((1_000..2_500).contains(&times), "16,000 buffers in {times} times");
}

/// Checks that counters read while other threads pass buffers on never contain more puts than gets.
#[test]
fn concurrent_counts_are_never_negative() {
    let pool = Pool::new(&config(Kind::Stack, PoolLocks::Light, 4096)).unwrap();
    let (give, taken) = std::sync::mpsc::sync_channel::<Frame>(8);
    std::thread::scope(|scope| {
        scope.spawn(|| taken.into_iter().for_each(drop));
        let pool = &pool;
        let giver = scope.spawn(move || (0..100_000).for_each(|_| give.send(pool.get().unwrap()).unwrap()));
        while !giver.is_finished() {
            let live = pool.stats().live();
            assert!(live <= 4096, "{live}");
        }
    });
}

/// A pool of kind `freelist` has BSD's list, without caches.
#[test]
fn a_list_without_caches_is_locked_for_each_buffer() {
    let pool = Pool::new(&config(Kind::Freelist, PoolLocks::Light, 4096)).unwrap();
    churn(&pool, 100);
    assert!((1_600..1_700).contains(&pool.locks().0), "{:?}", pool.locks());
}

#[test]
fn a_small_pool_is_not_shared_out() {
    let pool = Pool::new(&config(Kind::Stack, PoolLocks::Light, 100)).unwrap();
    for _ in 0..3 {
        let frames: Vec<Frame> = (0..100).map(|_| pool.get().unwrap()).collect();
        std::thread::scope(|scope| _ = scope.spawn(|| drop(frames)));
    }
}

/// Runs more than the usual 64 threads, each with its cache full if it has one.
#[test]
fn caches_hold_half_of_a_pool_at_most() {
    const THREADS: usize = 80;
    let _turn = turn();
    let pool = Pool::new(&config(Kind::Stack, PoolLocks::Light, 4096)).unwrap();
    let frames: Vec<Vec<Frame>> = (0..THREADS).map(|_| std::iter::from_fn(|| pool.get()).take(32).collect()).collect();
    let (full, over) = (std::sync::Barrier::new(THREADS + 1), std::sync::Barrier::new(THREADS + 1));
    let (here, empty) = std::thread::scope(|scope| {
        for frames in frames {
            scope.spawn(|| {
                drop(frames);
                full.wait();
                over.wait();
            });
        }
        full.wait();
        let here: Vec<Frame> = std::iter::from_fn(|| pool.get()).collect();
        let empty = pool.stats().empty;
        over.wait(); // before the assertions, since the others wait
        (here.len(), empty)
    });
    // Threads of other tests use some of the first 64 indexes.
    assert!((2048..3584).contains(&here) && empty == 1, "{here} {empty}");
    assert_eq!(pool.stats().live(), 0);
}

/// A pool's memory is freed, regardless of the threads that have cached its buffers.
#[test]
fn a_pool_that_several_threads_used_is_freed_by_the_next() {
    let (give, taken) = std::sync::mpsc::sync_channel::<Vec<Frame>>(1);
    let worker = std::thread::spawn(move || taken.into_iter().for_each(drop));
    for n in 0..2 * POOLS_MAX {
        let pool = Pool::new(&config(Kind::Stack, PoolLocks::Light, 1024)).unwrap_or_else(|why| panic!("{n}: {why}"));
        give.send((0..20).map(|_| pool.get().unwrap()).collect()).unwrap();
        churn(&pool, 2);
    }
    drop(give);
    worker.join().unwrap();
}

/// Checks that a pool whose frames return after the last handle was dropped frees its number.
#[test]
fn a_pool_that_outlived_its_handle_is_freed_by_the_next() {
    for kind in [Kind::Stack, Kind::Freelist, Kind::Zone] {
        let mut out = Vec::new();
        for n in 0..3 * POOLS_MAX {
            let pool = Pool::new(&PoolConfig { buffers: 4, kind, ..PoolConfig::default() })
                .unwrap_or_else(|why| panic!("{kind} {n}: {why}"));
            out.push(pool.get().unwrap());
            drop(pool);
            if out.len() == 8 {
                out.clear(); // the frames of eight pools return together
            }
        }
    }
}

#[test]
fn a_frame_may_outlive_its_pool_handle() {
    let pool = Pool::new(&config(Kind::Stack, PoolLocks::Owner, 4)).unwrap();
    let mut frame = pool.get().unwrap();
    drop(pool);
    frame.extend(b"still here").unwrap();
    assert_eq!(frame.bytes(), b"still here");
}

#[test]
fn impossible_pools_are_rejected() {
    for bad in [
        PoolConfig { buffers: 0, ..PoolConfig::default() },
        PoolConfig { data: 0, ..PoolConfig::default() },
        PoolConfig { headroom: 40_000, ..PoolConfig::default() },
    ] {
        assert!(matches!(Pool::new(&bad), Err(PoolError::BadConfig(_))));
    }
}

proptest! {
    /// Checks that a frame behaves like a byte vector with free space at both ends.
    #[test]
    fn a_frame_is_a_window(steps in prop::collection::vec((0u8..5, 0usize..40), 0..60)) {
        let pool = Pool::new(&config(Kind::Stack, PoolLocks::Owner, 2)).unwrap();
        let (mut frame, mut model, mut head) = (pool.get().unwrap(), Vec::<u8>::new(), 64usize);
        for (step, n) in steps {
            match step {
                0 => {
                    let fits = model.len() + n <= 320 - head;
                    prop_assert_eq!(frame.append(n).map(|b| b.fill(n as u8)).is_some(), fits);
                    if fits { model.extend(std::iter::repeat_n(n as u8, n)); }
                }
                1 => {
                    let fits = n <= head;
                    prop_assert_eq!(frame.push_n(n).map(|b| b.fill(0xee)).is_some(), fits);
                    if fits { head -= n; model.splice(0..0, std::iter::repeat_n(0xee, n)); }
                }
                2 => {
                    let fits = n <= model.len();
                    prop_assert_eq!(frame.pull(n), fits);
                    if fits { head += n; model.drain(..n); }
                }
                3 => { frame.truncate(n); model.truncate(n); }
                _ => { frame = frame.try_clone().unwrap(); }
            }
            prop_assert_eq!(frame.bytes(), &model[..]);
            prop_assert_eq!((frame.headroom(), frame.tailroom()), (head, 320 - head - model.len()));
        }
    }
}

#[test]
fn bytes_pulled_since_the_mark_can_be_read_and_restored() {
    let pool = Pool::new(&config(Kind::Stack, PoolLocks::Owner, 2)).unwrap();
    let mut frame = pool.get().unwrap();
    frame.extend(b"ipudpdata").unwrap();
    frame.mark_l3();
    assert!(frame.pull(5));
    assert_eq!(frame.l3_bytes(), b"ipudpdata");
    let copy = frame.try_clone().unwrap();
    assert_eq!((copy.bytes(), copy.l3_bytes()), (&b"data"[..], &b"ipudpdata"[..]));
    frame.rewind_to_l3();
    assert_eq!(frame.bytes(), b"ipudpdata");
}

#[test]
fn a_burst_keeps_order_and_returns_excess_frames() {
    let pool = Pool::new(&config(Kind::Stack, PoolLocks::Owner, 600)).unwrap();
    let mut burst = Burst::new();
    assert_eq!(pool.get_burst(300, &mut burst), crate::BURST_MAX);
    for (i, frame) in burst.as_mut_slice().iter_mut().enumerate() {
        frame.extend(&(i as u32).to_ne_bytes()).unwrap();
    }
    for want in 0..10 {
        assert_eq!(burst.pop().unwrap().bytes(), u32::to_ne_bytes(want));
    }
    let mut late = pool.get().unwrap();
    late.extend(&999u32.to_ne_bytes()).unwrap();
    burst.push(late).unwrap();
    let order: Vec<u32> = burst.drain().map(|f| u32::from_ne_bytes(f.bytes().try_into().unwrap())).collect();
    assert_eq!(order, (10..256).chain([999]).collect::<Vec<_>>());
    assert_eq!(pool.stats().live(), 0);
}
