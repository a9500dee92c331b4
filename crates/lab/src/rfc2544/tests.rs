//! Tests on virtual time, against a device with known figures.

use super::search::{Bound, contradiction};
use super::trial::Refusal;
use super::*;
use buf::{Burst, Frame, Pool, PoolConfig};
use clock::{Instant, SimClock};
use port::{Caps, Port, PortCounts, RxHalf, TxHalf};
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};

/// Returns the report without its environment, since the warnings there are about this machine and
/// not the device.
fn text_of(results: &Results) -> String {
    let env = crate::env::Environment::detect();
    let text = render(&report::Report::of(env.clone(), results.clone()));
    let below = text.strip_prefix(&format!("rfc2544\n\n{env}\n"));
    below.unwrap_or_else(|| panic!("no environment first: {text}")).to_owned()
}

/// Simulated device; its directions are independent.
#[derive(Clone, Copy)]
struct Model {
    /// Frames served per second.
    rate: u64,
    /// Maximum number of frames waiting.
    queue: u64,
    /// Delay of each frame, without waiting.
    delay: Duration,
    /// Frames lost of each thousand, at any rate.
    loses: u64,
    /// Interval of frames delayed by another millisecond; 0 for none.
    late: u64,
    /// Interval of frames that are duplicated; 0 for none.
    twice: u64,
    /// Set if a foreign frame follows each frame.
    strangers: bool,
    /// Number of frames after which the port closes.
    lives: u64,
    /// Set if no frame passes.
    deaf: bool,
}

const FINE: Model = Model {
    rate: 1_000_000_000,
    queue: 1000,
    delay: Duration::from_micros(7),
    loses: 0,
    late: 0,
    twice: 0,
    strangers: false,
    lives: u64::MAX,
    deaf: false,
};

struct Line {
    model: Model,
    frames: BTreeMap<(Instant, u64), Frame>,
    free_at: Instant,
    count: u64,
    random: u64,
}

impl Line {
    fn input(&mut self, frame: Frame, now: Instant) {
        let model = self.model;
        self.count += 1;
        self.random = self.random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
        let service = Duration::from_nanos(1_000_000_000 / model.rate);
        let start = self.free_at.max(now);
        let waiting = start.since(now).as_nanos() / service.as_nanos().max(1);
        let ours = frame.len() > 60 || frame.bytes()[12] == 8 && frame.bytes()[13] == 0;
        if model.deaf || waiting as u64 >= model.queue || ours && (self.random >> 33) % 1000 < model.loses {
            return;
        }
        self.free_at = start.after(service);
        let mut at = start.after(model.delay);
        if model.late > 0 && self.count.is_multiple_of(model.late) {
            at = at.after(Duration::from_millis(1));
        }
        let mut copies = Vec::new();
        if model.twice > 0 && self.count.is_multiple_of(model.twice) {
            copies.extend(frame.try_clone());
        }
        if model.strangers {
            let mut other = frame.try_clone().unwrap();
            other.bytes_mut()[37] ^= 1;
            copies.push(other);
        }
        for (nth, frame) in (0..).zip([frame].into_iter().chain(copies)) {
            self.frames.insert((at, self.count * 4 + nth), frame);
        }
    }
}

struct Half(Arc<Mutex<Line>>);

impl RxHalf for Half {
    fn rx_burst(&mut self, into: &mut Burst, most: usize, now: Instant) -> usize {
        let (mut line, mut got) = (self.0.lock().unwrap(), 0);
        while got < most.min(into.room()) && line.frames.first_key_value().is_some_and(|((at, _), _)| *at <= now) {
            let (_, frame) = line.frames.pop_first().unwrap();
            got += usize::from(into.push(frame).is_ok());
        }
        got
    }

    fn next_event(&self) -> Option<Instant> {
        self.0.lock().unwrap().frames.first_key_value().map(|((at, _), _)| *at)
    }

    fn is_gone(&self) -> bool {
        let line = self.0.lock().unwrap();
        line.count >= line.model.lives
    }

    fn why_gone(&self) -> Option<String> {
        Some("the cable was pulled".to_owned())
    }
}

