//! The client's dialogue with the server on the control connection.

use super::words::ClientError;
use super::{CONTROL, Client, PROBE_CHAN, State};
use crate::app::{Action, Chan, Event};
use crate::iperf3::params::DATAGRAM;
use crate::iperf3::probe::Probe;
use crate::iperf3::proto::{
    ACCESS_DENIED, BadLength, CREATE_STREAMS, DISPLAY_RESULTS, EXCHANGE_RESULTS, IPERF_DONE, PARAM_EXCHANGE,
    SERVER_ERROR, SERVER_TERMINATE, TEST_END, TEST_RUNNING, TEST_START,
};
use crate::iperf3::results::{self, REPORT_MAX, RESULTS_MAX};
use crate::streams::StreamOption;
use linerate::stack::Instant;
use std::net::SocketAddr;

impl Client {
    pub(super) fn on_control_event(&mut self, event: Event<'_>, now: Instant) {
        match event {
            Event::Connected(ends) => {
                self.test.ends = ends;
                self.actions.push_back(Action::Set(CONTROL, StreamOption::NoDelay(true)));
                self.actions.push_back(Action::Info(CONTROL));
                let cookie = self.config.cookie;
                self.talk.say(&cookie);
                self.enter(State::Asked, now);
            }
            Event::Bytes(bytes) => {
                self.talk.input(bytes);
                while self.talk.received() > 0 && !self.has_sent_all() && self.state != State::Over {
                    if !self.on_received(now) {
                        break;
                    }
                }
            }
            Event::Gone(why) if self.state == State::Connecting => self.fail(ClientError::Unable(why), now),
            Event::Eof | Event::Gone(_) if self.has_sent_all() => self.conclude(),
            Event::Eof | Event::Gone(_) => self.fail(ClientError::Vanished, now),
            _ => {}
        }
    }

    /// Handles the next message from the server; returns `false` if the message is incomplete.
    fn on_received(&mut self, now: Instant) -> bool {
        if self.state == State::Results {
            return self.on_results(now);
        }
        let Some(state) = self.talk.take_state() else { return false };
        match (self.state, state) {
            (_, SERVER_ERROR) => {
                // The error number may still be incomplete; the timeout of this state limits the
                // wait for it.
                let Some(number) = self.talk.take_word() else {
                    self.talk.put_back(state);
                    return false;
                };
                self.fail(ClientError::Server(number), now);
            }
            (_, ACCESS_DENIED) => self.fail(ClientError::Busy, now),
            (_, SERVER_TERMINATE) => {
                self.report_so_far(now);
                self.fail(ClientError::Terminated, now);
            }
            (State::Asked, PARAM_EXCHANGE) => {
                self.say_params();
                self.enter(State::Params, now);
            }
            (State::Params, CREATE_STREAMS) => {
                self.enter(State::Streams, now);
                self.make_stream(now);
            }
            // A fast server may start the test before the driver has reported to this client that
            // the last cookie was sent.
            (State::Start | State::Streams, TEST_START) => self.more_words_at_start(),
            (State::Start | State::Streams, TEST_RUNNING) => self.run_test(now),
            (State::Ended, EXCHANGE_RESULTS) => {
                let json = results::give(&self.test, None).to_string();
                self.talk.say_json(&json);
                self.enter(State::Results, now);
            }
            (State::Display, DISPLAY_RESULTS) => {
                self.last_words();
                self.talk.say(&[IPERF_DONE]);
                self.close_streams();
                self.enter(State::Done, now);
            }
            (_, state) => self.fail(ClientError::Nonsense(state), now),
        }
        true
    }

    fn say_params(&mut self) {
        let mss = self.mss.filter(|mss| (500..=9000).contains(mss));
        let params = &mut self.test.params;
        if params.block == 0 {
            params.block = mss.map_or(DATAGRAM, |mss| mss as usize);
        }
        let json = params.to_json().to_string();
        self.talk.say_json(&json);
    }

    fn run_test(&mut self, now: Instant) {
        if !self.test.has_all_streams() {
            return self.fail(ClientError::Nonsense(TEST_RUNNING), now);
        }
        self.test.start(now);
        self.enter(State::Running, now);
        self.end_if_through(now); // if the file is empty, the test ends at once
        if self.state != State::Running {
            return;
        }
        self.actions.extend(self.test.streams.iter().map(|stream| Action::Wake(stream.chan)));
        if self.config.latency {
            self.probe = Some(Probe::new(&self.config.cookie, now));
            let from = SocketAddr::from((self.config.from, 0));
            let options = [Some(StreamOption::NoDelay(true)), None, None, None, None];
            self.actions.push_back(Action::ConnectWith(PROBE_CHAN, from, self.config.to, options));
        }
    }

    /// Ends the test because its time is over or all its data was transferred.
    pub(super) fn end_test(&mut self, now: Instant) {
        self.test.stop(now);
        self.ask_streams(now);
        if self.probe.is_some() {
            self.actions.push_back(Action::Close(PROBE_CHAN));
        }
        self.talk.say(&[TEST_END]);
        self.actions.push_back(Action::Wake(CONTROL));
        self.enter(State::Ended, now);
        self.schedule();
    }

    fn on_results(&mut self, now: Instant) -> bool {
        let most = if self.test.params.wants_output { REPORT_MAX } else { RESULTS_MAX };
        match self.talk.take_json(most) {
            Ok(None) => return false,
            Ok(Some(json)) => match results::take(&mut self.test, &json) {
                Ok(output) => {
                    self.server_output = output;
                    self.enter(State::Display, now);
                }
                Err(_) => self.fail(ClientError::Results, now),
            },
            // Instead of the length of its results, the server may send an error: a state byte and
            // two numbers.
            Err(BadLength) if self.talk.starts_with(SERVER_ERROR) => {
                self.talk.take_state();
                let number = self.talk.take_word().unwrap_or_default();
                self.fail(ClientError::Server(number), now);
            }
            Err(BadLength) => self.fail(ClientError::Results, now),
        }
        true
    }

    fn close_streams(&mut self) {
        let open: Vec<Chan> = self.test.open_chans().collect();
        self.actions.extend(open.into_iter().map(Action::Close));
        self.test.streams.iter_mut().for_each(|stream| stream.is_open = false);
    }

    /// Prepares the report of an interrupted test from the results so far.
    pub(super) fn report_so_far(&mut self, now: Instant) {
        if self.test.is_running() {
            self.test.is_verbose = self.config.verbose;
            self.test.report_so_far(now);
        }
    }

    /// Ends the client with an error.
    pub(super) fn fail(&mut self, why: ClientError, now: Instant) {
        if self.state == State::Over {
            return;
        }
        if self.test.is_running() {
            self.test.stop(now);
            self.test.note_interval(now);
        }
        self.actions.push_back(Action::Abort(CONTROL));
        self.end(Err(why));
    }

    /// Ends the client after its final message was sent.
    pub(super) fn conclude(&mut self) {
        self.actions.push_back(Action::Close(CONTROL));
        self.end(if self.state == State::Stopping { Err(ClientError::Interrupted) } else { Ok(()) });
    }

    fn end(&mut self, result: Result<(), ClientError>) {
        if let Err(why) = &result {
            self.test.error = Some(why.to_string());
            let streams = (0..self.greeted.len()).map(|at| Action::Abort(Chan(1 + at as u32)));
            self.actions.extend(streams.chain([Action::Abort(PROBE_CHAN)]));
        }
        self.state = State::Over;
        self.print_report();
        self.result = Some(result);
        self.check = None;
        self.hello_at = None;
    }
}
