//! `audit`: the exact balance of frames, in = out + held + dropped, with the drops by reason, and a
//! comparison with the counters of the ports. `dropped` counts losses only: frames that were read,
//! answered, merged or split are `consumed`, which is part of `out`.

use super::context::Ctl;
use inet::counters::AuditReport;
use lock::Locks;
use node::Host;
use serde_json::{Map, Value, json};
use stats::Entry;

pub(super) fn run<L: Locks>(ctl: &Ctl<'_, L>) -> String {
    let report = ctl.host.audit();
    ctl.listing(|| to_json(ctl.host, &report), || ctl.host.audit_text(&report))
}

fn to_json<L: Locks>(host: &Host<L>, report: &AuditReport) -> Value {
    let (rx, tx) = host.port_imbalance(report);
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
