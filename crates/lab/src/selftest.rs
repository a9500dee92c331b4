//! `linerate lab selftest`: checks on this machine how reliable the verdicts of this crate's
//! comparisons are.
//!
//! Rows of several commands are compared with a separately built side with the same settings, and
//! with a side that is deliberately slowed by 5 % (a planted difference). The runner, the estimator
//! and the verdict rule are those of every command. The result is three shares, each with a target:
//! firm verdicts on equal sides (at most 1 %), 95 % intervals of equal sides that contain 1 (at
//! least 93 %), and planted differences that are found (at least 80 %).

use crate::ab::Trials;
use crate::child::{self, Child};
use crate::measuring::Measuring;
use crate::netperf::{Over, Place};
use crate::result::{Cell, Change, Sheet};
use crate::rigs::Domain;
use crate::rigs::{BridgeRig, NIC_FINAL, NetperfRig, NicRig, RecvRig, RrRig, SendRig, Work};
use crate::run;
use crate::side::Side;
use crate::study::{Options, Progress};
use crate::subject::{Reading, Subject};
use crate::table;
use crate::verdict::{NoiseFloor, Verdict};
use crate::{env::Environment, os, timer, tsc};
use anyhow::{Context, bail};
use apps::netperf::{self, Length, Test};
use clock::Duration;
use port::pktgen::Family;
use serde::Serialize;
use std::fmt::Write;

/// Kind of the child process that serves as a busy neighbor.
pub(crate) const BUSY: &str = "busy";
/// Slow-down factor of a side that is slowed deliberately (planted difference).
const PLANTED: f64 = 1.05;
/// Targets of the three shares.
const WANTED: Shares = Shares { firm: 0.01, covered: 0.93, found: 0.80 };
/// Maximum probability of a missed target by chance. A run fails if a share misses its target and
/// the probability is below this.
const CHANCE: f64 = 0.001;
/// Duration of a trial of the `ab` row: shorter than the command's own 0.02 s, so that 1000
/// comparisons take less than an hour.
const AB_TRIAL: Duration = Duration::from_millis(5);

struct Shares {
    firm: f64,
    covered: f64,
    found: f64,
}

/// Kind of row that is compared: a row of one of this program's commands.
struct Kind {
    name: &'static str,
    side: fn(&'static str) -> Side,
    /// The command's default number of builds.
    rounds: u32,
    trials: Trials,
}

const KINDS: [Kind; 6] = [
    Kind {
        name: "ladder: send, locks up",
        side: |id| Side::new(id, move || SendRig::new(id, "locks=up", false)),
        rounds: 30,
        trials: Trials::Rig,
    },
    Kind {
        name: "bench udp: receive",
        side: |id| Side::new(id, move || RecvRig::new(id, Family::V4, 1)),
        rounds: 30,
        trials: Trials::Rig,
    },
    Kind {
        name: "bench tcp: TCP_RR",
        side: |id| Side::new(id, move || RrRig::tcp(id, Domain::Inet, 0)),
        rounds: 20,
        trials: Trials::Rig,
    },
    Kind {
        name: "bench bridge: 1,000 addresses",
        side: |id| Side::new(id, move || BridgeRig::new(id, 1000, 60, 32)),
        rounds: 30,
        trials: Trials::Rig,
    },
    Kind {
        name: "repro bridge2004: last rung",
        side: |id| Side::new(id, move || NicRig::new(id, &format!("{NIC_FINAL} frames=4096"))),
        rounds: 20,
        trials: Trials::Rig,
    },
    Kind { name: "ab: TCP_RR through a router", side: ab_side, rounds: 20, trials: Trials::Hosts { one_thread: true } },
];

fn ab_side(id: &'static str) -> Side {
    let work = Work::Netperf(netperf::Options { length: Length::Time(AB_TRIAL), ..netperf::Options::new(Test::TcpRr) });
    Side::new(id, move || Ok(NetperfRig::new(id, Place::new(Over::Router), work.clone())))
}

/// A subject that is slowed by 5 %. A loop spends the extra time, so that it is measured and not
/// computed.
struct Planted<S> {
    of: S,
    /// Set if the time in which that loop was preempted is excluded, as the subject excludes it
    /// from its own time.
    without_preempted: bool,
}

impl<S: Subject> Subject for Planted<S> {
    fn id(&self) -> &str {
        self.of.id()
    }

