//! RFC 2544: how fast a device forwards, how long it takes, what it loses, how long a burst it stands.
//!
//! ```text
//!        port A                    port B
//!  Tester ------> device under test ------> Tester      and back, if both ways are asked for
//! ```
//! [`Tester`] runs one [`trial`] at a time; [`search`] makes figures of trials; [`run`] goes through tests and sizes; [`report`] prints.
//! [`dut`] has devices in memory. Of RFC 2889, which is about bridges, it takes the learning frames and the load both ways.
//!
//! Where this is not to the letter: each frame has a time in it, not one of a trial, so that one trial gives a distribution (26.2 asks for
//! twenty trials); what waits for late frames ends when all have come; frames to a router's own MAC address are not made, so the device
//! is a bridge or a cable. Sizes count the FCS, everywhere. Over IPv6 it is RFC 5180: frames of its block of addresses, neighbor
//! solicitations to learn from, no frame below 84 bytes.

pub mod dut;
pub mod frames;
pub mod receive;
pub mod report;
pub mod search;
#[cfg(test)]
mod tests;
pub mod trial;

pub use report::render;
pub use trial::{Cut, Tester, Time, Ways};

use crate::study::Progress;
use clock::Duration;
use search::{BackToBack, Bound, Contradiction, Throughput, Tried};
use serde::Serialize;
pub use socket::Domain;
use trial::{Amount, Ask, Clocking, Pace, Trial};

/// Frames that try at first whether anything arrives.
const PROBES: u64 = 10;
/// How fast.
const PROBES_A_SECOND: u64 = 1000;
/// How long the tester is tried out, if nobody says what the highest rate is.
const FLAT_OUT: Duration = Duration::from_millis(200);

/// A test.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Test {
    /// 26.1.
    Throughput,
    /// 26.2; needs the first, which is done too.
    Latency,
    /// 26.3.
    Loss,
    /// 26.4.
    BackToBack,
}

/// The highest rate.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Max {
    /// What the tester can, found out for each size.
    Tester,
    /// So many frames a second and way.
    Frames(u64),
    /// What a line of so many bits a second carries.
    Line(u64),
}

/// What is to be done.
#[derive(Debug, Clone, PartialEq)]
pub struct Plan {
    /// Tests.
    pub tests: Vec<Test>,
    /// Sizes, FCS counted.
    pub sizes: Vec<usize>,
    /// How long a trial sends.
    pub duration: Duration,
    /// The highest rate.
    pub max: Max,
    /// How much of a rate may be left unknown, and how much of it the tester may miss: 0.01 is one per cent.
    pub resolution: f64,
    /// How long the device may recover between trials.
    pub settle: Duration,
    /// The longest burst back to back, as the time it takes.
    pub burst: Duration,
    /// How often the longest burst is sought.
    pub repeats: u32,
}

impl Plan {
    /// As the RFC has it: trials of 60 s (24), 5 s between them (23), bursts of 2 s, sought 50 times (26.4).
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

    /// To see that it works, not to quote.
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

/// RFC 2544 26.2 for one size: nanoseconds from when a frame was handed to a port until it was taken from the other.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Latency {
    /// At how many frames a second and way, sent in fact.
    pub rate: u64,
    /// Frames whose latency was taken.
    pub frames: u64,
    /// The shortest.
    pub min_ns: u64,
    /// Half took no longer.
    pub median_ns: u64,
    /// 99 of a hundred took no longer.
    pub p99_ns: u64,
    /// The longest.
    pub max_ns: u64,
    /// Frames lost while it was taken: if any, the rate was not one without loss.
    pub lost: u64,
}

/// What the tests of one size showed; `None`: not asked for, not possible, or not come to.
#[derive(Debug, Clone, Default, PartialEq, Serialize)]
pub struct SizeResult {
    /// Bytes of the frames, FCS counted.
    pub size: usize,
    /// The highest rate, frames a second and way.
    pub max: u64,
    /// 26.1.
    pub throughput: Option<Throughput>,
    /// 26.2.
    pub latency: Option<Latency>,
    /// 26.3.
    pub loss: Option<Vec<Tried>>,
    /// 26.4.
    pub back_to_back: Option<BackToBack>,
    /// Trials that contradict each other.
    pub contradiction: Option<Contradiction>,
}

