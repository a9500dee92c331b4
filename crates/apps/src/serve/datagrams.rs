//! Serves a channel that is a UDP socket: delivers received datagrams to the application and sends
//! the application's datagrams.

use super::{Server, TURN};
use crate::app::{App, Chan, Event};
use crate::streams::{Failure, Streams};
use linerate::stack::Instant;

/// Number of bytes charged per datagram in addition to its payload, so that a turn with many short
/// datagrams does not take too long.
const COST: usize = 512;

impl<A: App, F: Copy + Eq + std::hash::Hash + std::fmt::Debug> Server<A, F> {
    pub(super) fn read_datagrams<S: Streams<Fd = F>>(&mut self, streams: &mut S, chan: Chan, now: Instant) -> usize {
        let (mut left, mut calls) = (TURN, 0);
        loop {
            let Some((fd, room)) = self.next_read(chan, left) else { return calls };
            calls += 1;
            match streams.recv_from(fd, self.buffer.get_mut(..room).unwrap_or_default()) {
                Ok((n, ends)) => {
                    left = left.saturating_sub(n + COST);
                    self.counts.bytes_in.add(n as u64);
                    let bytes = self.buffer.get(..n).unwrap_or_default();
                    self.app.on_event(chan, Event::Datagram(ends, bytes), now);
                    self.act(streams, now);
                }
                Err(Failure::Again) => {
                    if let Some(entry) = self.entry(chan) {
                        entry.may_recv = false;
                    }
                }
                // The error belongs to a datagram that was sent earlier; this call has cleared it.
                Err(_) => {
                    left = left.saturating_sub(COST);
                    self.counts.datagrams_failed.bump();
                }
            }
        }
    }

    pub(super) fn write_datagrams<S: Streams<Fd = F>>(&mut self, streams: &mut S, chan: Chan, now: Instant) -> usize {
        let (mut left, mut calls) = (TURN, 0);
        loop {
            let Some(entry) = self.entry(chan).filter(|entry| entry.may_send) else { return calls };
            let fd = entry.fd;
            if left == 0 {
                self.queue(chan);
                return calls;
            }
            let Some((ends, bytes)) = self.app.datagram(chan, now) else {
                self.act(streams, now);
                return calls;
            };
            calls += 1;
            let n = bytes.len();
            match streams.send_to(fd, bytes, ends) {
                Err(Failure::Again) => {
                    if let Some(entry) = self.entry(chan) {
                        entry.may_send = false;
                    }
                    continue;
                }
                Ok(()) => self.counts.bytes_out.add(n as u64),
                Err(_) => self.counts.datagrams_failed.bump(),
            }
            left = left.saturating_sub(n + COST);
            self.app.sent(chan, n, now);
            self.act(streams, now);
        }
    }
}
