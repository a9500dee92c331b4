#[cfg(not(loom))]
use super::*;

#[cfg(loom)]
mod models {
    use super::super::queue::{Ending, Lanes, Next};
    use buf::ring::ring;
    use loom::sync::Arc;
    use loom::sync::atomic::{AtomicUsize, Ordering};
    use std::collections::VecDeque;

    /// Runs a worker until the end. Returns the values that it took.
    fn work(lanes: &Lanes<u32>, most: usize, inside: Option<&AtomicUsize>) -> Vec<u32> {
        let (mut back, mut taken, mut got) = (Vec::new(), VecDeque::new(), Vec::new());
        loop {
            lanes.queue.exchange(&mut back, &mut taken, 2);
            if taken.is_empty() {
                match lanes.queue.sleep().0 {
                    Next::Work => continue,
                    Next::End => return got,
                }
            }
            while let Some(lane) = taken.pop_front() {
                let (_, more) = lanes.take(lane, most, |value| got.push(value));
                if let Some(inside) = inside {
                    assert_eq!(inside.fetch_add(1, Ordering::Relaxed), 0, "two workers have one lane");
                    inside.fetch_sub(1, Ordering::Relaxed);
                }
                if lanes.queue.finish(lane, more) {
                    back.push(lane);
                }
            }
        }
    }

    fn model(bound: usize, check: impl Fn() + Sync + Send + 'static) {
        let mut model = loom::model::Builder::new();
        model.preemption_bound = Some(bound);
        model.check(check);
    }

    #[test]
    fn loom_no_frame_is_forgotten_and_no_worker_sleeps_over_one() {
        model(3, || {
            let (mut to, from) = ring(2);
            let lanes = Arc::new(Lanes::new(vec![from], 1));
            let theirs = lanes.clone();
            let worker = loom::thread::spawn(move || work(&theirs, 1, None));
            for value in 0..2 {
                to.push(value).unwrap();
                if lanes.queue.announce(0) {
                    lanes.queue.enqueue(&[0]);
                }
            }
            lanes.queue.end(Ending::Finish);
            assert_eq!(worker.join().unwrap(), [0, 1]);
        });
    }

    #[test]
    fn loom_a_lane_is_with_one_worker_at_a_time() {
        model(2, || {
            let (mut to, from) = ring(2);
            let lanes = Arc::new(Lanes::new(vec![from], 2));
            let inside = Arc::new(AtomicUsize::new(0));
            let spawn = || {
                let (lanes, inside) = (lanes.clone(), inside.clone());
                loom::thread::spawn(move || work(&lanes, 1, Some(&inside)))
            };
            let workers = [spawn(), spawn()];
            for value in 0..2 {
                to.push(value).unwrap();
                if lanes.queue.announce(0) {
                    lanes.queue.enqueue(&[0]);
                }
            }
            lanes.queue.end(Ending::Finish);
            let mut got: Vec<u32> = workers.into_iter().flat_map(|worker| worker.join().unwrap()).collect();
            got.sort_unstable();
            assert_eq!(got, [0, 1]);
        });
    }
}

#[cfg(not(loom))]
mod std_tests {
    use super::*;
    use buf::{Pool, PoolConfig, PoolLocks};
    use clock::{Clock, Instant, Strategy};
    use proptest::prelude::*;
    use std::collections::VecDeque;
    use std::sync::Mutex;
    use std::sync::atomic::AtomicU64;
    use std::time::Duration;

    fn pool(buffers: usize) -> Pool {
        Pool::new(&PoolConfig { buffers, locks: PoolLocks::Light, ..PoolConfig::default() }).unwrap()
    }

    /// Returns a frame of a flow, with the flow and a number in its payload.
    fn frame(pool: &Pool, flow: u32, number: u32) -> Option<Frame> {
        let mut frame = pool.get()?;
        let bytes = frame.append(60).unwrap();
        bytes[..4].copy_from_slice(&flow.to_be_bytes());
        bytes[4..8].copy_from_slice(&number.to_be_bytes());
        Some(frame)
    }

    fn read(frame: &Frame) -> (usize, u32) {
        let word = |at| u32::from_be_bytes(*frame.bytes()[at..].first_chunk().unwrap());
        (word(0) as usize, word(4))
    }

    fn flow_of(frame: &Frame) -> usize {
        read(frame).0
    }

