//! The client: one test against a server, stock or ours. See [`super`] for who says what.
//!
//! Streams are made one after the other, because both sides number them in that order. The test begins with TEST_RUNNING and
//! ends when its time is over or all bytes are through; then both tell what they counted. What comes on streams after that
//! is read away.

mod control;
mod words;

use super::file::StreamFile;
use super::params::Params;
use super::probe::{Latency, Probe};
use super::proto::{CLIENT_TERMINATE, COOKIE, HELLO_ANSWERS, HELLOS, Talk};
use super::report::RateUnit;
use super::results::{REPORT_MAX, RESULTS_MAX};
use super::test::{Role, Test, Watch};
use super::{CpuTimes, STREAMS_MAX};
use crate::app::{Accept, Action, App, Chan, Event};
use crate::date::Wall;
use crate::streams::{Ends, Failure, any_towards, at_port};
use clock::Instant;
use std::collections::VecDeque;
use std::net::{IpAddr, SocketAddr};
use std::path::{Path, PathBuf};
use std::time::Duration;

pub use words::ClientError;

const CONTROL: Chan = Chan(0);
const PROBE_CHAN: Chan = Chan(1 + 2 * STREAMS_MAX);
/// A first datagram that is not answered is sent again.
const HELLO_AGAIN: Duration = Duration::from_secs(1);
/// How long the server has to say why it has ended all streams.
const LAST_WORDS: Duration = Duration::from_secs(1);
/// Bytes of output kept until somebody takes them.
const OUTPUT_MAX: usize = 16 << 20;

/// What is measured, against whom, and how it is reported.
#[derive(Clone, Debug)]
pub struct ClientConfig {
    /// The test. Datagrams of 0 bytes: as long as fits a segment of the control connection.
    pub params: Params,
    /// The server.
    pub to: SocketAddr,
    /// The address to connect from (-B); unspecified: as the route has it.
    pub from: IpAddr,
    /// File that streams send, or write received data to (-F).
    pub file: Option<PathBuf>,
    /// The unit of rates in lines (-f); without one each rate has its own.
    pub unit: Option<RateUnit>,
    /// The first stream's port, the others behind it (--cport); 0: any.
    pub from_port: u16,
    /// Thirty-six letters that nobody else has at the moment, and NUL.
    pub cookie: [u8; COOKIE],
    /// One JSON object instead of lines (-J).
    pub json: bool,
    /// More lines (-V).
    pub verbose: bool,
    /// How often progress is reported (-i); zero: only at the end.
    pub interval: Duration,
    /// For the connection to be made (--connect-timeout).
    pub connect_patience: Duration,
    /// For each answer of the server.
    pub patience: Duration,
    /// A test on which nothing moves for so long is given up (--rcv-timeout).
    pub idle: Duration,
    /// Measure round trips beside the test, if the server is one of ours.
    pub latency: bool,
    /// Processor time used so far.
    pub cpu: Option<fn() -> CpuTimes>,
    /// The time of day, for the report.
    pub wall: Option<Wall>,
}

impl ClientConfig {
    /// That test against that server, reported each second.
    pub fn new(params: Params, to: SocketAddr, cookie: [u8; COOKIE]) -> ClientConfig {
        ClientConfig {
            params,
            to,
            from: any_towards(to).ip(),
            file: None,
            unit: None,
            from_port: 0,
            cookie,
            json: false,
            verbose: false,
            interval: Duration::from_secs(1),
            connect_patience: Duration::from_secs(75), // as TCP's own
            patience: Duration::from_secs(15),
            idle: Duration::from_secs(120),
            latency: false,
            cpu: None,
            wall: None,
        }
    }
}

stats::counters! {
    /// The iperf3 client.
    pub struct ClientCounts at "apps.iperf3.client" {
        /// Bytes received on streams while the test ran.
        received,
        /// Bytes sent on streams.
        sent,
        /// Datagrams from somebody else than the server, or not of this test.
        stray,
    }
}

