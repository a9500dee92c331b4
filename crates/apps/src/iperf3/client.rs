//! The iperf3 client: runs one test against a stock server or ours. See [`super`] for the protocol.
//!
//! The client creates the streams one after the other, because both sides number them in the order
//! of their creation. The test starts with the message TEST_RUNNING and ends when its time is over
//! or all bytes are transferred. Both sides then exchange their results. Stream data that arrives
//! after the end of the test is discarded.

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
use linerate::stack::Instant;
use std::collections::VecDeque;
use std::net::{IpAddr, SocketAddr};
use std::path::{Path, PathBuf};
use std::time::Duration;

pub use words::ClientError;

const CONTROL: Chan = Chan(0);
const PROBE_CHAN: Chan = Chan(1 + 2 * STREAMS_MAX);
/// Interval at which the first datagram of a UDP stream is sent again until the server answers it.
const HELLO_AGAIN: Duration = Duration::from_secs(1);
/// Time for which the client waits for an error message after the server has ended all streams.
const LAST_WORDS: Duration = Duration::from_secs(1);
/// Maximum number of bytes of output that are buffered until the caller takes them.
const OUTPUT_MAX: usize = 16 << 20;

/// Configuration of a client: parameters of the test, address of the server, format of the report.
#[derive(Clone, Debug)]
pub struct ClientConfig {
    /// Parameters of the test. For UDP, a block length of 0 selects the maximum segment size of the
    /// control connection.
    pub params: Params,
    /// Address of the server.
    pub to: SocketAddr,
    /// Local IP address of all connections (-B); if it is unspecified, the route to the server
    /// selects the address.
    pub from: IpAddr,
    /// File whose content the streams send, or to which they write received data (-F).
    pub file: Option<PathBuf>,
    /// Unit of rates in text output (-f); `None` selects a suitable unit for each rate.
    pub unit: Option<RateUnit>,
    /// Local L4 port of the first stream (--cport); further streams use the following ports. 0
    /// selects free ports.
    pub from_port: u16,
    /// Session cookie: 36 random characters and NUL.
    pub cookie: [u8; COOKIE],
    /// Prints one JSON object instead of text (-J).
    pub json: bool,
    /// Prints more details (-V).
    pub verbose: bool,
    /// Interval of progress reports (-i); zero: the client reports only at the end.
    pub interval: Duration,
    /// Time limit for connecting (--connect-timeout).
    pub connect_patience: Duration,
    /// Time limit for each reply of the server.
    pub patience: Duration,
    /// Time without any data sent or received after which the test is aborted (--rcv-timeout).
    pub idle: Duration,
    /// Set if round-trip times are measured on a second connection during the test, which only our
    /// server supports.
    pub latency: bool,
    /// Function that reads the CPU times for the report; `None`: the report omits them.
    pub cpu: Option<fn() -> CpuTimes>,
    /// Wall-clock time that corresponds to time 0 of the host's clock, for the report; `None`: the
    /// report omits the time of day.
    pub wall: Option<Wall>,
}

impl ClientConfig {
    /// Returns a configuration with the default values: progress is reported every second.
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
            connect_patience: Duration::from_secs(75), // like TCP's own limit for connecting
            patience: Duration::from_secs(15),
            idle: Duration::from_secs(120),
            latency: false,
            cpu: None,
            wall: None,
        }
    }
}

stats::counters! {
    /// Counters of the iperf3 client.
    pub struct ClientCounts at "apps.iperf3.client" {
        /// Bytes received on streams while the test ran.
        received,
        /// Bytes sent on streams.
        sent,
        /// Datagrams dropped because they are not from the server or not part of this test.
        stray,
    }
}

/// State of the client, named after the message or event for which it waits.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum State {
    Connecting,
    /// Waiting for PARAM_EXCHANGE.
    Asked,
    /// Waiting for CREATE_STREAMS.
    Params,
    /// Creating the streams; the server may send an error instead.
    Streams,
    /// Waiting for TEST_START and TEST_RUNNING.
    Start,
    Running,
    /// Waiting for EXCHANGE_RESULTS.
    Ended,
    Results,
    /// Waiting for DISPLAY_RESULTS.
    Display,
    /// Sending IPERF_DONE.
    Done,
    /// Sending CLIENT_TERMINATE.
    Stopping,
    Over,
}

/// An iperf3 client, which runs one test.
#[derive(Debug)]
pub struct Client {
    config: ClientConfig,
    pub counts: ClientCounts,
    state: State,
    since: Instant,
    talk: Talk,
    test: Test,
    /// For each TCP stream, number of bytes of the cookie that were sent. For each UDP stream, 0
    /// until the first datagram was sent.
    greeted: Vec<usize>,
    /// Time at which the first datagram of the current UDP stream is sent again; `None` if no
    /// answer is outstanding.
    hello_at: Option<Instant>,
    /// Time when the last stream ended, if this was before the end of the test.
    lost: Option<Instant>,
    probe: Option<Probe>,
    /// End of an interval whose report still waits for the TCP statistics of the streams; `None` if
    /// no report waits.
    tick: Option<Instant>,
    server_output: Option<String>,
    actions: VecDeque<Action>,
    output: String,
    result: Option<Result<(), ClientError>>,
    check: Option<Instant>,
    mss: Option<u64>,
}

impl Client {
    /// Creates a client, which starts to connect at once.
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

    /// Returns and clears the output: text while the test runs, or one JSON object at the end.
    pub fn take_output(&mut self) -> String {
        std::mem::take(&mut self.output)
    }

    /// Returns the result once the client has ended.
    pub fn result(&self) -> Option<&Result<(), ClientError>> {
        self.result.as_ref()
    }

    /// Returns the round-trip times measured during the test, if the measurement was requested and
    /// the server supports it.
    pub fn latency(&self) -> Option<Latency> {
        self.probe.as_ref().and_then(Probe::latency)
    }

    /// Returns the number of bytes counted by the sending end and the number counted by the
    /// receiving end, each summed over both directions.
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

    /// Creates the next stream. After the last one, waits for the start of the test.
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

    // Timeouts.

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

    /// Returns whether the client has queued its final message, so that it ends once all bytes are
    /// sent.
    fn has_sent_all(&self) -> bool {
        matches!(self.state, State::Done | State::Stopping)
    }

    /// Completes the handling of an event: requests sending from the driver, appends new lines to
    /// the output and sets the timer.
    fn after(&mut self) {
        if self.state != State::Over {
            self.actions.push_back(Action::Wake(CONTROL));
        }
        self.print_lines();
        self.schedule();
        if self.has_sent_all() && self.talk.output().is_empty() {
            self.conclude();
        }
    }
}

impl App for Client {
    fn accept(&mut self, _on: Option<Chan>, _ends: Ends, _now: Instant) -> Accept {
        Accept::Refuse(&[]) // the client has no listener
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
                (most + 4).saturating_sub(self.talk.received())
            }
            PROBE_CHAN => super::proto::PROBE_BYTES,
            // Data that arrives while no test runs is read and discarded.
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
                if self.has_sent_all() {
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
        // Actions are carried out in order. Once none is left, the driver has therefore delivered
        // all requested TCP statistics.
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

    /// Requests the TCP statistics of all streams; the interval ends when they have arrived.
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
