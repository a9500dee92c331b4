//! TCP_STREAM, TCP_MAERTS and UDP_STREAM: send bytes in one direction.

use super::{Interim, Measured, Near, Pace, Sockets, setup, size_of};
use crate::netperf::Options;
use crate::netperf::hist::Histogram;
use crate::streams::Failure;
use anyhow::{Context, anyhow};
use linerate::stack::Instant;
use std::net::SocketAddr;

/// Number of send or receive calls between two calls of `step`.
const QUANTUM: usize = 4;
/// Maximum number of datagrams sent between two calls of `step`. If one thread runs both ends, the
/// receive buffer must have space for them until the far end has its turn.
const DATAGRAMS: usize = 16;
/// Maximum number of payload bytes sent in datagrams between two calls of `step`.
const DATAGRAM_BYTES: usize = 32 << 10;

impl<S: Sockets, R: FnMut(&mut S, Pace) -> Instant, E: FnMut(Interim)> Near<'_, S, R, E> {
    /// Sends until the limit of the test, shuts down, and waits for the far end's shutdown, which
    /// proves that the last byte has arrived.
    pub(super) fn tcp_stream(&mut self, to: SocketAddr, options: &Options) -> anyhow::Result<Measured> {
        let fd = self.connect(to, &setup(options))?;
        let sizes = self.sockets.sizes(fd);
        let size = size_of(options.send_size, sizes.send, options.test);
        let buffer = vec![b'n'; size];
        let mut found =
            Measured { sizes, send_size: size, times: options.times.then(Histogram::default), ..Measured::default() };
        let mut meter = self.meter(options);
        let mut at = 0;
        while self.goes_on(&mut meter, found.bytes)? {
            let mut pace = Pace::Go;
            for _ in 0..QUANTUM {
                let most = usize::try_from(meter.goal - found.bytes).unwrap_or(usize::MAX);
                let rest = buffer.get(at..).unwrap_or_default();
                let before = found.times.is_some().then(|| self.sockets.now());
                match self.sockets.send(fd, rest.get(..most).unwrap_or(rest)) {
                    Ok(n) => {
                        found.bytes += n as u64;
                        at += n;
                        if at >= size {
                            (at, found.messages) = (0, found.messages + 1);
                        }
                    }
                    Err(Failure::Again) => {
                        pace = Pace::Wait;
                        break;
                    }
                    Err(why) => return Err(anyhow!(why).context("send")),
                }
                if let (Some(times), Some(before)) = (&mut found.times, before) {
                    times.add(self.sockets.now().since(before));
                }
                if found.bytes >= meter.goal {
                    break;
                }
            }
            self.step(pace);
        }
        self.sockets.shutdown(fd);
        let mut end = [0; 64];
        self.wait("waiting for the far end to close", |sockets| sockets.recv(fd, &mut end))?;
        found.took = meter.span.end(self.now);
        found.cut = meter.cut;
        self.sockets.close(fd);
        Ok(found)
    }

    /// Receives until the far end shuts down its side.
    pub(super) fn tcp_maerts(&mut self, to: SocketAddr, options: &Options) -> anyhow::Result<Measured> {
        let fd = self.connect(to, &setup(options))?;
        let sizes = self.sockets.sizes(fd);
        let size = size_of(options.recv_size, sizes.recv, options.test);
        let mut buffer = vec![0; size];
        let mut found =
            Measured { sizes, recv_size: size, times: options.times.then(Histogram::default), ..Measured::default() };
        let mut meter = self.meter(options);
        // The far end limits time and bytes. The limits here are for Ctrl-C, and for a far end that
        // does not stop.
        meter.end = meter.end.after(super::PATIENCE);
        meter.goal = meter.goal.saturating_add(1);
        'all: while self.goes_on(&mut meter, found.bytes)? {
            let mut pace = Pace::Go;
            for _ in 0..QUANTUM {
                let before = found.times.is_some().then(|| self.sockets.now());
                match self.sockets.recv(fd, &mut buffer) {
                    Ok(0) => break 'all,
                    Ok(n) => {
                        found.bytes += n as u64;
                        found.messages += 1;
                    }
                    Err(Failure::Again) => {
                        pace = Pace::Wait;
                        break;
                    }
                    Err(why) => return Err(anyhow!(why).context("receive")),
                }
                if let (Some(times), Some(before)) = (&mut found.times, before) {
                    times.add(self.sockets.now().since(before));
                }
            }
            self.step(pace);
        }
        anyhow::ensure!(meter.cut || self.now < meter.end, "timeout: the far end did not close the stream");
        found.took = meter.span.end(self.now);
        found.cut = meter.cut;
        self.sockets.close(fd);
        Ok(found)
    }

    /// Sends datagrams as fast as the calls return; datagrams may be lost.
    ///
    /// By default a message is as large as the send buffer, as in netperf, but at most half of the
    /// far end's receive buffer, since that buffer also stores the senders' addresses.
    pub(super) fn udp_stream(&mut self, to: SocketAddr, room: usize, options: &Options) -> anyhow::Result<Measured> {
        let fd = self.datagrams(to, options)?;
        let sizes = self.sockets.sizes(fd);
        let size = size_of(options.send_size, sizes.send.min(room / 2), options.test);
        let buffer = vec![b'n'; size];
        let mut found =
            Measured { sizes, send_size: size, times: options.times.then(Histogram::default), ..Measured::default() };
        let mut meter = self.meter(options);
        while self.goes_on(&mut meter, found.bytes)? {
            let mut pace = Pace::Go;
            for _ in 0..(DATAGRAM_BYTES / size).clamp(1, DATAGRAMS) {
                let before = found.times.is_some().then(|| self.sockets.now());
                match self.sockets.send(fd, &buffer) {
                    Ok(_) => {
                        found.bytes += size as u64;
                        found.messages += 1;
                    }
                    Err(Failure::Again) => {
                        pace = Pace::Wait;
                        break;
                    }
                    // No buffer is free: the failure is counted and the test continues, as in
                    // netperf.
                    Err(Failure::NoRoom) => {
                        found.errors += 1;
                        break;
                    }
                    Err(why) => return Err(anyhow!(why)).context("send"),
                }
                if let (Some(times), Some(before)) = (&mut found.times, before) {
                    times.add(self.sockets.now().since(before));
                }
            }
            self.step(pace);
        }
        found.took = meter.span.end(self.now);
        found.cut = meter.cut;
        self.sockets.close(fd);
        Ok(found)
    }
}
