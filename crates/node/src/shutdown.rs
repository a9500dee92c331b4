//! The orderly end of a host: what was written is sent, with a FIN behind it, and the peers' acknowledgments are awaited.

use crate::Host;
use clock::{Duration, Instant};
use inet::tcp::Unacknowledged;
use lock::Locks;

/// Longest wait of a drop for its peers.
const DROP_PATIENCE: Duration = Duration::from_millis(500);
/// Longest wait of a drop for a silent peer: the ACK of a FIN is not delayed.
const QUIET: Duration = Duration::from_millis(50);
/// Interval of looks for unacknowledged text while frames come in.
const CHECK: Duration = Duration::from_millis(1);

impl<L: Locks> Host<L> {
    /// Sends what connections have written and their FINs, and waits until the peers have acknowledged all of it, at
    /// most `timeout`. The calling thread keeps the host going meanwhile; others may too.
    ///
    /// Returns the connections that remain unacknowledged, with their bytes: they are reset. Nothing can be written
    /// afterwards to a connection that was open at the call; received text can still be read. Listeners go on: close them
    /// first where other threads accept.
    pub fn shutdown(&self, timeout: Duration) -> Vec<Unacknowledged> {
        self.shutdown_while(timeout, || false)
    }

    /// [`Host::shutdown`], but goes on for others when everything of this host is acknowledged, while `is_needed`
    /// and time is left.
    pub(crate) fn shutdown_while(&self, timeout: Duration, mut is_needed: impl FnMut() -> bool) -> Vec<Unacknowledged> {
        self.stack.end_advertising(self.cx());
        self.stack.tcp_finish(self.cx());
        let until = self.clock.now().after(timeout);
        let mut done = !self.stack.tcp_has_unacknowledged(self.cx());
        let mut check = Instant::ZERO;
        while !done || is_needed() {
            // Before the step: frames that were sent before their port ended are still to be read.
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

    /// Makes a drop's attempt: sends FINs, and waits while text that was written is not acknowledged, at most
    /// [`DROP_PATIENCE`] and no longer than [`QUIET`] without a frame. Connections whose text remains are reset.
    pub(crate) fn attempt_shutdown(&self) {
        self.stack.tcp_finish(self.cx());
        let begin = self.clock.now();
        let (mut heard, mut check) = (begin, Instant::ZERO);
        loop {
            let was_over = self.is_over();
            let step = self.step();
            if step.frames > 0 {
                heard = step.now;
            }
            if step.frames == 0 || step.now >= check {
                let has_text = self.stack.tcp_has_unacknowledged_text(self.cx());
                if !has_text {
                    return self.stack.flush(self.cx());
                }
                let is_late = step.now.since(begin) >= DROP_PATIENCE || step.now.since(heard) >= QUIET;
                if is_late || was_over && step.frames == 0 {
                    break;
                }
                check = step.now.after(CHECK);
            }
            if step.frames == 0 {
                self.wait(step.next.unwrap_or(Instant::NEVER).min(heard.after(QUIET)), None);
            }
        }
        self.stack.tcp_reset_unacknowledged(self.cx());
    }
}