    fn trial(&mut self) -> anyhow::Result<Reading> {
        let reading = self.of.trial()?;
        let more = (reading.ticks as f64 * (PLANTED - 1.0)) as u64;
        let (start, wall, cpu) = (tsc::now(), os::monotonic_ns(), os::thread_cpu_ns());
        while tsc::now().saturating_sub(start) < more {
            std::hint::spin_loop();
        }
        let (cpu, wall) = (os::thread_cpu_ns() - cpu, os::monotonic_ns() - wall);
        let lost = if self.without_preempted {
            (wall.saturating_sub(cpu) as f64 * timer::rate().hz as f64 / 1e9) as u64
        } else {
            0
        };
        Ok(Reading {
            ticks: reading.ticks + tsc::now().saturating_sub(start).saturating_sub(lost).max(more),
            wall_ns: reading.wall_ns + wall,
            cpu_ns: reading.cpu_ns + cpu,
            ..reading
        })
    }
}

/// The outcome of the comparisons of one kind of row, or of all.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
pub struct Counts {
    /// Name of the kind of row.
    pub kind: String,
    /// Number of comparisons of equal sides.
    pub comparisons: u32,
    /// Number of comparisons of equal sides with the verdict `faster` or `slower`.
    pub firm: u32,
    /// Number of comparisons of equal sides with 1 inside their 95 % interval.
    pub covered: u32,
    /// Number of comparisons of equal sides with the verdict `unfit` (a noise floor above 25 %).
    pub unfit: u32,
    /// Number of comparisons with a planted difference.
    pub planted: u32,
    /// Number of planted differences that were found, in the right direction.
    pub found: u32,
    /// Number of planted differences that were reported in the wrong direction.
    pub reversed: u32,
}

impl Counts {
    fn add(&mut self, other: &Counts) {
        self.comparisons += other.comparisons;
        self.firm += other.firm;
        self.covered += other.covered;
        self.unfit += other.unfit;
        self.planted += other.planted;
        self.found += other.found;
        self.reversed += other.reversed;
    }

