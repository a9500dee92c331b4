//! The application interface. An application receives bytes and the current time, and produces
//! bytes and [`Action`]s; it has no socket, clock or thread.
//!
//! An application numbers its connections itself ([`Chan`]) and requests operations by [`Action`]s.
//! The driver ([`crate::serve::Server`]) owns the descriptors. For each connection the driver
//! queries how many bytes the application accepts ([`App::room`]) and which bytes to send
//! ([`App::output`]). The driver therefore queues no data itself: a slow peer uses only the memory
//! that the application holds for it, and bulk data is sent from where it is stored.
//!
//! Rules for the application and the driver, which the tests check on an in-memory network:
//! - After each call about a channel the driver serves that channel again. If a call or a timer
//!   changes what *another* channel may read or has to send, it must queue [`Action::Wake`] for
//!   that channel.
//! - [`Action::Close`] is queued when nothing is left to send. The channel number can be reused at
//!   once.
//! - Actions are carried out in order, before the next event is delivered.
//!
//! A channel may instead be a UDP socket ([`Action::Bind`]). While [`App::room`] is not 0, each
//! datagram is delivered whole, and [`App::datagram`] is called instead of [`App::output`]. A
//! datagram that cannot be sent is dropped.

use crate::streams::{Ends, Failure, StreamInfo, StreamOption};
use linerate::stack::Instant;
use std::net::SocketAddr;

/// Up to five socket options, set before the socket connects, since some of them affect the SYN.
pub type Options = [Option<StreamOption>; 5];

/// Number of a connection, listener or datagram socket, assigned by the application: numbers are
/// dense, start at 0 and stay below [`CHANS_MAX`].
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct Chan(pub u32);

/// Maximum number of channels of an application.
pub const CHANS_MAX: u32 = 1 << 20;

/// Decision about an incoming connection.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Accept {
    /// Accepts the connection and assigns this channel to it.
    Take(Chan),
    /// Resets the connection of the first channel, whose state the application has already freed,
    /// and assigns the second channel to the new connection. The two numbers may be equal.
    Replace(Chan, Chan),
    /// Sends these bytes to the peer, then closes the connection.
    Refuse(&'static [u8]),
}

/// An event on a channel.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Event<'a> {
    /// Bytes received from the peer, at most as many as [`App::room`] returned.
    Bytes(&'a [u8]),
    /// The peer has shut down its sending side.
    Eof,
    /// The connection failed or could not be established; the channel number can be reused.
    Gone(Failure),
    /// An [`Action::Connect`] has succeeded.
    Connected(Ends),
    /// An [`Action::Listen`] has succeeded, with the local address.
    Listening(SocketAddr),
    /// An [`Action::Bind`] has succeeded, with the local address.
    Bound(SocketAddr),
    /// A received datagram, with its sender and its destination address.
    Datagram(Ends, &'a [u8]),
    /// TCP statistics of the connection, as requested by [`Action::Info`].
    Info(StreamInfo),
}

/// A request of an application to its driver.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Action {
    /// Listen on this address; connections are passed to [`App::accept`] with this channel.
    Listen(Chan, SocketAddr),
    /// Connect from the first address (port 0: any) to the second.
    Connect(Chan, SocketAddr, SocketAddr),
    /// Connect from the first address to the second, with options set before the SYN is sent.
    ConnectWith(Chan, SocketAddr, SocketAddr, Options),
    /// Open a UDP socket at this address (port 0: any) and send and receive datagrams on it.
    Bind(Chan, SocketAddr),
    /// Call the channel's [`App::room`] and [`App::output`] again, because one of their results has
    /// changed.
    Wake(Chan),
    /// Shut down our sending side of the connection.
    Shutdown(Chan),
    /// Close the connection or the listener; data already sent is still delivered.
    Close(Chan),
    /// Reset the connection.
    Abort(Chan),
    /// Set a socket option; ignored if the socket does not support it.
    Set(Chan, StreamOption),
    /// Deliver [`Event::Info`] with the TCP statistics of the connection, if they are available.
    Info(Chan),
}

/// A protocol implementation without sockets, which a driver such as [`crate::serve::Server`] runs.
pub trait App {
    /// Decides whether to accept a new connection. `on` is the channel of the listener, or `None`
    /// for a listener that the driver opened for the service.
    fn accept(&mut self, on: Option<Chan>, ends: Ends, now: Instant) -> Accept;

    /// Handles an event of a channel.
    fn on_event(&mut self, chan: Chan, event: Event<'_>, now: Instant);

    /// Returns how many received bytes the application accepts on this channel now. If this is 0,
    /// the driver delivers no data until it serves the channel again ([`Action::Wake`]). A datagram
    /// longer than this is truncated.
    fn room(&self, chan: Chan) -> usize;

    /// Returns the bytes to send next on this channel; empty if there are none now.
    fn output(&mut self, chan: Chan, now: Instant) -> &[u8];

    /// Starts to shut down (after Ctrl-C). Returns `true` if the application still has data to
    /// send. In this case the driver continues until no channel is open, but only for a limited
    /// time.
    fn stop(&mut self, _now: Instant) -> bool {
        false
    }

    /// Returns the next datagram to send, with its destination and source address, or `None` if
    /// there is none now. If the source address is unspecified, the stack selects it.
    fn datagram(&mut self, _chan: Chan, _now: Instant) -> Option<(Ends, &[u8])> {
        None
    }

    /// Reports that the first `n` bytes of [`App::output`], or the [`App::datagram`] of `n` bytes,
    /// were sent.
    fn sent(&mut self, chan: Chan, n: usize, now: Instant);

    /// Returns the next action, if any.
    fn poll_action(&mut self) -> Option<Action>;

    /// Returns the time at which [`App::on_timer`] must be called at the latest; `None` if no timer
    /// is set.
    fn next_timer(&self) -> Option<Instant>;

    /// Runs the timers that are due.
    fn on_timer(&mut self, now: Instant);
}
