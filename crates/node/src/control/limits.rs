//! Limits of the clients of a control socket, and the counters of clients that exceed them.

use std::time::Duration;

/// Maximum number of connected clients.
pub const CLIENTS_MAX: usize = 16;
/// Maximum length of a request line in bytes.
pub const LINE_MAX: usize = 64 * 1024;
/// Maximum length of an answer in bytes.
pub const ANSWER_MAX: usize = 64 * 1024 * 1024;
/// Time after which a client with an unfinished line or an unread answer is disconnected.
pub const PATIENCE: Duration = Duration::from_secs(30);

stats::counters! {
    /// Counters of the control socket.
    pub struct ControlCounts at "node.control" {
        /// Clients accepted.
        accepted,
        /// Requests answered.
        requests,
        /// Requests answered with an error.
        errors,
        /// Clients rejected: too many clients were connected.
        refused,
        /// Clients disconnected: malformed request line.
        garbage,
        /// Clients disconnected: a line longer than the limit.
        overlong,
        /// Clients disconnected: timeout in the middle of a line.
        silent,
        /// Clients disconnected: did not read their answer.
        slow,
        /// Clients disconnected to make space for another: idle longest.
        evicted,
    }
}
