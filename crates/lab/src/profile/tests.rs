use super::*;
use std::hint::black_box;
use std::panic::AssertUnwindSafe;

/// Serializes the tests, which run in parallel: a process has one profile at a time.
static TURN: Mutex<()> = Mutex::new(());

pub(crate) fn turn() -> MutexGuard<'static, ()> {
    TURN.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Runs a test up to three times: on a busy machine the timers' signals come late.
pub(super) fn patiently(test: impl Fn()) {
    let held = |_| std::panic::catch_unwind(AssertUnwindSafe(&test)).is_ok();
    if !(0..2).any(held) {
        test();
    }
}

fn work(rounds: u64) -> u64 {
    (0..rounds * 1000).fold(1u64, |sum, n| black_box(sum.wrapping_mul(n | 1).rotate_left(7)))
}

#[inline(never)]
fn often(rounds: u64) -> u64 {
    // not a tail call, so the function stays on the stack
    black_box(work(3 * rounds)).wrapping_add(1)
}

#[inline(never)]
fn seldom(rounds: u64) -> u64 {
    black_box(work(rounds)).wrapping_add(2)
}

/// Stops a profile and keeps the calling thread only: tests in parallel start threads that are
/// sampled too.
fn stop_own(running: Running) -> Profile {
    let mut profile = running.stop().unwrap();
    let own = std::thread::current();
    profile.threads.retain(|thread| Some(&*thread.name) == own.name());
    profile.stacks.retain(|stack| Some(&*stack.thread) == own.name());
    profile
}

/// Returns the time in stacks that contain the function.
fn under(profile: &Profile, function: &str) -> u64 {
    let path = format!("lab::profile::tests::{function}");
    profile.stacks.iter().filter(|stack| stack.names.contains(&path)).map(|stack| stack.ns).sum()
}

fn cpu_since(start: u64) -> Duration {
    Duration::from_nanos(crate::os::thread_cpu_ns() - start)
}

#[test]
fn a_function_three_times_as_long_has_three_times_the_samples() {
    patiently(|| {
        let _turn = turn();
        let running = start(Options::default()).unwrap();
        let start = crate::os::thread_cpu_ns();
        while cpu_since(start) < Duration::from_millis(900) {
            black_box(often(100));
            black_box(seldom(100));
        }
        let profile = stop_own(running);
        let (often, seldom) = (under(&profile, "often"), under(&profile, "seldom"));
        // A round takes about half a period: a metronome with a fixed period would fall in step.
        // 900 samples: two standard deviations of a quarter are 0.03.
        let share = seldom as f64 / (often + seldom) as f64;
        assert!((0.19..0.31).contains(&share), "{often} and {seldom} ns: {share}");
        assert!(profile.threads.len() == 1 && profile.threads[0].samples > 0, "{:?}", profile.threads);
        let else_where = profile.stacks.iter().filter(|stack| !stack.names.iter().any(|name| name.ends_with("::work")));
        assert!((often + seldom) as f64 > 0.9 * profile.sampled_ns() as f64, "{:#?}", else_where.collect::<Vec<_>>());
        assert!(profile.sampled_ns() <= profile.threads_ns());
        assert!(profile.sampled_ns() as f64 > 0.9 * profile.threads_ns() as f64);
        let report = report::Report::of(&profile, "test", crate::env::Environment::detect());
        assert!(report.coverage > 95_000 && report.unresolved < 5_000, "{report:?}");
    });
}

#[test]
fn hundreds_of_threads_may_start_and_end_while_sampled() {
    let _turn = turn();
    let running = start(Options { rate_hz: 9973, ring_words: 2048, ..Options::default() }).unwrap();
    for _ in 0..30 {
        let threads: Vec<_> = (0..8)
            .map(|n| dispatch::spawn_worker(&format!("short{n}"), None, move |_| often(20 * (n + 1))).unwrap())
            .collect();
        assert!(threads.into_iter().all(|thread| thread.join().is_ok()));
    }
    let profile = running.stop().unwrap();
    let short = profile.threads.iter().filter(|thread| thread.name.starts_with("short"));
    assert_eq!(short.clone().count(), 240);
    assert!(short.clone().all(|thread| thread.cpu_ns > 0));
    let taken: u64 = profile.threads.iter().map(|thread| thread.samples).sum();
    assert_eq!(
        profile.stacks.iter().map(|stack| stack.samples).sum::<u64>(),
        taken,
        "all that was taken was collected"
    );
    assert!(under(&profile, "often") > 0);
}

