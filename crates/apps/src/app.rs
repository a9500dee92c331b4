//! The application interface. An application consumes bytes and time and produces bytes and
//! [`Action`]s; it has no socket, clock or thread.
//!
//! An application numbers its connections itself ([`Chan`]) and requests operations by [`Action`]s.
//! The driver ([`crate::serve::Server`]) owns the descriptors. For each connection it queries how
//! many bytes the application accepts ([`App::room`]) and which bytes to send ([`App::output`]).
//! The driver therefore queues nothing itself: a slow reader costs only the bytes that its
//! application holds for it, and bulk data is sent from where it is stored.
//!
//! The contract, which the test network checks on both sides:
//! - After each call about a channel the driver serves that channel again. A call that changes what
//!   *another* channel may read or has to send must queue [`Action::Wake`] for it; so must a timer.
//! - [`Action::Close`] is queued when nothing is left to send. The channel number is free at once.
//! - Actions are carried out in order, before the next event is delivered.
//!
//! A channel may instead be a UDP socket ([`Action::Bind`]). While [`App::room`] is not 0, each
//! datagram is delivered whole, and [`App::datagram`] is called instead of [`App::output`]. A
//! datagram that cannot be sent is lost.

use crate::streams::{Ends, Failure, StreamInfo, StreamOption};
use clock::Instant;
use std::net::SocketAddr;

/// Options of a socket, set before it connects, since some of them affect the SYN.
pub type Options = [Option<StreamOption>; 5];

/// Application-assigned number of a connection, listener or datagram socket: dense, from 0, below
/// [`CHANS_MAX`].
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct Chan(pub u32);

/// Maximum number of channels of an application.
pub const CHANS_MAX: u32 = 1 << 20;

/// Decision about an incoming connection.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Accept {
    /// Accepts the connection as this channel.
    Take(Chan),
    /// Accepts the connection as the second channel, after resetting the connection of the first,
    /// which the application has already dropped. Both may be equal.
    Replace(Chan, Chan),
    /// Sends these bytes, then closes.
    Refuse(&'static [u8]),
}

/// An event on a channel.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Event<'a> {
    /// Bytes received from the peer, at most [`App::room`].
    Bytes(&'a [u8]),
    /// The peer has shut down its sending side.
    Eof,
    /// The connection failed or could not be established; the channel number is free again.
    Gone(Failure),
    /// An [`Action::Connect`] has succeeded.
    Connected(Ends),
    /// An [`Action::Listen`] has succeeded, with the local address.
    Listening(SocketAddr),
    /// An [`Action::Bind`] has succeeded, with the local address.
    Bound(SocketAddr),
    /// A received datagram, with its sender and its destination address.
    Datagram(Ends, &'a [u8]),
    /// The answer to [`Action::Info`].
    Info(StreamInfo),
}

/// A request of an application to its driver.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Action {
    /// Listen; connections are passed to [`App::accept`] with this channel.
    Listen(Chan, SocketAddr),
    /// Connect from the first address (port 0: any) to the second.
    Connect(Chan, SocketAddr, SocketAddr),
    /// Connect from the first address to the second, with socket options.
    ConnectWith(Chan, SocketAddr, SocketAddr, Options),
    /// Send and receive datagrams at this address (port 0: any).
    Bind(Chan, SocketAddr),
    /// Serve the channel again.
    Wake(Chan),
    /// Shut down our sending side of the connection.
    Shutdown(Chan),
    /// Close the connection or the listener; the data already sent still reaches the peer.
    Close(Chan),
    /// Reset the connection.
    Abort(Chan),
    /// Set an option; ignored where the option does not exist.
    Set(Chan, StreamOption),
    /// Deliver [`Event::Info`], if the information is available.
    Info(Chan),
}

/// An application; see the module documentation.
pub trait App {
    /// Decides about a new connection: to the service (`None`), or to a listener that the
    /// application opened itself.
    fn accept(&mut self, on: Option<Chan>, ends: Ends, now: Instant) -> Accept;

    /// Handles an event of a channel.
    fn on_event(&mut self, chan: Chan, event: Event<'_>, now: Instant);

    /// Returns how many bytes the channel accepts now; 0: none until woken. A longer datagram is
    /// truncated.
    fn room(&self, chan: Chan) -> usize;

    /// Returns the bytes to send next; empty if there are none now.
    fn output(&mut self, chan: Chan, now: Instant) -> &[u8];

    /// Starts shutting down (Ctrl-C). Returns `true` if there is something left to send: the driver
    /// then continues for a moment, or until no channel is open.
    fn stop(&mut self, _now: Instant) -> bool {
        false
    }

    /// Returns the next datagram to send, with its destination and source address (unspecified: the
    /// stack selects it); `None` if there is none now.
    fn datagram(&mut self, _chan: Chan, _now: Instant) -> Option<(Ends, &[u8])> {
        None
    }

    /// Reports that the first `n` bytes of [`App::output`], or the [`App::datagram`] of `n` bytes,
    /// were sent.
    fn sent(&mut self, chan: Chan, n: usize, now: Instant);

    /// Returns the next action, if any.
    fn poll_action(&mut self) -> Option<Action>;

    /// Returns the latest time of the next call of [`App::on_timer`].
    fn next_timer(&self) -> Option<Instant>;

    /// Runs the timers that are due.
    fn on_timer(&mut self, now: Instant);
}
