//! State that both sides keep of one test: its streams, their counters, and the intervals of its
//! report.
//!
//! The messages of the control connection are in [`super::session`] (server) and [`super::client`].

use super::CpuTimes;
use super::file::StreamFile;
use super::params::Params;
use super::proto::Stamp;
use super::report::{Interval, RateUnit, StreamInterval};
use super::stream::{Datagrams, Stream};
use crate::app::Chan;
use crate::streams::{Ends, StreamInfo};
use linerate::sim::Random;
use linerate::stack::Instant;
use std::time::Duration;

/// Maximum number of interval rows kept for the report, one per stream and interval.
const ROWS_MAX: usize = 50_000;
/// Maximum number of bytes of output lines that the caller has not taken yet. The same limit
/// applies to the lines kept for a client that requests the server's output.
const LINES_MAX: usize = 1 << 20;
/// Additional bytes permitted in both buffers for the last lines of a test: two lines for each of
/// 256 streams, plus an interval.
const LAST_LINES: usize = 128 << 10;
/// If the last interval has no data and is shorter than one `SLIVER`th of a full interval, it is
/// dropped.
const SLIVER: u32 = 10;

/// Role of this program in the test.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Role {
    Server,
    Client,
}

/// Reporting options of a test.
#[derive(Clone, Copy, Debug)]
pub(super) struct Watch {
    /// Length of an interval of the report; zero: the report has no intervals.
    pub(super) interval: Duration,
    /// Function that reads the CPU times; `None`: they are not reported.
    pub(super) cpu: Option<fn() -> CpuTimes>,
}

/// State of one test, on the server or on the client.
#[derive(Debug)]
pub(super) struct Test {
    pub(super) role: Role,
    /// Addresses of the control connection.
    pub(super) ends: Ends,
    pub(super) cookie: Vec<u8>,
    pub(super) params: Params,
    pub(super) streams: Vec<Stream>,
    pub(super) intervals: Vec<Interval>,
    rows: usize,
    /// Number of intervals dropped because of [`ROWS_MAX`].
    pub(super) left_out: usize,
    pub(super) error: Option<String>,
    pub(super) cpu_percent: [f64; 3],
    pub(super) peer_cpu_percent: [f64; 3],
    pub(super) peer_congestion: Option<String>,
    watch: Watch,
    cpu_began: CpuTimes,
    is_running: bool,
    /// Time when the streams started.
    pub(super) started: Instant,
    /// Time when counting began, which is later than `started` if a time is omitted (--omit).
    pub(super) counted: Instant,
    is_omitting: bool,
    pub(super) ended: Option<Instant>,
    interval_at: Instant,
    next_tick: Instant,
    /// Time of the last data sent or received.
    pub(super) moved: Instant,
    pace_at: Option<Instant>,
    block: Vec<u8>,
    lines: String,
    /// On a server: all output lines, for a client that requests them.
    pub(super) printed: String,
    /// Set if the column titles were printed.
    pub(super) is_titled: bool,
    /// Set if more details are printed (-V).
    pub(super) is_verbose: bool,
    /// Unit of rates in text output (-f).
    pub(super) unit: Option<RateUnit>,
}

impl Test {
    pub(super) fn new(role: Role, ends: Ends, cookie: Vec<u8>, watch: Watch, now: Instant) -> Test {
        Test {
            role,
            ends,
            cookie,
            params: Params::default(),
            streams: Vec::new(),
            intervals: Vec::new(),
            rows: 0,
            left_out: 0,
            error: None,
            cpu_percent: [0.0; 3],
            peer_cpu_percent: [0.0; 3],
            peer_congestion: None,
            watch,
            cpu_began: CpuTimes::default(),
            is_running: false,
            started: now,
            counted: now,
            is_omitting: false,
            ended: None,
            interval_at: now,
            next_tick: Instant::NEVER,
            moved: now,
            pace_at: None,
            block: Vec::new(),
            lines: String::new(),
            printed: String::new(),
            is_titled: false,
            is_verbose: false,
            unit: None,
        }
    }

    pub(super) fn line(&mut self, text: &str) {
        let most = if self.ended.is_some() { LINES_MAX + LAST_LINES } else { LINES_MAX };
        let title = self.params.title.as_ref().filter(|_| self.role == Role::Client);
        let title = title.map(|title| format!("{title}:  ")).unwrap_or_default();
        let line = format!("{title}{text}\n");
        if self.lines.len() < most {
            self.lines.push_str(&line);
        }
        if self.role == Role::Server && self.printed.len() < most {
            self.printed.push_str(&line);
        }
    }

    /// Returns and clears the output lines that the caller has not taken yet.
    pub(super) fn take_lines(&mut self) -> String {
        std::mem::take(&mut self.lines)
    }

    // Streams.

