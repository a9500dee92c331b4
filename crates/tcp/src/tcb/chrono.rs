//! Time during which text was held up, by cause (as in `tcp_info`).

use clock::Instant;

/// Cause that holds text up.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug, Default)]
pub(crate) enum Why {
    /// There is none.
    #[default]
    Idle,
    /// Nothing but the path.
    Busy,
    /// The peer's window.
    Window,
    /// The send buffer.
    Writer,
}

/// Time by what held text up: [`Tcb::held_by`](super::Tcb::held_by).
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Chrono {
    pub since: Instant,
    /// Nanoseconds of Busy; those of the others are in [`Met`](super::Met).
    pub busy: u64,
}
