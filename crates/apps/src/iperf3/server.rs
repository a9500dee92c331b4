//! The iperf3 server: assigns incoming connections to tests and streams by the cookies that the
//! clients send, or refuses the connections.

mod conn;

use super::proto::{ACCESS_DENIED, COOKIE, HELLO_ANSWERS, HELLOS};
use super::report::RateUnit;
use super::session::{Phase, Session};
use super::{CpuTimes, STREAMS_MAX};
use crate::app::{Accept, Action, App, Chan, Event};
use crate::date::Wall;
use crate::slots::{Room, Slots, room};
use crate::streams::{Ends, StreamInfo, StreamOption};
use conn::{Conn, Stranger, StreamAt};
use linerate::stack::Instant;
use std::collections::{BTreeMap, VecDeque};
use std::net::SocketAddr;
use std::time::Duration;

/// Maximum number of connections that have not sent a complete cookie yet, or that are being
/// refused.
const STRANGERS_MAX: usize = 64;
/// Maximum number of connections without a complete cookie from one IP address.
const STRANGERS_PER_PEER: usize = 32;
/// Maximum number of bytes of output that are buffered until the caller takes them.
const OUTPUT_MAX: usize = 16 << 20;
/// Maximum number of queued replies to the first datagrams of UDP streams.
const ANSWERS_MAX: usize = 256;
/// Maximum length of a UDP datagram in bytes.
const DATAGRAM_MAX: usize = 65_535;
/// Maximum number of bytes that were received on an echo connection and not sent back yet.
const ECHO_MAX: usize = 4096;

/// Configuration of the server: format of the report, and limits.
#[derive(Clone, Copy, Debug)]
pub struct Config {
    /// Prints one JSON object per test instead of text (-J).
    pub json: bool,
    /// Interval of progress reports (-i); zero: the server reports only at the end of a test.
    pub interval: Duration,
    /// Time limit for receiving a cookie, the parameters, each stream, and the results.
    pub patience: Duration,
    /// Time without any data sent or received after which a test is ended (--rcv-timeout).
    pub idle: Duration,
    /// Unit of rates in text output (-f); `None` selects a suitable unit for each rate.
    pub unit: Option<RateUnit>,
    /// Maximum number of tests that run at the same time.
    pub clients_max: usize,
    /// Maximum number of tests that run at the same time for one client address.
    pub clients_per_peer: usize,
    /// Local address of the socket for UDP tests; `None`: UDP tests are refused.
    pub datagrams_at: Option<SocketAddr>,
    /// Function that reads the CPU times for reports; `None`: the reports contain 0.
    pub cpu: Option<fn() -> CpuTimes>,
    /// Wall-clock time that corresponds to time 0 of the host's clock, for the report; `None`: the
    /// report omits the time of day.
    pub wall: Option<Wall>,
}

impl Default for Config {
    fn default() -> Config {
        Config {
            json: false,
            interval: Duration::from_secs(1),
            patience: Duration::from_secs(15),
            idle: Duration::from_secs(120),
            unit: None,
            clients_max: 16,
            clients_per_peer: 16,
            datagrams_at: None,
            cpu: None,
            wall: None,
        }
    }
}

stats::counters! {
    /// Counters of the iperf3 server.
    pub struct Iperf3Counts at "apps.iperf3" {
        /// Connections accepted.
        accepted,
        /// Connections refused because too many others had not sent a complete cookie yet.
        refused,
        /// Connections reset to free a slot for a new one, because their cookies had been
        /// incomplete for longest.
        evicted,
        /// Connections that received ACCESS_DENIED, because too many tests were running or the test
        /// with their cookie expected no further stream.
        denied,
        /// Connections closed because no complete cookie arrived within the time limit.
        silent,
        /// Tests begun.
        tests,
        /// Tests that finished with an exchange of results.
        finished,
        /// Tests aborted by the client or by the server's shutdown.
        abandoned,
        /// Tests ended with SERVER_ERROR.
        failed,
        /// Bytes received on streams while a test ran.
        received,
        /// Bytes sent on streams.
        sent,
        /// Datagrams dropped because they belong to no stream.
        stray,
        /// Connections that measured latency during a test.
        echoes,
    }
}

