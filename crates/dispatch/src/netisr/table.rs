//! What `netstat -Q` shows: FreeBSD's table of 9.x, column for column.

use super::{Mode, Policy};
use std::fmt::Write;

/// What is set for all protocols.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Settings {
    /// Workstreams.
    pub threads: usize,
    /// As many as may be.
    pub max_threads: usize,
    /// The limit of queues that have none of their own.
    pub default_qlimit: usize,
    /// The longest that a queue may be.
    pub max_qlimit: usize,
    /// When work runs.
    pub mode: Mode,
    /// Has each worker a core?
    pub bound: bool,
}

/// A protocol.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct ProtocolRow {
    /// Its name.
    pub name: &'static str,
    /// Its number.
    pub number: u8,
    /// The limit of its queues.
    pub qlimit: usize,
    /// How workstreams are chosen.
    pub policy: Policy,
    /// Its own mode, if it has one.
    pub dispatch: Option<Mode>,
    /// Can name an item's workstream (C).
    pub m2cpuid: bool,
    /// Can name an item's flow (F).
    pub m2flow: bool,
    /// Items that waited when direct work began after a switch, and that others of their flows may have passed: at most so many came too late
    /// (RFC 4737's reordered packets). Those that waited when the policy changed are among them, but for what was on its way to a queue. FreeBSD
    /// has no such column.
    pub overtaken: u64,
}

impl ProtocolRow {
    /// The word for when its work runs: a mode's, or `default`.
    pub fn dispatch_word(&self) -> &'static str {
        self.dispatch.map_or("default", Mode::name)
    }

    /// `CDF` or a dash for each; nobody here is told of drained CPUs (D).
    pub fn flags(&self) -> String {
        let letter = |has: bool, letter| if has { letter } else { '-' };
        [letter(self.m2cpuid, 'C'), '-', letter(self.m2flow, 'F')].iter().collect()
    }
}

/// A protocol in a workstream.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct WorkRow {
    /// The workstream.
    pub workstream: usize,
    /// Its core, or its number again.
    pub cpu: usize,
    /// The protocol's name.
    pub name: &'static str,
    /// Items that wait.
    pub len: usize,
    /// The most that waited at one time.
    pub watermark: usize,
    /// Worked on by callers, direct.
    pub dispatched: u64,
    /// Worked on by callers, hybrid.
    pub hybrid_dispatched: u64,
    /// Refused.
    pub qdrops: u64,
    /// Put into the queue.
    pub queued: u64,
    /// Worked on to the end.
    pub handled: u64,
    /// Lost in a panic; FreeBSD has no such column.
    pub lost: u64,
}

/// Everything at one moment.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Snapshot {
    /// What is set for all.
    pub settings: Settings,
    /// The protocols.
    pub protocols: Vec<ProtocolRow>,
    /// Each protocol in each workstream.
    pub work: Vec<WorkRow>,
    /// Times that a worker was woken.
    pub wakeups: u64,
    /// Times that a worker slept.
    pub sleeps: u64,
    /// Times that a worker's work ended in a panic and was begun again.
    pub restarts: u64,
}

impl Snapshot {
    /// The row of that protocol in that workstream.
    pub fn row(&mut self, workstream: usize, name: &str) -> Option<&mut WorkRow> {
        self.work.iter_mut().find(|row| row.workstream == workstream && row.name == name)
    }

    /// As FreeBSD 9 prints it.
    pub fn text(&self) -> String {
        let mut out = String::new();
        // Writing to a String cannot fail.
        let _ = self.write(&mut out);
        out
    }

    fn write(&self, out: &mut String) -> std::fmt::Result {
        let Settings { threads, max_threads, default_qlimit, max_qlimit, mode, bound } = &self.settings;
        let bound = if *bound { "enabled" } else { "disabled" };
        writeln!(out, "Configuration:\n{:<25} {:>12} {:>12}", "Setting", "Current", "Limit")?;
        writeln!(out, "{:<25} {threads:>12} {max_threads:>12}", "Thread count")?;
        writeln!(out, "{:<25} {default_qlimit:>12} {max_qlimit:>12}", "Default queue limit")?;
        writeln!(out, "{:<25} {mode:>12} {:>12}", "Dispatch policy", "n/a")?;
        writeln!(out, "{:<25} {bound:>12} {:>12}", "Threads bound to CPUs", "n/a")?;
        writeln!(
            out,
            "\nProtocols:\n{:<6} {:>5} {:>6} {:<6} {:<8} {:<5}",
            "Name", "Proto", "QLimit", "Policy", "Dispatch", "Flags"
        )?;
        for row in &self.protocols {
            let ProtocolRow { name, number, qlimit, policy, .. } = row;
            let (dispatch, flags) = (row.dispatch_word(), row.flags());
            writeln!(out, "{name:<6} {number:>5} {qlimit:>6} {policy:>6} {dispatch:>8}   {flags}")?;
        }
        writeln!(
            out,
            "\nWorkstreams:\n{:>4} {:>3}   {:<6} {:>5} {:>5} {:>8} {:>8} {:>8} {:>8} {:>8}",
            "WSID", "CPU", "Name", "Len", "WMark", "Disp'd", "HDisp'd", "QDrops", "Queued", "Handled"
        )?;
        for row in &self.work {
            let WorkRow { workstream, cpu, name, len, watermark, dispatched, hybrid_dispatched, .. } = row;
            let WorkRow { qdrops, queued, handled, .. } = row;
            write!(out, "{workstream:>4} {cpu:>3}   {name:<6} {len:>5} {watermark:>5} {dispatched:>8} ")?;
            writeln!(out, "{hybrid_dispatched:>8} {qdrops:>8} {queued:>8} {handled:>8}")?;
        }
        Ok(())
    }
}
