//! Results of a workload: the request rate, and the response times by kind.

use super::Mix;
use crate::netperf::hist::{Histogram, PERCENTILES};
use serde_json::{Value, json};
use std::fmt::Write;

#[derive(Clone, Debug)]
pub struct Report {
    /// Duration of the measurement in seconds.
    pub elapsed: f64,
    /// Seconds of this duration in which the clients' thread was preempted ([`crate::span::Took`]).
    pub preempted: f64,
    /// Number of requests that were answered.
    pub answered: u64,
    /// Response times, one histogram per kind of request.
    pub times: Vec<Histogram>,
    pub clients: usize,
    /// Number of requests in flight per client.
    pub depth: usize,
}

impl Report {
    /// Returns the number of requests answered per second.
    pub fn rate(&self) -> f64 {
        self.answered as f64 / self.elapsed.max(1e-9)
    }

    fn all(&self) -> Histogram {
        let mut all = Histogram::default();
        self.times.iter().for_each(|times| all.merge(times));
        all
    }

    fn rows<M: Mix>(&self) -> Vec<(&'static str, Histogram)> {
        let kinds = M::KINDS.iter().copied().zip(self.times.iter().cloned());
        std::iter::once(("all", self.all())).chain(kinds.filter(|(_, times)| times.total() > 0)).collect()
    }

    /// Formats the report as text: the mix, the rate, and a table of response times in
    /// microseconds.
    pub fn text<M: Mix>(&self, mix: &M) -> String {
        let mut out = String::new();
        let (plural, depth) = (if self.clients == 1 { "" } else { "s" }, self.depth);
        // Writing to a string cannot fail.
        let _ =
            writeln!(out, "{}: {}; {} client{plural}, {depth} in flight each", M::NAME, mix.describe(), self.clients);
        let _ = writeln!(out, "{} requests in {:.3} s: {:.0} requests/s", self.answered, self.elapsed, self.rate());
        let _ = write!(out, "{:<10}{:>10}", "usec", "requests");
        for (name, _) in PERCENTILES {
            let _ = write!(out, "{name:>11}");
        }
        out.push('\n');
        for (name, times) in self.rows::<M>() {
            let _ = write!(out, "{name:<10}{:>10}", times.total());
            for (_, share) in PERCENTILES {
                let _ = write!(out, "{:>11.1}", times.percentile(share) as f64 / 1e3);
            }
            out.push('\n');
        }
        out
    }

    /// Formats the report as one JSON object on one line.
    pub fn json<M: Mix>(&self, mix: &M) -> String {
        let row = |times: &Histogram| {
            let mut row = serde_json::Map::new();
            row.insert("requests".to_owned(), times.total().into());
            for (name, share) in PERCENTILES {
                row.insert(format!("{name}_us"), (times.percentile(share) as f64 / 1e3).into());
            }
            Value::Object(row)
        };
        let kinds: serde_json::Map<String, Value> =
            self.rows::<M>().iter().map(|(name, times)| ((*name).to_owned(), row(times))).collect();
        let (clients, depth) = (self.clients, self.depth);
        let object = json!({
            "workload": M::NAME, "mix": mix.describe(), "clients": clients, "depth": depth, "seconds": self.elapsed,
            "requests": self.answered, "rate": self.rate(), "times": kinds,
        });
        format!("{object}\n")
    }
}
