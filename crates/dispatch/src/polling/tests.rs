use super::*;
use std::cell::Cell;
use std::rc::Rc;

/// Ports whose frames each cost processing time. Frames arrive without limit or at a rate.
struct Model {
    now: Rc<Cell<u64>>,
    /// Processing time of a frame in nanoseconds.
    frame: u64,
    /// Number of frames that arrive at each port per second; `None`: as many as are requested.
    rate: Option<u64>,
    taken: Vec<u64>,
    looks: u64,
}

impl Model {
    fn new(ports: usize, frame: u64, rate: Option<u64>) -> Model {
        Model { now: Rc::default(), frame, rate, taken: vec![0; ports], looks: 0 }
    }

    fn pass(&self, ns: u64) {
        self.now.set(self.now.get() + ns);
    }
}

impl Handlers for Model {
    fn count(&self) -> usize {
        self.taken.len()
    }

    fn poll(&mut self, number: usize, most: usize, ask: Ask, _: Instant) -> usize {
        self.looks += u64::from(ask == Ask::Status);
        let came = self.rate.map_or(u64::MAX, |rate| self.now.get() * rate / 1_000_000_000);
        let n = came.saturating_sub(self.taken[number]).min(most as u64);
        self.taken[number] += n;
        self.pass(20 + n * self.frame);
        n as usize
    }

    fn flush(&mut self, _: Instant) {}
}

/// Runs for `ms` milliseconds of virtual time. Returns the percentage of this time in which the
/// loop was awake.
fn run(polling: &mut Polling, model: &mut Model, ms: u64) -> u64 {
    let now = model.now.clone();
    let (start, mut asleep) = (now.get(), 0);
    while now.get() < start + ms * 1_000_000 {
        match polling.turn(model, || Instant::from_nanos(now.get())) {
            Then::Again | Then::Yield => model.pass(10),
            Then::Sleep(until) => {
                let ns = until.nanos().saturating_sub(now.get());
                asleep += ns;
                model.pass(ns);
            }
            Then::Wait => {
                asleep += 10_000;
                model.pass(10_000);
            }
        }
    }
    100 - asleep * 100 / (now.get() - start)
}

fn polling(settings: &[(&str, i64)]) -> Polling {
    let sysctls = Arc::new(Sysctls::default());
    for (name, value) in settings {
        sysctls.set(&format!("kern.polling.{name}"), *value).unwrap().unwrap();
    }
    Polling::new(sysctls)
}

#[test]
fn hz_1000_and_burst_150_allow_150_000_frames_per_second_and_port() {
    let (mut poll, mut model) = (polling(&[("mode", 1), ("user_frac", 0)]), Model::new(2, 100, None));
    run(&mut poll, &mut model, 1000); // the burst grows by one a tick
    model.taken.fill(0);
    run(&mut poll, &mut model, 1000);
    assert!(model.taken.iter().all(|n| (149_000..=150_200).contains(n)), "{:?}", model.taken);
    // With polling between ticks too, there is no limit.
    let (mut poll, mut model) = (polling(&[("mode", 1), ("user_frac", 0), ("idle_poll", 1)]), Model::new(2, 100, None));
    run(&mut poll, &mut model, 1000);
    assert!(model.taken.iter().all(|n| *n > 2_000_000), "{:?}", model.taken);
    assert!(poll.counts.idle_rounds.get() > 100_000);
}

#[test]
fn user_frac_is_kept_at_any_frame_cost() {
    for (frac, frame) in [(0, 5_000), (20, 2_000), (50, 2_000), (50, 7_000), (50, 20_000), (80, 3_000), (99, 1_000)] {
        let mut poll = polling(&[("mode", 1), ("user_frac", frac), ("burst_max", 1000)]);
        let mut model = Model::new(2, frame, None);
        run(&mut poll, &mut model, 1000);
        let awake = run(&mut poll, &mut model, 4000) as i64;
        // A tick takes at least one frame from each port.
        let least = (2 * frame as i64 * 100 / 1_000_000).max(1);
        assert!((awake - (100 - frac)).abs() <= 5.max(least), "user_frac {frac}, {frame} ns a frame: {awake} %");
        assert_eq!(model.taken[0], model.taken[1], "fair");
    }
}

