//! Time during which data was delayed, by cause (as in `tcp_info`).

use clock::Instant;

/// Cause that delays data.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug, Default)]
pub(crate) enum Why {
    /// No data is delayed.
    #[default]
    Idle,
    /// Only the path.
    Busy,
    /// The peer's window.
    Window,
    /// The send buffer.
    Writer,
}

/// Time spent per cause; the current cause is [`Tcb::held_by`](super::Tcb::held_by).
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Chrono {
    pub since: Instant,
    /// Nanoseconds of Busy; the other causes are in [`Met`](super::Met).
    pub busy: u64,
}
