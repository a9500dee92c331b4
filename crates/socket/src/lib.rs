//! The BSD face: descriptors, options, errno, readiness, blocking.
//!
//! [`Calls`] are the system calls of one thread in one stack: `socket`, `bind`, `connect`, `send_to`, `recv_from` and their
//! kin, with BSD's semantics and [`Errno`]s. A receive that has to wait either drives its host itself (a host that
//! belongs to the calling thread: see [`Drive`]) or sleeps on the socket's signal until another thread's input
//! raises it (a shared host). [`net`] is the same as `std::net` has it. There are no ports and no configuration here.
#![forbid(unsafe_code)]
#![deny(missing_docs)]
#![cfg_attr(
    not(test),
    deny(clippy::unwrap_used, clippy::expect_used, clippy::indexing_slicing, clippy::panic, clippy::unreachable)
)]

mod calls;
mod errno;
pub mod net;
mod options;
mod poll;
pub mod resolve;
mod stream;
#[cfg(test)]
mod tests;

pub use calls::{Calls, Drive, Message, Peer};
pub use errno::Errno;
pub use inet::groups::{FilterMode, SourceFilter};
pub use inet::raw::IcmpFilter;
pub use inet::udp::{Ancillary, Domain, PacketInfo, SourceChange};
pub use options::{Membership, Opt, OptKind};
pub use poll::{Events, PollFd, Poller};

/// A descriptor: the lowest number free when the socket was opened.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct Fd(pub usize);

/// What a receive is to do besides receiving.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct RecvFlags {
    /// Leave the datagram in the queue.
    pub peek: bool,
    /// Do not wait, whatever the socket says.
    pub dont_wait: bool,
    /// Say the datagram's whole length, even if it was cut.
    pub trunc: bool,
    /// Of a stream: fill the whole buffer, unless the end, an error or the time comes first.
    pub wait_all: bool,
}

/// What a send is to do besides sending.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct SendFlags {
    /// The last byte is urgent: of a stream, in line (RFC 6093).
    pub oob: bool,
    /// Do not wait, whatever the socket says.
    pub dont_wait: bool,
    /// More follows: a segment that is not full may wait for it.
    pub more: bool,
    /// Of a stream: a record ends here (`MSG_EOR`), and no segment has bytes of two.
    pub record: bool,
}