/// An iperf3 server with its connections and running tests.
#[derive(Debug)]
pub struct Iperf3 {
    config: Config,
    pub counts: Iperf3Counts,
    conns: Slots<Conn>,
    strangers: usize,
    is_stopping: bool,
    sessions: Slots<Session>,
    actions: VecDeque<Action>,
    /// Tests whose interval report waits for the TCP statistics of their streams, with the end of
    /// the interval.
    ticks: VecDeque<(u32, Instant)>,
    datagrams: Option<Chan>,
    /// UDP streams, by the address and L4 port of the client.
    peers: BTreeMap<SocketAddr, StreamAt>,
    answers: VecDeque<(Ends, [u8; 4])>,
    /// UDP stream whose datagram was the last one offered to the driver for sending.
    offered: Option<StreamAt>,
    output: String,
    check: Option<Instant>,
}

impl Iperf3 {
    pub fn new(config: Config) -> Iperf3 {
        let conns = config.clients_max.saturating_mul(2 + 2 * STREAMS_MAX as usize) + STRANGERS_MAX + 1;
        let mut server = Iperf3 {
            config,
            counts: Iperf3Counts::default(),
            conns: Slots::new(conns),
            strangers: 0,
            is_stopping: false,
            sessions: Slots::new(config.clients_max),
            actions: VecDeque::new(),
            ticks: VecDeque::new(),
            datagrams: None,
            peers: BTreeMap::new(),
            answers: VecDeque::new(),
            offered: None,
            output: String::new(),
            check: None,
        };
        if let (Some(at), Ok(chan)) = (config.datagrams_at, server.conns.insert(Conn::Datagrams)) {
            server.datagrams = Some(Chan(chan));
            server.actions.push_back(Action::Bind(Chan(chan), at));
        }
        server
    }

    /// Returns and clears the output: text while tests run, or one JSON object per completed test.
    pub fn take_output(&mut self) -> String {
        std::mem::take(&mut self.output)
    }

    /// Returns whether at least one test is running.
    pub fn is_testing(&self) -> bool {
        !self.sessions.is_empty()
    }

    /// Returns the number of running tests.
    pub fn testing(&self) -> usize {
        self.sessions.len()
    }

    /// Closes the UDP socket, so that no further UDP tests are accepted.
    pub fn reset(&mut self) {
        if let Some(chan) = self.datagrams.take() {
            self.conns.remove(chan.0);
            self.actions.push_back(Action::Close(chan));
        }
    }

    fn print(&mut self, text: &str) {
        // If the caller never takes the output, only its beginning is kept, so that memory use
        // stays bounded.
        if self.output.len().saturating_add(text.len()) <= OUTPUT_MAX {
            self.output.push_str(text);
        }
    }

    fn remove(&mut self, chan: Chan) {
        if let Some(Conn::New { .. } | Conn::Denied { .. }) = self.conns.remove(chan.0) {
            self.strangers -= 1;
        }
    }

    /// Handles a complete cookie: the connection becomes the control connection of a new test, a
    /// stream or an echo connection of a running test, or it is refused.
    fn sort(&mut self, chan: Chan, ends: Ends, cookie: Vec<u8>, now: Instant) {
        let (conn, id) = self.place(chan, ends, cookie, now);
        if id.is_some() {
            self.strangers -= 1;
        }
        if let Some(place) = self.conns.get_mut(chan.0) {
            *place = conn;
        }
        id.into_iter().for_each(|id| self.follow(id, now));
        self.schedule(now);
    }

