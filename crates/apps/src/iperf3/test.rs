//! One test: the conversation on its control connection, and its streams' bytes.

use super::params::{JSON_MAX, Params, Refused};
use super::report::{Interval, StreamInterval};
use super::{COOKIE, Config, CpuTimes, results};
use crate::app::Chan;
use crate::streams::{Ends, StreamInfo};
use clock::Instant;
use serde_json::Value;
use std::time::Duration;

// The protocol's states: one signed byte each.
const TEST_START: u8 = 1;
const TEST_RUNNING: u8 = 2;
const TEST_END: u8 = 4;
const PARAM_EXCHANGE: u8 = 9;
const CREATE_STREAMS: u8 = 10;
const CLIENT_TERMINATE: u8 = 12;
const EXCHANGE_RESULTS: u8 = 13;
const DISPLAY_RESULTS: u8 = 14;
const IPERF_DONE: u8 = 16;
const SERVER_ERROR: u8 = -2i8 as u8;

/// Bytes of the client's results: 256 streams at some 200 bytes, and room.
const RESULTS_MAX: usize = 256 * 1024;
/// Rows of streams in intervals that are kept for the report.
const ROWS_MAX: usize = 50_000;
/// Beyond its time a test may last this long (stock iperf3: ten states, four seconds each).
const GRACE: Duration = Duration::from_secs(40);
/// Bytes of lines kept for a client that wants our output.
const LINES_MAX: usize = 1 << 20;

/// What is being waited for.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Phase {
    Params,
    CreateStreams,
    Running,
    /// The client has said TEST_END: its streams are to be closed.
    Ending,
    Results,
    Display,
    /// Over, as it should be.
    Finished,
    /// Over: the client went, or gave up.
    Abandoned,
    /// Over: an error is being told.
    Failed,
}

/// A stream of the test.
#[derive(Debug)]
pub(super) struct Stream {
    /// As both sides number it: 1, 3, 4, 5 (stock iperf3 leaves out the 2).
    pub(super) id: u32,
    pub(super) chan: Chan,
    pub(super) ends: Ends,
    pub(super) is_sender: bool,
    pub(super) is_open: bool,
    /// Bytes since the test began to count.
    pub(super) bytes: u64,
    /// The other side's number.
    pub(super) peer_bytes: u64,
    pub(super) peer_retransmits: Option<i64>,
    /// Bytes since the last interval.
    pub(super) since: u64,
    pub(super) info: Option<StreamInfo>,
    /// Retransmissions before the test began to count, and before this interval.
    pub(super) retransmits_omitted: u64,
    pub(super) retransmits_before: u64,
    pub(super) max_cwnd: u64,
    pub(super) max_wnd: u64,
    pub(super) rtt_min: u64,
    pub(super) rtt_max: u64,
    pub(super) rtt_sum: u64,
    pub(super) rtt_count: u64,
    /// Bytes sent since the test began, for the rate.
    paced: u64,
    is_paced: bool,
}

impl Stream {
    /// Segments sent again while it counted.
    pub(super) fn retransmits(&self) -> Option<u64> {
        Some(self.info.filter(|_| self.is_sender)?.retransmits.saturating_sub(self.retransmits_omitted))
    }
}

/// A test: see the module.
#[derive(Debug)]
pub(super) struct Test {
    pub(super) control: Chan,
    pub(super) ends: Ends,
    pub(super) cookie: Vec<u8>,
    pub(super) phase: Phase,
    pub(super) params: Params,
    pub(super) streams: Vec<Stream>,
    pub(super) intervals: Vec<Interval>,
    rows: usize,
    pub(super) error: Option<String>,
    pub(super) cpu_percent: [f64; 3],
    pub(super) peer_cpu_percent: [f64; 3],
    pub(super) peer_congestion: Option<String>,
    cpu_began: CpuTimes,
    cpu: Option<fn() -> CpuTimes>,
    input: Vec<u8>,
    out: Vec<u8>,
    out_at: usize,
    since: Instant,
    /// When streams began to run; when counting began.
    started: Instant,
    pub(super) counted: Instant,
    is_omitting: bool,
    ended: Option<Instant>,
    interval_at: Instant,
    next_tick: Instant,
    moved: Instant,
    sent: u64,
    pace_at: Option<Instant>,
    block: Vec<u8>,
    pub(super) lines: String,
    lines_taken: usize,
}