    fn live() -> Clock {
        Clock::live(Strategy::TscScaled)
    }

    /// Work function that checks the order of each flow, and that no other worker has the lane at
    /// the same time.
    struct Checker {
        /// For each flow, its last number plus one.
        last: Arc<Vec<AtomicU64>>,
        inside: Arc<Vec<Mutex<()>>>,
        pause: Duration,
    }

    impl Work for Checker {
        fn run(&mut self, lane: usize, burst: &mut Burst, _: Instant) {
            let _alone = self.inside[lane].try_lock().expect("no other worker has this lane");
            for frame in burst.drain() {
                let (flow, number) = read(&frame);
                let before = self.last[flow].swap(u64::from(number) + 1, Ordering::Relaxed);
                assert!(before <= u64::from(number), "flow {flow}: {number} after {before}");
            }
            if !self.pause.is_zero() {
                std::thread::sleep(self.pause);
            }
        }
    }

    fn checkers(workers: usize, flows: usize, lanes: usize) -> Vec<Checker> {
        let last: Arc<Vec<_>> = Arc::new((0..flows).map(|_| AtomicU64::new(0)).collect());
        let inside: Arc<Vec<_>> = Arc::new((0..lanes).map(|_| Mutex::new(())).collect());
        let checker = |_| Checker { last: last.clone(), inside: inside.clone(), pause: Duration::ZERO };
        (0..workers).map(checker).collect()
    }

    /// Posts `bursts` bursts of 32 frames of `flows` flows in turn. Returns the number of frames.
    fn post(dispatcher: &mut Dispatcher, pool: &Pool, flows: u32, bursts: u32) -> u64 {
        let (mut burst, mut n) = (Burst::new(), 0u64);
        for _ in 0..bursts {
            while burst.len() < 32 {
                let (flow, number) = ((n % u64::from(flows)) as u32, (n / u64::from(flows)) as u32);
                match frame(pool, flow, number) {
                    Some(frame) => _ = burst.push(frame),
                    None => {
                        std::thread::yield_now();
                        continue;
                    }
                }
                n += 1;
            }
            dispatcher.post(&mut burst, flow_of);
        }
        n
    }

    #[test]
    fn each_flow_keeps_its_order_and_frames_add_up_with_one_to_four_workers() {
        for (workers, flows, take) in [(1, 7, 8), (2, 3, 1), (2, 100, 8), (3, 40, 2), (4, 500, 8)] {
            let pool = pool(2048);
            let config = Config { lanes: 64, room: 64, take, ..Config::default() };
            let works = checkers(workers, flows, 64);
            let (mut dispatcher, crew) = Crew::spawn("w", &config, works, &live()).unwrap();
            let flow = dispatcher.flow().clone();
            let n = post(&mut dispatcher, &pool, flows as u32, 3000);
            drop(dispatcher);
            assert!(crew.join().iter().all(Result::is_ok));
            let audit = flow.audit();
            assert!(audit.holds() && audit.held == 0 && audit.offered == n, "{audit:?}");
            assert_eq!(audit.dropped, flow.posted.lane_full.get());
            assert!(flow.posted.locks.get() <= flow.posted.bursts.get());
            assert_eq!((flow.alive(), pool.stats().live()), (0, 0));
        }
    }

    #[test]
    fn discarded_frames_are_counted_and_their_lane_continues() {
        let pool = pool(64);
        let (mut dispatcher, mut workers) = dataflow(&Config { lanes: 4, ..Config::default() }, 1);
        let flow = dispatcher.flow().clone();
        let mut came = Vec::new();
        let mut turn = |came: &mut Vec<(usize, usize)>| {
            let mut work = |lane: usize, burst: &mut Burst, _: Instant| {
                came.push((lane, burst.len()));
                burst.clear();
            };
            workers[0].turn(&mut work, || Instant::ZERO)
        };
        let mut burst = Burst::new();
        (0..8).for_each(|n| burst.push(frame(&pool, u32::from(n > 4), n).unwrap()).unwrap());
        dispatcher.post(&mut burst, flow_of);
        dispatcher.discard(0);
        assert_eq!((flow.posted.discarded.get(), flow.audit().held, pool.stats().live()), (5, 3, 3));
        turn(&mut came);
        assert_eq!(came, [(0, 0), (1, 3)], "the runnable lane was empty");
        burst.push(frame(&pool, 0, 9).unwrap()).unwrap();
        dispatcher.post(&mut burst, flow_of);
        turn(&mut came);
        assert_eq!(came[2..], [(0, 1)]);
        let audit = flow.audit();
        assert!(audit.holds() && audit.dropped == 5 && audit.done == 4, "{audit:?}");
    }