impl TxHalf for Half {
    fn tx_burst(&mut self, from: &mut Burst, now: Instant) -> usize {
        let mut line = self.0.lock().unwrap();
        from.drain().map(|frame| line.input(frame, now)).count()
    }
}

struct Virtual(SimClock);

impl Time for Virtual {
    fn now(&self) -> Instant {
        self.0.now()
    }

    fn wait(&mut self, until: Instant) {
        self.0.advance_to(until);
    }

    fn sleep(&mut self, until: Instant) {
        self.0.advance_to(until);
    }
}

fn ports(model: Model) -> [Port; 2] {
    let line = || {
        let (frames, free_at) = (BTreeMap::new(), Instant::ZERO);
        Arc::new(Mutex::new(Line { model, frames, free_at, count: 0, random: 88_172_645 }))
    };
    let (there, back) = (line(), line());
    let port = |name: &str, rx: &Arc<Mutex<Line>>, tx: &Arc<Mutex<Line>>| Port {
        name: name.to_owned(),
        spec: format!("model:{name}"),
        caps: Caps::PLAIN,
        rx: Box::new(Half(rx.clone())),
        tx: Box::new(Half(tx.clone())),
        counts: Arc::new(PortCounts::default()),
        nic: None,
    };
    [port("a", &back, &there), port("b", &there, &back)]
}

/// Runs a plan at 64 bytes, and checks that no buffer leaks.
fn results(model: Model, ways: Directions, change: impl FnOnce(&mut Plan)) -> Results {
    results_over(Domain::Inet, model, ways, change)
}

fn results_over(family: Domain, model: Model, ways: Directions, change: impl FnOnce(&mut Plan)) -> Results {
    let mut plan = Plan { sizes: vec![64], max: Max::Frames(200_000), settle: Duration::from_secs(5), ..Plan::quick() };
    change(&mut plan);
    let pool = Pool::new(&PoolConfig::default()).unwrap();
    let clock = SimClock::new();
    let mut time = Virtual(clock);
    let mut tester = Tester {
        ports: ports(model),
        pool: pool.clone(),
        time: &mut time,
        stop: &|| false,
        refusal: Refusal::Limit,
        ways,
        drain: Duration::from_secs(2),
        family,
        ident: 4711,
        trials: 0,
    };
    let results = run(&plan, &mut tester, "a model", &mut |_| ());
    drop(tester);
    assert_eq!(pool.stats().live(), 0);
    results
}

fn only(tests: &[Test]) -> impl FnOnce(&mut Plan) {
    move |plan| plan.tests = tests.to_vec()
}

#[test]
fn a_devices_rate_is_found_within_the_resolution_and_its_latency_exactly() {
    let model = Model { rate: 100_000, queue: 16, delay: Duration::from_micros(50), ..FINE };
    for ways in [Directions::One, Directions::Both] {
        let results = results(model, ways, only(&[Test::Throughput, Test::Latency]));
        let found = results.sizes[0].throughput.as_ref().unwrap();
        assert_eq!((found.bound, found.max), (Bound::Found, 200_000));
        // A queue of 16 frames lets a trial of 0.2 s be 80 frames per second faster.
        assert!((98_900..=100_080).contains(&found.rate), "{found:?}");
        let latency = results.sizes[0].latency.as_ref().unwrap();
        let [min, median, p99] = [latency.min_ns, latency.median_ns, latency.p99_ns];
        assert_eq!(latency.lost, 0);
        assert_eq!([min, median], [50_000; 2], "{latency:?}");
        assert!(found.rate > 100_000 || p99 == 50_000 && latency.max_ns == 50_000, "{latency:?}");
        assert!(latency.frames >= found.rate / 5 * ways.count());
        assert_eq!((results.sizes[0].contradiction, &results.cut, results.odds.others), (None, &None, 0));
        let text = text_of(&results);
        assert!(text.contains("throughput (26.1)") && !text.contains("WARNING"), "{text}");
    }
}

