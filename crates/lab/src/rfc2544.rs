//! RFC 2544 benchmark of a device: throughput, latency, frame loss, back-to-back bursts.
//!
//! ```text
//!        port A                    port B
//!  Tester ------> device under test ------> Tester      and back, if both ways are requested
//! ```
//! [`Tester`] runs one [`trial`] at a time; [`search`] derives figures from trials; [`run`]
//! iterates over tests and sizes; [`report`] prints. [`dut`] has devices in memory. The learning
//! frames (sent before the test frames, so that a bridge learns the testers' addresses) and the
//! load in both directions are from RFC 2889, which covers bridges.
//!
//! Deviations: each frame contains a timestamp, not only one frame of a trial, so that one trial
//! gives a distribution (RFC 2544 26.2 requires twenty trials). The wait for late frames ends when
//! all have arrived. No frames are sent to a router's own MAC address, so the device must be a
//! bridge or a cable. Sizes include the FCS everywhere. Over IPv6, RFC 5180 applies: frames of its
//! address block, neighbor solicitations as learning frames, no frame below 84 bytes.

pub mod dut;
pub mod frames;
pub mod receive;
pub mod report;
pub mod search;
#[cfg(test)]
mod tests;
pub mod trial;

pub use report::render;
pub use trial::{Cut, Directions, Tester, Time};

use crate::study::Progress;
use clock::Duration;
use search::{BackToBack, Bound, Contradiction, Throughput, Tried};
use serde::Serialize;
pub use socket::Domain;
use trial::{Amount, Ask, Clocking, Pace, Trial};

/// Number of frames sent first, to check that any arrive.
const PROBES: u64 = 10;
/// Rate at which these [`PROBES`] frames are sent, in frames per second.
const PROBES_A_SECOND: u64 = 1000;
/// Maximum duration of the trial that determines the tester's highest rate, if the user gives no
/// rate.
const FLAT_OUT: Duration = Duration::from_millis(200);

/// A test of RFC 2544.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Test {
    /// Throughput (RFC 2544 26.1).
    Throughput,
    /// Latency (RFC 2544 26.2); requires the throughput, which is measured too.
    Latency,
    /// Frame loss rate (RFC 2544 26.3).
    Loss,
    /// Back-to-back frames (RFC 2544 26.4).
    BackToBack,
}

/// The highest rate to test.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Max {
    /// The tester's highest rate, measured for each size.
    Tester,
    /// Frames per second in each direction.
    Frames(u64),
    /// The frame rate of a line with this bit rate, in bits per second.
    Line(u64),
}

/// Parameters of a benchmark.
#[derive(Debug, Clone, PartialEq)]
pub struct Plan {
    /// Tests to run, in order.
    pub tests: Vec<Test>,
    /// Frame sizes, including the FCS.
    pub sizes: Vec<usize>,
    /// Sending time of a trial.
    pub duration: Duration,
    /// The highest rate to test.
    pub max: Max,
    /// Resolution of the search for a rate, as a fraction of the rate: 0.01 is one per cent. It is
    /// also the fraction by which the tester may miss the requested rate.
    pub resolution: f64,
    /// Recovery time of the device between trials.
    pub settle: Duration,
    /// Duration of the longest burst back to back.
    pub burst: Duration,
    /// Number of searches for the longest burst.
    pub repeats: u32,
}

impl Plan {
    /// Returns the parameters of RFC 2544: trials of 60 s (section 24), 5 s between trials (section
    /// 23), bursts of 2 s and 50 searches (section 26.4).
    pub fn by_the_book() -> Plan {
        Plan {
            tests: vec![Test::Throughput, Test::Latency, Test::Loss, Test::BackToBack],
            sizes: frames::sizes(Domain::Inet).to_vec(),
            duration: Duration::from_secs(60),
            max: Max::Tester,
            resolution: 0.01,
            settle: Duration::from_secs(5),
            burst: Duration::from_secs(2),
            repeats: 50,
        }
    }

    /// Returns parameters for short trials, for trying the command. The figures are too imprecise
    /// to publish.
    pub fn quick() -> Plan {
        Plan {
            duration: Duration::from_millis(200),
            settle: Duration::ZERO,
            burst: Duration::from_millis(50),
            repeats: 3,
            ..Plan::by_the_book()
        }
    }