    pub(super) fn has_all_streams(&self) -> bool {
        self.streams.len() >= self.params.streams_in_all()
    }

    /// Returns whether this side sends on the stream with index `at`.
    pub(super) fn sends(&self, at: usize) -> bool {
        self.params.sends(at) == (self.role == Role::Server)
    }

    pub(super) fn sends_at_all(&self) -> bool {
        (0..self.params.streams_in_all()).any(|at| self.sends(at))
    }

    pub(super) fn add_stream(&mut self, chan: Chan, ends: Ends, now: Instant) -> usize {
        let at = self.streams.len();
        self.streams.push(Stream::new(at, chan, ends, self.sends(at), now));
        at
    }

    /// Returns the channels of the open streams.
    pub(super) fn open_chans(&self) -> impl Iterator<Item = Chan> {
        self.streams.iter().filter(|stream| stream.is_open).map(|stream| stream.chan)
    }

    /// Starts the test; all its streams exist.
    pub(super) fn start(&mut self, now: Instant) {
        if self.sends_at_all() {
            let is_repeating = self.params.repeating_payload;
            self.block = if is_repeating { digits(self.params.block) } else { filler(self.params.block) };
        }
        (self.started, self.counted, self.interval_at, self.moved) = (now, now, now, now);
        for stream in &mut self.streams {
            stream.pace = super::pace::Pace::new(now);
        }
        self.is_omitting = !self.params.omit.is_zero();
        self.next_tick = self.tick_after(now);
        self.cpu_began = self.cpu();
        self.is_running = true;
    }

    /// Stops sending and counting.
    pub(super) fn stop(&mut self, now: Instant) {
        if self.is_running {
            self.is_running = false;
            self.ended = Some(now);
            self.note_cpu(now);
        }
    }

    /// Ends the test early: adds the last interval and the totals so far to the report.
    pub(super) fn report_so_far(&mut self, now: Instant) {
        if self.is_running {
            self.stop(now);
            self.note_interval(now);
            self.end_lines();
        }
    }

    pub(super) fn is_running(&self) -> bool {
        self.is_running
    }

    fn cpu(&self) -> CpuTimes {
        self.watch.cpu.map(|cpu| cpu()).unwrap_or_default()
    }

    fn tick_after(&self, now: Instant) -> Instant {
        if self.watch.interval.is_zero() { Instant::NEVER } else { now.after(self.watch.interval) }
    }

    /// Counts `n` bytes received on a stream, until the test ends; returns how many were counted.
    /// Bytes that arrive before TEST_RUNNING also count: the sender has counted them, and a test
    /// that is limited by bytes would otherwise never complete.
    pub(super) fn on_received(&mut self, at: usize, n: u64, now: Instant) -> u64 {
        let is_over = self.ended.is_some();
        let stream = self.streams.get_mut(at).filter(|stream| !is_over && !stream.is_sender);
        let Some(stream) = stream else { return 0 };
        stream.bytes = stream.bytes.saturating_add(n);
        stream.since = stream.since.saturating_add(n);
        self.moved = now;
        n
    }

    /// Handles a received datagram of a stream; returns how many of its bytes were counted.
    pub(super) fn on_datagram(&mut self, at: usize, bytes: &[u8], now: Instant) -> u64 {
        let Some(stamp) = Stamp::parse(bytes, self.params.counters) else { return 0 };
        let counted = self.on_received(at, bytes.len() as u64, now);
        if let Some(stream) = self.streams.get_mut(at).filter(|_| counted > 0) {
            stream.datagrams.on_stamp(stamp, now);
        }
        counted
    }

    /// Returns the number of bytes counted in the direction in which more bytes were transferred.
    pub(super) fn through(&self) -> u64 {
        let sum = |is_sender| -> u64 {
            let streams = self.streams.iter().filter(|stream| stream.is_sender == is_sender);
            streams.map(|stream| stream.bytes).sum()
        };
        sum(true).max(sum(false))
    }

    /// Returns whether all data of the test was transferred: the requested bytes, or all files.
    pub(super) fn is_through(&self) -> bool {
        !self.is_omitting && self.through() >= self.params.goal() || self.are_files_sent()
    }

    /// Returns whether this side sends files and has sent all of them.
    fn are_files_sent(&self) -> bool {
        let mut sent = self.streams.iter().filter(|stream| stream.is_sender).map(|stream| stream.file.as_ref());
        let has_any = self.streams.iter().any(|stream| stream.is_sender && stream.file.is_some());
        has_any && sent.all(|file| file.is_some_and(StreamFile::is_over))
    }

    /// Returns the error if the file of any stream could not be read or written.
    pub(super) fn file_failure(&self) -> Option<String> {
        let mut files = self.streams.iter().filter_map(|stream| stream.file.as_ref());
        files.find_map(StreamFile::failure).map(ToString::to_string)
    }