impl Test {
    pub(super) fn new(control: Chan, ends: Ends, cookie: Vec<u8>, now: Instant) -> Test {
        let mut test = Test {
            control,
            ends,
            cookie,
            phase: Phase::Params,
            params: Params::default(),
            streams: Vec::new(),
            intervals: Vec::new(),
            rows: 0,
            error: None,
            cpu_percent: [0.0; 3],
            peer_cpu_percent: [0.0; 3],
            peer_congestion: None,
            cpu_began: CpuTimes::default(),
            cpu: None,
            input: Vec::new(),
            out: vec![PARAM_EXCHANGE],
            out_at: 0,
            since: now,
            started: now,
            counted: now,
            is_omitting: false,
            ended: None,
            interval_at: now,
            next_tick: Instant::NEVER,
            moved: now,
            sent: 0,
            pace_at: None,
            block: Vec::new(),
            lines: String::new(),
            lines_taken: 0,
        };
        test.line(&format!("Accepted connection from {}, port {}", ends.peer.ip(), ends.peer.port()));
        test
    }

    pub(super) fn line(&mut self, text: &str) {
        if self.lines.len() < LINES_MAX {
            self.lines.push_str(text);
            self.lines.push('\n');
        }
    }

    /// Lines that nobody has taken yet.
    pub(super) fn take_lines(&mut self) -> String {
        let new = self.lines.get(self.lines_taken..).unwrap_or_default().to_owned();
        self.lines_taken = self.lines.len();
        new
    }

    pub(super) fn is_over(&self) -> bool {
        matches!(self.phase, Phase::Finished | Phase::Abandoned | Phase::Failed)
    }

    fn enter(&mut self, phase: Phase, now: Instant) {
        (self.phase, self.since) = (phase, now);
    }

    fn fail(&mut self, why: Refused, now: Instant) {
        self.out.push(SERVER_ERROR);
        self.out.extend_from_slice(&(why as u32).to_be_bytes());
        self.out.extend_from_slice(&0u32.to_be_bytes()); // no errno
        self.error = Some(why.to_string());
        self.line(&format!("error - {why}"));
        self.enter(Phase::Failed, now);
    }

    // The control connection.

    pub(super) fn control_output(&self) -> &[u8] {
        self.out.get(self.out_at..).unwrap_or_default()
    }

    pub(super) fn control_sent(&mut self, n: usize) {
        self.out_at = self.out_at.saturating_add(n);
        if self.out_at >= self.out.len() {
            self.out.clear();
            self.out_at = 0;
        }
    }

    pub(super) fn control_room(&self) -> usize {
        if self.is_over() { 0 } else { (RESULTS_MAX + 4).saturating_sub(self.input.len()) }
    }

    pub(super) fn on_control(&mut self, bytes: &[u8], config: &Config, now: Instant) {
        self.input.extend_from_slice(bytes);
        while !self.input.is_empty() && !self.is_over() {
            let done = match self.phase {
                Phase::Params => self.on_params(now),
                Phase::Results => self.on_results(config, now),
                _ => {
                    let state = self.input.remove(0);
                    self.on_state(state, now);
                    true
                }
            };
            if !done || self.phase == Phase::Ending {
                return; // what follows TEST_END waits until the streams are closed
            }
        }
    }

    /// A length and so many bytes of JSON, if they are there. Longer than `most`, or empty: an error.
    fn take_json(&mut self, most: usize) -> Result<Option<Vec<u8>>, ()> {
        let Some(len) = self.input.first_chunk::<4>() else { return Ok(None) };
        let len = u32::from_be_bytes(*len) as usize;
        if len == 0 || len > most {
            return Err(());
        }
        if self.input.len() < 4 + len {
            return Ok(None);
        }
        let rest = self.input.split_off(4 + len);
        let json = std::mem::replace(&mut self.input, rest);
        Ok(Some(json.get(4..).unwrap_or_default().to_vec()))
    }

    fn on_params(&mut self, now: Instant) -> bool {
        match self.take_json(JSON_MAX) {
            Ok(None) => return false,
            Ok(Some(json)) => match Params::parse(&json) {
                Ok(params) => {
                    self.params = params;
                    self.out.push(CREATE_STREAMS);
                    self.enter(Phase::CreateStreams, now);
                }
                Err(why) => self.fail(why, now),
            },
            Err(()) => self.fail(Refused::Params, now),
        }
        true
    }