#[test]
fn a_devices_rate_and_latency_are_found_over_ipv6() {
    let model = Model { rate: 100_000, queue: 16, delay: Duration::from_micros(50), strangers: true, ..FINE };
    let model = Model { rate: 200_000, ..model }; // a foreign frame follows each frame
    let results = results_over(Domain::Inet6, model, Directions::Both, |plan| {
        (plan.tests, plan.sizes) = (vec![Test::Throughput, Test::Latency], vec![84]);
    });
    let (found, latency) = (results.sizes[0].throughput.as_ref(), results.sizes[0].latency.as_ref());
    assert!(found.is_some_and(|found| found.rate > 90_000), "{found:?}");
    assert!(latency.is_some_and(|latency| latency.lost == 0 && latency.min_ns == 50_000), "{latency:?}");
    assert!(results.odds.others > 0 && results.cut.is_none(), "{:?}", results.odds);
}

#[test]
fn a_device_without_loss_reaches_the_lines_limit() {
    let results = results(FINE, Directions::One, |plan| {
        (plan.tests, plan.max) = (vec![Test::Throughput, Test::Loss], Max::Line(100_000_000));
        plan.sizes = vec![64, 1518];
    });
    let rates: Vec<_> = results.sizes.iter().flat_map(|size| &size.throughput).collect();
    assert_eq!(
        rates.iter().map(|found| (found.rate, found.bound)).collect::<Vec<_>>(),
        [(148_809, Bound::Line), (8127, Bound::Line)]
    );
    assert_eq!(results.sizes[1].loss.as_ref().unwrap().len(), 2, "two without loss are enough");
    assert!(text_of(&results).contains("the highest rate"));
}

#[test]
fn a_device_that_loses_at_every_rate_has_none() {
    let results = results(Model { loses: 100, ..FINE }, Directions::One, |plan| {
        plan.tests = vec![Test::Throughput, Test::Latency, Test::Loss];
        plan.duration = Duration::from_millis(500);
    });
    let size = &results.sizes[0];
    let found = size.throughput.as_ref().unwrap();
    assert_eq!((found.rate, found.bound, size.latency.as_ref()), (0, Bound::Never, None));
    let loss = size.loss.as_ref().unwrap();
    assert!(loss.len() == 10 && loss.iter().all(|tried| (8.0..12.0).contains(&tried.loss_percent())), "{loss:?}");
    assert!(text_of(&results).contains("frames were lost at every rate tried"));
}

#[test]
fn loss_above_the_rate_is_the_excess() {
    let model = Model { rate: 100_000, queue: 1, ..FINE };
    let results = results(model, Directions::One, only(&[Test::Loss]));
    let loss: Vec<f64> = results.sizes[0].loss.iter().flatten().map(|tried| tried.loss_percent().round()).collect();
    assert_eq!(loss.len(), 7, "down to 80 thousand: two without loss");
    assert_eq!((loss[0], loss[5], loss[6]), (50.0, 0.0, 0.0), "{loss:?}");
}

#[test]
fn the_longest_burst_is_what_the_queue_holds() {
    let model = Model { rate: 1000, queue: 50, ..FINE };
    let results = results(model, Directions::One, |plan| {
        plan.tests = vec![Test::BackToBack];
        plan.burst = Duration::from_millis(20);
    });
    let found = results.sizes[0].back_to_back.as_ref().unwrap();
    assert_eq!((found.most, found.bursts.len(), found.at_rate), (4000, 3, true));
    assert!((50.0..=52.0).contains(&found.average()), "{found:?}");
}

#[test]
fn reordered_and_repeated_frames_are_counted_apart_and_are_no_loss() {
    let model = Model { late: 10, twice: 7, ..FINE };
    let results = results(model, Directions::One, only(&[Test::Throughput]));
    let found = results.sizes[0].throughput.as_ref().unwrap();
    assert_eq!(found.bound, Bound::Line, "{found:?}");
    let (sent, odds) = (results.odds.sent as f64, results.odds);
    assert!((0.09..0.11).contains(&(odds.reordered as f64 / sent)), "{odds:?}");
    assert!((0.13..0.15).contains(&(odds.duplicates as f64 / sent)), "{odds:?}");
    let text = text_of(&results);
    assert!(text.contains("arrived out of order") && text.contains("more than once"), "{text}");
}

