//! The audit of a host as text, and its comparison with the counters of the ports.

use crate::Host;
use inet::counters::AuditReport;
use lock::Locks;

impl<L: Locks> Host<L> {
    /// Returns the difference between the frame counts of the ports and of the stack, as (received,
    /// sent). Both values are 0 if every frame is accounted for and no frame is being processed.
    pub fn port_imbalance(&self, report: &AuditReport) -> (i64, i64) {
        let ports = self.ports();
        let sum = |pick: fn(&port::PortCounts) -> u64, removed: u64| {
            ports.iter().map(|port| pick(&port.counts)).fold(removed, u64::wrapping_add)
        };
        let [removed_rx, removed_tx] = self.removed_ports();
        let rx = sum(|counts| counts.rx.to_host(), removed_rx).wrapping_sub(report.received) as i64;
        let tx = sum(|counts| counts.tx.from_host(), removed_tx).wrapping_sub(report.sent) as i64;
        (rx, tx)
    }

    /// Returns the frame balance of the host as text.
    pub fn audit_text(&self, report: &AuditReport) -> String {
        text(&self.stack.name, report, self.port_imbalance(report))
    }
}

/// Returns the frame balance of the host `name` as text. `rx` and `tx` are the differences from
/// [`Host::port_imbalance`].
pub(crate) fn text(name: &str, report: &AuditReport, (rx, tx): (i64, i64)) -> String {
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
