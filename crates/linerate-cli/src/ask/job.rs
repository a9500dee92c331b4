//! Job of a host as seen by its client, and the parser of a server's address.

use crate::exit::Fault;
use crate::running::Works;
use anyhow::Context;
use std::time::Duration;

/// Polling interval of a job without output.
pub(super) const PAUSE: Duration = Duration::from_millis(10);

/// State of a job.
pub(super) enum State {
    Running,
    Done,
    Failed(String),
}

/// Job of a host, which is stopped on drop.
pub(super) struct Job<'a> {
    pub(super) host: &'a dyn Works,
    id: String,
    ended: std::cell::Cell<bool>,
}

impl<'a> Job<'a> {
    pub(super) fn start(host: &'a dyn Works, words: &[&str], json: bool) -> anyhow::Result<Job<'a>> {
        let words: Vec<&str> = ["job"].iter().chain(words).copied().collect();
        let id = host.ask(&words, json)?.trim().to_string();
        Ok(Job { host, id, ended: std::cell::Cell::new(false) })
    }

    /// Returns the job's state and its output since the last call.
    pub(super) fn read(&self) -> anyhow::Result<(State, String)> {
        let text = self.host.ask(&["job", "read", &self.id], false)?;
        let (state, rest) = text.split_once('\n').unwrap_or((&text, ""));
        let state = match state.split_once(' ').unwrap_or((state, "")) {
            ("running", _) => State::Running,
            ("done", _) => State::Done,
            (_, why) => State::Failed(why.to_string()),
        };
        self.ended.set(!matches!(state, State::Running));
        Ok((state, rest.to_string()))
    }

    /// Reads output of the job as [`Job::read`] does, and decodes it from hexadecimal digits.
    pub(super) fn read_bytes(&self) -> anyhow::Result<(State, Vec<u8>)> {
        let (state, text) = self.read()?;
        let digits: Vec<u8> = text.bytes().filter(u8::is_ascii_hexdigit).collect();
        let value = |byte: u8| char::from(byte).to_digit(16).unwrap_or_default() as u8;
        let bytes = digits.chunks_exact(2).map(|pair| value(pair[0]) << 4 | value(pair[1]));
        Ok((state, bytes.collect()))
    }

    /// Writes input to the job; returns the number of bytes accepted.
    pub(super) fn write(&self, bytes: &[u8]) -> anyhow::Result<usize> {
        let hex: String = bytes.iter().map(|byte| format!("{byte:02x}")).collect();
        self.host
            .ask(&["job", "write", &self.id, &hex], false)?
            .trim()
            .parse()
            .context("unexpected reply of the host: not a number")
    }

    pub(super) fn finish(&self) -> anyhow::Result<()> {
        self.host.ask(&["job", "end", &self.id], false).map(drop)
    }

    pub(super) fn stop(self) -> anyhow::Result<()> {
        self.ended.set(true);
        self.host.ask(&["job", "stop", &self.id], false).map(drop)
    }
}

impl Drop for Job<'_> {
    fn drop(&mut self) {
        if !self.ended.get() {
            // If the host is gone, the job has stopped already.
            let _ = self.host.ask(&["job", "stop", &self.id], false);
        }
    }
}

/// Splits `HOST[:PORT]`; an IPv6 address with a port is in brackets.
pub(super) fn end_of(word: &str, port: u16) -> anyhow::Result<(String, u16)> {
    let bad = || Fault::usage(format!("'{word}': expected HOST or HOST:PORT, with an IPv6 address in brackets"));
    let (host, rest) = match word.strip_prefix('[') {
        Some(rest) => rest.split_once(']').ok_or_else(bad)?,
        None if word.matches(':').count() > 1 => (word, ""),
        None => word.split_at(word.find(':').unwrap_or(word.len())),
    };
    if host.is_empty() {
        return Err(bad());
    }
    match rest.strip_prefix(':') {
        None if rest.is_empty() => Ok((host.to_string(), port)),
        Some(digits) => Ok((host.to_string(), digits.parse().ok().filter(|port| *port > 0).ok_or_else(bad)?)),
        None => Err(bad()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hosts_and_ports_are_parsed() {
        for (word, expected) in [
            ("www", Some(("www", 80))),
            ("www:8080", Some(("www", 8080))),
            ("10.0.0.1:81", Some(("10.0.0.1", 81))),
            ("::1", Some(("::1", 80))),
            ("[::1]", Some(("::1", 80))),
            ("[fe80::1%tap0]:81", Some(("fe80::1%tap0", 81))),
            ("", None),
            (":80", None),
            ("www:", None),
            ("www:0", None),
            ("www:70000", None),
            ("[::1", None),
            ("[::1]80", None),
        ] {
            let found = end_of(word, 80).ok();
            assert_eq!(found, expected.map(|(host, port)| (host.to_string(), port)), "{word}");
        }
    }
}