#[test]
fn an_overlong_tick_shortens_the_next_ones() {
    let mut poll = polling(&[("mode", 1), ("user_frac", 0), ("burst_max", 1000)]);
    let mut model = Model::new(1, 900, None);
    run(&mut poll, &mut model, 2000);
    assert!(poll.burst > 900, "{}", poll.burst);
    model.frame = 300_000;
    run(&mut poll, &mut model, 20_000);
    assert!(poll.burst <= 8, "{}", poll.burst);
    assert!(poll.counts.lost_polls.get() > 100 && poll.counts.stalled.get() > 0);
    // At least one frame is always requested.
    model.frame = 5_000_000;
    run(&mut poll, &mut model, 20_000);
    assert_eq!(poll.burst, 1);
}

#[test]
fn status_is_checked_once_per_reg_frac_ticks() {
    let (mut poll, mut model) = (polling(&[("mode", 1), ("reg_frac", 20)]), Model::new(3, 100, Some(1000)));
    run(&mut poll, &mut model, 1000);
    let ticks = poll.counts.ticks.get();
    assert_eq!(poll.counts.status.get(), ticks.div_ceil(20));
    assert_eq!(model.looks, 3 * ticks.div_ceil(20));
}

#[test]
fn an_adaptive_loop_sleeps_when_idle_and_takes_all_frames() {
    let (mut poll, mut model) = (polling(&[]), Model::new(2, 100, Some(0)));
    let awake = run(&mut poll, &mut model, 100);
    assert!(awake > 50, "50 us awake after each 10 us of sleep: {awake} %");
    let (mut poll, mut model) = (polling(&[("idle_us", 0)]), Model::new(2, 100, Some(0)));
    assert!(run(&mut poll, &mut model, 100) <= 1);
    model.rate = Some(1_000_000);
    run(&mut poll, &mut model, 1000);
    assert!(model.taken.iter().all(|n| (1_090_000..=1_101_000).contains(n)), "{:?}", model.taken);
    assert_eq!(poll.counts.frames.get(), model.taken.iter().sum::<u64>());
}

#[test]
fn the_polling_mode_may_change_at_run_time() {
    let (mut poll, mut model) = (polling(&[]), Model::new(1, 100, Some(100_000)));
    for mode in [1, 2, 0, 1] {
        poll.sysctls().set("kern.polling.mode", mode).unwrap().unwrap();
        let before = model.taken[0];
        run(&mut poll, &mut model, 1000);
        assert!((98_000..102_000).contains(&(model.taken[0] - before)), "mode {mode}");
    }
    assert_eq!("wakeup".parse::<Mode>().map(Mode::number), Ok(2));
    assert!("interrupt".parse::<Mode>().unwrap_err().contains("expected adaptive, clock or wakeup"));
}

#[test]
fn two_loops_never_poll_one_port() {
    let mut loops = Loops::default();
    loops.register("nic:em0", 0).unwrap();
    loops.register("nic:em1", 1).unwrap();
    let taken = loops.register("nic:em0", 1).unwrap_err();
    assert_eq!(taken, Taken { port: "nic:em0".into(), by: 0 });
    assert!(taken.to_string().contains("EEXIST"));
    assert_eq!((loops.of("nic:em1"), loops.lightest(3)), (Some(1), 2));
    assert_eq!(loops.deregister("nic:em0"), Some(0));
    loops.register("nic:em0", 1).unwrap();
    assert_eq!(loops.list().collect::<Vec<_>>(), [("nic:em0", 1), ("nic:em1", 1)]);
}