    fn on_state(&mut self, state: u8, now: Instant) {
        match (self.phase, state) {
            (_, CLIENT_TERMINATE) => {
                self.error = Some("the client has terminated".to_owned());
                self.line("error - the client has terminated");
                self.note_interval(now);
                self.enter(Phase::Abandoned, now);
            }
            (Phase::Running, TEST_END) => {
                self.ended = Some(now);
                self.note_cpu(now);
                self.enter(Phase::Ending, now);
            }
            (Phase::Display, IPERF_DONE) => self.enter(Phase::Finished, now),
            _ => self.fail(Refused::Message, now),
        }
    }

    fn on_results(&mut self, config: &Config, now: Instant) -> bool {
        let json = match self.take_json(RESULTS_MAX) {
            Ok(None) => return false,
            Ok(Some(json)) => json,
            Err(()) => {
                self.fail(Refused::Results, now);
                return true;
            }
        };
        match results::take(self, &json) {
            Ok(()) => {
                self.note_end(now);
                let json = results::give(self, config.json).to_string();
                self.out.extend_from_slice(&(json.len() as u32).to_be_bytes());
                self.out.extend_from_slice(json.as_bytes());
                self.out.push(DISPLAY_RESULTS);
                self.enter(Phase::Display, now);
            }
            Err(why) => self.fail(why, now),
        }
        true
    }

    /// The client has closed the control connection, or it broke.
    pub(super) fn on_control_end(&mut self) {
        match self.phase {
            // It has everything: older clients do not say that they are done.
            Phase::Display => self.phase = Phase::Finished,
            Phase::Finished | Phase::Abandoned | Phase::Failed => {}
            _ => {
                self.error = Some("the client has unexpectedly closed the connection".to_owned());
                self.line("error - the client has unexpectedly closed the connection");
                self.phase = Phase::Abandoned;
            }
        }
    }

    // The streams.

    pub(super) fn wants_stream(&self, cookie: &[u8]) -> bool {
        self.phase == Phase::CreateStreams && cookie.len() == COOKIE && cookie == self.cookie && !self.has_all_streams()
    }

    pub(super) fn has_all_streams(&self) -> bool {
        self.streams.len() >= self.params.streams_in_all()
    }

    pub(super) fn add_stream(&mut self, chan: Chan, ends: Ends) -> usize {
        let at = self.streams.len();
        self.streams.push(Stream {
            id: if at == 0 { 1 } else { at as u32 + 2 },
            chan,
            ends,
            is_sender: self.params.sends(at),
            is_open: true,
            bytes: 0,
            peer_bytes: 0,
            peer_retransmits: None,
            since: 0,
            info: None,
            retransmits_omitted: 0,
            retransmits_before: 0,
            max_cwnd: 0,
            max_wnd: 0,
            rtt_min: u64::MAX,
            rtt_max: 0,
            rtt_sum: 0,
            rtt_count: 0,
            paced: 0,
            is_paced: false,
        });
        at
    }

    /// All streams are there: go.
    pub(super) fn start(&mut self, now: Instant, config: &Config) {
        self.out.extend_from_slice(&[TEST_START, TEST_RUNNING]);
        if self.streams.iter().any(|stream| stream.is_sender) {
            // Bytes that no link compresses.
            let mut word = 0x9e37_79b9_7f4a_7c15u64;
            self.block = (0..self.params.block)
                .map(|_| {
                    word ^= word << 13;
                    word ^= word >> 7;
                    word ^= word << 17;
                    (word >> 32) as u8
                })
                .collect();
        }
        (self.started, self.counted, self.interval_at, self.moved) = (now, now, now, now);
        self.is_omitting = !self.params.omit.is_zero();
        self.next_tick = if config.interval.is_zero() { Instant::NEVER } else { now.after(config.interval) };
        self.cpu = config.cpu;
        self.cpu_began = self.cpu.map(|cpu| cpu()).unwrap_or_default();
        self.enter(Phase::Running, now);
        self.head_lines();
    }

    pub(super) fn stream_room(&self) -> usize {
        match self.phase {
            Phase::Running => self.params.block,
            _ => 0,
        }
    }

