//! The server's side of one test: its messages on the control connection.

use super::json;
use super::params::{JSON_MAX, Params, Refused};
use super::proto::{
    BadLength, CLIENT_TERMINATE, COOKIE, CREATE_STREAMS, DISPLAY_RESULTS, EXCHANGE_RESULTS, IPERF_DONE, PARAM_EXCHANGE,
    PROBE, SERVER_ERROR, SERVER_TERMINATE, TEST_END, TEST_RUNNING, TEST_START, Talk,
};
use super::results::{self, Form, RESULTS_MAX};
use super::server::Config;
use super::test::{Role, Test, Watch};
use crate::app::Chan;
use crate::streams::Ends;
use linerate::stack::Instant;
use std::time::Duration;

/// Time by which a test may exceed its duration. As in stock iperf3, this is the total time of ten
/// protocol states of four seconds each.
const GRACE: Duration = Duration::from_secs(40);

/// State of a session, named after the message or event for which it waits.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Phase {
    Params,
    /// Waiting until another test from the same client address has created its streams, since UDP
    /// datagrams do not identify their test.
    Turn,
    CreateStreams,
    Running,
    /// TEST_END was received; the server is about to close the streams.
    Ending,
    Results,
    Display,
    /// SERVER_TERMINATE was sent. The streams stay open until the client disconnects, so that the
    /// client receives this message before the streams end.
    Leaving,
    Finished,
    /// The client disconnected or terminated the test.
    Abandoned,
    /// An error message is being sent to the client.
    Failed,
}

/// The server's side of a test, with its control connection.
#[derive(Debug)]
pub(super) struct Session {
    pub(super) control: Chan,
    pub(super) phase: Phase,
    pub(super) test: Test,
    /// Channel of the connection that measures latency during the test.
    pub(super) echo: Option<Chan>,
    talk: Talk,
    since: Instant,
    takes_datagrams: bool,
}

impl Session {
    pub(super) fn new(control: Chan, ends: Ends, cookie: Vec<u8>, config: &Config, now: Instant) -> Session {
        let watch = Watch { interval: config.interval, cpu: config.cpu };
        let mut test = Test::new(Role::Server, ends, cookie, watch, now);
        test.unit = config.unit;
        test.line(&format!("Accepted connection from {}, port {}", ends.peer.ip(), ends.peer.port()));
        let mut talk = Talk::default();
        talk.say(&[PARAM_EXCHANGE]);
        let takes_datagrams = config.datagrams_at.is_some();
        Session { control, phase: Phase::Params, test, echo: None, talk, since: now, takes_datagrams }
    }

    pub(super) fn is_over(&self) -> bool {
        matches!(self.phase, Phase::Finished | Phase::Abandoned | Phase::Failed)
    }

    pub(super) fn enter(&mut self, phase: Phase, now: Instant) {
        (self.phase, self.since) = (phase, now);
    }

    fn fail(&mut self, why: Refused, now: Instant) {
        self.talk.say(&[SERVER_ERROR]);
        self.talk.say(&(why as u32).to_be_bytes());
        self.talk.say(&0u32.to_be_bytes()); // the second number is an errno; 0: none
        self.give_up(&format!("error - {why}"), &why.to_string());
        self.enter(Phase::Failed, now);
    }

    /// Sends the client a message that the server is terminating.
    pub(super) fn terminate(&mut self, now: Instant) {
        // The client has received all results, and only its message IPERF_DONE has not arrived yet.
        if self.phase == Phase::Display {
            self.enter(Phase::Finished, now);
        } else if !self.is_over() && self.phase != Phase::Leaving {
            self.test.report_so_far(now);
            self.talk.say(&[SERVER_TERMINATE]);
            self.give_up("interrupt - the server has terminated", "the server has terminated");
            self.enter(Phase::Leaving, now);
        }
    }

    fn give_up(&mut self, line: &str, error: &str) {
        self.test.error = Some(error.to_owned());
        self.test.line(&format!("iperf3: {line}"));
    }

    pub(super) fn output(&self) -> &[u8] {
        self.talk.output()
    }

    pub(super) fn sent(&mut self, n: usize) {
        self.talk.sent(n);
    }

    pub(super) fn room(&self) -> usize {
        if self.is_over() { 0 } else { (RESULTS_MAX + 4).saturating_sub(self.talk.received()) }
    }

    pub(super) fn on_control(&mut self, bytes: &[u8], config: &Config, now: Instant) {
        self.talk.input(bytes);
        while self.talk.received() > 0 && !self.is_over() {
            let done = match self.phase {
                Phase::Params => self.on_params(now),
                Phase::Results => self.on_results(config, now),
                _ => {
                    let state = self.talk.take_state();
                    state.into_iter().for_each(|state| self.on_state(state, now));
                    true
                }
            };
            if !done || self.phase == Phase::Ending {
                return; // data after TEST_END waits for the close of the streams
            }
        }
    }

    fn on_params(&mut self, now: Instant) -> bool {
        match self.talk.take_json(JSON_MAX) {
            Ok(None) => return false,
            Ok(Some(json)) => match Params::parse(&json) {
                Ok(params) if params.is_udp() && !self.takes_datagrams => self.fail(Refused::Unimplemented, now),
                Ok(params) => {
                    self.test.params = params;
                    self.enter(Phase::Turn, now);
                }
                Err(why) => self.fail(why, now),
            },
            Err(BadLength) => self.fail(Refused::Params, now),
        }
        true
    }

