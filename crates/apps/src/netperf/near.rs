//! The near end (client): requests a test from the far end (server), runs it, and requests the far
//! end's results.
//!
//! All waits are bounded. Setting up a test and requesting its results take at most [`PATIENCE`]
//! per step. A test that is limited by a number of bytes or transactions fails if it makes no
//! progress for [`STALL`]. Ctrl-C ends a test early, with the results so far.

mod connect;
mod rr;
mod stream;

use super::control::{Ask, Order, Ready, Say, Talk, Tally};
use super::hist::Histogram;
use super::sockets::{PATIENCE, Pace, Setup, Sizes, Sockets, Waits, connect, wait};
use super::{DATAGRAM_MAX, Length, MESSAGE_MAX, Options, Outcome, Test};
use crate::span::{Span, Took};
use crate::streams::{Failure, any_towards, at_port};
use anyhow::{Context, bail};
use linerate::stack::Instant;
use std::net::SocketAddr;
use std::time::Duration;

/// Maximum time without progress of a test that is limited by a number of bytes or transactions.
pub const STALL: Duration = Duration::from_secs(30);

/// Interim result of a running test.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Interim {
    /// Rate since the previous interim result, in 10^6 bit/s or in transactions per second.
    pub figure: f64,
    /// Time since the previous interim result, in seconds.
    pub seconds: f64,
}

/// A near end (client of a test): its sockets, and the functions that it calls while it waits.
pub struct Near<'s, S, R, E> {
    sockets: &'s mut S,
    round: R,
    each: E,
    now: Instant,
}

/// Measurements of the near end.
#[derive(Debug, Default)]
struct Measured {
    took: Took,
    sizes: Sizes,
    send_size: usize,
    recv_size: usize,
    messages: u64,
    errors: u64,
    bytes: u64,
    times: Option<Histogram>,
    cut: bool,
}

impl<S: Sockets, R, E> std::fmt::Debug for Near<'_, S, R, E> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Near").field("now", &self.now).finish_non_exhaustive()
    }
}

impl<'s, S: Sockets> Near<'s, S, fn(&mut S, Pace) -> Instant, fn(Interim)> {
    /// Creates a near end that is alone on its thread.
    pub fn alone(sockets: &'s mut S) -> Self {
        Near::new(sockets, |sockets, pace| sockets.step(pace), |_| ())
    }
}

impl<'s, S: Sockets, R: FnMut(&mut S, Pace) -> Instant, E: FnMut(Interim)> Near<'s, S, R, E> {
    /// Creates a near end that calls `round` while it waits; `round` may include a turn of the far
    /// end. `each` receives the interim results.
    pub fn new(sockets: &'s mut S, round: R, each: E) -> Self {
        let now = sockets.now();
        Near { sockets, round, each, now }
    }

    #[inline(always)]
    fn step(&mut self, pace: Pace) -> Instant {
        self.now = (self.round)(self.sockets, pace);
        self.now
    }

    /// Runs a test against the far end whose control connections are accepted at `control`.
    ///
    /// # Errors
    /// The far end does not answer or refuses the test, a socket call fails, or no data moves for
    /// too long.
    pub fn run(&mut self, control: SocketAddr, options: &Options) -> anyhow::Result<Outcome> {
        options.check().map_err(anyhow::Error::msg)?;
        let fd =
            self.connect(control, &Setup::default()).with_context(|| format!("cannot reach netserver at {control}"))?;
        let outcome = self.run_over(&mut Talk::new(fd), control, options);
        self.sockets.close(fd);
        self.step(Pace::Go);
        outcome
    }

    fn run_over(&mut self, talk: &mut Talk<S::Fd>, at: SocketAddr, options: &Options) -> anyhow::Result<Outcome> {
        let ready = match self.ask(talk, &Ask::Test(order(options)))? {
            Say::Ready(ready) => ready,
            Say::Refused(why) => bail!("netserver rejected the test: {why}"),
            Say::Results(_) => bail!("unexpected answer from netserver"),
        };
        let to = at_port(at, ready.port);
        let found = match options.test {
            Test::TcpStream => self.tcp_stream(to, options),
            Test::TcpMaerts => self.tcp_maerts(to, options),
            Test::UdpStream => self.udp_stream(to, ready.recv_buffer, options),
            Test::TcpRr | Test::UdpRr => self.rr(to, options),
            Test::TcpCc | Test::TcpCrr => self.connections(to, options),
        };
        let found = found.with_context(|| options.test.name())?;
        let tally = match self.ask(talk, &Ask::Results)? {
            Say::Results(tally) => tally,
            Say::Refused(why) => bail!("no results from netserver: {why}"),
            Say::Ready(_) => bail!("unexpected answer from netserver"),
        };
        if let Some(why) = &tally.failed {
            bail!("{} failed at the far end: {why}", options.test);
        }
        Ok(outcome(options, &ready, found, tally))
    }

    fn ask(&mut self, talk: &mut Talk<S::Fd>, ask: &Ask) -> anyhow::Result<Say> {
        talk.say(ask);
        self.wait("waiting for the reply of netserver", |sockets| {
            talk.flush(sockets)?;
            talk.receive(sockets)
        })
    }

    /// Repeats `ask` until it returns something other than `Again`, for at most [`PATIENCE`].
    /// `what`, such as "waiting for the reply of netserver", describes the wait in error messages.
    fn wait<T>(&mut self, what: &str, ask: impl FnMut(&mut S) -> Result<T, Failure>) -> anyhow::Result<T> {
        self.step(Pace::Go);
        let found = wait(self.sockets, &mut self.round, Instant::NEVER, ask).with_context(|| what.to_owned())?;
        self.now = self.sockets.latest();
        found.with_context(|| format!("stopped while {what}"))
    }