    /// Says how many of the bytes counted.
    pub(super) fn on_received(&mut self, at: usize, n: u64, now: Instant) -> u64 {
        let Some(stream) = self.streams.get_mut(at).filter(|stream| !stream.is_sender) else { return 0 };
        stream.bytes = stream.bytes.saturating_add(n);
        stream.since = stream.since.saturating_add(n);
        self.moved = now;
        n
    }

    /// What a stream sends next; or when its rate permits it to send again.
    pub(super) fn stream_output(&mut self, at: usize, now: Instant) -> Result<&[u8], Instant> {
        let left = self.params.bytes_max().saturating_sub(self.sent);
        let (rate, started) = (self.params.rate, self.started);
        let stream = self.streams.get_mut(at).filter(|stream| stream.is_sender && stream.is_open);
        let Some(stream) = stream.filter(|_| self.phase == Phase::Running) else { return Ok(&[]) };
        if rate > 0 {
            // As stock iperf3: a whole block goes as soon as what was sent before is within the rate.
            let due_ns = u128::from(stream.paced) * 8_000_000_000 / u128::from(rate);
            let due = started.after(Duration::from_nanos(u64::try_from(due_ns).unwrap_or(u64::MAX)));
            stream.is_paced = due > now;
            if stream.is_paced {
                self.pace_at = self.pace_at.into_iter().chain([due]).min();
                return Err(due);
            }
        }
        let n = self.block.len().min(usize::try_from(left).unwrap_or(usize::MAX));
        Ok(self.block.get(..n).unwrap_or_default())
    }

    /// Streams that may go on, for whom time has come.
    pub(super) fn paced(&mut self, now: Instant) -> impl Iterator<Item = Chan> {
        let is_due = self.pace_at.is_some_and(|at| at <= now);
        if is_due {
            self.pace_at = None;
        }
        self.streams.iter().filter(move |stream| is_due && stream.is_paced).map(|stream| stream.chan)
    }

    pub(super) fn on_sent(&mut self, at: usize, n: u64, now: Instant) {
        let Some(stream) = self.streams.get_mut(at) else { return };
        stream.bytes = stream.bytes.saturating_add(n);
        stream.since = stream.since.saturating_add(n);
        stream.paced = stream.paced.saturating_add(n);
        self.sent = self.sent.saturating_add(n);
        self.moved = now;
    }

    pub(super) fn on_stream_end(&mut self, at: usize) {
        if let Some(stream) = self.streams.get_mut(at) {
            stream.is_open = false;
        }
    }

    pub(super) fn on_info(&mut self, at: usize, info: StreamInfo) {
        let Some(stream) = self.streams.get_mut(at) else { return };
        stream.info = Some(info);
        stream.max_cwnd = stream.max_cwnd.max(info.snd_cwnd);
        stream.max_wnd = stream.max_wnd.max(info.snd_wnd);
        stream.rtt_min = stream.rtt_min.min(info.rtt_us);
        stream.rtt_max = stream.rtt_max.max(info.rtt_us);
        stream.rtt_sum = stream.rtt_sum.saturating_add(info.rtt_us);
        stream.rtt_count += 1;
    }

    /// All streams are given back; results are waited for.
    pub(super) fn close_streams(&mut self) {
        self.streams.iter_mut().for_each(|stream| stream.is_open = false);
        self.out.push(EXCHANGE_RESULTS);
        self.phase = Phase::Results;
    }

    // Time.

    /// How long it counted.
    pub(super) fn seconds(&self) -> f64 {
        self.ended.unwrap_or(self.interval_at).since(self.counted).as_secs_f64()
    }

    fn deadline(&self, config: &Config) -> Instant {
        let patience = self.since.after(config.patience);
        match self.phase {
            Phase::Running => {
                let idle = self.moved.after(config.idle);
                if self.params.time.is_zero() {
                    return idle;
                }
                self.started.after(self.params.time + self.params.omit + GRACE).min(idle)
            }
            _ => patience,
        }
    }

    pub(super) fn next_timer(&self, _now: Instant, config: &Config) -> Instant {
        let mut at = self.deadline(config);
        if self.phase == Phase::Running {
            at = at.min(self.next_tick).min(self.pace_at.unwrap_or(Instant::NEVER));
            if self.is_omitting {
                at = at.min(self.started.after(self.params.omit));
            }
        }
        at
    }

    fn is_omit_over(&self, now: Instant) -> bool {
        self.phase == Phase::Running && self.is_omitting && self.started.after(self.params.omit) <= now
    }

