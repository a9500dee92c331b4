//! The server side of iperf3's protocol for TCP: stock clients measure against it (-P, -R, --bidir, -t, -n, -k, -l, -O, -b).
//!
//! ```text
//!  client                                     server
//!  connects, cookie (36 letters, NUL)    ->
//!                                        <-   9  PARAM_EXCHANGE
//!  length, JSON: time, parallel, ...     ->
//!                                        <-   10 CREATE_STREAMS
//!  so many connections, each the cookie  ->
//!                                        <-   1  TEST_START, 2 TEST_RUNNING
//!  bytes                                 <->  bytes
//!  4 TEST_END                            ->
//!                                        <-   13 EXCHANGE_RESULTS
//!  length, JSON: bytes of each stream    ->
//!                                        <-   length, JSON; 14 DISPLAY_RESULTS
//!  16 IPERF_DONE                         ->   (the report)
//! ```
//! One test at a time: who comes with another cookie is told ACCESS_DENIED (-1). The test cannot be held for ever: every
//! phase has its time. UDP and SCTP are answered with SERVER_ERROR (-2) and the number of "not implemented".
//!
//! What is sent is the same block again and again. Blocks are counted in bytes; the client decides when enough has come.

mod params;
mod report;
mod results;
mod test;

use crate::app::{Accept, Action, App, Chan, Event};
use crate::slots::Slots;
use crate::streams::{Ends, StreamOption};
use clock::Instant;
use std::collections::VecDeque;
use std::time::Duration;
use test::{Phase, Test};

pub use params::{Params, Refused};

/// The usual L4 port.
pub const PORT: u16 = 5201;
/// Bytes of a cookie, its NUL counted.
pub const COOKIE: usize = 37;
/// Streams of a test in each direction.
pub const STREAMS_MAX: u32 = 128;
/// Connections that have not said yet what they are, or are being told that they are not wanted.
const STRANGERS_MAX: usize = 64;
/// Bytes of output kept until somebody takes them.
const OUTPUT_MAX: usize = 16 << 20;

const ACCESS_DENIED: u8 = -1i8 as u8;

/// Processor time used so far.
#[derive(Clone, Copy, PartialEq, Debug, Default)]
pub struct CpuTimes {
    /// Seconds in user mode.
    pub user_s: f64,
    /// Seconds in the kernel.
    pub system_s: f64,
}

/// What is reported, and the limits.
#[derive(Clone, Copy, Debug)]
pub struct Config {
    /// One JSON object for each test instead of lines (-J).
    pub json: bool,
    /// How often a test's progress is reported (-i); zero: only at the end.
    pub interval: Duration,
    /// For cookies, parameters, streams and results to come.
    pub patience: Duration,
    /// A test on which nothing moves for so long is ended.
    pub idle: Duration,
    /// Processor time used so far, for the client's report; without it the report says 0.
    pub cpu: Option<fn() -> CpuTimes>,
}

impl Default for Config {
    fn default() -> Config {
        Config {
            json: false,
            interval: Duration::from_secs(1),
            patience: Duration::from_secs(15),
            idle: Duration::from_secs(120),
            cpu: None,
        }
    }
}

stats::counters! {
    /// The iperf3 server.
    pub struct Iperf3Counts at "apps.iperf3" {
        /// Connections taken.
        accepted,
        /// Connections turned away: too many that had not said what they are.
        refused,
        /// Connections told that a test is running already, or of a test that is not waiting for streams.
        denied,
        /// Connections ended: no whole cookie came in time.
        silent,
        /// Tests begun.
        tests,
        /// Tests finished, results exchanged.
        finished,
        /// Tests ended by the client before they were finished.
        abandoned,
        /// Tests ended with SERVER_ERROR.
        failed,
        /// Bytes received on streams while a test ran.
        received,
        /// Bytes sent on streams.
        sent,
    }
}

#[derive(Debug)]
enum Conn {
    /// It has sent so much of its cookie.
    New {
        ends: Ends,
        cookie: Vec<u8>,
        since: Instant,
    },
    Control,
    /// Of the test, by its place in the list.
    Stream(usize),
    /// It is told that it is not wanted.
    Denied {
        since: Instant,
    },
}