#[test]
fn a_thread_that_outlives_the_profile_is_no_longer_sampled() {
    let _turn = turn();
    let running = start(Options::default()).unwrap();
    let end = Arc::new(AtomicBool::new(false));
    let reported = end.clone();
    let thread = dispatch::spawn_worker("long", None, move |_| {
        while !reported.load(Ordering::Relaxed) {
            black_box(often(10));
        }
    });
    std::thread::sleep(Duration::from_millis(100));
    let profile = running.stop().unwrap();
    std::thread::sleep(Duration::from_millis(50));
    // The second profile does not include the thread, which still has the recorder of the first.
    let second = start(Options::default()).unwrap().stop().unwrap();
    end.store(true, Ordering::Relaxed);
    thread.unwrap().join().unwrap();
    assert!(profile.threads.iter().any(|thread| thread.name == "long" && thread.samples > 0), "{:?}", profile.threads);
    assert!(second.threads.iter().all(|thread| thread.name != "long"));
}

#[test]
fn a_thread_that_sleeps_is_sampled_only_while_it_works() {
    let _turn = turn();
    let running = start(Options::default()).unwrap();
    let (wall, mut busy) = (Instant::now(), 0);
    while wall.elapsed() < Duration::from_millis(1500) {
        let begun = crate::os::thread_cpu_ns();
        while cpu_since(begun) < Duration::from_micros(600) {
            black_box(often(10));
        }
        busy += crate::os::thread_cpu_ns() - begun;
        std::thread::sleep(Duration::from_millis(1));
    }
    let profile = stop_own(running);
    let (seen, busy) = (under(&profile, "often") as f64, busy as f64 / profile.threads_ns() as f64);
    let seen = seen / profile.sampled_ns() as f64;
    assert!((seen - busy).abs() < 0.2, "{seen} of its time seen at work, {busy} spent so");
}

#[test]
fn time_in_system_calls_counts_as_kernel() {
    patiently(|| {
        use std::io::Read;
        let _turn = turn();
        let running = start(Options::default()).unwrap();
        let (start, mut buffer) = (crate::os::thread_cpu_ns(), vec![0; 1 << 20]);
        let mut zero = std::fs::File::open("/dev/zero").unwrap();
        while cpu_since(start) < Duration::from_millis(300) {
            zero.read_exact(&mut buffer).unwrap();
        }
        let busy = cpu_since(start).as_nanos() as f64;
        let profile = stop_own(running);
        let kernel: u64 =
            profile.stacks.iter().filter(|stack| stack.bucket == Bucket::Kernel).map(|stack| stack.ns).sum();
        assert!(kernel as f64 > 0.7 * busy, "{kernel} of {busy}");
        let named = profile.by(|stack| stack.function().to_owned());
        assert!(named.iter().any(|(name, _)| name == "[kernel] read"), "{named:?}");
    });
}

#[test]
fn a_second_profile_is_rejected_until_the_first_is_dropped() {
    let _turn = turn();
    let running = start(Options::default()).unwrap();
    let why = start(Options::default()).unwrap_err().to_string();
    assert!(why.starts_with("a profile is already running"), "{why}");
    drop(running);
    start(Options::default()).unwrap().stop().unwrap();
    for rate_hz in [0, RATE_MAX_HZ + 1] {
        assert!(start(Options { rate_hz, ..Options::default() }).is_err(), "{rate_hz}");
    }
}

#[test]
fn addresses_without_a_symbol_are_unresolved_with_any_caller() {
    let here = work as *const () as u64;
    let threads = [Thread { name: "main".into(), cpu_ns: 100, samples: 3, dropped: 0, dropped_ns: 0, handler_ns: 0 }];
    let sums = Sums::from([
        ((0, vec![0x10, here + 4]), (1, 30)),
        ((0, vec![here, 0x10]), (1, 60)),
        ((7, vec![here]), (1, 10)),
    ]);
    let stacks = name(&sums, &threads);
    assert_eq!(stacks.iter().map(|stack| stack.ns).collect::<Vec<_>>(), [60, 30, 10], "the most first");
    assert_eq!(stacks[1].bucket, Bucket::Unresolved);
    assert_eq!((stacks[1].function(), stacks[1].decider), (UNKNOWN, 0));
    assert_eq!(stacks[0].bucket, Bucket::Application);
    assert!(stacks[0].function().starts_with("lab::profile::tests::work"), "{:?}", stacks[0]);
    assert_eq!((stacks[0].names.last().map(String::as_str), &*stacks[2].thread), (Some(UNKNOWN), ""));
}