    /// Returns a sentence for each share that misses its target, if the probability of that by
    /// chance is below `chance`.
    fn misses(&self, chance: f64) -> Vec<String> {
        let (n, planted) = (self.comparisons, self.planted);
        let uncovered = n - self.covered;
        let checks = [
            (at_least(n, self.firm, WANTED.firm), format!("{} of {n} equal sides were judged different", self.firm)),
            (at_least(n, uncovered, 1.0 - WANTED.covered), format!("{uncovered} of {n} intervals do not contain 1")),
            (
                at_least(planted, planted - self.found, 1.0 - WANTED.found),
                format!("{} of {planted} planted differences were not found", planted - self.found),
            ),
        ];
        checks.into_iter().filter_map(|(found, text)| (found < chance).then_some(text)).collect()
    }
}

/// Returns the probability of `hits` or more successes in `n` trials of probability `p`.
fn at_least(n: u32, hits: u32, p: f64) -> f64 {
    let mut below = 0.0;
    let mut log = f64::from(n) * (1.0 - p).ln(); // ln of the probability of no success
    for k in 0..hits {
        below += log.exp();
        log += (f64::from(n - k) / f64::from(k + 1)).ln() + (p / (1.0 - p)).ln();
    }
    (1.0 - below).max(0.0)
}

/// The outcome of a self-test.
#[derive(Debug, Clone, Serialize)]
pub struct Outcome {
    /// Sums of the counts of all kinds of rows.
    #[serde(flatten)]
    pub all: Counts,
    /// Counts of each kind of row.
    pub kinds: Vec<Counts>,
    /// Number of busy neighbor processes.
    pub busy: u32,
    /// Sentences about shares that miss their targets by more than chance explains.
    pub misses: Vec<String>,
    /// Comparisons that could not be run, with the reason.
    pub failed: Vec<String>,
    /// Environment of the run.
    pub env: Environment,
}

/// Runs `comparisons` comparisons of equal sides and as many with planted differences, over all
/// kinds of rows, while `busy` busy processes run.
///
/// # Errors
/// A busy process cannot be started.
pub fn selftest(
    comparisons: u32,
    busy: u32,
    options: &Options,
    progress: &mut dyn FnMut(Progress),
) -> anyhow::Result<Outcome> {
    let (_measuring, env) = Measuring::begin();
    let neighbors = (0..busy).map(|_| Child::start(child::again(BUSY, "-")?)).collect::<anyhow::Result<Vec<_>>>()?;
    let mut outcome = Outcome {
        all: Counts { kind: "all".to_owned(), ..Counts::default() },
        kinds: KINDS.iter().map(|kind| Counts { kind: kind.name.to_owned(), ..Counts::default() }).collect(),
        busy,
        misses: Vec::new(),
        failed: Vec::new(),
        env,
    };
    for number in 0..comparisons {
        if dispatch::stop_requested() {
            outcome.failed.push(format!("interrupted after {number} of {comparisons} comparisons"));
            break;
        }
        let at = number as usize % KINDS.len();
        progress(Progress { done: number as usize, total: comparisons as usize, what: KINDS[at].name.to_owned() });
        match compare(&KINDS[at], number, options) {
            Ok(counts) => outcome.kinds[at].add(&counts),
            Err(why) => outcome.failed.push(format!("{}: {why:#}", KINDS[at].name)),
        }
    }
    drop(neighbors);
    for kind in &outcome.kinds {
        outcome.all.add(kind);
    }
    // No single kind of row may miss a target, either. Six kinds are checked, so each has a sixth
    // of the permitted probability of a miss by chance.
    let of_kinds = outcome.kinds.iter().flat_map(|kind| {
        kind.misses(CHANCE / KINDS.len() as f64).into_iter().map(|why| format!("{}: {why}", kind.kind))
    });
    outcome.misses = outcome.all.misses(CHANCE).into_iter().chain(of_kinds).collect();
    Ok(outcome)
}

/// Compares a side with an equal side and with a deliberately slowed side; a twin of the first side
/// gives the noise floor. Every second comparison of a kind has the slowed side first.
fn compare(kind: &Kind, number: u32, options: &Options) -> anyhow::Result<Counts> {
    let usual = options.run(kind.rounds);
    let usual = run::Options { seed: u64::from(number) << 32 | usual.seed, ..usual };
    let run_options = kind.trials.options(usual);
    let planted = {
        let (inner, without_preempted) = ((kind.side)("planted"), kind.trials != Trials::Rig);
        Side::new("planted", move || Ok(Planted { of: inner.build()?, without_preempted }))
    };
    let side = (kind.side)("side");
    let sides = [side.clone(), side.twin(), (kind.side)("equal"), planted];
    let samples = run::interleave(&sides, &run_options)?;
    if let Some(why) = samples.iter().find_map(|sample| sample.failed.clone()) {
        bail!("{why}");
    }
    let [side, twin, equal, planted] = samples.as_slice() else { bail!("expected four samples") };
    let floor = NoiseFloor::of(side, twin)?;
    let same = Change::paired(side, equal, &floor)?;
    let forward = (number / KINDS.len() as u32).is_multiple_of(2);
    let (before, now, right) =
        if forward { (side, planted, Verdict::Slower) } else { (planted, side, Verdict::Faster) };
    let other = Change::paired(before, now, &floor)?;
    Ok(Counts {
        kind: String::new(),
        comparisons: 1,
        firm: u32::from(same.verdict.is_firm()),
        covered: u32::from(same.lo <= 1.0 && same.hi >= 1.0),
        unfit: u32::from(matches!(same.verdict, Verdict::Unfit { .. })),
        planted: 1,
        found: u32::from(other.verdict == right),
        reversed: u32::from(other.verdict.is_firm() && other.verdict != right),
    })
}

/// Runs a busy neighbor: it computes and walks through memory until its parent ends.
pub(crate) fn serve_busy() -> anyhow::Result<()> {
    const BYTES: usize = 8 << 20;
    let begin = || {
        dispatch::spawn_worker("busy", None, |_| {
            let mut memory = vec![0u8; BYTES];
            let mut at = 0usize;
            loop {
                at = (at.wrapping_mul(5).wrapping_add(4097)) % BYTES;
                memory[at] = memory[at].wrapping_add(1);
                std::hint::black_box(&memory);
            }
        })
        .context("cannot start a busy thread")?;
        Ok(((), String::new()))
    };
    child::serve(begin, |(), _| Ok(String::new()))
}

impl Outcome {
    /// Returns the outcome as one JSON object.
    ///
    /// # Errors
    /// None in practice: an outcome always serializes.
    pub fn to_json(&self) -> serde_json::Result<String> {
        serde_json::to_string_pretty(self).map(|text| text + "\n")
    }

