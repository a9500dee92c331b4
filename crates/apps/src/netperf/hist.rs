//! Histograms of call or transaction times: the rows that netperf prints, and percentiles with a
//! finer resolution.
//!
//! netperf counts times in microseconds, with ten buckets per decade. A transaction between two of
//! our hosts takes less than one microsecond. Times are therefore also counted in nanoseconds, with
//! 32 buckets per power of two, so that percentiles have an error of at most 3 %.

use std::fmt::Write;
use std::time::Duration;

const STEPS: usize = 32;
const BITS: u32 = STEPS.trailing_zeros();
const ROWS: [&str; 8] =
    ["UNIT_USEC", "TEN_USEC", "HUNDRED_USEC", "UNIT_MSEC", "TEN_MSEC", "HUNDRED_MSEC", "UNIT_SEC", "TEN_SEC"];

#[derive(Clone, Debug)]
pub struct Histogram {
    decades: [[u64; 10]; 8],
    beyond: u64,
    fine: Vec<u64>,
    total: u64,
}

impl Default for Histogram {
    fn default() -> Histogram {
        Histogram { decades: Default::default(), beyond: 0, fine: vec![0; STEPS * 65], total: 0 }
    }
}

pub const PERCENTILES: [(&str, f64); 5] =
    [("p50", 0.5), ("p90", 0.9), ("p99", 0.99), ("p99.9", 0.999), ("p99.99", 0.9999)];

impl Histogram {
    /// Adds a time to the histogram.
    pub fn add(&mut self, took: Duration) {
        let ns = u64::try_from(took.as_nanos()).unwrap_or(u64::MAX);
        self.total += 1;
        if let Some(count) = self.fine.get_mut(step_of(ns)) {
            *count += 1;
        }
        let mut unit = ns / 1000;
        for row in &mut self.decades {
            if let Some(count) = row.get_mut(usize::try_from(unit).unwrap_or(usize::MAX)) {
                *count += 1;
                return;
            }
            unit /= 10;
        }
        self.beyond += 1;
    }

    /// Returns the number of times added.
    pub fn total(&self) -> u64 {
        self.total
    }

    /// Adds the counts of another histogram.
    pub fn merge(&mut self, other: &Histogram) {
        for (ours, theirs) in self.decades.iter_mut().flatten().zip(other.decades.iter().flatten()) {
            *ours += theirs;
        }
        for (ours, theirs) in self.fine.iter_mut().zip(&other.fine) {
            *ours += theirs;
        }
        self.beyond += other.beyond;
        self.total += other.total;
    }

    /// Returns the time, in nanoseconds and with an error of at most 3 %, that the given share of
    /// all times does not exceed.
    pub fn percentile(&self, share: f64) -> u64 {
        let wanted = ((self.total as f64 * share).ceil() as u64).max(1);
        let mut seen = 0;
        for (step, count) in self.fine.iter().enumerate() {
            seen += count;
            if seen >= wanted {
                return top_of(step);
            }
        }
        0
    }

    /// Formats the histogram as the rows that netperf prints.
    pub fn rows(&self) -> String {
        let mut out = String::new();
        for (name, row) in ROWS.iter().zip(&self.decades) {
            let _ = write!(out, "{name:<14}");
            for count in row {
                let _ = write!(out, ": {count:4}");
            }
            out.push('\n');
        }
        let _ = write!(out, ">100_SECS: {}\nHIST_TOTAL:      {}\n", self.beyond, self.total);
        out
    }

    /// Formats the percentiles, one per line, in microseconds.
    pub fn percentiles(&self) -> String {
        let mut out = String::new();
        for (name, share) in PERCENTILES {
            let _ = writeln!(out, "{name:<6} {:12.3} usec", self.percentile(share) as f64 / 1e3);
        }
        out
    }
}

/// Returns the bucket for a time: below 32 ns one bucket per nanosecond, then 32 per power of two.
fn step_of(ns: u64) -> usize {
    if ns < STEPS as u64 {
        return ns as usize;
    }
    let power = ns.ilog2();
    let within = (ns >> (power - BITS)) as usize - STEPS;
    STEPS * (power - BITS + 1) as usize + within
}

/// Returns the largest time that belongs to a bucket, in nanoseconds.
fn top_of(step: usize) -> u64 {
    if step < STEPS {
        return step as u64;
    }
    let (power, within) = ((step / STEPS - 1) as u32, (step % STEPS + STEPS) as u64);
    ((u128::from(within + 1) << power) - 1).min(u128::from(u64::MAX)) as u64
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn netperf_rows_and_finer_buckets() {
        let mut times = Histogram::default();
        for us in [0, 3, 9, 10, 99, 100, 1500, 20_000, 300_000, 4_000_000, 99_000_000, 100_000_000] {
            times.add(Duration::from_micros(us));
        }
        let rows = times.rows();
        let lines: Vec<&str> = rows.lines().collect();
        assert_eq!(lines[0], "UNIT_USEC     :    1:    0:    0:    1:    0:    0:    0:    0:    0:    1");
        assert_eq!(lines[1], "TEN_USEC      :    0:    1:    0:    0:    0:    0:    0:    0:    0:    1");
        assert_eq!(lines[7], "TEN_SEC       :    0:    0:    0:    0:    0:    0:    0:    0:    0:    1");
        assert_eq!(lines[8..], [">100_SECS: 1", "HIST_TOTAL:      12"]);
    }

    #[test]
    fn percentiles_are_within_three_per_cent() {
        let mut times = Histogram::default();
        (1..=10_000).for_each(|n| times.add(Duration::from_nanos(n * 100)));
        for (_, share) in PERCENTILES {
            let (found, exact) = (times.percentile(share) as f64, 1e6 * share);
            assert!(found >= exact && found <= exact * 1.032, "{share}: {found}");
        }
        assert_eq!(Histogram::default().percentile(0.5), 0);
        for ns in [0, 1, 31, 32, 33, 1000, u64::MAX] {
            assert!(top_of(step_of(ns)) >= ns && step_of(ns) < STEPS * 65, "{ns}");
        }
        let both = {
            let mut sum = times.clone();
            sum.merge(&times);
            sum
        };
        assert_eq!((both.total(), both.percentile(0.5)), (20_000, times.percentile(0.5)));
    }
}