/// What is waited for.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum State {
    Connecting,
    /// PARAM_EXCHANGE.
    Asked,
    /// CREATE_STREAMS.
    Params,
    /// Streams are being made; the server may say what went wrong.
    Streams,
    /// TEST_START and TEST_RUNNING.
    Start,
    Running,
    /// EXCHANGE_RESULTS.
    Ended,
    Results,
    /// DISPLAY_RESULTS.
    Display,
    /// IPERF_DONE is on its way.
    Done,
    /// CLIENT_TERMINATE is.
    Stopping,
    Over,
}

/// The client: see the module.
#[derive(Debug)]
pub struct Client {
    config: ClientConfig,
    /// What happened.
    pub counts: ClientCounts,
    state: State,
    since: Instant,
    talk: Talk,
    test: Test,
    /// Of each stream, the bytes of its cookie that are sent; of datagrams, whether a first one is to be sent.
    greeted: Vec<usize>,
    /// When a first datagram is sent again.
    hello_at: Option<Instant>,
    /// When all streams were gone.
    lost: Option<Instant>,
    probe: Option<Probe>,
    /// Bytes read away or counted wait for the stack's numbers.
    tick: Option<Instant>,
    server_output: Option<String>,
    actions: VecDeque<Action>,
    output: String,
    result: Option<Result<(), ClientError>>,
    check: Option<Instant>,
    mss: Option<u64>,
}

impl Client {
    /// A client that begins at once.
    pub fn new(config: ClientConfig, now: Instant) -> Client {
        let watch = Watch { interval: config.interval, cpu: config.cpu };
        let from = SocketAddr::from((config.from, 0));
        let ends = Ends { local: from, peer: config.to };
        let mut test = Test::new(Role::Client, ends, config.cookie.to_vec(), watch, now);
        test.params = config.params.clone();
        test.unit = config.unit;
        let mut client = Client {
            counts: ClientCounts::default(),
            state: State::Connecting,
            since: now,
            talk: Talk::default(),
            test,
            greeted: Vec::new(),
            hello_at: None,
            lost: None,
            probe: None,
            tick: None,
            server_output: None,
            actions: VecDeque::from([Action::Connect(CONTROL, from, config.to)]),
            output: String::new(),
            result: None,
            check: None,
            mss: None,
            config,
        };
        client.first_words(now);
        client.schedule();
        client
    }

    /// What is to be printed: lines as they come, or one JSON object at the end.
    pub fn take_output(&mut self) -> String {
        std::mem::take(&mut self.output)
    }

    /// How it ended, once it has.
    pub fn result(&self) -> Option<&Result<(), ClientError>> {
        self.result.as_ref()
    }

    /// Round trips beside the test, if they were measured.
    pub fn latency(&self) -> Option<Latency> {
        self.probe.as_ref().and_then(Probe::latency)
    }

    /// Bytes of the test at the sending end and at the receiving one, in both directions together.
    pub fn moved(&self) -> [u64; 2] {
        let ends = self.test.streams.iter().map(|stream| stream.both_ends(self.test.seconds()));
        ends.fold([0, 0], |[sent, received], [sender, receiver]| [sent + sender.bytes, received + receiver.bytes])
    }

    fn enter(&mut self, state: State, now: Instant) {
        (self.state, self.since) = (state, now);
    }

    fn stream_of(&self, chan: Chan) -> Option<usize> {
        let at = (chan.0 as usize).checked_sub(1)?;
        (at < self.greeted.len() && chan != PROBE_CHAN).then_some(at)
    }

    // Streams.

    /// The next stream; all of them: the server may begin.
    fn make_stream(&mut self, now: Instant) {
        let (at, params) = (self.greeted.len(), &self.test.params);
        if at >= params.streams_in_all() {
            self.test.head_lines();
            self.enter(State::Start, now);
            return;
        }
        let port = if self.config.from_port == 0 { 0 } else { self.config.from_port.saturating_add(at as u16) };
        let from = SocketAddr::from((self.config.from, port));
        let chan = Chan(1 + at as u32);
        self.actions.push_back(if params.is_udp() {
            Action::Bind(chan, from)
        } else {
            Action::ConnectWith(chan, from, self.config.to, params.options())
        });
        self.greeted.push(0);
    }