/// The server: see the module.
#[derive(Debug)]
pub struct Iperf3 {
    config: Config,
    /// What happened.
    pub counts: Iperf3Counts,
    conns: Slots<Conn>,
    strangers: usize,
    test: Option<Test>,
    actions: VecDeque<Action>,
    /// A report of progress is to be made once the stack has answered what it knows about the streams.
    tick: Option<Instant>,
    output: String,
    check: Option<Instant>,
}

impl Iperf3 {
    /// A server.
    pub fn new(config: Config) -> Iperf3 {
        Iperf3 {
            config,
            counts: Iperf3Counts::default(),
            conns: Slots::new(1 + 2 * STREAMS_MAX as usize + STRANGERS_MAX),
            strangers: 0,
            test: None,
            actions: VecDeque::new(),
            tick: None,
            output: String::new(),
            check: None,
        }
    }

    /// What is to be printed: lines as they come, or a JSON object for each test that has ended.
    pub fn take_output(&mut self) -> String {
        std::mem::take(&mut self.output)
    }

    /// Is a test going on?
    pub fn is_testing(&self) -> bool {
        self.test.is_some()
    }

    fn print(&mut self, text: &str) {
        // If nobody takes the output, its beginning is worth more than memory without end.
        if self.output.len().saturating_add(text.len()) <= OUTPUT_MAX {
            self.output.push_str(text);
        }
    }

    fn remove(&mut self, chan: Chan) {
        if let Some(Conn::New { .. } | Conn::Denied { .. }) = self.conns.remove(chan.0) {
            self.strangers -= 1;
        }
    }

    /// A connection has sent its cookie: is it a test's control connection, one of its streams, or unwanted?
    fn sort(&mut self, chan: Chan, ends: Ends, cookie: Vec<u8>, now: Instant) {
        let conn = match &mut self.test {
            None => {
                self.counts.tests.bump();
                self.test = Some(Test::new(chan, ends, cookie, now));
                self.actions.push_back(Action::Set(chan, StreamOption::NoDelay(true)));
                Conn::Control
            }
            Some(test) if test.wants_stream(&cookie) => {
                let at = test.add_stream(chan, ends);
                self.actions.extend(test.params.options().map(|option| Action::Set(chan, option)));
                Conn::Stream(at)
            }
            Some(_) => {
                self.counts.denied.bump();
                Conn::Denied { since: now }
            }
        };
        if !matches!(conn, Conn::Denied { .. }) {
            self.strangers -= 1;
        }
        if let Some(place) = self.conns.get_mut(chan.0) {
            *place = conn;
        }
        self.follow(now);
    }

    /// Does what follows from the test's state.
    fn follow(&mut self, now: Instant) {
        let Some(test) = &mut self.test else { return };
        if test.phase == Phase::CreateStreams && test.has_all_streams() {
            test.start(now, &self.config);
            self.actions.extend(test.streams.iter().map(|stream| Action::Wake(stream.chan)));
        }
        if test.phase == Phase::Ending {
            // The numbers, while the streams are there to be asked; then their end.
            self.actions.extend(test.streams.iter().map(|stream| Action::Info(stream.chan)));
            let open: Vec<Chan> = test.streams.iter().filter(|s| s.is_open).map(|s| s.chan).collect();
            test.close_streams();
            self.tick = Some(now);
            for chan in open {
                self.actions.push_back(Action::Close(chan));
                self.conns.remove(chan.0);
            }
        }
        if let Some(test) = &self.test {
            self.actions.push_back(Action::Wake(test.control));
        }
        self.print_lines();
        self.schedule(now);
    }

    fn print_lines(&mut self) {
        if let Some(test) = &mut self.test {
            let lines = test.take_lines();
            if !self.config.json {
                self.print(&lines);
            }
        }
    }

