//! Client of a running host or bridge, for commands that need several requests.

use crate::control::printable;
use crate::exit::{Exit, Fault};
use anyhow::Context;
use node::capture::{self, BYTES_MAX, Batch, READ_MAX};
use node::control;
use std::time::{Duration, Instant};

const PATIENCE: Duration = Duration::from_secs(10);
/// Polling interval of a capture without frames.
const PAUSE: Duration = Duration::from_millis(20);

/// Host that runs jobs for this program: behind a control socket, or in virtual time.
pub trait Works {
    /// Sends one command and returns its output.
    ///
    /// # Errors
    /// The host does not reply, or replies with an error.
    fn ask(&self, words: &[&str], json: bool) -> anyhow::Result<String>;
    /// Returns the time on the host's clock since some fixed instant.
    fn now(&self) -> Duration;
    /// Waits until `time` has passed on the host's clock.
    fn pause(&self, time: Duration);
    /// Returns whether time advances only in [`Works::pause`].
    fn is_virtual(&self) -> bool {
        false
    }
}

impl Works for Running {
    fn ask(&self, words: &[&str], json: bool) -> anyhow::Result<String> {
        Running::ask(self, words, json)
    }

    fn now(&self) -> Duration {
        self.start.elapsed()
    }

    fn pause(&self, time: Duration) {
        std::thread::sleep(time);
    }
}

/// Host or bridge at the other end of a control socket.
pub struct Running {
    url: String,
    start: Instant,
}

impl Running {
    /// Returns the host at `url`, a path or the name of a host run by `up`.
    ///
    /// # Errors
    /// No URL is given, or there is no control socket at it.
    pub fn of(url: Option<&str>) -> anyhow::Result<Running> {
        let url = url.ok_or_else(|| Fault::usage("no control socket: give --url unix:///path, or set LINERATE_CTL"))?;
        let url = crate::control::socket_of(url);
        control::path_of(&url).map_err(Fault::usage)?;
        Ok(Running { url, start: Instant::now() })
    }

    /// Sends one command and returns its output with control characters escaped.
    ///
    /// # Errors
    /// The host does not reply, or replies with an error.
    pub fn ask(&self, words: &[&str], json: bool) -> anyhow::Result<String> {
        let words: Vec<String> = words.iter().map(|word| word.to_string()).collect();
        match control::request(&self.url, &words, json, PATIENCE) {
            Ok(answer) if answer.ok => Ok(printable(&answer.text).into_owned()),
            Ok(answer) => Err(anyhow::anyhow!("{}", printable(answer.text.trim_end()))),
            Err(error) => Err(Fault { exit: Exit::Nobody, what: error.to_string() }.into()),
        }
    }

    /// Opens a capture of the frames at the iface or port `place` that match `expression`.
    ///
    /// # Errors
    /// Those of [`Running::ask`].
    pub fn open(&self, place: &str, snaplen: u32, expression: &str) -> anyhow::Result<Capture<'_>> {
        let snaplen = snaplen.to_string();
        let mut words = vec!["capture", "open", place, "snaplen", &snaplen];
        if !expression.trim().is_empty() {
            words.extend(["filter", expression]);
        }
        let id = self.ask(&words, false)?.trim().to_string();
        Ok(Capture { host: self, id })
    }

    /// Returns the last dropped frames that match `expression`.
    ///
    /// # Errors
    /// Those of [`Running::ask`].
    pub fn dropped(&self, expression: &str) -> anyhow::Result<Batch> {
        let words: &[&str] = match expression.trim().is_empty() {
            true => &["capture", "dropped"],
            false => &["capture", "dropped", "filter", expression],
        };
        batch(&self.ask(words, false)?)
    }
}

fn batch(text: &str) -> anyhow::Result<Batch> {
    capture::parse(text).context("unexpected reply to a capture request; the host may run another version of linerate")
}

/// Open capture in a host.
pub struct Capture<'a> {
    host: &'a Running,
    id: String,
}

impl Capture<'_> {
    /// Passes frames to `take` as they arrive, until `take` returns `false`, `time` has passed or a
    /// stop is requested (Ctrl-C). In the last two cases, frames that the host has captured by then
    /// are still read. Then ends the capture. Returns the number of frames that were lost because
    /// the host's capture buffer was full.
    ///
    /// # Errors
    /// Those of [`Running::ask`] and of `take`. The number of lost frames is returned in these
    /// cases, too.
    pub fn follow(
        self,
        time: Option<Duration>,
        mut take: impl FnMut(Batch) -> anyhow::Result<bool>,
    ) -> (u64, anyhow::Result<()>) {
        let (start, mut missed, mut rest) = (Instant::now(), 0, BYTES_MAX / READ_MAX + 1);
        let mut read = || -> anyhow::Result<()> {
            loop {
                let left = time.map_or(Duration::MAX, |time| time.saturating_sub(start.elapsed()));
                let is_over = left.is_zero() || dispatch::stop_requested();
                let batch = batch(&self.host.ask(&["capture", "read", &self.id], false)?)?;
                missed = batch.missed;
                let is_quiet = batch.frames.is_empty();
                if !take(batch)? || (is_over && (is_quiet || rest == 0)) {
                    return Ok(());
                }
                match is_over {
                    true => rest -= 1,
                    false if is_quiet => std::thread::sleep(PAUSE.min(left)),
                    false => {}
                }
            }
        };
        let ended = read();
        let closed = self.host.ask(&["capture", "close", &self.id], false).map(drop);
        (missed, ended.and(closed))
    }
}