    #[test]
    fn a_slow_worker_delays_only_its_lane() {
        let pool = pool(4096);
        let mut works = checkers(2, 2, 64);
        works.iter_mut().for_each(|work| work.pause = Duration::from_millis(1));
        let config = Config { lanes: 64, room: 32, burst: 8, take: 1, looks: 0 };
        let (mut dispatcher, crew) = Crew::spawn("w", &config, works, &live()).unwrap();
        let flow = dispatcher.flow().clone();
        post(&mut dispatcher, &pool, 2, 200);
        assert!(flow.posted.lane_full.get() > 0, "frames beyond the limit are counted as lane_full");
        assert!(flow.audit().held <= 64);
        drop(dispatcher);
        let works: Vec<_> = crew.join().into_iter().map(Result::unwrap).collect();
        assert!(works[0].last.iter().all(|last| last.load(Ordering::Relaxed) > 0));
        let audit = flow.audit();
        assert!(audit.holds() && audit.held == 0, "{audit:?}");
    }

    #[test]
    fn a_stop_ends_at_once_and_drops_waiting_frames() {
        let pool = pool(4096);
        let mut works = checkers(2, 64, 64);
        works.iter_mut().for_each(|work| work.pause = Duration::from_millis(1));
        let config = Config { lanes: 64, room: 32, burst: 1, take: 1, looks: 0 };
        let (mut dispatcher, crew) = Crew::spawn("w", &config, works, &live()).unwrap();
        let flow = dispatcher.flow().clone();
        post(&mut dispatcher, &pool, 64, 100);
        flow.stop();
        assert!(crew.join().iter().all(Result::is_ok));
        let audit = flow.audit();
        assert!(audit.holds() && audit.held > 1000, "{audit:?}");
        let mut late = Burst::of(frame(&pool, 1, 1).unwrap());
        assert_eq!((dispatcher.post(&mut late, flow_of), late.len()), (0, 0));
        assert_eq!(flow.posted.no_worker.get(), 1);
        assert!(flow.audit().holds());
        drop((dispatcher, flow));
        assert_eq!(pool.stats().live(), 0);
    }

    #[test]
    fn a_panic_is_reported_and_other_workers_continue() {
        let pool = pool(4096);
        let config = Config { lanes: 64, room: 256, ..Config::default() };
        let work = |_: usize, burst: &mut Burst, _: Instant| {
            for frame in burst.drain() {
                assert_ne!(read(&frame), (5, 20), "the frame that nobody can stand");
            }
        };
        let (mut dispatcher, crew) = Crew::spawn("w", &config, vec![work; 3], &live()).unwrap();
        let flow = dispatcher.flow().clone();
        post(&mut dispatcher, &pool, 64, 60);
        while flow.alive() == 3 {
            std::thread::yield_now();
        }
        post(&mut dispatcher, &pool, 3, 10);
        drop(dispatcher);
        let ended: Vec<_> = crew.join().into_iter().filter_map(Result::err).collect();
        assert_eq!(ended.len(), 1);
        assert!(ended[0].said.contains("nobody can stand") && ended[0].to_string().contains("panicked"), "{ended:?}");
        let audit = flow.audit();
        assert!(audit.holds() && audit.held == 0 && audit.offered == 70 * 32, "{audit:?}");
        let lost: u64 = (0..3).map(|number| flow.work(number).lost.get()).sum();
        assert_eq!(audit.dropped, lost);
        assert!((1..=32).contains(&lost), "{lost}");
        assert_eq!(pool.stats().live(), 0);
    }

    #[test]
    fn without_workers_all_frames_are_dropped_and_counted() {
        let pool = pool(256);
        let (mut dispatcher, workers) = dataflow(&Config::default(), 2);
        let flow = dispatcher.flow().clone();
        post(&mut dispatcher, &pool, 4, 2);
        drop(workers);
        post(&mut dispatcher, &pool, 4, 2);
        let audit = flow.audit();
        assert_eq!((audit.held, audit.dropped, flow.posted.no_worker.get()), (64, 64, 64));
        assert!(audit.holds());
    }