    /// Determines the function of the connection that sent this cookie. Returns it with the index
    /// of the connection's test.
    fn place(&mut self, chan: Chan, ends: Ends, cookie: Vec<u8>, now: Instant) -> (Conn, Option<u32>) {
        for (id, session) in self.sessions.iter_mut() {
            if session.wants_stream(&cookie) {
                let at = session.test.add_stream(chan, ends, now);
                let options = session.test.params.options().into_iter().flatten();
                self.actions.extend(options.map(|option| Action::Set(chan, option)));
                return (Conn::Stream((id, at)), Some(id));
            }
            if session.wants_echo(&cookie) {
                session.echo = Some(chan);
                self.counts.echoes.bump();
                self.actions.push_back(Action::Set(chan, StreamOption::NoDelay(true)));
                return (Conn::Echo(Vec::new()), Some(id));
            }
        }
        // A connection that arrives late with the cookie of a running test does not start another
        // test.
        let is_late = self.sessions.iter().any(|(_, session)| session.test.cookie == cookie);
        let session = Session::new(chan, ends, cookie, &self.config, now);
        let peer = ends.peer.ip().to_canonical();
        let of_peer = self.sessions.iter().filter(|(_, other)| other.test.ends.peer.ip().to_canonical() == peer);
        let has_room = of_peer.count() < self.config.clients_per_peer;
        match if is_late || !has_room { Err(session) } else { self.sessions.insert(session) } {
            Ok(id) => {
                self.counts.tests.bump();
                self.actions.push_back(Action::Set(chan, StreamOption::NoDelay(true)));
                (Conn::Control(id), Some(id))
            }
            Err(_) => {
                self.counts.denied.bump();
                (Conn::Denied { ends, since: now }, None)
            }
        }
    }

    /// Performs the actions that the current state of a test requires.
    fn follow(&mut self, id: u32, now: Instant) {
        if self.sessions.get(id).is_some_and(|session| session.phase == Phase::Turn) {
            self.give_turn(id, now);
        }
        let Some(session) = self.sessions.get_mut(id) else { return };
        if session.phase == Phase::CreateStreams && session.test.has_all_streams() {
            session.start(now);
            self.actions.extend(session.test.streams.iter().map(|stream| Action::Wake(stream.chan)));
        }
        if session.phase == Phase::Ending {
            // Requests the TCP statistics while the streams still exist, then closes the streams.
            self.actions.extend(session.test.streams.iter().map(|stream| Action::Info(stream.chan)));
            self.ticks.push_back((id, now));
            let open = Iperf3::connections(session);
            session.close_streams();
            for chan in open {
                self.actions.push_back(Action::Close(chan));
                self.conns.remove(chan.0);
            }
        }
        if let Some(session) = self.sessions.get(id) {
            self.actions.push_back(Action::Wake(session.control));
        }
        self.print_lines(id);
        self.schedule(now);
    }

    /// Returns the channels of a test's open TCP streams.
    fn connections(session: &Session) -> Vec<Chan> {
        if session.test.params.is_udp() { Vec::new() } else { session.test.open_chans().collect() }
    }

    /// Lets a test create its streams. UDP streams are identified only by the client's address, so
    /// only one test per client address may create UDP streams at a time.
    fn give_turn(&mut self, id: u32, now: Instant) {
        let Some(session) = self.sessions.get(id) else { return };
        let peer = session.test.ends.peer.ip();
        let is_taken = session.test.params.is_udp()
            && self.sessions.iter().any(|(_, other)| {
                other.test.params.is_udp() && other.wants_streams() && other.test.ends.peer.ip() == peer
            });
        if let Some(session) = self.sessions.get_mut(id).filter(|_| !is_taken) {
            session.want_streams(now);
        }
    }

    fn follow_waiting(&mut self, now: Instant) {
        let waits = |(id, session): (u32, &Session)| (session.phase == Phase::Turn).then_some(id);
        let waiting: Vec<u32> = self.sessions.iter().filter_map(waits).collect();
        waiting.into_iter().for_each(|id| self.follow(id, now));
    }

