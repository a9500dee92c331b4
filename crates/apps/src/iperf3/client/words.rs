//! Output of the client other than the rows of the report, and the errors of the client.

use super::{Client, OUTPUT_MAX};
use crate::iperf3::json;
use crate::iperf3::params::{Params, Refused};
use crate::streams::Failure;
use linerate::stack::Instant;
use serde_json::json;
use std::time::Duration;

/// Reason why a client could not complete its test.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
pub enum ClientError {
    /// The control connection could not be established.
    #[error("unable to connect to server: {}", unable(.0))]
    Unable(Failure),
    /// The server is already running its maximum number of tests.
    #[error("the server is busy running a test. try again later")]
    Busy,
    /// A stream could not be created.
    #[error("unable to connect stream: {0}")]
    Stream(Failure),
    /// The control connection ended during the test.
    #[error("control socket has closed unexpectedly")]
    Vanished,
    /// The server ended all streams without an error message.
    #[error("the server has ended all streams")]
    StreamsEnded,
    /// This client was interrupted.
    #[error("interrupt - the client has terminated")]
    Interrupted,
    /// The server was terminated.
    #[error("the server has terminated")]
    Terminated,
    /// The server sent the number of an error.
    #[error("server error: {}", Refused::sentence_of(*.0))]
    Server(u32),
    /// The server sent an unexpected message.
    #[error("received an unknown control message: {0}")]
    Nonsense(u8),
    /// The server's results are invalid or too long.
    #[error("unable to receive results")]
    Results,
    /// The server did not reply within the time limit.
    #[error("no answer from the server for {} s", .0.as_secs())]
    Silent(Duration),
    /// The file of a stream could not be opened, read or written: path, reason.
    #[error("{0}: {1}")]
    File(String, String),
    /// No data moved within the time limit.
    #[error("no data sent or received for {} ms", .0.as_millis())]
    Stalled(Duration),
}

fn unable(why: &Failure) -> String {
    match why {
        Failure::Again | Failure::TimedOut => "Connection timed out".to_owned(),
        Failure::Refused => "Connection refused".to_owned(),
        Failure::HostUnreachable => "No route to host".to_owned(),
        Failure::NetUnreachable => "Network is unreachable".to_owned(),
        why => why.to_string(),
    }
}

impl Client {
    fn more(&mut self, text: &str) {
        if self.config.verbose {
            self.test.line(text);
        }
    }

    pub(super) fn first_words(&mut self, now: Instant) {
        self.more(concat!("linerate ", env!("CARGO_PKG_VERSION")));
        if let Some(wall) = self.config.wall {
            self.more(&format!("Time: {}", json::time_of_day(wall, now)));
        }
        let to = self.config.to;
        self.test.line(&format!("Connecting to host {}, port {}", to.ip(), to.port()));
        let cookie = String::from_utf8_lossy(self.config.cookie.strip_suffix(b"\0").unwrap_or_default()).into_owned();
        self.more(&format!("      Cookie: {cookie}"));
        if self.test.params.reverse {
            self.test.line(&format!("Reverse mode, remote host {} is sending", to.ip()));
        }
        if self.test.params.rate > 0 {
            self.more(&format!("      Target Bitrate: {}", self.test.params.rate));
        }
        self.print_lines();
    }

    pub(super) fn more_words_at_start(&mut self) {
        if let Some(mss) = self.mss {
            self.more(&format!("Control connection MSS {mss}"));
        }
        let words = starting(&self.test.params);
        self.more(&words);
    }

    /// Prints the last lines of the text report.
    pub(super) fn last_words(&mut self) {
        self.test.is_verbose = self.config.verbose;
        self.test.end_lines();
        if let Some(path) = self.config.file.as_ref().map(|path| path.display().to_string()) {
            self.test.file_lines(&path);
        }
        let cpu = |[total, user, system]: [f64; 3]| format!("{total:.1}% ({user:.1}%u/{system:.1}%s)");
        let roles = if self.test.sends(0) { ["sender", "receiver"] } else { ["receiver", "sender"] };
        let (ours, theirs) = (cpu(self.test.cpu_percent), cpu(self.test.peer_cpu_percent));
        self.more(&format!("CPU Utilization: local/{} {ours}, remote/{} {theirs}", roles[0], roles[1]));
        if let Some(latency) = self.latency() {
            self.test.line(&format!(
                "Latency during the test: {} round trips, min/p50/p99/max {:.0}/{:.0}/{:.0}/{:.0} us",
                latency.count, latency.min_us, latency.p50_us, latency.p99_us, latency.max_us
            ));
        } else if self.config.latency {
            self.test.line("Latency during the test: not measured, the server does not support it");
        }
        if let Some(text) = self.server_output.clone() {
            self.test.line(&format!("\nServer output:\n{text}"));
        }
        self.test.line("\niperf Done.");
    }

    pub(super) fn print_lines(&mut self) {
        let lines = self.test.take_lines();
        if !self.config.json && self.output.len().saturating_add(lines.len()) <= OUTPUT_MAX {
            self.output.push_str(&lines);
        }
    }

    /// Prints the output that remains at the end: lines, or the JSON object.
    pub(super) fn print_report(&mut self) {
        self.print_lines();
        if !self.config.json {
            return;
        }
        let mut report = json::report(&self.test, self.config.wall);
        if let (Some(latency), Some(end)) = (self.latency(), report.get_mut("end")) {
            let (min, p50, p99, max) = (latency.min_us, latency.p50_us, latency.p99_us, latency.max_us);
            let latency =
                json!({ "round_trips": latency.count, "min_us": min, "p50_us": p50, "p99_us": p99, "max_us": max });
            end.as_object_mut().into_iter().for_each(|end| drop(end.insert("latency".into(), latency.clone())));
        }
        if let (Some(text), Some(report)) = (&self.server_output, report.as_object_mut()) {
            match serde_json::from_str::<serde_json::Value>(text) {
                Ok(value) => report.insert("server_output_json".into(), value),
                Err(_) => report.insert("server_output_text".into(), json!(text)),
            };
        }
        self.output.push_str(&format!("{report:#}\n"));
    }
}

fn starting(params: &Params) -> String {
    let protocol = if params.is_udp() { "UDP" } else { "TCP" };
    let what = match (params.bytes, params.blocks) {
        (0, 0) => format!("{} second test", params.time.as_secs()),
        (0, blocks) => format!("{blocks} blocks to send"),
        (bytes, _) => format!("{bytes} bytes to send"),
    };
    format!(
        "Starting Test: protocol: {protocol}, {} streams, {} byte blocks, omitting {} seconds, {what}, tos {}",
        params.streams,
        params.block,
        params.omit.as_secs(),
        params.tos
    )
}