    /// Sends CREATE_STREAMS, after which streams are accepted.
    pub(super) fn want_streams(&mut self, now: Instant) {
        self.talk.say(&[CREATE_STREAMS]);
        self.enter(Phase::CreateStreams, now);
    }

    fn on_state(&mut self, state: u8, now: Instant) {
        match (self.phase, state) {
            (_, CLIENT_TERMINATE) => {
                self.test.report_so_far(now);
                self.give_up("the client has terminated", "the client has terminated");
                self.enter(Phase::Abandoned, now);
            }
            (Phase::Running, TEST_END) => {
                self.test.stop(now);
                self.enter(Phase::Ending, now);
            }
            (Phase::Display, IPERF_DONE) => self.enter(Phase::Finished, now),
            (Phase::Leaving, _) => {}
            _ => self.fail(Refused::Message, now),
        }
    }

    fn on_results(&mut self, config: &Config, now: Instant) -> bool {
        let json = match self.talk.take_json(RESULTS_MAX) {
            Ok(None) => return false,
            Ok(Some(json)) => json,
            Err(BadLength) => {
                self.fail(Refused::Results, now);
                return true;
            }
        };
        match results::take(&mut self.test, &json) {
            Ok(_) => {
                self.test.end_lines();
                let form = if config.json { Form::Json } else { Form::Text };
                let form = Some(form).filter(|_| self.test.params.wants_output);
                self.talk.say_json(&results::give(&self.test, form).to_string());
                self.talk.say(&[DISPLAY_RESULTS]);
                self.enter(Phase::Display, now);
            }
            Err(why) => self.fail(why, now),
        }
        true
    }

    /// Handles the end or failure of the control connection.
    pub(super) fn on_control_end(&mut self) {
        match self.phase {
            // All results were sent. Older clients close without sending IPERF_DONE.
            Phase::Display => self.phase = Phase::Finished,
            Phase::Leaving => self.phase = Phase::Abandoned,
            Phase::Finished | Phase::Abandoned | Phase::Failed => {}
            _ => {
                let why = "the client has unexpectedly closed the connection";
                self.give_up(why, why);
                self.phase = Phase::Abandoned;
            }
        }
    }

    /// Returns whether a connection with this cookie is an expected TCP stream of this test.
    pub(super) fn wants_stream(&self, cookie: &[u8]) -> bool {
        let is_ours = cookie.len() == COOKIE && cookie == self.test.cookie;
        is_ours && self.wants_streams() && !self.test.params.is_udp()
    }

    /// Returns whether a connection with this cookie requests the latency echo of this test.
    pub(super) fn wants_echo(&self, cookie: &[u8]) -> bool {
        let rest = |cookie: &[u8]| cookie.get(PROBE.len()..).map(<[u8]>::to_vec);
        let is_ours = cookie.starts_with(PROBE) && rest(cookie) == rest(&self.test.cookie);
        is_ours && self.phase == Phase::Running && self.echo.is_none()
    }

    pub(super) fn wants_streams(&self) -> bool {
        self.phase == Phase::CreateStreams && !self.test.has_all_streams()
    }

    /// Starts the test once all its streams exist.
    pub(super) fn start(&mut self, now: Instant) {
        self.talk.say(&[TEST_START, TEST_RUNNING]);
        self.test.start(now);
        self.enter(Phase::Running, now);
        self.test.head_lines();
    }

    /// Marks all streams as closed and requests the results of the client.
    pub(super) fn close_streams(&mut self) {
        self.test.streams.iter_mut().for_each(|stream| stream.is_open = false);
        self.talk.say(&[EXCHANGE_RESULTS]);
        self.phase = Phase::Results;
    }

    fn deadline(&self, config: &Config) -> Instant {
        match self.phase {
            Phase::Running => {
                let (params, idle) = (&self.test.params, self.test.moved.after(config.idle));
                if params.time.is_zero() {
                    return idle;
                }
                self.test.started.after(params.time + params.omit + GRACE).min(idle)
            }
            // The test that creates its streams first may use its full time limit, so this test
            // waits twice as long.
            Phase::Turn => self.since.after(config.patience * 2),
            _ => self.since.after(config.patience),
        }
    }

    pub(super) fn next_timer(&self, config: &Config) -> Instant {
        self.deadline(config).min(self.test.next_timer().unwrap_or(Instant::NEVER))
    }

    /// Handles timeouts. Returns `true` if the client does not respond, so that its connection must
    /// be reset.
    pub(super) fn on_timer(&mut self, now: Instant, config: &Config) -> bool {
        if self.deadline(config) > now {
            return false;
        }
        match self.phase {
            Phase::Running if self.test.moved.after(config.idle) <= now => self.fail(Refused::Idle, now),
            Phase::Running => self.fail(Refused::Expired, now),
            Phase::Params | Phase::Turn | Phase::CreateStreams => self.fail(Refused::Params, now),
            Phase::Ending | Phase::Results => self.fail(Refused::Results, now),
            Phase::Display => {
                self.enter(Phase::Finished, now);
                return true;
            }
            Phase::Leaving | Phase::Finished | Phase::Abandoned | Phase::Failed => return true,
        }
        false
    }

    /// Returns the rest of the output at the end of the test.
    pub(super) fn last_words(&mut self, config: &Config) -> String {
        if config.json { json::text(&self.test, config.wall) } else { self.test.take_lines() }
    }
}