    /// Is it time for an interval's report, or for counting to begin? Both want to know first what the stack knows.
    pub(super) fn take_tick(&mut self, now: Instant, config: &Config) -> bool {
        if self.phase != Phase::Running || (now < self.next_tick && !self.is_omit_over(now)) {
            return false;
        }
        while self.next_tick <= now && !config.interval.is_zero() {
            self.next_tick = self.next_tick.after(config.interval);
        }
        true
    }

    /// What time asks for; true if the client does not listen any more and the connection is to be reset.
    pub(super) fn on_timer(&mut self, now: Instant, config: &Config) -> bool {
        if self.deadline(config) > now {
            return false;
        }
        match self.phase {
            Phase::Running if self.moved.after(config.idle) <= now => self.fail(Refused::Idle, now),
            Phase::Running => self.fail(Refused::Expired, now),
            Phase::Params | Phase::CreateStreams => self.fail(Refused::Params, now),
            Phase::Ending | Phase::Results => self.fail(Refused::Results, now),
            Phase::Display => {
                self.enter(Phase::Finished, now);
                return true;
            }
            Phase::Finished | Phase::Abandoned | Phase::Failed => return true,
        }
        false
    }

    /// The stack has said what it knows about the streams at the end of an interval.
    pub(super) fn on_tick(&mut self, at: Instant, config: &Config) {
        if self.is_omit_over(at) { self.begin_to_count(at, config) } else { self.note_interval(at) }
    }

    /// The time to be omitted is over: from here on it counts.
    fn begin_to_count(&mut self, now: Instant, config: &Config) {
        self.note_interval(now);
        self.is_omitting = false;
        (self.counted, self.interval_at) = (now, now);
        for stream in &mut self.streams {
            (stream.bytes, stream.since) = (0, 0);
            stream.retransmits_omitted = stream.info.map_or(0, |info| info.retransmits);
            (stream.max_cwnd, stream.max_wnd) = (0, 0);
            (stream.rtt_min, stream.rtt_max, stream.rtt_sum, stream.rtt_count) = (u64::MAX, 0, 0, 0);
        }
        if !config.interval.is_zero() {
            self.next_tick = now.after(config.interval);
        }
        self.cpu_began = self.cpu.map(|cpu| cpu()).unwrap_or_default();
    }

    fn note_cpu(&mut self, now: Instant) {
        let Some(cpu) = self.cpu else { return };
        let (used, seconds) = (cpu(), now.since(self.counted).as_secs_f64());
        if seconds > 0.0 {
            let user = 100.0 * (used.user_s - self.cpu_began.user_s) / seconds;
            let system = 100.0 * (used.system_s - self.cpu_began.system_s) / seconds;
            self.cpu_percent = [user + system, user, system];
        }
    }

    /// An interval ends at `at`: what moved in it becomes rows of the report.
    pub(super) fn note_interval(&mut self, at: Instant) {
        let origin = if self.is_omitting { self.started } else { self.counted };
        let from = self.interval_at.since(origin).as_secs_f64();
        let to = at.since(origin).as_secs_f64();
        // The last one ends with the test: a sliver with nothing in it is none.
        if to <= from || (self.ended.is_some() && self.streams.iter().all(|stream| stream.since == 0)) {
            return;
        }
        self.interval_at = at;
        let mut rows = Vec::with_capacity(self.streams.len());
        for stream in &mut self.streams {
            let info = stream.info.filter(|_| stream.is_sender);
            let retransmits = info.map(|info| info.retransmits.saturating_sub(stream.retransmits_before));
            stream.retransmits_before = info.map_or(0, |info| info.retransmits);
            let bytes = std::mem::take(&mut stream.since);
            rows.push(StreamInterval { id: stream.id, is_sender: stream.is_sender, bytes, retransmits, info });
        }
        let interval = Interval { from, to, is_omitted: self.is_omitting, rows };
        self.interval_lines(&interval);
        self.rows += interval.rows.len();
        if self.rows <= ROWS_MAX {
            self.intervals.push(interval);
        }
    }

    /// The last lines, once.
    pub(super) fn note_end(&mut self, _now: Instant) {
        if self.phase == Phase::Results {
            self.end_lines();
        }
    }

    /// Our report as the client's -J prints its own.
    pub(super) fn report_json(&self) -> Value {
        super::report::json(self)
    }
}