    /// Writes received data to the stream's file, if it has one. This includes data that arrives
    /// before the client has received TEST_RUNNING, since the server starts earlier.
    pub(super) fn store(&mut self, at: usize, bytes: &[u8]) {
        let has_ended = self.ended.is_some();
        let stream = self.streams.get_mut(at).filter(|stream| !stream.is_sender && !has_ended);
        if let Some(file) = stream.and_then(|stream| stream.file.as_mut()) {
            file.write(bytes);
        }
    }

    fn left(&self) -> u64 {
        // After an omitted time, the two sides do not begin to count at the same moment, and over
        // UDP datagrams may be lost. In both cases only the client decides when the test ends.
        let of_server = self.role == Role::Server && (self.params.is_udp() || !self.params.omit.is_zero());
        if self.is_omitting || of_server {
            return u64::MAX;
        }
        let sent = self.streams.iter().filter(|stream| stream.is_sender).map(|stream| stream.bytes).sum();
        self.params.goal().saturating_sub(sent)
    }

    /// Returns how many bytes a stream may send now or, if none, the time at which its rate permits
    /// the next send.
    fn may_send(&mut self, at: usize, now: Instant) -> Result<usize, Instant> {
        let (rate, is_running) = (self.params.pace(), self.is_running);
        let left = if self.params.goal() == u64::MAX { u64::MAX } else { self.left() };
        let stream = self.streams.get_mut(at).filter(|stream| stream.is_sender && stream.is_open && is_running);
        let Some(stream) = stream else { return Ok(0) };
        let (due, most) = stream.pace.next(rate);
        stream.is_paced = due > now;
        if stream.is_paced {
            self.pace_at = self.pace_at.into_iter().chain([due]).min();
            return Err(due);
        }
        Ok(usize::try_from(left.min(most)).unwrap_or(usize::MAX).min(self.block.len()))
    }

    /// Returns the bytes that a stream sends now or, if none, the time at which its rate permits
    /// the next send.
    pub(super) fn stream_output(&mut self, at: usize, now: Instant) -> Result<&[u8], Instant> {
        let n = self.may_send(at, now)?;
        let file = self.streams.get(at).and_then(|stream| stream.file.as_ref());
        let bytes = file.map_or(&self.block[..], StreamFile::output);
        Ok(bytes.get(..n).unwrap_or(bytes))
    }

    /// Returns the datagram that a stream sends now, with its addresses, or the time at which the
    /// stream's rate permits the next send.
    pub(super) fn datagram_output(&mut self, at: usize, now: Instant) -> Result<Option<(Ends, &[u8])>, Instant> {
        if self.may_send(at, now)? == 0 {
            return Ok(None);
        }
        let Some(stream) = self.streams.get(at) else { return Ok(None) };
        Stamp::new(now, stream.datagrams.packets + 1).emit(&mut self.block, self.params.counters);
        Ok(Some((stream.ends, &self.block)))
    }

    /// Returns the streams that waited until their rate permits the next send, if the earliest of
    /// them may send now.
    pub(super) fn paced(&mut self, now: Instant) -> impl Iterator<Item = Chan> {
        let is_due = self.pace_at.is_some_and(|at| at <= now);
        if is_due {
            self.pace_at = None;
        }
        self.streams.iter().filter(move |stream| is_due && stream.is_paced).map(|stream| stream.chan)
    }

    /// Counts `n` bytes sent by a stream; over UDP this is one datagram.
    pub(super) fn on_sent(&mut self, at: usize, n: u64, now: Instant) {
        let rate = self.params.pace();
        let is_udp = self.params.is_udp();
        let Some(stream) = self.streams.get_mut(at) else { return };
        stream.bytes = stream.bytes.saturating_add(n);
        stream.since = stream.since.saturating_add(n);
        stream.datagrams.packets += u64::from(is_udp);
        stream.pace.on_sent(n, rate, now);
        if let Some(file) = &mut stream.file {
            file.advance(usize::try_from(n).unwrap_or(usize::MAX));
        }
        self.moved = now;
    }

    pub(super) fn on_stream_end(&mut self, at: usize) {
        if let Some(stream) = self.streams.get_mut(at) {
            stream.is_open = false;
        }
    }

    pub(super) fn on_info(&mut self, at: usize, info: StreamInfo) {
        if let Some(stream) = self.streams.get_mut(at) {
            stream.on_info(info);
        }
    }

    // Timers.

    /// Returns the time in seconds for which the test has counted.
    pub(super) fn seconds(&self) -> f64 {
        self.ended.unwrap_or(self.interval_at).since(self.counted).as_secs_f64()
    }

    /// Returns the time at which the next timer of a running test expires: the end of an interval,
    /// the end of the omitted time, or the next send that a rate permits.
    pub(super) fn next_timer(&self) -> Option<Instant> {
        if !self.is_running {
            return None;
        }
        let omitted = self.is_omitting.then(|| self.started.after(self.params.omit));
        [Some(self.next_tick), self.pace_at, omitted].into_iter().flatten().min()
    }

