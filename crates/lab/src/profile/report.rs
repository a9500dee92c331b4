//! A profile as text and as JSON: coverage, functions, buckets, the cost ledger, and warnings.
//!
//! Shares are of the processor time represented by the samples, in thousandths of a percent,
//! rounded down. Every table sums to 100 %, since its last row contains the sum of the entries that
//! are too small to be listed.

use super::folded;
use super::table::{self, Layout};
use super::{Bucket, Profile, Source, Thread};
use crate::env::Environment;
use node::ledgers::Kept;
use serde::Serialize;
use stats::{Costs, Probe, Row};
use std::collections::BTreeMap;

/// Minimum share of a listed function, in thousandths of a percent; functions with a smaller share
/// are summed in one row. The tables of the report rtems2014 have the same limit.
const LISTED: u64 = 480;
/// Unresolved share above which a warning is given, in thousandths of a percent.
const UNRESOLVED_WARNING: u64 = 5_000;
/// Number of samples below which a warning is given: with 1000 samples, a share of 10 % has an
/// interval of plus or minus 2 points.
const FEW: u64 = 1000;
/// Maximum number of changes printed; JSON contains all.
const CHANGES: usize = 20;

/// Share of a function or bucket.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Share {
    /// Name of the function or bucket.
    pub name: String,
    /// Bucket of the function.
    pub bucket: Bucket,
    /// Share in thousandths of a percent.
    pub share: u64,
    /// Processor time in nanoseconds.
    pub ns: u64,
}

/// Cost of one processing stage, as counted by the stack's cost ledger and summed over hosts.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct StageTicks {
    /// Module path of the stage.
    pub stage: String,
    /// Number of ticks spent in the stage.
    pub ticks: u64,
    /// Number of frames, packets or calls that passed the stage.
    pub units: u64,
}

/// The stack's cost ledger of the same run: ticks by processing stage.
#[derive(Debug, Clone, Default, PartialEq, Serialize)]
pub struct Ledger {
    /// Costs, one entry per stage.
    pub stages: Vec<StageTicks>,
    /// Number of counter readings taken by the ledger.
    pub readings: u64,
    /// Ticks of these readings, which are not included in the stages.
    pub probes: u64,
    /// Number of hosts whose ledgers are included.
    pub hosts: usize,
    /// Number of further hosts, whose ledgers exceeded the maximum number kept.
    pub not_kept: u64,
}

/// Shares of a function in two profiles, in thousandths of a percent of each profile's sum.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Moved {
    /// Name of the function.
    pub name: String,
    /// Share in the earlier profile.
    pub before: u64,
    /// Share in the later profile.
    pub after: u64,
}

/// Content of the report. All shares are in thousandths of a percent.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Report {
    /// Command that was profiled.
    pub command: String,
    /// The machine, kernel and build.
    pub env: Environment,
    /// Requested samples per second.
    pub rate_hz: u32,
    /// Source of the samples: `thread timers` or `process timer`.
    pub source: &'static str,
    /// Duration of the profiled run, in seconds.
    pub seconds: f64,
    /// Number of samples taken.
    pub samples: u64,
    /// Processor time represented by the samples, in nanoseconds.
    pub sampled_ns: u64,
    /// Share of the sampled time that was spent in functions with a name.
    pub coverage: u64,
    /// Share of the process's processor time spent in sampled threads.
    pub runtime: u64,
    /// Share of the sampled threads' processor time that the samples represent.
    pub covtime: u64,
    /// Share of the sampled time in functions without a name.
    pub unresolved: u64,
    /// Share of the sampled time in system calls.
    pub kernel: u64,
    /// Share of the sampled time in the vdso.
    pub vdso: u64,
    /// Samples dropped because the buffer was full: (count, nanoseconds).
    pub dropped: (u64, u64),
    /// Share of the threads' time spent in the signal handler, without the kernel's cost of signal
    /// delivery.
    pub handler: u64,
    /// Shares by bucket, largest first.
    pub buckets: Vec<Share>,
    /// Shares by function, largest first.
    pub functions: Vec<Share>,
    /// Threads that were sampled.
    pub threads: Vec<Thread>,
    /// The cost ledger, if requested.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ledger: Option<Ledger>,
    /// Changes of functions from an earlier profile, largest first, if requested.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub diff: Option<Vec<Moved>>,
    /// Warnings about the quality of the profile.
    pub warnings: Vec<String>,
}