    fn print_lines(&mut self, id: u32) {
        let several = self.sessions.len() > 1;
        let Some(session) = self.sessions.get_mut(id) else { return };
        let lines = session.test.take_lines();
        if self.config.json || lines.is_empty() {
            return;
        }
        if several {
            // Prefixes each line with the client's address.
            let whose = session.test.ends.peer;
            let lines: String = lines.lines().map(|line| format!("{whose}: {line}\n")).collect();
            self.print(&lines);
        } else {
            self.print(&lines);
        }
    }

    /// Ends a test after its final message was sent.
    fn conclude(&mut self, id: u32, now: Instant) {
        self.print_lines(id);
        let Some(mut session) = self.sessions.remove(id) else { return };
        self.ticks.retain(|(of, _)| *of != id);
        self.peers.retain(|_, (of, _)| *of != id);
        for chan in Iperf3::connections(&session).into_iter().chain(session.echo) {
            self.actions.push_back(Action::Abort(chan));
            self.conns.remove(chan.0);
        }
        match (session.phase, &session.test.error) {
            (Phase::Finished, None) => self.counts.finished.bump(),
            (Phase::Failed, _) => self.counts.failed.bump(),
            _ => self.counts.abandoned.bump(),
        }
        let words = session.last_words(&self.config);
        self.print(&words);
        self.follow_waiting(now);
        self.schedule(now);
    }

    fn end_control(&mut self, chan: Chan, id: u32, now: Instant) {
        self.actions.push_back(Action::Close(chan));
        self.remove(chan);
        self.conclude(id, now);
    }

    fn schedule(&mut self, _now: Instant) {
        let of_strangers = self.conns.iter().filter_map(|(_, conn)| match conn {
            Conn::New { since, .. } | Conn::Denied { since, .. } => Some(since.after(self.config.patience)),
            _ => None,
        });
        let of_tests = self.sessions.iter().map(|(_, session)| session.next_timer(&self.config));
        self.check = of_strangers.chain(of_tests).min();
    }

    fn on_control_bytes(&mut self, chan: Chan, id: u32, bytes: &[u8], now: Instant) {
        let Some(session) = self.sessions.get_mut(id) else { return };
        session.on_control(bytes, &self.config, now);
        let is_ending = session.phase == Phase::Ending;
        self.follow(id, now);
        if is_ending && let Some(session) = self.sessions.get_mut(id) {
            // Bytes received after TEST_END were not processed until the streams were closed; they
            // are processed now.
            session.on_control(&[], &self.config, now);
            self.follow(id, now);
        }
        self.end_if_results_sent(chan, id, now);
    }

