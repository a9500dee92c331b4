//! The clients of a workload: each writes requests until the configured number is in flight, and
//! reads the answers in order.

use super::report::Report;
use super::{AWAKE, Mix};
use crate::netperf::hist::Histogram;
use crate::netperf::sockets::{PATIENCE, Pace, Round, Setup, Sockets, connect};
use crate::span::Span;
use crate::streams::Failure;
use anyhow::Context;
use linerate::stack::Instant;
use std::collections::VecDeque;
use std::net::SocketAddr;
use std::time::Duration;

/// Number of bytes read at a time.
const READ: usize = 64 * 1024;

#[derive(Debug)]
struct Client<F> {
    fd: F,
    unsent: Vec<u8>,
    sent: usize,
    got: Vec<u8>,
    /// Requests in flight, oldest first. For each: its kind (`None` if it fills the service with
    /// data) and the time when it was written.
    under_way: VecDeque<(Option<usize>, Instant)>,
}

#[derive(Debug)]
pub(super) struct Clients<S: Sockets> {
    clients: Vec<Client<S::Fd>>,
    buffer: Vec<u8>,
}

/// Response times and number of the answers received so far.
struct Tally {
    times: Vec<Histogram>,
    answered: u64,
}

impl<S: Sockets> Clients<S> {
    pub(super) fn connect(
        sockets: &mut S,
        round: Round<'_, S>,
        at: SocketAddr,
        setup: &Setup,
        count: usize,
    ) -> anyhow::Result<Clients<S>> {
        let mut all = Clients { clients: Vec::with_capacity(count), buffer: vec![0; READ] };
        for n in 1..=count {
            let connected = connect(sockets, round, Instant::NEVER, at, setup);
            match connected.and_then(|fd| fd.context("stopped")) {
                Ok(fd) => all.clients.push(Client {
                    fd,
                    unsent: Vec::new(),
                    sent: 0,
                    got: Vec::new(),
                    under_way: VecDeque::new(),
                }),
                Err(why) => {
                    all.close(sockets);
                    return Err(why.context(format!("connection {n} to {at} failed")));
                }
            }
        }
        Ok(all)
    }

    pub(super) fn close(&mut self, sockets: &mut S) {
        self.clients.drain(..).for_each(|client| sockets.close(client.fd));
    }

    /// Fills the service with data through the first client, one request at a time.
    pub(super) fn fill<M: Mix>(&mut self, sockets: &mut S, round: Round<'_, S>, mix: &mut M) -> anyhow::Result<()> {
        let mut ignored = Tally { times: Vec::new(), answered: 0 };
        let mut moved_at = round(sockets, Pace::Go);
        loop {
            let Some(client) = self.clients.first_mut() else { return Ok(()) };
            if client.under_way.is_empty() {
                if dispatch::stop_requested() || !mix.fill(&mut client.unsent) {
                    return Ok(());
                }
                client.under_way.push_back((None, moved_at));
            }
            let moved = client.turn(sockets, mix, 0, &mut self.buffer, &mut ignored)?;
            let now = round(sockets, if moved { Pace::Go } else { Pace::Wait });
            if moved {
                moved_at = now;
            }
            anyhow::ensure!(now.since(moved_at) < PATIENCE, "timeout: no progress for {} seconds", PATIENCE.as_secs());
        }
    }

    /// Runs all clients for `time`. Requests that are still in flight at the end are neither
    /// awaited nor counted.
    pub(super) fn run<M: Mix>(
        &mut self,
        sockets: &mut S,
        round: Round<'_, S>,
        mix: &mut M,
        time: Duration,
        depth: usize,
    ) -> anyhow::Result<Report> {
        let mut tally = Tally { times: vec![Histogram::default(); M::KINDS.len()], answered: 0 };
        round(sockets, Pace::Go);
        let span = Span::begin(|| sockets.now());
        let start = span.start();
        let (end, mut moved_at) = (start.after(time), start);
        let took = loop {
            let now = sockets.now();
            if now >= end || dispatch::stop_requested() {
                break span.end(now);
            }
            let mut moved = false;
            for (at, client) in self.clients.iter_mut().enumerate() {
                client.ask(sockets, mix, at, depth);
                moved |= client.turn(sockets, mix, at, &mut self.buffer, &mut tally)?;
            }
            if moved {
                moved_at = now;
            }
            let waited = now.since(moved_at);
            anyhow::ensure!(waited < PATIENCE, "timeout: no answer for {} seconds", PATIENCE.as_secs());
            round(sockets, if waited < AWAKE { Pace::Go } else { Pace::Wait });
        };
        Ok(Report {
            elapsed: took.seconds,
            preempted: took.preempted,
            answered: tally.answered,
            times: tally.times,
            clients: 0,
            depth: 0,
        })
    }
}

impl<F: Copy> Client<F> {
    /// Writes requests until `depth` are in flight.
    fn ask<S: Sockets<Fd = F>, M: Mix>(&mut self, sockets: &S, mix: &mut M, at: usize, depth: usize) {
        while self.under_way.len() < depth {
            let kind = mix.ask(at, &mut self.unsent);
            // The clock is read for each request, since writing the requests of earlier clients in
            // this round has taken time.
            self.under_way.push_back((Some(kind), sockets.now()));
        }
    }

    /// Sends and receives as much as is possible now; returns whether any bytes were transferred.
    fn turn<S: Sockets<Fd = F>, M: Mix>(
        &mut self,
        sockets: &mut S,
        mix: &mut M,
        at: usize,
        buffer: &mut [u8],
        tally: &mut Tally,
    ) -> anyhow::Result<bool> {
        let mut moved = false;
        while self.sent < self.unsent.len() {
            match sockets.send(self.fd, self.unsent.get(self.sent..).unwrap_or_default()) {
                Ok(n) => self.sent += n,
                Err(Failure::Again) => break,
                Err(why) => return Err(anyhow::Error::new(why).context("send")),
            }
            moved = true;
        }
        // If more requests are in flight than the socket buffers hold, some bytes are always
        // unsent. The part already sent is removed when it is at least half of the buffer.
        if self.sent >= self.unsent.len() / 2 {
            self.unsent.drain(..self.sent);
            self.sent = 0;
        }
        loop {
            match sockets.recv(self.fd, buffer) {
                Ok(0) => anyhow::bail!("connection closed by the far end"),
                Ok(n) => self.got.extend_from_slice(buffer.get(..n).unwrap_or_default()),
                Err(Failure::Again) => return Ok(moved),
                Err(why) => return Err(anyhow::Error::new(why).context("receive")),
            }
            moved = true;
            self.receive(mix, at, sockets.now(), tally)?;
        }
    }

    /// Processes the complete answers among the received bytes.
    fn receive<M: Mix>(&mut self, mix: &mut M, at: usize, now: Instant, tally: &mut Tally) -> anyhow::Result<()> {
        let mut heard = 0;
        while heard < self.got.len() {
            let (kind, requested) = *self.under_way.front().context("unexpected answer: no request in flight")?;
            let bytes = self.got.get(heard..).unwrap_or_default();
            let Some(len) = mix.on_reply(at, kind, bytes)? else { break };
            heard += len.max(1);
            self.under_way.pop_front();
            if let Some(times) = kind.and_then(|kind| tally.times.get_mut(kind)) {
                times.add(now.since(requested));
                tally.answered += 1;
            }
        }
        self.got.drain(..heard.min(self.got.len()));
        Ok(())
    }
}
