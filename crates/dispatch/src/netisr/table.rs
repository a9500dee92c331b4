//! The output of `netstat -Q`, which has the same columns as in FreeBSD 9.x.

use super::{Mode, Policy};
use std::fmt::Write;

/// Settings for all protocols.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Settings {
    /// Number of workstreams.
    pub threads: usize,
    /// Maximum number of workstreams.
    pub max_threads: usize,
    /// Queue limit of protocols without a limit of their own.
    pub default_qlimit: usize,
    /// Upper bound for all queue limits.
    pub max_qlimit: usize,
    /// Mode of protocols without a mode of their own.
    pub mode: Mode,
    /// True if each worker is pinned to a core.
    pub bound: bool,
}

/// Row of a protocol in the table of protocols.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct ProtocolRow {
    /// Name of the protocol.
    pub name: &'static str,
    /// FreeBSD's number of the protocol.
    pub number: u8,
    /// Maximum number of items waiting in one of its queues.
    pub qlimit: usize,
    /// Criterion that selects the workstream of an item.
    pub policy: Policy,
    /// Mode of this protocol alone; `None` for the common mode.
    pub dispatch: Option<Mode>,
    /// True if the protocol has the callback `m2cpuid` (flag C).
    pub m2cpuid: bool,
    /// True if the protocol has the callback `m2flow` (flag F).
    pub m2flow: bool,
    /// Upper bound of the number of items out of order (reordered packets, RFC 4737): items that
    /// waited when a change of mode allowed later items to be processed at once. It includes items
    /// that waited when the policy changed, except those that were being queued at that moment.
    /// FreeBSD has no such column.
    pub overtaken: u64,
}

impl ProtocolRow {
    /// Returns the name of the protocol's own mode, or `default`.
    pub fn dispatch_word(&self) -> &'static str {
        self.dispatch.map_or("default", Mode::name)
    }

    /// Returns the flags `CDF`, with a dash for each flag that is not set. D (the protocol is
    /// notified of drained CPUs) is never set.
    pub fn flags(&self) -> String {
        let letter = |has: bool, letter| if has { letter } else { '-' };
        [letter(self.m2cpuid, 'C'), '-', letter(self.m2flow, 'F')].iter().collect()
    }
}

/// Row of one protocol in one workstream, in the table of workstreams.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct WorkRow {
    /// Number of the workstream.
    pub workstream: usize,
    /// Core of the workstream, or the workstream's number if the core is not known.
    pub cpu: usize,
    /// Name of the protocol.
    pub name: &'static str,
    /// Number of items waiting in the queue.
    pub len: usize,
    /// Maximum number of items that have waited at one time.
    pub watermark: usize,
    /// Items processed by callers in direct mode.
    pub dispatched: u64,
    /// Items processed by callers in hybrid mode.
    pub hybrid_dispatched: u64,
    /// Items refused because the queue was full.
    pub qdrops: u64,
    /// Items put into the queue.
    pub queued: u64,
    /// Items processed completely.
    pub handled: u64,
    /// Number of items lost because the work function panicked. FreeBSD has no such column.
    pub lost: u64,
}

/// Settings and counters of netisr at one moment.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Snapshot {
    /// Settings for all protocols.
    pub settings: Settings,
    /// One row per protocol.
    pub protocols: Vec<ProtocolRow>,
    /// One row per protocol in each workstream.
    pub work: Vec<WorkRow>,
    /// Number of times that workers were woken.
    pub wakeups: u64,
    /// Number of times that workers slept.
    pub sleeps: u64,
    /// Number of times that workers panicked and were restarted.
    pub restarts: u64,
}

impl Snapshot {
    /// Returns the row of protocol `name` in `workstream`.
    pub fn row(&mut self, workstream: usize, name: &str) -> Option<&mut WorkRow> {
        self.work.iter_mut().find(|row| row.workstream == workstream && row.name == name)
    }

    /// Returns the table as FreeBSD 9 prints it.
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