    /// The test is over, and all is said.
    fn conclude(&mut self, now: Instant) {
        let Some(mut test) = self.test.take() else { return };
        self.tick = None;
        for stream in test.streams.iter().filter(|stream| stream.is_open) {
            self.actions.push_back(Action::Abort(stream.chan));
            self.conns.remove(stream.chan.0);
        }
        match (test.phase, &test.error) {
            (Phase::Finished, None) => self.counts.finished.bump(),
            (Phase::Failed, _) => self.counts.failed.bump(),
            _ => self.counts.abandoned.bump(),
        }
        test.note_end(now);
        let lines = test.take_lines();
        if self.config.json {
            let report = format!("{:#}\n", test.report_json());
            self.print(&report);
        } else {
            self.print(&lines);
        }
        self.schedule(now);
    }

    /// The control connection is to end.
    fn end_control(&mut self, chan: Chan, now: Instant) {
        self.actions.push_back(Action::Close(chan));
        self.remove(chan);
        self.conclude(now);
    }

    fn schedule(&mut self, now: Instant) {
        let of_strangers = self.conns.iter().filter_map(|(_, conn)| match conn {
            Conn::New { since, .. } | Conn::Denied { since } => Some(since.after(self.config.patience)),
            Conn::Control | Conn::Stream(_) => None,
        });
        let of_test = self.test.as_ref().map(|test| test.next_timer(now, &self.config));
        self.check = of_strangers.chain(of_test).min();
    }

    fn on_control_bytes(&mut self, chan: Chan, bytes: &[u8], now: Instant) {
        let Some(test) = &mut self.test else { return };
        test.on_control(bytes, &self.config, now);
        let is_ending = test.phase == Phase::Ending;
        self.follow(now);
        if is_ending && let Some(test) = &mut self.test {
            // What came behind TEST_END waited until the streams were closed.
            test.on_control(&[], &self.config, now);
            self.follow(now);
        }
        self.end_if_said(chan, now);
    }

    fn end_if_said(&mut self, chan: Chan, now: Instant) {
        if self.test.as_ref().is_some_and(|test| test.is_over() && test.control_output().is_empty()) {
            self.end_control(chan, now);
        }
    }

    fn on_cookie(&mut self, chan: Chan, bytes: &[u8], now: Instant) {
        let Some(Conn::New { ends, cookie, .. }) = self.conns.get_mut(chan.0) else { return };
        cookie.extend_from_slice(bytes);
        if cookie.len() >= COOKIE {
            let (ends, cookie) = (*ends, std::mem::take(cookie));
            self.sort(chan, ends, cookie, now);
        }
    }

    fn on_end(&mut self, chan: Chan, now: Instant) {
        match self.conns.get(chan.0) {
            Some(Conn::Control) => {
                if let Some(test) = &mut self.test {
                    test.on_control_end();
                }
                self.end_control(chan, now);
            }
            Some(Conn::Stream(at)) => {
                if let Some(test) = &mut self.test {
                    test.on_stream_end(*at);
                }
                self.actions.push_back(Action::Close(chan));
                self.remove(chan);
            }
            Some(Conn::New { .. } | Conn::Denied { .. }) => {
                self.counts.silent.bump();
                self.actions.push_back(Action::Close(chan));
                self.remove(chan);
            }
            None => {}
        }
    }
}

impl App for Iperf3 {
    fn accept(&mut self, _on: Option<Chan>, ends: Ends, now: Instant) -> Accept {
        let conn = Conn::New { ends, cookie: Vec::with_capacity(COOKIE), since: now };
        let place = if self.strangers < STRANGERS_MAX { self.conns.insert(conn).ok() } else { None };
        let Some(at) = place else {
            self.counts.refused.bump();
            return Accept::Refuse(&[ACCESS_DENIED]);
        };
        self.strangers += 1;
        self.counts.accepted.bump();
        self.schedule(now);
        Accept::Take(Chan(at))
    }