    fn on_stream_made(&mut self, at: usize, ends: Ends, now: Instant) {
        let chan = Chan(1 + at as u32);
        if self.test.streams.len() == at {
            self.test.add_stream(chan, ends, now);
            if let Some(path) = self.config.file.clone()
                && let Err(why) = self.open_file(at, &path)
            {
                return self.fail(ClientError::File(path.display().to_string(), why.to_string()), now);
            }
        }
        self.actions.push_back(Action::Wake(chan));
    }

    fn on_stream_gone(&mut self, chan: Chan, at: usize, why: Option<Failure>, now: Instant) {
        self.test.on_stream_end(at);
        if why.is_none() {
            self.actions.push_back(Action::Close(chan));
        }
        match (self.state, why) {
            (State::Streams, Some(why)) => self.fail(ClientError::Stream(why), now),
            (State::Running, _) if self.test.open_chans().next().is_none() => self.lost = Some(now),
            _ => {}
        }
    }

    fn on_datagram(&mut self, at: usize, from: SocketAddr, bytes: &[u8], now: Instant) {
        let is_answer = HELLO_ANSWERS.iter().any(|answer| answer == bytes);
        if from != self.config.to {
            self.counts.stray.bump();
        } else if self.state == State::Streams && is_answer && at + 1 == self.greeted.len() && self.hello_at.is_some() {
            self.hello_at = None;
            self.make_stream(now);
            self.after();
        } else {
            self.counts.received.add(self.test.on_datagram(at, bytes, now));
            self.end_if_through(now);
        }
    }

    fn open_file(&mut self, at: usize, path: &Path) -> std::io::Result<()> {
        let Some(stream) = self.test.streams.get_mut(at) else { return Ok(()) };
        stream.file = Some(match stream.is_sender {
            true => StreamFile::source(path, self.test.params.block)?,
            false => StreamFile::sink(path)?,
        });
        Ok(())
    }

    fn end_if_through(&mut self, now: Instant) {
        if let Some(why) = self.test.file_failure()
            && self.state == State::Running
        {
            let path = self.config.file.as_ref().map(|path| path.display().to_string());
            return self.fail(ClientError::File(path.unwrap_or_default(), why), now);
        }
        if self.state == State::Running && self.test.is_through() {
            self.end_test(now);
        }
    }

    fn is_cookie_sent(&self, at: usize) -> bool {
        self.greeted.get(at).is_some_and(|sent| *sent >= COOKIE)
    }

    // Time.

    fn deadline(&self) -> Instant {
        match self.state {
            State::Connecting => self.since.after(self.config.connect_patience),
            State::Running => {
                let params = &self.test.params;
                let end = if params.time.is_zero() {
                    Instant::NEVER
                } else {
                    self.test.started.after(params.omit + params.time)
                };
                let lost = self.lost.map_or(Instant::NEVER, |at| at.after(LAST_WORDS));
                end.min(self.test.moved.after(self.config.idle)).min(lost)
            }
            State::Over => Instant::NEVER,
            _ => self.since.after(self.config.patience),
        }
    }

    fn schedule(&mut self) {
        if self.state == State::Over {
            self.check = None;
            return;
        }
        let probe = self.probe.as_ref().filter(|_| self.state == State::Running).and_then(Probe::next_timer);
        let times = [Some(self.deadline()), self.test.next_timer(), self.hello_at, probe];
        self.check = times.into_iter().flatten().min();
    }

    fn on_deadline(&mut self, now: Instant) {
        let params = &self.test.params;
        match self.state {
            State::Running if !params.time.is_zero() && self.test.started.after(params.omit + params.time) <= now => {
                self.end_test(now);
            }
            State::Running if self.lost.is_some() => self.fail(ClientError::StreamsEnded, now),
            State::Running => self.fail(ClientError::Stalled(self.config.idle), now),
            State::Connecting => self.fail(ClientError::Unable(Failure::Again), now),
            State::Done | State::Stopping => self.conclude(),
            _ => self.fail(ClientError::Silent(self.config.patience), now),
        }
    }

