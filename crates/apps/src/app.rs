//! What an application is: bytes and time in, bytes and wishes out; no socket, no clock, no thread.
//!
//! An application numbers its connections itself ([`Chan`]) and tells the driver what it wants done by [`Action`]s. The
//! driver ([`crate::serve::Server`]) keeps the descriptors and asks, for each connection: how much may I read
//! ([`App::room`]), what shall I send ([`App::output`]). So nothing is queued that the application did not decide to
//! queue: a slow reader costs the bytes its application holds for it, and bulk data is sent from where it lies.
//!
//! The contract, which the tests' network holds both sides to:
//! - After any call about a channel the driver looks at that channel again. A call that changes what *another* channel may
//!   read or has to send says so with [`Action::Wake`]; so does every timer.
//! - [`Action::Close`] comes when nothing is left to send. The number is free at once.
//! - Actions are carried out in order and before anything else is told.
//!
//! A channel may be a socket of datagrams instead ([`Action::Bind`]): with [`App::room`] each that comes is told whole,
//! and [`App::datagram`] is asked instead of [`App::output`]. One that cannot be sent is lost, as on any wire.

use crate::streams::{Ends, Failure, StreamInfo, StreamOption};
use clock::Instant;
use std::net::SocketAddr;

/// Options of a socket, set before it connects: what a SYN says follows from some of them.
pub type Options = [Option<StreamOption>; 5];

/// A connection, listener or datagram socket as its application numbers it: dense, from 0, below [`CHANS_MAX`].
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct Chan(pub u32);

/// Channels an application may have.
pub const CHANS_MAX: u32 = 1 << 20;

/// What becomes of one who connects.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Accept {
    /// It is this channel from now on.
    Take(Chan),
    /// It is the second channel from now on; the connection on the first, which the application has
    /// forgotten, is reset before. Both may be the same.
    Replace(Chan, Chan),
    /// These words, then the end.
    Refuse(&'static [u8]),
}

/// What happened on a channel.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Event<'a> {
    /// The peer sent these, at most as many as there was [`App::room`] for.
    Bytes(&'a [u8]),
    /// The peer has shut its side.
    Eof,
    /// The connection has failed, or could not be made, and the channel's number is free again.
    Gone(Failure),
    /// An [`Action::Connect`] has succeeded.
    Connected(Ends),
    /// An [`Action::Listen`] has succeeded: this is where.
    Listening(SocketAddr),
    /// An [`Action::Bind`] has succeeded: this is where.
    Bound(SocketAddr),
    /// A datagram, with its sender and the address to which it was sent.
    Datagram(Ends, &'a [u8]),
    /// The answer to [`Action::Info`].
    Info(StreamInfo),
}

/// What an application wants done.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Action {
    /// Listen; who connects is told by [`App::accept`] with this channel.
    Listen(Chan, SocketAddr),
    /// Connect to the second address from the first (port 0: any).
    Connect(Chan, SocketAddr, SocketAddr),
    /// The same, by a socket with these options.
    ConnectWith(Chan, SocketAddr, SocketAddr, Options),
    /// Send and receive datagrams there (port 0: any).
    Bind(Chan, SocketAddr),
    /// Look at the channel again.
    Wake(Chan),
    /// Shut our side of the connection.
    Shutdown(Chan),
    /// End the connection or the listener; the peer gets all that was sent.
    Close(Chan),
    /// Reset the connection.
    Abort(Chan),
    /// Set an option; where there is no such thing nothing happens.
    Set(Chan, StreamOption),
    /// Tell [`Event::Info`], if there is any.
    Info(Chan),
}

/// An application: see the module.
pub trait App {
    /// Somebody has connected: to the service (`None`), or to a listener of the application's own.
    fn accept(&mut self, on: Option<Chan>, ends: Ends, now: Instant) -> Accept;

    /// Something has happened.
    fn on_event(&mut self, chan: Chan, event: Event<'_>, now: Instant);

    /// How many bytes may be read from the channel now; 0: none, ask again when woken. A longer datagram is cut.
    fn room(&self, chan: Chan) -> usize;

    /// What is to be sent next; empty: nothing now.
    fn output(&mut self, chan: Chan, now: Instant) -> &[u8];

    /// It is to end soon (Ctrl-C). True: there is a last word to be said; the driver goes on for a moment, or until no channel is open.
    fn stop(&mut self, _now: Instant) -> bool {
        false
    }

    /// The datagram that is to be sent next, with its destination and its source address (unspecified: the
    /// stack's choice); `None`: nothing now.
    fn datagram(&mut self, _chan: Chan, _now: Instant) -> Option<(Ends, &[u8])> {
        None
    }

    /// The first `n` bytes of [`App::output`] have been sent, or the [`App::datagram`] of `n` bytes.
    fn sent(&mut self, chan: Chan, n: usize, now: Instant);

    /// The next thing to be done.
    fn poll_action(&mut self) -> Option<Action>;

    /// When [`App::on_timer`] wants to be called, at the latest.
    fn next_timer(&self) -> Option<Instant>;

    /// Time has come.
    fn on_timer(&mut self, now: Instant);
}