    fn on_event(&mut self, chan: Chan, event: Event<'_>, now: Instant) {
        match (event, self.conns.get(chan.0)) {
            (Event::Bytes(bytes), Some(Conn::New { .. })) => self.on_cookie(chan, bytes, now),
            (Event::Bytes(bytes), Some(Conn::Control)) => self.on_control_bytes(chan, bytes, now),
            (Event::Bytes(bytes), Some(Conn::Stream(at))) => {
                if let Some(test) = &mut self.test {
                    self.counts.received.add(test.on_received(*at, bytes.len() as u64, now));
                }
            }
            (Event::Info(info), Some(Conn::Stream(at))) => {
                if let Some(test) = &mut self.test {
                    test.on_info(*at, info);
                }
            }
            (Event::Eof | Event::Gone(_), _) => self.on_end(chan, now),
            _ => {}
        }
    }

    fn room(&self, chan: Chan) -> usize {
        match self.conns.get(chan.0) {
            Some(Conn::New { cookie, .. }) => COOKIE.saturating_sub(cookie.len()),
            Some(Conn::Control) => self.test.as_ref().map_or(0, Test::control_room),
            Some(Conn::Stream(_)) => self.test.as_ref().map_or(0, Test::stream_room),
            // Its end is to be noticed; what it sends is for nobody.
            Some(Conn::Denied { .. }) => 4096,
            None => 0,
        }
    }

    fn output(&mut self, chan: Chan, now: Instant) -> &[u8] {
        match (self.conns.get(chan.0), &mut self.test) {
            (Some(Conn::Denied { .. }), _) => &[ACCESS_DENIED],
            (Some(Conn::Control), Some(test)) => test.control_output(),
            (Some(Conn::Stream(at)), Some(test)) => {
                let bytes = test.stream_output(*at, now);
                if bytes.is_err() {
                    // To be asked again when its rate permits.
                    self.check = self.check.into_iter().chain(bytes.err()).min();
                }
                bytes.unwrap_or_default()
            }
            _ => &[],
        }
    }

    fn sent(&mut self, chan: Chan, n: usize, now: Instant) {
        match (self.conns.get(chan.0), &mut self.test) {
            (Some(Conn::Denied { .. }), _) => {
                self.actions.push_back(Action::Close(chan));
                self.remove(chan);
            }
            (Some(Conn::Control), Some(test)) => {
                test.control_sent(n);
                self.end_if_said(chan, now);
            }
            (Some(Conn::Stream(at)), Some(test)) => {
                test.on_sent(*at, n as u64, now);
                self.counts.sent.add(n as u64);
            }
            _ => {}
        }
    }

    fn poll_action(&mut self) -> Option<Action> {
        let action = self.actions.pop_front();
        // Actions are carried out in order: when there are none left, the streams have said what they know.
        if action.is_none()
            && let (Some(at), Some(test)) = (self.tick.take(), &mut self.test)
        {
            test.on_tick(at, &self.config);
            self.print_lines();
        }
        action
    }

    fn next_timer(&self) -> Option<Instant> {
        self.check
    }

    fn on_timer(&mut self, now: Instant) {
        let patience = self.config.patience;
        let late = |conn: &Conn| match conn {
            Conn::New { since, .. } | Conn::Denied { since } => since.after(patience) <= now,
            Conn::Control | Conn::Stream(_) => false,
        };
        let late: Vec<u32> = self.conns.iter().filter(|(_, conn)| late(conn)).map(|(at, _)| at).collect();
        for at in late {
            self.counts.silent.bump();
            self.actions.push_back(Action::Abort(Chan(at)));
            self.remove(Chan(at));
        }
        if let Some(test) = &mut self.test {
            if test.take_tick(now, &self.config) {
                self.actions.extend(test.streams.iter().map(|stream| Action::Info(stream.chan)));
                self.tick = Some(now);
            }
            let is_deaf = test.on_timer(now, &self.config);
            self.actions.extend(test.paced(now).map(Action::Wake));
            let control = test.control;
            if is_deaf {
                self.actions.push_back(Action::Abort(control));
                self.remove(control);
                self.conclude(now);
            } else {
                self.follow(now);
            }
        }
        self.schedule(now);
    }
}

#[cfg(test)]
mod tests;