    /// Is the last word on its way?
    fn has_said_all(&self) -> bool {
        matches!(self.state, State::Done | State::Stopping)
    }

    /// What follows from any event.
    fn after(&mut self) {
        if self.state != State::Over {
            self.actions.push_back(Action::Wake(CONTROL));
        }
        self.print_lines();
        self.schedule();
        if self.has_said_all() && self.talk.output().is_empty() {
            self.conclude();
        }
    }
}

impl App for Client {
    fn accept(&mut self, _on: Option<Chan>, _ends: Ends, _now: Instant) -> Accept {
        Accept::Refuse(&[]) // nobody is listened for
    }

    fn on_event(&mut self, chan: Chan, event: Event<'_>, now: Instant) {
        if self.state == State::Over {
            return;
        }
        match (chan, event) {
            (CONTROL, Event::Info(info)) => self.mss = Some(info.mss),
            (CONTROL, event) => self.on_control_event(event, now),
            (PROBE_CHAN, Event::Bytes(bytes)) => {
                if self.probe.as_mut().is_some_and(|probe| !probe.on_bytes(bytes, now)) {
                    self.drop_probe();
                }
                self.schedule();
                return;
            }
            (PROBE_CHAN, Event::Eof | Event::Gone(_)) => {
                if let Event::Eof = event {
                    self.actions.push_back(Action::Close(PROBE_CHAN));
                }
                if self.state == State::Running {
                    self.probe = None;
                }
            }
            (PROBE_CHAN, _) => {}
            (chan, event) => {
                let Some(at) = self.stream_of(chan) else { return };
                match event {
                    Event::Connected(ends) => self.on_stream_made(at, ends, now),
                    Event::Bound(bound) => {
                        let local = at_port(self.test.ends.local, bound.port());
                        self.on_stream_made(at, Ends { local, peer: self.config.to }, now);
                    }
                    Event::Datagram(ends, bytes) => return self.on_datagram(at, ends.peer, bytes, now),
                    Event::Bytes(bytes) => {
                        let counted = self.test.on_received(at, bytes.len() as u64, now);
                        self.counts.received.add(counted);
                        self.test.store(at, bytes);
                        return self.end_if_through(now);
                    }
                    Event::Info(info) => return self.test.on_info(at, info),
                    Event::Eof => self.on_stream_gone(chan, at, None, now),
                    Event::Gone(why) => self.on_stream_gone(chan, at, Some(why), now),
                    Event::Listening(_) => {}
                }
            }
        }
        self.after();
    }

    fn room(&self, chan: Chan) -> usize {
        match chan {
            _ if self.state == State::Over => 0,
            CONTROL => {
                let most = if self.test.params.wants_output { REPORT_MAX } else { RESULTS_MAX };
                (most + 4).saturating_sub(self.talk.heard())
            }
            PROBE_CHAN => super::proto::PROBE_BYTES,
            // What comes beside the test is read away.
            _ if self.test.params.is_udp() => 65_535,
            _ => self.test.params.block.max(4096),
        }
    }

    fn output(&mut self, chan: Chan, now: Instant) -> &[u8] {
        if self.state == State::Over {
            return &[];
        }
        match chan {
            CONTROL => self.talk.output(),
            PROBE_CHAN => self.probe.as_ref().map(Probe::output).unwrap_or_default(),
            _ => {
                let Some(at) = self.stream_of(chan) else { return &[] };
                if !self.is_cookie_sent(at) {
                    return self.greeted.get(at).and_then(|sent| self.config.cookie.get(*sent..)).unwrap_or_default();
                }
                let bytes = self.test.stream_output(at, now);
                if let Err(due) = bytes {
                    self.check = self.check.into_iter().chain([due]).min();
                }
                bytes.unwrap_or_default()
            }
        }
    }