    #[test]
    fn unfinished_frames_are_dropped_and_counted() {
        let pool = pool(256);
        let (mut dispatcher, mut workers) = dataflow(&Config::default(), 1);
        post(&mut dispatcher, &pool, 1, 1);
        let tasks = workers[0].turn(&mut |_, burst: &mut Burst, _| drop(burst.pop()), || Instant::ZERO);
        let flow = dispatcher.flow();
        assert_eq!((tasks, flow.work(0).done.get(), flow.work(0).unfinished.get()), (1, 1, 31));
        assert!(flow.audit().holds() && pool.stats().live() == 0);
        assert!(flow.worked().iter().any(|entry| entry.name == "dataflow.work.unfinished" && entry.value == 31));
    }

    #[test]
    fn workers_share_lanes_and_long_lanes_are_requeued() {
        let pool = pool(1024);
        let config = Config { lanes: 8, burst: 4, take: 8, ..Config::default() };
        let (mut dispatcher, mut workers) = dataflow(&config, 2);
        post(&mut dispatcher, &pool, 8, 2); // 8 frames in each of 8 lanes
        let mut seen = Vec::new();
        for (at, worker) in workers.iter_mut().enumerate() {
            let mut work = |lane: usize, burst: &mut Burst, _: Instant| {
                seen.push((at, lane, burst.len()));
                burst.clear();
            };
            worker.turn(&mut work, || Instant::ZERO);
        }
        // The first worker has not returned any lane yet. The second worker finds 4 lanes, and
        // takes half of them.
        assert_eq!(seen, [(0, 0, 4), (0, 1, 4), (0, 2, 4), (0, 3, 4), (1, 4, 4), (1, 5, 4)]);
        let mut next = Vec::new();
        let mut work = |lane: usize, burst: &mut Burst, _: Instant| {
            next.push(lane);
            burst.clear();
        };
        workers[0].turn(&mut work, || Instant::ZERO);
        assert_eq!(next, [6, 7, 0], "half of 2 waiting and 4 returned lanes");
    }

    proptest! {
        /// Compares dispatcher and workers, in any order and one step at a time, with simple queues
        /// of numbers.
        #[test]
        fn behaves_like_a_queue_for_each_lane(
            (room, burst, take, workers) in (1usize..20, 1usize..9, 1usize..5, 1usize..5),
            steps in prop::collection::vec((any::<bool>(), 0usize..5, prop::collection::vec(0u32..6, 0..12)), 0..60),
        ) {
            let pool = pool(512);
            let config = Config { lanes: 4, room, burst, take, looks: 0 };
            let (mut dispatcher, mut crew) = dataflow(&config, workers);
            let room = room.next_power_of_two();
            let mut model: Vec<VecDeque<u32>> = vec![VecDeque::new(); 4];
            let (mut next, mut dropped) = (0, 0);
            for (posts, worker, flows) in steps {
                if posts {
                    let mut frames = Burst::new();
                    for flow in flows {
                        next += 1;
                        let lane = &mut model[flow as usize & 3];
                        if lane.len() < room { lane.push_back(next) } else { dropped += 1 }
                        prop_assert!(frames.push(frame(&pool, flow, next).unwrap()).is_ok());
                    }
                    dispatcher.post(&mut frames, flow_of);
                } else {
                    let mut work = |lane: usize, burst: &mut Burst, _: Instant| {
                        for frame in burst.drain() {
                            assert_eq!(model[lane].pop_front(), Some(read(&frame).1));
                        }
                    };
                    crew[worker % workers].turn(&mut work, || Instant::ZERO);
                }
                let held: usize = model.iter().map(VecDeque::len).sum();
                let audit = dispatcher.flow().audit();
                prop_assert_eq!((audit.held, audit.dropped), (held as u64, dropped));
                prop_assert!(audit.holds());
            }
            // No lane is lost: when the other workers end, the first one also finds the lanes that
            // they had to return.
            let rest: usize = model.iter().map(VecDeque::len).sum();
            crew.truncate(1);
            let mut left = 0;
            let mut work = |_: usize, burst: &mut Burst, _: Instant| { left += burst.len(); burst.clear(); };
            while crew[0].turn(&mut work, || Instant::ZERO) > 0 {}
            prop_assert_eq!(left, rest);
            prop_assert_eq!(dispatcher.flow().audit().held, 0);
        }
    }
}