#[test]
fn foreign_frames_are_not_counted() {
    let model = Model { strangers: true, loses: 20, ..FINE };
    let results = results(model, Directions::One, only(&[Test::Loss]));
    let loss = results.sizes[0].loss.as_ref().unwrap();
    // If foreign frames counted, none would be missing.
    assert!(loss.iter().all(|tried| (1.0..3.0).contains(&tried.loss_percent())), "{loss:?}");
    assert!(results.odds.others > results.odds.sent * 9 / 10, "{:?}", results.odds);
}

#[test]
fn an_early_end_has_the_reason() {
    let gone = results(Model { lives: 20_000, ..FINE }, Directions::One, only(&[Test::Throughput, Test::Loss]));
    let why = gone.cut.as_deref().unwrap();
    assert!(why.contains("closed: the cable was pulled") && why.contains("model:"), "{why}");
    assert!(text_of(&gone).contains("cut short: port"), "{}", text_of(&gone));
    let deaf = results(Model { deaf: true, ..FINE }, Directions::One, only(&[Test::Throughput]));
    assert!(deaf.sizes.is_empty() && deaf.cut.as_deref().unwrap().contains("arrived at model:b"), "{deaf:?}");
}

#[test]
fn a_stop_keeps_the_partial_results() {
    let calls = std::cell::Cell::new(0);
    let pool = Pool::new(&PoolConfig::default()).unwrap();
    let stop = || {
        calls.set(calls.get() + 1);
        calls.get() > 400_000
    };
    let mut time = Virtual(SimClock::new());
    let mut tester = Tester {
        ports: ports(FINE),
        pool,
        time: &mut time,
        stop: &stop,
        refusal: Refusal::Limit,
        ways: Directions::One,
        drain: Duration::from_secs(2),
        family: Domain::Inet,
        ident: 1,
        trials: 0,
    };
    let plan = Plan { tests: vec![Test::Throughput], max: Max::Frames(200_000), ..Plan::quick() };
    let results = run(&plan, &mut tester, "a model", &mut |_| ());
    assert_eq!(results.cut.as_deref(), Some("stopped before the end"));
    assert!(!results.sizes.is_empty() && results.sizes[0].throughput.is_some());
}

#[test]
fn json_and_chart() {
    let results = results(FINE, Directions::One, |plan| plan.duration = Duration::from_millis(10));
    let json = serde_json::to_value(&results).unwrap();
    assert_eq!(json["sizes"][0]["throughput"]["bound"], "line");
    assert_eq!(json["sizes"][0]["latency"]["median_ns"], 7000);
    let svg = report::chart(&results).svg();
    assert!(svg.contains("64 bytes") && svg.contains("frames/s without loss") && svg.ends_with("</svg>\n"));
    assert!(contradiction(&results.sizes[0].throughput.as_ref().unwrap().trials).is_none());
}

#[test]
fn our_bridge_forwards_all_frames_at_a_low_rate() {
    let (device, ports, refusal) = dut::start(dut::Kind::Bridge).unwrap();
    let mut time = dut::Live::new();
    let mut tester = Tester {
        ports,
        pool: Pool::new(&PoolConfig { buffers: 4 * dut::SLOTS, ..PoolConfig::default() }).unwrap(),
        time: &mut time,
        stop: &|| false,
        refusal,
        ways: Directions::Both,
        drain: Duration::from_secs(2),
        family: Domain::Inet,
        ident: 2,
        trials: 0,
    };
    let plan = Plan { max: Max::Frames(500), tests: vec![Test::Loss], sizes: vec![1518], ..Plan::quick() };
    let results = run(&plan, &mut tester, dut::Kind::Bridge.name(), &mut |_| ());
    drop((tester, device));
    assert_eq!(results.cut, None);
    assert!(results.sizes[0].loss.as_ref().is_some_and(|loss| loss.len() == 2), "{results:?}");
}