    fn end_if_results_sent(&mut self, chan: Chan, id: u32, now: Instant) {
        if self.sessions.get(id).is_some_and(|session| session.is_over() && session.output().is_empty()) {
            self.end_control(chan, id, now);
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

    /// Stores the TCP statistics of a stream. They may arrive after the stream's channel was
    /// removed from `conns`.
    fn on_info(&mut self, chan: Chan, info: StreamInfo) {
        for (_, session) in self.sessions.iter_mut() {
            if let Some(at) = session.test.streams.iter().position(|stream| stream.chan == chan) {
                return session.test.on_info(at, info);
            }
        }
    }

    /// Handles a received datagram, which belongs to a known stream or is the first one of a new
    /// stream.
    fn on_datagram(&mut self, ends: Ends, bytes: &[u8], now: Instant) {
        let hello = HELLOS.iter().position(|hello| hello == bytes).and_then(|at| HELLO_ANSWERS.get(at).copied());
        match (self.peers.get(&ends.peer).copied(), hello) {
            (Some((id, at)), hello) => {
                let Some(session) = self.sessions.get_mut(id) else { return };
                let counted = session.test.on_datagram(at, bytes, now);
                self.counts.received.add(counted);
                if let Some(answer) = hello.filter(|_| counted == 0) {
                    self.answer(ends, answer); // repeats a lost reply
                }
            }
            (None, Some(answer)) => self.greet(ends, answer, now),
            (None, None) => self.counts.stray.bump(),
        }
    }

    /// Handles the first datagram from a client's L4 port, which creates the next stream of its
    /// test.
    fn greet(&mut self, ends: Ends, answer: [u8; 4], now: Instant) {
        let from = ends.peer;
        let Some(chan) = self.datagrams else { return };
        let found = self.sessions.iter_mut().find(|(_, session)| {
            session.wants_streams() && session.test.params.is_udp() && session.test.ends.peer.ip() == from.ip()
        });
        let Some((id, session)) = found else { return self.counts.stray.bump() };
        let local = session.test.ends.local;
        let at = session.test.add_stream(chan, Ends { local, peer: from }, now);
        self.peers.insert(from, (id, at));
        self.answer(ends, answer);
        self.follow(id, now);
        self.follow_waiting(now);
    }

    fn answer(&mut self, ends: Ends, answer: [u8; 4]) {
        if self.answers.len() < ANSWERS_MAX {
            self.answers.push_back((ends, answer));
            self.actions.extend(self.datagrams.map(Action::Wake));
        }
    }

    /// Returns the next UDP stream that may send; the streams take turns (round robin).
    fn next_sender(&mut self, now: Instant) -> Option<StreamAt> {
        let all = self.sessions.iter().filter(|(_, session)| session.test.params.is_udp() && session.test.is_running());
        let all = all.flat_map(|(id, session)| (0..session.test.streams.len()).map(move |at| (id, at)));
        let mut all: Vec<StreamAt> = all.collect();
        let behind = all.iter().position(|one| self.offered.is_some_and(|last| *one > last)).unwrap_or(0);
        all.rotate_left(behind);
        all.into_iter().find(|(id, at)| {
            let Some(session) = self.sessions.get_mut(*id) else { return false };
            match session.test.datagram_output(*at, now) {
                Ok(datagram) => datagram.is_some(),
                Err(due) => {
                    self.check = self.check.into_iter().chain([due]).min();
                    false
                }
            }
        })
    }

    fn on_end(&mut self, chan: Chan, now: Instant) {
        match self.conns.get(chan.0) {
            Some(&Conn::Control(id)) => {
                if let Some(session) = self.sessions.get_mut(id) {
                    session.on_control_end();
                }
                self.end_control(chan, id, now);
            }
            Some(&Conn::Stream((id, at))) => {
                if let Some(session) = self.sessions.get_mut(id) {
                    session.test.on_stream_end(at);
                }
                self.actions.push_back(Action::Close(chan));
                self.remove(chan);
            }
            Some(Conn::Echo(_)) => {
                for (_, session) in self.sessions.iter_mut() {
                    session.echo = session.echo.filter(|echo| *echo != chan);
                }
                self.actions.push_back(Action::Close(chan));
                self.remove(chan);
            }
            Some(Conn::New { .. } | Conn::Denied { .. }) => {
                self.counts.silent.bump();
                self.actions.push_back(Action::Close(chan));
                self.remove(chan);
            }
            Some(Conn::Datagrams) => {
                // The UDP socket could not be opened: UDP tests are refused from now on.
                self.datagrams = None;
                self.config.datagrams_at = None;
                self.conns.remove(chan.0);
            }
            None => {}
        }
    }

    fn test_timer(&mut self, id: u32, now: Instant) {
        let Some(session) = self.sessions.get_mut(id) else { return };
        if session.test.take_tick(now) {
            self.actions.extend(session.test.streams.iter().map(|stream| Action::Info(stream.chan)));
            self.ticks.push_back((id, now));
        }
        let is_deaf = session.on_timer(now, &self.config);
        self.actions.extend(session.test.paced(now).map(Action::Wake));
        let control = session.control;
        if is_deaf {
            self.actions.push_back(Action::Abort(control));
            self.remove(control);
            self.conclude(id, now);
        } else {
            self.follow(id, now);
        }
    }
}

impl App for Iperf3 {
    fn accept(&mut self, _on: Option<Chan>, ends: Ends, now: Instant) -> Accept {
        let conn = Conn::New { ends, cookie: Vec::with_capacity(COOKIE), since: now };
        let strangers: Vec<(u32, Stranger)> =
            self.conns.iter().filter_map(|(at, conn)| Some((at, conn.as_stranger()?))).collect();
        let limits = (STRANGERS_MAX, STRANGERS_PER_PEER);
        let room = match self.is_stopping {
            true => Room::None,
            false => room(strangers.iter().map(|(at, one)| (*at, one)), limits, ends.peer.ip(), now),
        };
        if let Room::Of(old) = room {
            self.counts.evicted.bump();
            self.remove(Chan(old));
        }
        let place = if room == Room::None { None } else { self.conns.insert(conn).ok() };
        let Some(at) = place else {
            self.counts.refused.bump();
            return Accept::Refuse(&[ACCESS_DENIED]);
        };
        self.strangers += 1;
        self.counts.accepted.bump();
        self.schedule(now);
        if let Room::Of(old) = room { Accept::Replace(Chan(old), Chan(at)) } else { Accept::Take(Chan(at)) }
    }

    fn on_event(&mut self, chan: Chan, event: Event<'_>, now: Instant) {
        match (event, self.conns.get_mut(chan.0)) {
            (Event::Datagram(ends, bytes), Some(Conn::Datagrams)) => self.on_datagram(ends, bytes, now),
            (Event::Bytes(bytes), Some(Conn::New { .. })) => self.on_cookie(chan, bytes, now),
            (Event::Bytes(bytes), Some(&mut Conn::Control(id))) => self.on_control_bytes(chan, id, bytes, now),
            (Event::Bytes(bytes), Some(&mut Conn::Stream((id, at)))) => {
                if let Some(session) = self.sessions.get_mut(id) {
                    self.counts.received.add(session.test.on_received(at, bytes.len() as u64, now));
                }
            }
            (Event::Bytes(bytes), Some(Conn::Echo(back))) => back.extend_from_slice(bytes),
            (Event::Info(info), _) => self.on_info(chan, info),
            (Event::Eof | Event::Gone(_), _) => self.on_end(chan, now),
            _ => {}
        }
    }

    fn room(&self, chan: Chan) -> usize {
        match self.conns.get(chan.0) {
            Some(Conn::New { cookie, .. }) => COOKIE.saturating_sub(cookie.len()),
            Some(&Conn::Control(id)) => self.sessions.get(id).map_or(0, Session::room),
            Some(&Conn::Stream((id, _))) => {
                let running = self.sessions.get(id).filter(|session| session.phase == Phase::Running);
                running.map_or(0, |session| session.test.params.block)
            }
            Some(Conn::Echo(back)) => ECHO_MAX.saturating_sub(back.len()),
            // Received data is discarded; reading detects that the peer has closed the connection.
            Some(Conn::Denied { .. }) => 4096,
            Some(Conn::Datagrams) => DATAGRAM_MAX,
            None => 0,
        }
    }

    fn output(&mut self, chan: Chan, now: Instant) -> &[u8] {
        match self.conns.get(chan.0) {
            Some(Conn::Denied { .. }) => &[ACCESS_DENIED],
            Some(Conn::Echo(back)) => back,
            Some(&Conn::Control(id)) => self.sessions.get(id).map(Session::output).unwrap_or_default(),
            Some(&Conn::Stream((id, at))) => {
                let Some(session) = self.sessions.get_mut(id) else { return &[] };
                let bytes = session.test.stream_output(at, now);
                if bytes.is_err() {
                    // The send is retried when the stream's rate permits.
                    self.check = self.check.into_iter().chain(bytes.err()).min();
                }
                bytes.unwrap_or_default()
            }
            _ => &[],
        }
    }

    fn datagram(&mut self, _chan: Chan, now: Instant) -> Option<(Ends, &[u8])> {
        if self.answers.is_empty() {
            self.offered = self.next_sender(now);
            let (id, at) = self.offered?;
            return self.sessions.get_mut(id)?.test.datagram_output(at, now).ok().flatten();
        }
        self.answers.front().map(|(ends, answer)| (*ends, &answer[..]))
    }

    fn sent(&mut self, chan: Chan, n: usize, now: Instant) {
        match self.conns.get_mut(chan.0) {
            Some(Conn::Denied { .. }) => {
                self.actions.push_back(Action::Close(chan));
                self.remove(chan);
            }
            Some(Conn::Echo(back)) => drop(back.drain(..n.min(back.len()))),
            Some(&mut Conn::Control(id)) => {
                if let Some(session) = self.sessions.get_mut(id) {
                    session.sent(n);
                }
                self.end_if_results_sent(chan, id, now);
            }
            Some(&mut Conn::Stream((id, at))) => {
                if let Some(session) = self.sessions.get_mut(id) {
                    session.test.on_sent(at, n as u64, now);
                    self.counts.sent.add(n as u64);
                }
            }
            Some(Conn::Datagrams) => {
                if self.answers.pop_front().is_none()
                    && let Some((id, at)) = self.offered
                    && let Some(session) = self.sessions.get_mut(id)
                {
                    session.test.on_sent(at, n as u64, now);
                    self.counts.sent.add(n as u64);
                }
            }
            _ => {}
        }
    }

    fn poll_action(&mut self) -> Option<Action> {
        let action = self.actions.pop_front();
        // Actions are carried out in order: once none is left, the driver has delivered all
        // requested TCP statistics.
        if action.is_none() {
            while let Some((id, at)) = self.ticks.pop_front() {
                if let Some(session) = self.sessions.get_mut(id) {
                    session.test.on_tick(at);
                    self.print_lines(id);
                }
            }
        }
        action
    }

    fn stop(&mut self, now: Instant) -> bool {
        self.is_stopping = true;
        let is_stranger = |conn: &Conn| matches!(conn, Conn::New { .. } | Conn::Denied { .. });
        let strangers: Vec<u32> = self.conns.iter().filter(|(_, conn)| is_stranger(conn)).map(|(at, _)| at).collect();
        for at in strangers {
            self.actions.push_back(Action::Abort(Chan(at)));
            self.remove(Chan(at));
        }
        let tests: Vec<u32> = self.sessions.iter().map(|(id, _)| id).collect();
        for id in &tests {
            let Some(session) = self.sessions.get_mut(*id) else { continue };
            session.terminate(now);
            let control = session.control;
            self.follow(*id, now);
            self.end_if_results_sent(control, *id, now);
        }
        self.reset();
        !tests.is_empty()
    }

    fn next_timer(&self) -> Option<Instant> {
        self.check
    }

    fn on_timer(&mut self, now: Instant) {
        let patience = self.config.patience;
        let late = |conn: &Conn| match conn {
            Conn::New { since, .. } | Conn::Denied { since, .. } => since.after(patience) <= now,
            _ => false,
        };
        let late: Vec<u32> = self.conns.iter().filter(|(_, conn)| late(conn)).map(|(at, _)| at).collect();
        for at in late {
            self.counts.silent.bump();
            self.actions.push_back(Action::Abort(Chan(at)));
            self.remove(Chan(at));
        }
        let tests: Vec<u32> = self.sessions.iter().map(|(id, _)| id).collect();
        tests.into_iter().for_each(|id| self.test_timer(id, now));
        self.schedule(now);
    }
}