    fn connect(&mut self, to: SocketAddr, setup: &Setup) -> anyhow::Result<S::Fd> {
        let found = connect(self.sockets, &mut self.round, Instant::NEVER, to, setup)?;
        self.now = self.sockets.latest();
        found.context("stopped while connecting")
    }

    fn datagrams(&mut self, to: SocketAddr, options: &Options) -> anyhow::Result<S::Fd> {
        let opened = self.sockets.datagrams(any_towards(to), Some(to), &setup(options));
        opened.map_err(anyhow::Error::new).context("cannot open a UDP socket")
    }

    fn meter(&mut self, options: &Options) -> Meter {
        Meter::new(options, Span::begin(|| self.step(Pace::Go)))
    }

    /// Returns whether the test continues after `units` (bytes or transactions) are done. Regularly
    /// checks for Ctrl-C and stalls.
    #[inline(always)]
    fn goes_on(&mut self, meter: &mut Meter, units: u64) -> anyhow::Result<bool> {
        self.now = self.sockets.latest();
        if self.now < meter.look && units < meter.goal {
            return Ok(true);
        }
        self.look(meter, units)
    }

    #[cold]
    fn look(&mut self, meter: &mut Meter, units: u64) -> anyhow::Result<bool> {
        let now = self.now;
        if units > meter.moved {
            (meter.moved, meter.moved_at) = (units, now);
        }
        if meter.goal != u64::MAX && now.since(meter.moved_at) > STALL {
            bail!("timeout: no progress for {} seconds{}", STALL.as_secs(), meter.hint);
        }
        if let Some(interim) = meter.interim(units, now) {
            (self.each)(interim);
        }
        meter.cut = dispatch::stop_requested();
        meter.look = meter.end.min(now.after(SOON)).min(meter.next_told);
        Ok(!meter.cut && now < meter.end && units < meter.goal)
    }
}

/// Interval of the checks for Ctrl-C and stalls.
const SOON: Duration = Duration::from_millis(50);

/// Limits and progress of a test.
struct Meter {
    span: Span,
    end: Instant,
    goal: u64,
    /// Time of the next full check: Ctrl-C, stalls, interim results, end of the test.
    look: Instant,
    moved: u64,
    moved_at: Instant,
    every: Option<Duration>,
    next_told: Instant,
    reported: (u64, Instant),
    /// Factor that converts units to the result: from bytes to 10^6 bit, or 1 for transactions.
    scale: f64,
    hint: &'static str,
    cut: bool,
}

impl Meter {
    fn new(options: &Options, span: Span) -> Meter {
        let start = span.start();
        let (end, goal) = match options.length {
            Length::Time(time) => (start.after(time), u64::MAX),
            Length::Count(count) => (Instant::NEVER, count),
        };
        let next_told = options.interim.map_or(Instant::NEVER, |every| start.after(every));
        Meter {
            span,
            end,
            goal,
            look: end.min(start.after(SOON)).min(next_told),
            moved: 0,
            moved_at: start,
            every: options.interim,
            next_told,
            reported: (0, start),
            scale: if options.test.is_stream() { 8e-6 } else { 1.0 },
            hint: if options.test == Test::UdpRr { ": UDP_RR does not retransmit a lost datagram" } else { "" },
            cut: false,
        }
    }

    fn interim(&mut self, units: u64, now: Instant) -> Option<Interim> {
        let every = self.every.filter(|_| now >= self.next_told)?;
        let seconds = now.since(self.reported.1).as_secs_f64().max(1e-9);
        let figure = units.saturating_sub(self.reported.0) as f64 * self.scale / seconds;
        (self.reported, self.next_told) = ((units, now), now.after(every));
        Some(Interim { figure, seconds })
    }
}

fn setup(options: &Options) -> Setup {
    Setup {
        send_buffer: options.near.send,
        recv_buffer: options.near.recv,
        nodelay: options.nodelay,
        from: None,
        waits: Waits::Briefly,
    }
}

/// Returns the parameters that the near end sends to the far end.
fn order(options: &Options) -> Order {
    let (time_ns, bytes) = match options.length {
        Length::Time(time) => (u64::try_from(time.as_nanos()).unwrap_or(u64::MAX), 0),
        Length::Count(count) => (0, count),
    };
    let (request, response) = match options.test {
        Test::TcpMaerts => (0, options.send_size.unwrap_or(0)),
        Test::TcpStream | Test::UdpStream => (options.recv_size.unwrap_or(0), 0),
        _ => (options.request, options.response),
    };
    Order {
        test: options.test,
        time_ns,
        bytes,
        request,
        response,
        send_buffer: options.far.send,
        recv_buffer: options.far.recv,
        nodelay: options.nodelay,
    }
}

/// Returns the number of bytes per call: as requested, otherwise the size of the socket's buffer.
fn size_of(requested: Option<usize>, buffer: usize, test: Test) -> usize {
    requested.unwrap_or(buffer).clamp(1, if test.is_udp() { DATAGRAM_MAX } else { MESSAGE_MAX })
}

fn outcome(options: &Options, ready: &Ready, found: Measured, tally: Tally) -> Outcome {
    Outcome {
        test: options.test,
        elapsed: found.took.seconds,
        preempted: found.took.preempted,
        near: found.sizes,
        far: Sizes { send: ready.send_buffer, recv: ready.recv_buffer },
        send_size: if options.test == Test::TcpMaerts { ready.send_size } else { found.send_size },
        recv_size: found.recv_size,
        request: options.request,
        response: options.response,
        burst: options.burst,
        messages: found.messages,
        errors: found.errors,
        bytes: found.bytes,
        tally,
        times: found.times,
        cut: found.cut,
    }
}
