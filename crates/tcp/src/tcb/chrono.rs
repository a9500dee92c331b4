//! Time during which data was delayed, by cause (as in `tcp_info`).

use clock::Instant;

/// Cause that delays queued data.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug, Default)]
pub(crate) enum Why {
    /// No data is delayed.
    #[default]
    Idle,
    /// Only the path (congestion window and round trip) delays data.
    Busy,
    /// The peer's window delays data.
    Window,
    /// The size of the send buffer delays data.
    Writer,
}

/// Time spent per cause; the current cause is [`Tcb::held_by`](super::Tcb::held_by).
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Chrono {
    pub since: Instant,
    /// Nanoseconds spent in [`Why::Busy`]. The times spent in [`Why::Window`] and [`Why::Writer`]
    /// are in [`ColdEvents::held_up`](super::ColdEvents::held_up).
    pub busy: u64,
}