    /// Formats the outcome as text.
    pub fn text(&self) -> String {
        let row = |of: &Counts| {
            let share = |part: u32, whole: u32| Cell::from(100.0 * f64::from(part) / f64::from(whole.max(1)));
            vec![
                of.kind.as_str().into(),
                u64::from(of.comparisons).into(),
                u64::from(of.firm).into(),
                share(of.firm, of.comparisons),
                share(of.covered, of.comparisons),
                u64::from(of.unfit).into(),
                share(of.found, of.planted),
                u64::from(of.reversed).into(),
            ]
        };
        let head = ["row", "comparisons", "firm", "firm %", "covered %", "unfit", "found %", "reversed"];
        let sheet = Sheet {
            title: format!(
                "self-test with {} busy processes: firm verdicts on equal sides (target: at most 1 %), 95 % intervals that \
                 contain 1 (at least 93 %), planted differences of 5 % that are found (at least 80 %)",
                self.busy
            ),
            head: head.map(str::to_owned).to_vec(),
            rows: self.kinds.iter().chain([&self.all]).map(row).collect(),
        };
        let mut text = format!("{}\n{}", self.env, table::sheet(&sheet));
        for why in &self.failed {
            let _ = writeln!(text, "not measured: {why}");
        }
        for why in &self.misses {
            let _ = writeln!(text, "target missed, and not by chance: {why}");
        }
        if self.misses.is_empty() {
            let _ = writeln!(text, "no target missed, except possibly by chance");
        }
        text
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn chances_are_the_binomial_distributions() {
        assert!((at_least(10, 0, 0.5) - 1.0).abs() < 1e-12);
        assert!((at_least(10, 10, 0.5) - 0.5f64.powi(10)).abs() < 1e-12);
        assert!((at_least(100, 1, 0.01) - (1.0 - 0.99f64.powi(100))).abs() < 1e-12);
        // 1,000 comparisons with 1 %: 10 are expected, 22 occur once in a thousand runs.
        assert!(at_least(1000, 20, 0.01) > CHANCE && at_least(1000, 23, 0.01) < CHANCE);
    }

    #[test]
    fn missed_targets_beyond_chance_are_reported() {
        let counts = |firm, covered, found| Counts {
            comparisons: 1000,
            firm,
            covered,
            planted: 1000,
            found,
            ..Counts::default()
        };
        assert!(counts(10, 930, 800).misses(CHANCE).is_empty());
        assert_eq!(counts(40, 880, 700).misses(CHANCE).len(), 3);
        // One kind of six: 46 % found must not be hidden by the other kinds.
        let kind = Counts { comparisons: 167, covered: 160, planted: 167, found: 77, ..Counts::default() };
        assert_eq!(kind.misses(CHANCE / KINDS.len() as f64).len(), 1);
        assert!(counts(200, 950, 900).misses(CHANCE)[0].contains("200 of 1000"), "one in five was the case before");
    }

    #[test]
    fn every_kind_is_compared_and_a_planted_side_takes_longer() {
        let options = Options { quick: true, rounds: Some(2), ..Options::default() };
        let mut said = 0;
        let outcome = selftest(6, 1, &options, &mut |_| said += 1).unwrap();
        assert_eq!((outcome.failed.clone(), said), (Vec::<String>::new(), 6));
        assert!(outcome.kinds.iter().all(|kind| kind.comparisons == 1 && kind.planted == 1), "{outcome:?}");
        assert_eq!((outcome.all.firm, outcome.all.found), (0, 0), "two builds show nothing");
        let json: serde_json::Value = serde_json::from_str(&outcome.to_json().unwrap()).unwrap();
        assert!(["comparisons", "firm", "covered", "planted", "found"].iter().all(|key| json[key].is_u64()), "{json}");
        assert_eq!(json["kinds"].as_array().map(Vec::len), Some(6));
    }

    #[test]
    fn a_planted_side_takes_five_per_cent_longer() {
        let reading = Reading { ops: 1, ticks: 1_000_000, wall_ns: 400_000, cpu_ns: 400_000 };
        let of = crate::subject::from_fn("x", move || Ok(reading));
        let mut planted = Planted { of, without_preempted: false };
        // The shortest of many trials of 20 us was not interrupted.
        let least = (0..50).map(|_| planted.trial().unwrap().ticks).min().unwrap();
        assert!((1_050_000..1_060_000).contains(&least), "{least}");
    }
}
