//! `audit`: the exact balance of frames, in = out + held + dropped, with the drops by reason, and a
//! comparison with the counters of the ports. `dropped` counts losses only: frames that were read,
//! answered, merged or split are `consumed`, which is part of `out`.

use super::context::Ctl;
use crate::Host;
use inet::counters::AuditReport;
use lock::Locks;
use serde_json::{Map, Value, json};
use stats::Entry;

pub(super) fn run<L: Locks>(ctl: &Ctl<'_, L>) -> String {
    let report = ctl.host.audit();
    ctl.listing(|| to_json(ctl.host, &report), || to_text(ctl.host, &report))
}

/// Returns the difference between the frame counts of the ports and of the stack, as (received,
/// sent). Both values are 0 if every frame is accounted for and no frame is being processed.
pub(crate) fn port_imbalance<L: Locks>(host: &Host<L>, report: &AuditReport) -> (i64, i64) {
    let ports = host.ports();
    let sum = |pick: fn(&port::PortCounts) -> u64, removed: u64| {
        ports.iter().map(|port| pick(&port.counts)).fold(removed, u64::wrapping_add)
    };
    let [removed_rx, removed_tx] = host.removed_ports();
    let rx = sum(|counts| counts.rx.to_host(), removed_rx).wrapping_sub(report.received) as i64;
    let tx = sum(|counts| counts.tx.from_host(), removed_tx).wrapping_sub(report.sent) as i64;
    (rx, tx)
}

fn to_json<L: Locks>(host: &Host<L>, report: &AuditReport) -> Value {
    let (rx, tx) = port_imbalance(host, report);
    let by_reason = |of: &[Entry]| of.iter().map(|e| (e.name.clone(), e.value.into())).collect::<Map<_, _>>();
    let (reasons, uses) = (by_reason(&report.reasons), by_reason(&report.uses));
    json!({
        "host": host.stack.name,
        "in": report.received + report.made, "received": report.received, "made": report.made,
        "out": report.sent + report.consumed, "sent": report.sent, "consumed": report.consumed,
        "read": report.read, "uses": uses,
        "held": report.held, "dropped": report.dropped, "drops": reasons,
        "imbalance": report.imbalance(), "ports": { "rx_imbalance": rx, "tx_imbalance": tx },
    })
}

pub(crate) fn to_text<L: Locks>(host: &Host<L>, report: &AuditReport) -> String {
    of(&host.stack.name, report, port_imbalance(host, report))
}

/// Returns the frame balance of the host `name` as text. `rx` and `tx` are the differences from
/// [`port_imbalance`].
pub(crate) fn of(name: &str, report: &AuditReport, (rx, tx): (i64, i64)) -> String {
    let AuditReport { received, made, sent, consumed, read, held, dropped, .. } = report;
    let mut out = format!("{name}:\n");
    out += &format!("\tin       {:>12}  received {received}, made {made}\n", received + made);
    out += &format!("\tout      {:>12}  sent {sent}, consumed {consumed} (read {read})\n", sent + consumed);
    for entry in &report.uses {
        out += &format!("\t         {:>12}  {}: {}\n", entry.value, entry.name, entry.sentence);
    }
    out += &format!("\theld     {held:>12}\n\tdropped  {dropped:>12}\n");
    for entry in &report.reasons {
        out += &format!("\t         {:>12}  {}: {}\n", entry.value, entry.name, entry.sentence);
    }
    out += &format!("\timbalance {:>11}", report.imbalance());
    if (rx, tx) != (0, 0) {
        out += &format!("  ports: {rx} received, {tx} sent");
    }
    out + "\n"
}
