//! TCP_CC and TCP_CRR: opens one connection after the other. As with netserver, the far end is the
//! first to close each connection.

use super::{Interim, Measured, Meter, Near, Pace, Sockets, setup};
use crate::netperf::hist::Histogram;
use crate::netperf::sockets::NO_LOCAL_END;
use crate::netperf::{Options, Test};
use crate::streams::Failure;
use anyhow::{Context, anyhow};
use linerate::stack::Instant;
use std::net::SocketAddr;

/// Result of waiting for a call on a connection.
enum Waited<T> {
    For(T),
    /// The test ended while the call was waiting.
    Over,
}

impl<S: Sockets, R: FnMut(&mut S, Pace) -> Instant, E: FnMut(Interim)> Near<'_, S, R, E> {
    pub(super) fn connections(&mut self, to: SocketAddr, options: &Options) -> anyhow::Result<Measured> {
        let (setup, request) = (setup(options), vec![b'n'; options.request]);
        let mut into = vec![0; options.response];
        let mut found = Measured { times: options.times.then(Histogram::default), ..Measured::default() };
        let mut meter = self.meter(options);
        while self.goes_on(&mut meter, found.messages)? {
            let before = found.times.is_some().then(|| self.sockets.now());
            let fd = match self.sockets.connect(to, &setup) {
                Ok(fd) => fd,
                Err(Failure::InUse) => {
                    return Err(anyhow!("connect: {NO_LOCAL_END} (after {} connections)", found.messages));
                }
                Err(why) => return Err(anyhow!(why).context("connect")),
            };
            if found.messages == 0 {
                found.sizes = self.sockets.sizes(fd);
            }
            let done = self.transact(fd, options, (&request, &mut into), &mut meter, found.messages);
            self.sockets.close(fd);
            match done.with_context(|| format!("connection {} failed", found.messages + 1))? {
                Waited::For(()) => found.messages += 1,
                Waited::Over => break,
            }
            if let (Some(times), Some(before)) = (&mut found.times, before) {
                times.add(self.sockets.now().since(before));
            }
            // `self.now` advances only while a call waits, since only those rounds read the clock.
        }
        found.took = meter.span.end(self.now);
        found.bytes = match options.test {
            Test::TcpCrr => found.messages * (options.request + options.response) as u64,
            _ => 0,
        };
        found.cut = meter.cut;
        Ok(found)
    }

    fn transact(
        &mut self,
        fd: S::Fd,
        options: &Options,
        (request, into): (&[u8], &mut [u8]),
        meter: &mut Meter,
        done: u64,
    ) -> anyhow::Result<Waited<()>> {
        let Waited::For(()) = self.during(meter, done, |sockets| sockets.connected(fd)).context("connect")? else {
            return Ok(Waited::Over);
        };
        if options.test == Test::TcpCrr {
            let (mut sent, mut got) = (0, 0);
            while sent < request.len() {
                let send = |sockets: &mut S| sockets.send(fd, request.get(sent..).unwrap_or_default());
                match self.during(meter, done, send).context("send")? {
                    Waited::For(n) => sent += n,
                    Waited::Over => return Ok(Waited::Over),
                }
            }
            while got < into.len() {
                let recv = |sockets: &mut S| sockets.recv(fd, into.get_mut(got..).unwrap_or_default());
                match self.during(meter, done, recv).context("receive")? {
                    Waited::For(0) => return Err(anyhow!("connection closed before the response was complete")),
                    Waited::For(n) => got += n,
                    Waited::Over => return Ok(Waited::Over),
                }
            }
        }
        match self.during(meter, done, |sockets| sockets.recv(fd, &mut [0; 1])).context("waiting for the close")? {
            Waited::For(0) => Ok(Waited::For(())),
            Waited::For(_) => Err(anyhow!("unexpected data after the response")),
            Waited::Over => Ok(Waited::Over),
        }
    }

    /// Repeats `ask` until it returns something other than `Again`, or until the test ends.
    #[inline]
    fn during<T>(
        &mut self,
        meter: &mut Meter,
        done: u64,
        mut ask: impl FnMut(&mut S) -> Result<T, Failure>,
    ) -> anyhow::Result<Waited<T>> {
        loop {
            match ask(self.sockets) {
                Ok(found) => return Ok(Waited::For(found)),
                Err(Failure::Again) => {
                    self.step(Pace::Wait);
                    if !self.goes_on(meter, done)? {
                        return Ok(Waited::Over);
                    }
                }
                Err(why) => return Err(why.into()),
            }
        }
    }
}