    fn wants(&self, test: Test) -> bool {
        self.tests.contains(&test)
    }
}

/// Latency of one size (RFC 2544 26.2): nanoseconds from the moment when a frame is handed to one
/// port until it is received from the other port.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Latency {
    /// Rate actually sent, in frames per second in each direction.
    pub rate: u64,
    /// Number of frames whose latency was measured.
    pub frames: u64,
    /// Minimum latency, in nanoseconds.
    pub min_ns: u64,
    /// Median latency, in nanoseconds.
    pub median_ns: u64,
    /// 99th percentile of the latency, in nanoseconds.
    pub p99_ns: u64,
    /// Maximum latency, in nanoseconds.
    pub max_ns: u64,
    /// Number of frames lost during the measurement; 0 if the device forwards frames at this rate
    /// without loss.
    pub lost: u64,
}

/// Results of one frame size. A test that was not requested, not possible or not reached is `None`.
#[derive(Debug, Clone, Default, PartialEq, Serialize)]
pub struct SizeResult {
    /// Frame size in bytes, including the FCS.
    pub size: usize,
    /// The highest rate tested, in frames per second in each direction.
    pub max: u64,
    /// Result of the throughput test (RFC 2544 26.1).
    pub throughput: Option<Throughput>,
    /// Result of the latency test (RFC 2544 26.2).
    pub latency: Option<Latency>,
    /// Result of the frame loss test (RFC 2544 26.3): the rates tried, highest first.
    pub loss: Option<Vec<Tried>>,
    /// Result of the back-to-back test (RFC 2544 26.4).
    pub back_to_back: Option<BackToBack>,
    /// Two trials that contradict each other; `None` if all trials agree.
    pub contradiction: Option<Contradiction>,
}

/// Totals over all trials: the frames sent, and all irregularities. These are reordered, repeated,
/// foreign and refused frames, and missing buffers.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize)]
pub struct Odds {
    /// Number of trials that were run.
    pub trials: u64,
    /// Number of test frames sent.
    pub sent: u64,
    /// Test frames received after one that was sent later.
    pub reordered: u64,
    /// Test frames received again, or too late to be distinguished from duplicates.
    pub duplicates: u64,
    /// Frames received that were not test frames of the trial.
    pub others: u64,
    /// Test frames counted as sent although the port that leads into the device refused them.
    pub refused: u64,
    /// Number of times that the tester had no free buffer.
    pub starved: u64,
    /// Bursts in which test frames were sent.
    pub bursts: u64,
    /// Number of frames in the longest burst.
    pub longest_burst: u64,
}

/// Results of a benchmark.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Results {
    /// Name of the device under test.
    pub dut: String,
    /// Names of the ports, A and B.
    pub ports: [String; 2],
    /// Number of directions used at the same time; rates are per direction.
    pub ways: u64,
    /// Set if the highest rate tested is the tester's own limit.
    pub max_is_the_testers: bool,
    /// Sending time of a trial, in seconds.
    pub duration_s: f64,
    /// Resolution of the search for a rate, as a fraction of the rate: 0.01 is one per cent.
    pub resolution: f64,
    /// Maximum wait for late frames after a trial, in seconds.
    pub drain_s: f64,
    /// Results by frame size.
    pub sizes: Vec<SizeResult>,
    /// Totals of irregularities over all trials.
    pub odds: Odds,
    /// Reason why the benchmark ended early; `None` if it completed.
    pub cut: Option<String>,
}

