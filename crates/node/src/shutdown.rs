//! Orderly shutdown of a host: sends written data and FINs, and waits for the peers'
//! acknowledgments.

use crate::Host;
use clock::{Duration, Instant};
use inet::tcp::Unacknowledged;
use lock::Locks;

/// Maximum wait for peers when a host is dropped.
const DROP_PATIENCE: Duration = Duration::from_millis(500);
/// Wait without a received frame when a host is dropped, after which its peers are considered gone;
/// two round-trip times if these are longer. This is enough, because peers do not delay the ACK of
/// a FIN.
const QUIET: Duration = Duration::from_millis(50);
/// Interval at which the shutdown checks for unacknowledged data while frames arrive.
const CHECK: Duration = Duration::from_millis(1);

impl<L: Locks> Host<L> {
    /// Sends the written data of all connections and their FINs, and waits until the peers have
    /// acknowledged everything, at most `timeout`. Meanwhile the calling thread runs the host;
    /// other threads may run it too.
    ///
    /// Resets the connections whose data was not acknowledged in time, and returns them with their
    /// numbers of unacknowledged bytes. Existing connections can no longer be written to, but
    /// received data can still be read. Listeners stay open, so close them first if other threads
    /// accept connections.
    pub fn shutdown(&self, timeout: Duration) -> Vec<Unacknowledged> {
        self.shutdown_while(timeout, || false)
    }

    /// Shuts down like [`Host::shutdown`]. Once all data of this host is acknowledged, keeps
    /// running for other hosts while `is_needed` returns true, until `timeout` has passed.
    pub(crate) fn shutdown_while(&self, timeout: Duration, mut is_needed: impl FnMut() -> bool) -> Vec<Unacknowledged> {
        self.stack.end_advertising(self.cx());
        self.stack.tcp_finish(self.cx());
        let until = self.clock.now().after(timeout);
        let mut done = !self.stack.tcp_has_unacknowledged(self.cx());
        let mut check = Instant::ZERO;
        while !done || is_needed() {
            // Read before the step, because frames that were sent before their port ended must
            // still be received.
            let was_over = self.is_over();
            let step = self.step();
            if step.frames == 0 || step.now >= check {
                done = done || !self.stack.tcp_has_unacknowledged(self.cx());
                check = step.now.after(CHECK);
                let is_over = was_over && step.frames == 0;
                if !done && is_over || step.now >= until {
                    break;
                }
            }
            if step.frames == 0 {
                let most = if done { step.now.after(CHECK) } else { until };
                self.wait(step.next.unwrap_or(Instant::NEVER).min(most).min(until), None);
            }
        }
        let left = if done { Vec::new() } else { self.stack.tcp_reset_unacknowledged(self.cx()) };
        self.dhcp().release_all(&self.shared_calls());
        self.stack.flush(self.cx());
        left
    }

    /// Shuts down a host that is being dropped. Sends FINs, and waits for acknowledgment of written
    /// data, at most [`DROP_PATIENCE`], and without a frame [`QUIET`] or two round-trip times.
    /// Connections with unacknowledged data are then reset.
    pub(crate) fn attempt_shutdown(&self) {
        self.stack.tcp_finish(self.cx());
        let begin = self.clock.now();
        let (mut heard, mut check, mut quiet) = (begin, Instant::ZERO, QUIET);
        loop {
            let was_over = self.is_over();
            let step = self.step();
            if step.frames > 0 {
                heard = step.now;
            }
            if step.frames == 0 || step.now >= check {
                let Some(rtt) = self.stack.tcp_unacknowledged_rtt(self.cx()) else {
                    return self.stack.flush(self.cx());
                };
                quiet = QUIET.max(2 * rtt);
                let is_late = step.now.since(begin) >= DROP_PATIENCE || step.now.since(heard) >= quiet;
                if is_late || was_over && step.frames == 0 {
                    break;
                }
                check = step.now.after(CHECK);
            }
            if step.frames == 0 {
                self.wait(step.next.unwrap_or(Instant::NEVER).min(heard.after(quiet)), None);
            }
        }
        self.stack.tcp_reset_unacknowledged(self.cx());
    }
}
