//! Tables of netisr: `netstat -Q`, `show isr`.

#[cfg(test)]
mod tests;

use super::context::Ctl;
use dispatch::netisr::{ProtocolRow, Settings, WorkRow};
use lock::Locks;
use node::isr;
use serde_json::{Map, Value, json};
use stats::Entry;

/// Returns the table of `netstat -Q`.
pub(super) fn table<L: Locks>(ctl: &Ctl<'_, L>) -> String {
    ctl.listing(|| to_json(ctl), || isr::snapshot(ctl.host).text())
}

/// Returns the output of `show isr`: the table of `netstat -Q`, and counters of thread wake-ups,
/// worker restarts, lost frames and reordered frames.
pub(super) fn shown<L: Locks>(ctl: &Ctl<'_, L>) -> String {
    let text = || {
        let snapshot = isr::snapshot(ctl.host);
        let lost: u64 = snapshot.work.iter().map(|row| row.lost).sum();
        let (wakeups, sleeps) = (snapshot.wakeups, snapshot.sleeps);
        let overtaken: u64 = snapshot.protocols.iter().map(|row| row.overtaken).sum();
        let restarts = snapshot.restarts;
        let line = |entry: &Entry| format!("\t{:<24} {:>12}  {}\n", entry.name, entry.value, entry.sentence);
        let dispatched = ctl.host.dispatch_counters().map(|dispatched| dispatched.iter().map(line).collect::<String>());
        format!(
            "{}\nThreads: {wakeups} wakeups, {sleeps} sleeps, {lost} frames lost, {restarts} restarts\n\
             Switches: {overtaken} frames at most came behind others of their flows\n{}",
            snapshot.text(),
            dispatched.map(|lines| format!("Dispatched to stacks:\n{lines}")).unwrap_or_default()
        )
    };
    ctl.listing(|| to_json(ctl), text)
}

fn to_json<L: Locks>(ctl: &Ctl<'_, L>) -> Value {
    let snapshot = isr::snapshot(ctl.host);
    let dispatched = ctl
        .host
        .dispatch_counters()
        .map(|entries| entries.into_iter().map(|entry| (entry.name, Value::from(entry.value))).collect::<Map<_, _>>());
    let Settings { threads, max_threads, default_qlimit, max_qlimit, mode, bound } = snapshot.settings;
    let protocol = |row: &ProtocolRow| {
        json!({
            "name": row.name, "protocol": row.number, "queue-limit": row.qlimit, "policy": row.policy.name(),
            "dispatch": row.dispatch_word(), "flags": row.flags(), "overtaken": row.overtaken,
        })
    };
    let work = |row: &WorkRow| {
        json!({
            "workstream": row.workstream, "cpu": row.cpu, "name": row.name, "length": row.len,
            "watermark": row.watermark, "dispatched": row.dispatched, "hybrid-dispatched": row.hybrid_dispatched,
            "queue-drops": row.qdrops, "queued": row.queued, "handled": row.handled, "lost": row.lost,
        })
    };
    json!({
        "threads": threads, "max-threads": max_threads, "default-queue-limit": default_qlimit,
        "max-queue-limit": max_qlimit, "dispatch-policy": mode.name(), "bound": bound,
        "protocols": snapshot.protocols.iter().map(protocol).collect::<Vec<_>>(),
        "workstreams": snapshot.work.iter().map(work).collect::<Vec<_>>(),
        "wakeups": snapshot.wakeups, "sleeps": snapshot.sleeps, "restarts": snapshot.restarts, "dispatched": dispatched,
    })
}