    fn is_omit_over(&self, now: Instant) -> bool {
        self.is_running && self.is_omitting && self.started.after(self.params.omit) <= now
    }

    /// Returns whether an interval or the omitted time (--omit) ends now. The caller then requests
    /// the TCP statistics of the streams, and calls [`Test::on_tick`] when they have arrived.
    pub(super) fn take_tick(&mut self, now: Instant) -> bool {
        if !self.is_running || (now < self.next_tick && !self.is_omit_over(now)) {
            return false;
        }
        while self.next_tick <= now && !self.watch.interval.is_zero() {
            self.next_tick = self.next_tick.after(self.watch.interval);
        }
        true
    }

    /// Handles the end of an interval at `at`, once the TCP statistics of the streams have arrived.
    pub(super) fn on_tick(&mut self, at: Instant) {
        if self.is_omit_over(at) { self.begin_to_count(at) } else { self.note_interval(at) }
    }

    /// Ends the omitted time at the beginning of the test and starts to count.
    fn begin_to_count(&mut self, now: Instant) {
        self.note_interval(now);
        self.is_omitting = false;
        (self.counted, self.interval_at) = (now, now);
        self.streams.iter_mut().for_each(Stream::forget);
        self.next_tick = self.tick_after(now);
        self.cpu_began = self.cpu();
    }

    fn note_cpu(&mut self, now: Instant) {
        let (used, seconds) = (self.cpu(), now.since(self.counted).as_secs_f64());
        if seconds > 0.0 {
            let user = 100.0 * (used.user_s - self.cpu_began.user_s) / seconds;
            let system = 100.0 * (used.system_s - self.cpu_began.system_s) / seconds;
            self.cpu_percent = [user + system, user, system];
        }
    }

    /// Ends an interval at `at` and adds its rows to the report.
    pub(super) fn note_interval(&mut self, at: Instant) {
        let origin = if self.is_omitting { self.started } else { self.counted };
        let from = self.interval_at.since(origin).as_secs_f64();
        let to = at.since(origin).as_secs_f64();
        // A short last interval without data is dropped.
        let is_empty = self.streams.iter().all(|stream| stream.since == 0);
        let is_sliver = self.ended.is_some() && at.since(self.interval_at) < self.watch.interval / SLIVER;
        if to <= from || (is_empty && (is_sliver || self.role == Role::Server && self.ended.is_some())) {
            if to <= from && self.ended.is_some() {
                self.add_to_last();
            }
            return;
        }
        self.interval_at = at;
        let rows = self.streams.iter_mut().map(row).collect();
        let interval = Interval { from, to, is_omitted: self.is_omitting, rows };
        self.interval_lines(&interval);
        self.rows += interval.rows.len();
        if self.rows <= ROWS_MAX {
            self.intervals.push(interval);
        } else {
            self.left_out += 1;
        }
    }

    /// Adds data that arrived after the last interval to that interval, if the interval and the
    /// test ended in the same turn, so that the intervals add up to the total.
    fn add_to_last(&mut self) {
        let Some(last) = self.intervals.last_mut() else { return };
        for (row, stream) in last.rows.iter_mut().zip(&mut self.streams) {
            row.bytes = row.bytes.saturating_add(std::mem::take(&mut stream.since));
            let more = stream.datagrams.since(&stream.datagrams_before);
            stream.datagrams_before = stream.datagrams;
            row.datagrams.packets = row.datagrams.packets.saturating_add(more.packets);
            row.datagrams.lost = row.datagrams.lost.saturating_add(more.lost);
        }
    }
}

/// Returns the report row of a stream for the interval that ends now, and starts the next interval.
fn row(stream: &mut Stream) -> StreamInterval {
    let info = stream.info.filter(|_| stream.is_sender);
    let retransmits = info.map(|info| info.retransmits.saturating_sub(stream.retransmits_before));
    stream.retransmits_before = info.map_or(0, |info| info.retransmits);
    let bytes = std::mem::take(&mut stream.since);
    let datagrams: Datagrams = stream.datagrams.since(&stream.datagrams_before);
    stream.datagrams_before = stream.datagrams;
    StreamInterval { id: stream.id, is_sender: stream.is_sender, bytes, retransmits, info, datagrams }
}

/// Returns `n` bytes of `0123456789` repeated, as iperf2 sends them.
fn digits(n: usize) -> Vec<u8> {
    (b'0'..=b'9').cycle().take(n).collect()
}

/// Returns `n` incompressible bytes.
fn filler(n: usize) -> Vec<u8> {
    let mut random = Random::new(0);
    (0..n).map(|_| random.bits() as u8).collect()
}