impl Report {
    /// Returns the report of a profile.
    pub fn of(profile: &Profile, command: &str, env: Environment) -> Report {
        let sampled = profile.sampled_ns();
        let threads = profile.threads_ns();
        let sum = |of: fn(&Thread) -> u64| profile.threads.iter().map(of).sum::<u64>();
        let shares = |rows: Vec<((String, Bucket), u64)>| -> Vec<Share> {
            let one = |((name, bucket), ns)| Share { name, bucket, share: table::share(ns, sampled), ns };
            rows.into_iter().map(one).collect()
        };
        let buckets = shares(profile.by(|stack| (stack.bucket.word().to_owned(), stack.bucket)));
        let functions = shares(profile.by(|stack| (stack.function().to_owned(), stack.bucket)));
        let in_bucket = |bucket| profile.stacks.iter().filter(move |stack| stack.bucket == bucket);
        let unresolved: u64 = in_bucket(Bucket::Unresolved).map(|stack| stack.ns).sum();
        let kernel: u64 = in_bucket(Bucket::Kernel).map(|stack| stack.ns).sum();
        let begins = |stack: &&super::Stack| stack.names.first().is_some_and(|name| name.starts_with("[vdso]"));
        let vdso: u64 = profile.stacks.iter().filter(begins).map(|stack| stack.ns).sum();
        let mut report = Report {
            command: command.to_owned(),
            env,
            rate_hz: profile.rate_hz,
            source: match profile.source {
                Source::ThreadTimers => "thread timers",
                Source::ProcessTimer => "process timer",
            },
            seconds: profile.seconds,
            samples: sum(|thread| thread.samples),
            sampled_ns: sampled,
            coverage: table::share(sampled - unresolved, sampled),
            // The process's clock is read shortly before the last of the threads' clocks.
            runtime: table::share(threads.min(profile.process_ns), profile.process_ns),
            covtime: table::share(sampled, threads),
            unresolved: table::share(unresolved, sampled),
            kernel: table::share(kernel, sampled),
            vdso: table::share(vdso, sampled),
            dropped: (sum(|thread| thread.dropped), sum(|thread| thread.dropped_ns)),
            handler: table::share(sum(|thread| thread.handler_ns), threads),
            buckets,
            functions,
            threads: profile.threads.clone(),
            ledger: None,
            diff: None,
            warnings: Vec::new(),
        };
        report.warnings = report.weak(profile);
        report
    }

    fn weak(&self, profile: &Profile) -> Vec<String> {
        let checks = [
            (
                self.unresolved > UNRESOLVED_WARNING,
                format!(
                    "WARNING: {} of the time has no symbol; a stripped program or library needs its .debug file",
                    short(self.unresolved)
                ),
            ),
            (self.samples < FEW, format!("WARNING: only {} samples: run longer for reliable shares", self.samples)),
            (
                self.dropped.0 > 0,
                format!(
                    "WARNING: {} samples dropped ({:.3} s): buffer full",
                    self.dropped.0,
                    self.dropped.1 as f64 / 1e9
                ),
            ),
            (
                profile.source == Source::ProcessTimer,
                "WARNING: no timers for threads: the sampling rate is the kernel's clock tick".to_owned(),
            ),
        ];
        let weak = checks.into_iter().filter_map(|(weak, sentence)| weak.then_some(sentence));
        weak.chain(self.env.warnings()).collect()
    }

    /// Adds the cost ledgers of the hosts.
    pub fn add_ledger(&mut self, kept: (Vec<Kept>, u64)) {
        self.add_ledger_read_at(Probe::measure(clock::tsc::ticks), kept);
    }

    /// Adds the cost ledgers; `probe` is the cost of one counter reading.
    fn add_ledger_read_at(&mut self, probe: Probe, (kept, not_kept): (Vec<Kept>, u64)) {
        let mut costs = Costs::default();
        kept.iter().for_each(|kept| costs.add(&kept.costs));
        let statement = costs.statement(probe, costs.on_for);
        let of = |row: &Row| StageTicks { stage: row.stage.word().to_owned(), ticks: row.ticks, units: row.units };
        let stages = statement.rows.iter().map(of).collect();
        let (readings, probes) = (statement.readings, statement.probes);
        self.ledger = Some(Ledger { stages, readings, probes, hosts: kept.len(), not_kept });
    }

