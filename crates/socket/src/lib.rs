//! Internal crate of [linerate](https://docs.rs/linerate): its interface may change in any release.
//!
//! BSD socket API: descriptors, options, errno, readiness, blocking.
//!
//! [`Calls`] provides the system calls of one thread on one stack (`socket`, `bind`, `connect`,
//! `send_to`, `recv_from` and so on) with BSD's semantics and [`Errno`]s. A call waits in one of
//! two ways. If the host belongs to the calling thread, the call runs the host itself (see
//! [`Drive`]). If the host is shared, the call sleeps until another thread processes input for it.
//! [`net`] provides the interface of `std::net`. This crate contains no network ports and no
//! configuration.
#![forbid(unsafe_code)]
#![deny(missing_docs)]
#![cfg_attr(
    not(test),
    deny(clippy::unwrap_used, clippy::expect_used, clippy::indexing_slicing, clippy::panic, clippy::unreachable)
)]

mod calls;
mod errno;
mod forward;
pub mod net;
mod options;
mod poll;
pub mod resolve;
mod stream;
#[cfg(test)]
mod tests;

pub use calls::{Calls, Drive, Message, Peer};
pub use errno::Errno;
pub use forward::{AnyPrefix, Decision, ForwardRequest};
pub use inet::groups::{FilterMode, SourceFilter};
pub use inet::raw::IcmpFilter;
pub use inet::udp::{Ancillary, Domain, PacketInfo, SourceChange};
pub use options::{Membership, Opt, OptKind};
pub use poll::{Events, PollFd, Poller};

/// Descriptor of a socket: the lowest number that was free when the socket was opened.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct Fd(pub usize);

/// Flags of a receive call.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct RecvFlags {
    /// Leaves the received data in the queue (`MSG_PEEK`).
    pub peek: bool,
    /// Returns `EAGAIN` instead of waiting, even on a blocking socket (`MSG_DONTWAIT`).
    pub dont_wait: bool,
    /// Returns the datagram's full length, even if it was truncated (`MSG_TRUNC`).
    pub trunc: bool,
    /// Waits until a stream has filled the buffer, or for end of file, an error or a timeout
    /// (`MSG_WAITALL`).
    pub wait_all: bool,
}

/// Flags of a send call.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct SendFlags {
    /// Marks the last byte as urgent (`MSG_OOB`). The byte is delivered in order with the other
    /// bytes of the stream (RFC 6093).
    pub oob: bool,
    /// Returns `EAGAIN` instead of waiting, even on a blocking socket (`MSG_DONTWAIT`).
    pub dont_wait: bool,
    /// Announces more data (`MSG_MORE`): the stack may hold back a segment that is not full.
    pub more: bool,
    /// Ends a record of a stream (`MSG_EOR`): no segment contains bytes of two records.
    pub record: bool,
}