/// Runs a plan and reports its progress. Ends early if the tester's `stop` returns true, a port
/// closes, or no frame arrives in a direction; the results then contain the reason and the tests
/// finished before.
pub fn run(plan: &Plan, tester: &mut Tester<'_>, dut: &str, tell: &mut dyn FnMut(Progress)) -> Results {
    let mut results = Results {
        dut: dut.to_owned(),
        ports: [0, 1].map(|at: usize| tester.ports.get(at).map_or(String::new(), |port| port.spec.clone())),
        ways: tester.ways.count(),
        max_is_the_testers: plan.max == Max::Tester,
        duration_s: plan.duration.as_secs_f64(),
        resolution: plan.resolution,
        drain_s: tester.drain.as_secs_f64(),
        sizes: Vec::new(),
        odds: Odds::default(),
        cut: None,
    };
    let mut bench = Bench { plan, tester, odds: Odds::default(), tell, done: 0, what: String::new() };
    let mut sizes = plan.sizes.iter();
    let mut cut = sizes.clone().next().and_then(|size| bench.reach(*size).err());
    while let (None, Some(size)) = (&cut, sizes.next()) {
        let mut result = SizeResult { size: *size, ..SizeResult::default() };
        cut = bench.size(&mut result).err();
        results.sizes.push(result);
    }
    results.odds = bench.odds;
    results.cut = cut.map(|cut| cut.to_string());
    results
}

/// Runner of a plan's tests.
struct Bench<'a, 't> {
    plan: &'a Plan,
    tester: &'a mut Tester<'t>,
    odds: Odds,
    tell: &'a mut dyn FnMut(Progress),
    /// Number of finished parts.
    done: usize,
    what: String,
}

impl Bench<'_, '_> {
    /// Runs all tests of one size; `result` is filled in even if the run is cut short.
    fn size(&mut self, result: &mut SizeResult) -> Result<(), Cut> {
        let (plan, size) = (self.plan, result.size);
        result.max = self.max(size)?;
        let mut all: Vec<Tried> = Vec::new();
        if plan.wants(Test::Throughput) || plan.wants(Test::Latency) {
            self.part(size, "throughput");
            let found = search::throughput(result.max, plan.resolution, &mut |rate| {
                let tried = self.tried(&timed(plan, size, rate))?;
                all.push(tried);
                Ok(tried)
            })?;
            result.throughput = Some(found);
            result.contradiction = search::contradiction(&all);
        }
        if plan.wants(Test::Latency) {
            self.part(size, "latency");
            let rate = result.throughput.as_ref().filter(|found| found.bound != Bound::Never).map(|found| found.rate);
            result.latency = match rate {
                Some(rate) => self.latency(size, rate, &mut all)?,
                None => None,
            };
            result.contradiction = search::contradiction(&all);
        }
        if plan.wants(Test::Loss) {
            self.part(size, "loss");
            let trials = search::loss(result.max, &mut |rate| self.tried(&timed(plan, size, rate)))?;
            all.extend(&trials);
            result.loss = Some(trials);
            result.contradiction = search::contradiction(&all);
        }
        if plan.wants(Test::BackToBack) {
            self.part(size, "back to back");
            result.back_to_back = Some(self.back_to_back(size, result.max)?);
        }
        Ok(())
    }

    /// Begins a part of the plan and reports its name as progress.
    fn part(&mut self, size: usize, what: &str) {
        self.what = format!("{size} bytes: {what}");
        self.say("");
        self.done += 1;
    }

    fn say(&mut self, more: &str) {
        let latency_alone = self.plan.wants(Test::Latency) && !self.plan.wants(Test::Throughput);
        let total = (self.plan.tests.len() + usize::from(latency_alone)) * self.plan.sizes.len();
        let what = format!("{}{more}", self.what);
        (self.tell)(Progress { done: self.done.saturating_sub(1).min(total), total, what });
    }

    fn trial(&mut self, ask: &Ask) -> Result<Trial, Cut> {
        if let Pace::Frames(rate) = ask.pace {
            self.say(&format!(", {rate} frames per second"));
        }
        if self.odds.trials > 0 {
            self.tester.rest(self.plan.settle)?;
        }
        let trial = self.tester.trial(ask)?;
        self.odds.add(&trial);
        Ok(trial)
    }

    fn tried(&mut self, ask: &Ask) -> Result<Tried, Cut> {
        self.trial(ask).map(|trial| tried(&trial))
    }

