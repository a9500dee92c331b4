//! Time by what held text up.

use clock::Instant;

/// What holds text up.
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