/// What all trials together had beside test frames that came once and in order.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize)]
pub struct Odds {
    /// Trials.
    pub trials: u64,
    /// Test frames sent.
    pub sent: u64,
    /// Test frames behind one that was sent later.
    pub reordered: u64,
    /// Test frames that came again, or too late to be told from such.
    pub duplicates: u64,
    /// Frames that were no test frames of the trial.
    pub others: u64,
    /// Of those sent, refused by a port into the device.
    pub refused: u64,
    /// Times that the tester had no buffer.
    pub starved: u64,
    /// Bursts that test frames left in.
    pub bursts: u64,
    /// Frames of the longest of them.
    pub longest_burst: u64,
}

/// Everything.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Results {
    /// What was measured: the device's name.
    pub dut: String,
    /// The ports, A and B.
    pub ports: [String; 2],
    /// Ways that frames went at the same time: rates are of each.
    pub ways: u64,
    /// Is the highest rate the tester's own?
    pub max_is_the_testers: bool,
    /// How long a trial sent, in seconds.
    pub duration_s: f64,
    /// Of rates, as a part of them.
    pub resolution: f64,
    /// How long late frames were waited for, in seconds.
    pub drain_s: f64,
    /// By size.
    pub sizes: Vec<SizeResult>,
    /// What else was seen.
    pub odds: Odds,
    /// Why it ended before its end.
    pub cut: Option<String>,
}

/// Does what is planned, and says how far it is. It ends early when the tester's `stop` says so or a port goes; the results then say why,
/// and have what there is.
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

/// What runs the tests of a plan.
struct Bench<'a, 't> {
    plan: &'a Plan,
    tester: &'a mut Tester<'t>,
    odds: Odds,
    tell: &'a mut dyn FnMut(Progress),
    /// Parts that are done.
    done: usize,
    what: String,
}

impl Bench<'_, '_> {
    /// All tests of one size; what it has come to is in `result`, also when it is cut short.
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

    /// A part begins.
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
            self.say(&format!(", {rate} a second"));
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

    /// Does anything arrive?
    fn reach(&mut self, size: usize) -> Result<(), Cut> {
        let (pace, amount) = (Pace::Frames(PROBES_A_SECOND), Amount::Frames(PROBES));
        let trial = self.trial(&Ask { size, pace, amount, clocking: Clocking::Off })?;
        let ports = &self.tester.ports;
        for (way, [from, to]) in trial.ways.iter().zip([[0, 1], [1, 0]]) {
            if way.came.frames == 0 {
                let name = |at: usize| ports.get(at).map_or("", |port| port.spec.as_str());
                let (sent, others) = (way.sent, way.came.others);
                let what = format!(
                    "of {sent} test frames sent into {} none came out of {} ({others} other frames did); \
                     is the device between them, and does it forward?",
                    name(from),
                    name(to)
                );
                return Err(Cut::Deaf(what));
            }
        }
        Ok(())
    }

    /// The highest rate of a size.
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
        // Of two ways the worse one.
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
                // A burst of a few frames is over before its rate can be told.
                found.at_rate &= frames < 1000 || !tried.is_short(plan.resolution);
                Ok(tried)
            })?;
            found.bursts.push(longest);
        }
        Ok(found)
    }
}

/// A trial at a rate, for as long as the plan says.
fn timed(plan: &Plan, size: usize, rate: u64) -> Ask {
    Ask { size, pace: Pace::Frames(rate), amount: Amount::For(plan.duration), clocking: Clocking::Off }
}

fn tried(trial: &Trial) -> Tried {
    let reached = trial.reached();
    let asked = match trial.ask.pace {
        Pace::Frames(rate) => rate,
        Pace::FlatOut => reached,
    };
    Tried { asked, reached, sent: trial.sent(), lost: trial.lost() }
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