    /// Checks that frames arrive, in each direction.
    fn reach(&mut self, size: usize) -> Result<(), Cut> {
        let (pace, amount) = (Pace::Frames(PROBES_A_SECOND), Amount::Frames(PROBES));
        let trial = self.trial(&Ask { size, pace, amount, clocking: Clocking::Off })?;
        let ports = &self.tester.ports;
        for (way, [from, to]) in trial.ways.iter().zip([[0, 1], [1, 0]]) {
            if way.came.frames == 0 {
                let name = |at: usize| ports.get(at).map_or("", |port| port.spec.as_str());
                let (sent, others) = (way.sent, way.came.others);
                let what = format!(
                    "none of {sent} test frames sent to {} arrived at {} ({others} other frames did): \
                     check that the device connects these ports and forwards",
                    name(from),
                    name(to)
                );
                return Err(Cut::Deaf(what));
            }
        }
        Ok(())
    }

    /// Returns the highest rate to test for a size.
    fn max(&mut self, size: usize) -> Result<u64, Cut> {
        match self.plan.max {
            Max::Frames(rate) => Ok(rate.max(1)),
            Max::Line(bits) => Ok(frames::line_rate(bits, size)),
            Max::Tester => {
                let amount = Amount::For(self.plan.duration.min(FLAT_OUT));
                let ask = Ask { size, pace: Pace::FlatOut, amount, clocking: Clocking::Off };
                self.trial(&ask).map(|trial| trial.reached().max(1))
            }
        }
    }

    fn latency(&mut self, size: usize, rate: u64, all: &mut Vec<Tried>) -> Result<Option<Latency>, Cut> {
        let ask = Ask { clocking: Clocking::On, ..timed(self.plan, size, rate) };
        let mut trial = self.trial(&ask)?;
        all.push(tried(&trial));
        let (lost, rate) = (trial.lost(), trial.reached());
        let ways: Vec<_> = trial.ways.iter_mut().filter_map(|way| way.latencies.as_mut()).collect();
        let frames = ways.iter().map(|latencies| latencies.count).sum();
        let figures: Vec<[u64; 4]> = ways.into_iter().filter_map(|latencies| latencies.figures()).collect();
        // The worse of two directions.
        let [min_ns, median_ns, p99_ns, max_ns] = match figures.as_slice() {
            [a, b] if b[2] > a[2] => *b,
            [a, ..] => *a,
            [] => return Ok(None),
        };
        Ok(Some(Latency { rate, frames, min_ns, median_ns, p99_ns, max_ns, lost }))
    }

    fn back_to_back(&mut self, size: usize, max: u64) -> Result<BackToBack, Cut> {
        let (plan, rate) = (self.plan, max);
        let most = ((plan.burst.as_secs_f64() * max as f64) as u64).max(1);
        let mut found = BackToBack { rate, most, bursts: Vec::new(), at_rate: true };
        let pace = if plan.max == Max::Tester { Pace::FlatOut } else { Pace::Frames(rate) };
        for _ in 0..plan.repeats.max(1) {
            let longest = search::longest(most, &mut |frames| {
                let ask = Ask { size, pace, amount: Amount::Frames(frames), clocking: Clocking::Off };
                let tried = self.tried(&ask)?;
                // A burst of a few frames is too short for its rate to be measured.
                found.at_rate &= frames < 1000 || !tried.is_short(plan.resolution);
                Ok(tried)
            })?;
            found.bursts.push(longest);
        }
        Ok(found)
    }
}

/// Returns the parameters of a trial at `rate`, of the plan's duration.
fn timed(plan: &Plan, size: usize, rate: u64) -> Ask {
    Ask { size, pace: Pace::Frames(rate), amount: Amount::For(plan.duration), clocking: Clocking::Off }
}

fn tried(trial: &Trial) -> Tried {
    let reached = trial.reached();
    let requested = match trial.ask.pace {
        Pace::Frames(rate) => rate,
        Pace::FlatOut => reached,
    };
    Tried { requested, reached, sent: trial.sent(), lost: trial.lost() }
}

impl Odds {
    fn add(&mut self, trial: &Trial) {
        self.trials += 1;
        for way in &trial.ways {
            self.sent += way.sent;
            self.reordered += way.came.reordered;
            self.duplicates += way.came.duplicates + way.came.behind;
            self.others += way.came.others + way.came.stale;
            self.refused += way.refused;
            self.starved += way.starved;
            self.bursts += way.bursts;
            self.longest_burst = self.longest_burst.max(way.longest);
        }
    }
}
