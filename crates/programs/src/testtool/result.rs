//! The results of a run as a block of text, with the labels of rump-pktgenif's tool.

use serde::Serialize;
use std::io::Write;
use std::time::Duration;

/// Results of a run.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Outcome {
    /// Mode of the run: `send`, `recv` or `route`.
    pub mode: &'static str,
    /// Duration of the run in seconds.
    pub elapsed_s: f64,
    /// Number of packets sent by the source.
    pub source_count: u64,
    /// Number of packets received by the sink; each fragment counts as a packet.
    pub sink_count: u64,
    /// Number of bytes sent by the source: payload in `send`, whole frames otherwise.
    pub source_bytes: u64,
    /// Number of bytes received by the sink: whole frames in `send` and `route`, payload in `recv`.
    pub sink_bytes: u64,
    /// Number of pairs of ports, by which "normalized" values are divided.
    pub parallel: usize,
    /// Number of dropped frames, by drop reason.
    pub drops: Vec<(String, u64)>,
    /// Number of frames that the host's audit cannot account for; 0 if none is missing.
    pub imbalance: i64,
    /// Network device of the host kernel that received the packets (only if the tool ran on the
    /// kernel).
    #[serde(skip_serializing_if = "Option::is_none")]
    pub device: Option<String>,
}

impl Outcome {
    /// Creates results whose counts are 0. The duration is at least one nanosecond, since rates are
    /// divided by it.
    pub fn new(mode: super::Mode, parallel: usize, elapsed: Duration) -> Outcome {
        Outcome {
            mode: mode.word(),
            elapsed_s: elapsed.as_secs_f64().max(1e-9),
            source_count: 0,
            sink_count: 0,
            source_bytes: 0,
            sink_bytes: 0,
            parallel,
            drops: Vec::new(),
            imbalance: 0,
            device: None,
        }
    }

    /// Adds up the results of several hosts that ran at the same time, with one pair of ports each.
    pub(super) fn together(mode: super::Mode, hosts: Vec<Outcome>) -> Outcome {
        let mut sum = Outcome::new(mode, hosts.len(), Duration::ZERO);
        for host in hosts {
            sum.elapsed_s = sum.elapsed_s.max(host.elapsed_s);
            sum.source_count += host.source_count;
            sum.sink_count += host.sink_count;
            sum.source_bytes += host.source_bytes;
            sum.sink_bytes += host.sink_bytes;
            sum.imbalance += host.imbalance;
            for (reason, n) in host.drops {
                match sum.drops.iter_mut().find(|(known, _)| *known == reason) {
                    Some((_, all)) => *all += n,
                    None => sum.drops.push((reason, n)),
                }
            }
        }
        sum
    }

    /// Adds the drop counts and the imbalance that the host's audit reports.
    pub(super) fn audited<L: lock::Locks>(mut self, host: &node::Host<L>) -> Outcome {
        let audit = host.stack.audit(host.cx());
        self.drops.extend(audit.reasons.iter().map(|entry| (entry.name.clone(), entry.value)));
        self.imbalance = audit.imbalance();
        self
    }

    /// Writes the results as lines of text.
    ///
    /// # Errors
    /// Errors of writing to `out`.
    pub fn block(&self, out: &mut dyn Write) -> anyhow::Result<()> {
        let (time, parallel) = (self.elapsed_s, self.parallel as f64);
        let (source, sink) = (self.source_count as f64, self.sink_count as f64);
        let gigabits = |bytes: u64| 8.0 * bytes as f64 / time / 1e9;
        let (up, down) = (gigabits(self.source_bytes), gigabits(self.sink_bytes));
        writeln!(out, "\ntotal elapsed time: {time:.6} seconds\n")?;
        writeln!(out, "aggregate source count: {}", self.source_count)?;
        writeln!(out, "aggregate sink count: {}", self.sink_count)?;
        writeln!(out, "source packets per second: {:.6}", source / time)?;
        writeln!(out, "sink packets per second: {:.6}", sink / time)?;
        let ratio = percent(self.source_count, self.sink_count);
        writeln!(out, "ratio of packets by source/packets by sink (w/ frags): {ratio}")?;
        writeln!(out, "source pps (normalized): {:.6}", source / time / parallel)?;
        writeln!(out, "sink pps (normalized): {:.6}", sink / time / parallel)?;
        writeln!(out)?;
        writeln!(out, "sink byte count: {}", self.sink_bytes)?;
        let ratio = percent(self.source_bytes, self.sink_bytes);
        writeln!(out, "ratio of bytes by source/bytes by sink: {ratio}")?;
        writeln!(out, "gigabits per second at source: {up:.6}")?;
        writeln!(out, "gigabits per second at sink: {down:.6}")?;
        writeln!(out, "Gbps source (normalized): {:.6}", up / parallel)?;
        writeln!(out, "Gbps sink (normalized): {:.6}", down / parallel)?;
        for (reason, n) in &self.drops {
            writeln!(out, "dropped {reason}: {n}")?;
        }
        if self.imbalance != 0 {
            writeln!(out, "UNACCOUNTED frames: {}", self.imbalance)?;
        }
        self.device.iter().try_for_each(|device| writeln!(out, "device: {device}"))?;
        Ok(())
    }

    /// Writes the results as one JSON object on one line.
    ///
    /// # Errors
    /// Errors of writing to `out`.
    pub fn json(&self, out: &mut dyn Write) -> anyhow::Result<()> {
        writeln!(out, "{}", serde_json::to_string(self)?)?;
        Ok(())
    }
}

/// Formats the ratio of source to sink in percent, or `n/a` if the sink count is 0. The original
/// tool divides by zero in that case.
fn percent(source: u64, sink: u64) -> String {
    if sink == 0 { "n/a".to_owned() } else { format!("{:.6}%", 100.0 * source as f64 / sink as f64) }
}