    /// Adds a comparison of two profiles, both given as folded stacks.
    ///
    /// # Errors
    /// A line that is not a folded stack.
    pub fn add_diff(&mut self, before: &str, after: &str) -> anyhow::Result<()> {
        let (before, after) = (folded::functions(before)?, folded::functions(after)?);
        let (all_before, all_after) = (before.values().sum(), after.values().sum());
        let share = |of: &BTreeMap<String, u64>, name: &str, all| table::share(of.get(name).copied().unwrap_or(0), all);
        let mut names: Vec<&String> = before.keys().chain(after.keys()).collect();
        names.sort();
        names.dedup();
        let moved = |name: &&String| Moved {
            name: (*name).clone(),
            before: share(&before, name, all_before),
            after: share(&after, name, all_after),
        };
        let mut moved: Vec<Moved> = names.iter().map(moved).collect();
        moved.sort_by_key(|moved| std::cmp::Reverse(moved.before.abs_diff(moved.after)));
        self.diff = Some(moved);
        Ok(())
    }

    /// Formats the report as text.
    pub fn text(&self) -> String {
        let mut out = format!("profile of: {}\n\n", self.command);
        out += &table::coverage(self.coverage, self.runtime, self.covtime);
        out += &rows("name", &self.functions, LISTED);
        out.push('\n');
        out += &rows("bucket", &self.buckets, 0);
        out += &format!(
            "\nunresolved {}, kernel {}, vdso {}\n",
            short(self.unresolved),
            short(self.kernel),
            short(self.vdso)
        );
        out += &format!(
            "{} samples of {} threads represent {:.3} s of processor time in {:.3} s; rate {} per second ({}); \
             {} dropped; the handler took {} of it\n",
            self.samples,
            self.threads.len(),
            self.sampled_ns as f64 / 1e9,
            self.seconds,
            self.rate_hz,
            self.source,
            self.dropped.0,
            short(self.handler)
        );
        out += &self.ledger.as_ref().map_or(String::new(), Ledger::text);
        out += &self.diff.as_ref().map_or(String::new(), |diff| differences(diff));
        out + &self.warnings.iter().map(|warning| format!("{warning}\n")).collect::<String>()
    }

    /// Returns the report as one JSON object.
    ///
    /// # Errors
    /// None in practice: a report always serializes.
    pub fn json(&self) -> serde_json::Result<String> {
        serde_json::to_string_pretty(self)
    }
}

/// Formats a share in percent with two decimals.
fn short(share: u64) -> String {
    format!("{}.{:02} %", share / 1000, share % 1000 / 10)
}

/// Formats a table: the shares of at least `listed`, then one row for the remainder.
fn rows(title: &str, shares: &[Share], listed: u64) -> String {
    let layout = Layout::WIDE;
    let mut out = table::head(title, layout);
    let (large, small): (Vec<&Share>, Vec<&Share>) = shares.iter().partition(|share| share.share >= listed);
    large.iter().for_each(|share| out += &table::row(&share.name, share.share, layout));
    if !small.is_empty() {
        // The remainder of 100 %, so that the column sums up despite rounding down.
        let rest = 100_000u64.saturating_sub(large.iter().map(|share| share.share).sum());
        out += &table::row(&format!("({} more)", small.len()), rest, layout);
    }
    out
}

impl Ledger {
    fn text(&self) -> String {
        let total: u64 = self.stages.iter().map(|stage| stage.ticks).sum();
        let mut out = format!("\n{:_<44}|ratio___|__________ticks|_______units|___ticks/unit|\n", "ledger");
        for StageTicks { stage, ticks, units } in &self.stages {
            let (share, each) = (table::percent(table::share(*ticks, total)), *ticks as f64 / (*units).max(1) as f64);
            out += &format!("{stage:<44}|{share}|{ticks:>15}|{units:>12}|{each:>13.1}|\n");
        }
        out += &format!(
            "{total} ticks; {} more in {} readings of the counter, which are in the profile but not in these stages; hosts: {}\n",
            self.probes, self.readings, self.hosts
        );
        if self.not_kept > 0 {
            out += &format!("note: ledgers of {} more hosts were not kept\n", self.not_kept);
        }
        out
    }
}

/// Formats the largest changes, in percentage points.
fn differences(diff: &[Moved]) -> String {
    let mut out = format!("\n{:_<60}|before__|after___|change__|\n", "name");
    for Moved { name, before, after } in diff.iter().take(CHANGES).filter(|moved| moved.before != moved.after) {
        let points = (*after as f64 - *before as f64) / 1000.0;
        let name: String = name.chars().take(60).collect();
        out += &format!("{name:<60}|{}|{}|{points:>+8.3}|\n", table::percent(*before), table::percent(*after));
    }
    out
}

#[cfg(test)]
mod tests;
