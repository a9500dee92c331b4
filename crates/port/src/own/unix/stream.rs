//! Port on a stream socket: a length precedes each frame. The peer may disconnect and reconnect.
//!
//! While there is no connection, the link is down and sent frames are counted as `port.tx.errors`
//! (with `reconnect=0s`, they wait for the first connection). A stream that ends within a frame, or
//! has a length above the maximum, ends the connection and is counted as `port.rx.errors`.

use super::connection::Connection;
use super::{StreamFrames, StreamSink};
use crate::own::{OwnRx, OwnTx};
use crate::{Caps, Port, RxHalf, TxHalf};
use buf::{Burst, Pool};
use clock::{Duration, Instant};
use std::io;
use std::os::fd::BorrowedFd;
use std::path::Path;
use std::sync::Arc;

/// Opens a port that connects to `path`.
pub(super) fn connect(path: &Path, reconnect: Option<Duration>, pool: &Pool) -> io::Result<Port> {
    Connection::connect(path, reconnect, pool).map(port)
}

/// Opens a port that listens at `path`.
pub(super) fn listen(path: &Path, reconnect: Option<Duration>, pool: &Pool) -> io::Result<Port> {
    Connection::listen(path, reconnect, pool).map(port)
}

fn port(connection: Connection) -> Port {
    let connection = Arc::new(connection);
    Port {
        name: String::new(),
        spec: String::new(),
        caps: Caps::PLAIN,
        counts: connection.counts.clone(),
        rx: Box::new(StreamRx { connection: connection.clone(), number: 0, frames: None }),
        tx: Box::new(StreamTx { connection, number: 0, frames: None }),
        nic: None,
    }
}

struct StreamRx {
    connection: Arc<Connection>,
    /// Number of the connection of `frames`.
    number: u64,
    frames: Option<OwnRx<StreamFrames>>,
}

impl RxHalf for StreamRx {
    fn rx_burst(&mut self, into: &mut Burst, most: usize, now: Instant) -> usize {
        self.connection.poll(now);
        // Frames of a connection that the other half has ended are still received.
        if self.frames.is_none() && self.number != self.connection.number() {
            (self.number, self.frames) = self.connection.take_rx();
        }
        let Some(frames) = &mut self.frames else {
            self.connection.counts.rx.idle.bump();
            return 0;
        };
        let received = frames.rx_burst(into, most, now);
        if frames.is_gone() {
            self.connection.end(self.number, frames.why_gone(), now);
            (self.number, self.frames) = self.connection.take_rx();
        }
        received
    }

    fn wait_fd(&self) -> Option<BorrowedFd<'_>> {
        self.connection.fd()
    }

    fn next_event(&self) -> Option<Instant> {
        if self.number != self.connection.number() {
            return Some(Instant::ZERO); // at once: a new connection, or frames left of an ended one
        }
        let frames = self.frames.as_ref().and_then(|frames| frames.next_event());
        frames.or_else(|| self.connection.next_attempt())
    }

    fn is_gone(&self) -> bool {
        self.frames.is_none() && self.number == self.connection.number() && self.connection.ended().is_some()
    }

    fn why_gone(&self) -> Option<String> {
        self.connection.ended()?.clone()
    }

    fn warnings(&self) -> Vec<String> {
        self.connection.warnings()
    }
}

struct StreamTx {
    connection: Arc<Connection>,
    /// Number of the connection of `frames`.
    number: u64,
    frames: Option<OwnTx<StreamSink>>,
}

impl StreamTx {
    /// Switches to the sending half of the current connection, if the previous one has ended.
    fn follow(&mut self, now: Instant) {
        self.connection.poll(now);
        if self.number != self.connection.number() {
            self.drop_frames();
            (self.number, self.frames) = self.connection.take_tx();
        }
    }

    fn drop_frames(&mut self) {
        if let Some(mut frames) = self.frames.take() {
            frames.lose_rest();
        }
    }

    /// Ends the connection if a frame could not be sent.
    fn check(&mut self, now: Instant) {
        if self.frames.as_ref().is_some_and(|frames| frames.has_failed) {
            self.drop_frames();
            self.connection.end(self.number, None, now);
        }
    }
}

impl TxHalf for StreamTx {
    fn tx_burst(&mut self, from: &mut Burst, now: Instant) -> usize {
        self.follow(now);
        let Some(frames) = &mut self.frames else {
            if self.connection.is_awaited() {
                return 0;
            }
            let lost = from.len();
            from.clear();
            self.connection.counts.tx.errors.add(lost as u64);
            return lost;
        };
        let taken = frames.tx_burst(from, now);
        self.check(now);
        taken
    }

    fn poll(&mut self, now: Instant) {
        self.follow(now);
        if let Some(frames) = &mut self.frames {
            frames.poll(now);
        }
        self.check(now);
    }

    fn next_event(&self) -> Option<Instant> {
        self.frames.as_ref().and_then(|frames| frames.next_event())
    }

    fn is_gone(&self) -> bool {
        self.connection.ended().is_some()
    }

    fn why_gone(&self) -> Option<String> {
        self.connection.ended()?.clone()
    }
}