    fn datagram(&mut self, chan: Chan, now: Instant) -> Option<(Ends, &[u8])> {
        let at = self.stream_of(chan)?;
        if self.state == State::Streams && at + 1 == self.greeted.len() {
            return (self.greeted.get(at) == Some(&0)).then_some((
                Ends { local: SocketAddr::from((self.config.from, 0)), peer: self.config.to },
                &HELLOS[0],
            ));
        }
        match self.test.datagram_output(at, now) {
            Ok(datagram) => datagram,
            Err(due) => {
                self.check = self.check.into_iter().chain([due]).min();
                None
            }
        }
    }

    fn sent(&mut self, chan: Chan, n: usize, now: Instant) {
        match chan {
            CONTROL => {
                self.talk.sent(n);
                if self.has_said_all() {
                    self.after();
                }
            }
            PROBE_CHAN => {
                self.probe.iter_mut().for_each(|probe| probe.sent(n));
                self.schedule();
            }
            _ => self.stream_sent(chan, n, now),
        }
    }

    fn poll_action(&mut self) -> Option<Action> {
        let action = self.actions.pop_front();
        // Actions are carried out in order: when there are none left, the streams have said what they know.
        if action.is_none()
            && let Some(at) = self.tick.take()
        {
            self.test.on_tick(at);
            self.print_lines();
            self.schedule();
        }
        action
    }

    fn stop(&mut self, now: Instant) -> bool {
        match self.state {
            State::Done | State::Stopping => {}
            State::Connecting | State::Over => self.fail(ClientError::Interrupted, now),
            _ => {
                self.report_so_far(now);
                self.talk.say(&[CLIENT_TERMINATE]);
                self.enter(State::Stopping, now);
                self.after();
            }
        }
        self.state != State::Over
    }

    fn next_timer(&self) -> Option<Instant> {
        self.check
    }

    fn on_timer(&mut self, now: Instant) {
        if self.state == State::Over {
            self.check = None;
            return;
        }
        if self.test.take_tick(now) {
            self.ask_streams(now);
        }
        let due: Vec<Chan> = self.test.paced(now).collect();
        self.actions.extend(due.into_iter().map(Action::Wake));
        if self.hello_at.is_some_and(|at| at <= now) {
            self.hello_at = None;
            self.greeted.last_mut().into_iter().for_each(|sent| *sent = 0);
            self.actions.push_back(Action::Wake(Chan(self.greeted.len() as u32)));
        }
        if self.probe.as_mut().is_some_and(|probe| probe.on_timer(now)) {
            self.actions.push_back(Action::Wake(PROBE_CHAN));
        }
        if self.deadline() <= now {
            self.on_deadline(now);
            self.after();
        }
        self.schedule();
    }
}

impl Client {
    fn stream_sent(&mut self, chan: Chan, n: usize, now: Instant) {
        let Some(at) = self.stream_of(chan) else { return };
        let is_last = at + 1 == self.greeted.len();
        if self.test.params.is_udp() && self.state == State::Streams && is_last {
            self.greeted.iter_mut().skip(at).for_each(|sent| *sent = n);
            self.hello_at = Some(now.after(HELLO_AGAIN));
            self.schedule();
        } else if !self.test.params.is_udp() && !self.is_cookie_sent(at) {
            self.greeted.iter_mut().skip(at).take(1).for_each(|sent| *sent += n);
            if self.is_cookie_sent(at) && is_last && self.state == State::Streams {
                self.make_stream(now);
                self.after();
            }
        } else {
            self.test.on_sent(at, n as u64, now);
            self.counts.sent.add(n as u64);
            self.end_if_through(now);
        }
    }

    /// The stack's numbers are asked for; then the interval ends.
    fn ask_streams(&mut self, now: Instant) {
        self.actions.extend(self.test.streams.iter().map(|stream| Action::Info(stream.chan)));
        self.tick = Some(now);
    }

    fn drop_probe(&mut self) {
        self.probe = None;
        self.actions.push_back(Action::Abort(PROBE_CHAN));
    }
}

#[cfg(test)]
mod tests;
