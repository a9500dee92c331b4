//! Clients run by a running host: `ping`, `traceroute`, `nc`, `nslookup`, `http get`. The host does
//! the work as jobs ([`node`]'s control commands `job ...`), with its own addresses and routes.
//! This side starts jobs, passes bytes in both directions, and prints.

mod http;
mod lookup;

use crate::args::{HttpArgs, NcArgs, NslookupArgs, PingArgs};
use crate::exit::{Exit, Fault, print};
use crate::running::{Running, Works};
use anyhow::Context;
use std::io::{self, Read, Write};
use std::sync::mpsc::{self, TryRecvError};
use std::time::{Duration, Instant};

/// Polling interval of a job without output.
const PAUSE: Duration = Duration::from_millis(10);
/// Bytes of input written to a job at a time.
const CHUNK: usize = 16 * 1024;

/// Runs `ping` or `traceroute`: prints the job's lines as they arrive. Ctrl-C makes a ping print
/// its summary.
///
/// # Errors
/// No host, wrong words, or no reply.
pub fn lines(job: &str, args: &PingArgs) -> anyhow::Result<Exit> {
    let (words, flags) = crate::ctl::Flags::of(args.words.clone(), args.url.clone(), args.json)?;
    let host = Running::of(Some(&flags.url))?;
    dispatch::install_stop_handler().context("cannot catch Ctrl-C")?;
    let words: Vec<&str> = [job].into_iter().chain(words.iter().map(String::as_str)).collect();
    follow(&Job::start(&host, &words, flags.json)?)
}

/// Runs `iperf3 -c` in the host, and prints its report as it arrives.
///
/// # Errors
/// No server, or a test that failed.
pub fn iperf3(host: &dyn Works, words: &[&str]) -> anyhow::Result<Exit> {
    dispatch::install_stop_handler().context("cannot catch Ctrl-C")?;
    let words: Vec<&str> = ["iperf3"].iter().chain(words).copied().collect();
    follow(&Job::start(host, &words, false)?)
}

/// Prints a job's lines until it ends.
fn follow(job: &Job<'_>) -> anyhow::Result<Exit> {
    let mut asked = None;
    loop {
        let (state, text) = job.read()?;
        print(&text)?;
        match state {
            State::Running => {}
            State::Done => return Ok(Exit::Fine),
            State::Failed(why) if why == "no reply" => return Ok(Exit::Failed),
            State::Failed(why) => anyhow::bail!("{why}"),
        }
        if dispatch::stop_requested()
            && *asked.get_or_insert_with(Instant::now) + Duration::from_secs(1) < Instant::now()
        {
            return Ok(Exit::Failed); // a traceroute has no summary; the job stops when this process closes its connection
        }
        if dispatch::stop_requested() {
            job.finish()?;
        }
        if text.is_empty() {
            job.host.pause(PAUSE);
        }
    }
}

/// Runs `nc`: copies standard input to the connection and received data to standard output.
///
/// # Errors
/// No host, or the connection fails.
pub fn nc(args: &NcArgs) -> anyhow::Result<Exit> {
    connect(&Running::of(args.url.as_deref())?, args)
}

/// Runs [`nc`] from `host`. In virtual time the clock stops while input is awaited.
pub fn connect(host: &dyn Works, args: &NcArgs) -> anyhow::Result<Exit> {
    dispatch::install_stop_handler().context("cannot catch Ctrl-C")?;
    let port = args.port.to_string();
    let family = [(args.v4, "-4"), (args.v6, "-6")].into_iter().find_map(|(set, flag)| set.then_some(flag));
    let words = [if args.udp { "udp" } else { "tcp" }].into_iter().chain(family).chain([args.host.as_str(), &port]);
    let job = Job::start(host, &words.collect::<Vec<_>>(), false)?;
    let (say, input) = mpsc::sync_channel(4);
    dispatch::spawn_worker("stdin", None, move |_| {
        let mut stdin = io::stdin().lock();
        loop {
            let mut chunk = vec![0; CHUNK];
            match stdin.read(&mut chunk) {
                Ok(n) if n > 0 => chunk.truncate(n),
                _ => return, // the end, reported by the closed channel
            }
            if say.send(chunk).is_err() {
                return;
            }
        }
    })?;
    let (mut rest, mut is_finished, mut heard) = (Vec::new(), false, host.now());
    while !dispatch::stop_requested() {
        if rest.is_empty() && !is_finished {
            let chunk = match host.is_virtual() {
                true => input.recv().map_err(|_| TryRecvError::Disconnected),
                false => input.try_recv(),
            };
            match chunk {
                Ok(chunk) => rest = chunk,
                Err(TryRecvError::Empty) => {}
                Err(TryRecvError::Disconnected) => {
                    // A UDP socket stays open: replies may follow the end of the input.
                    if !args.udp {
                        job.finish()?;
                    }
                    is_finished = true;
                }
            }
        }
        let taken = if rest.is_empty() { 0 } else { job.write(&rest)? };
        rest.drain(..taken);
        let (state, bytes) = job.read_bytes()?;
        if !bytes.is_empty() {
            heard = host.now();
            let mut out = io::stdout().lock();
            out.write_all(&bytes).and_then(|()| out.flush()).context("standard output")?;
        }
        match state {
            State::Running => {}
            State::Done => return Ok(Exit::Fine),
            State::Failed(why) => anyhow::bail!("{why}"),
        }
        let idle = args.idle.unwrap_or(if args.udp { Duration::from_secs(1) } else { Duration::MAX });
        if is_finished && rest.is_empty() && host.now().saturating_sub(heard) >= idle {
            break;
        }
        if bytes.is_empty() && taken == 0 {
            host.pause(PAUSE);
        }
    }
    job.stop()?;
    Ok(Exit::Fine)
}

/// Runs `nslookup`.
///
/// # Errors
/// No host, no server, or no such name.
pub fn nslookup(args: &NslookupArgs) -> anyhow::Result<Exit> {
    look_up(&Running::of(args.url.as_deref())?, args)
}

/// Runs [`nslookup`] from `host`.
pub fn look_up(host: &dyn Works, args: &NslookupArgs) -> anyhow::Result<Exit> {
    lookup::run(host, args)
}

/// Runs `http get`.
///
/// # Errors
/// No host, no server, or an invalid response.
pub fn http(args: &HttpArgs) -> anyhow::Result<Exit> {
    get(&Running::of(args.url.as_deref())?, args)
}

/// Runs [`http()`] from `host`.
pub fn get(host: &dyn Works, args: &HttpArgs) -> anyhow::Result<Exit> {
    http::run(host, args)
}

/// State of a job.
enum State {
    Running,
    Done,
    Failed(String),
}

/// Job of a host, which is stopped on drop.
struct Job<'a> {
    host: &'a dyn Works,
    id: String,
    ended: std::cell::Cell<bool>,
}

impl<'a> Job<'a> {
    fn start(host: &'a dyn Works, words: &[&str], json: bool) -> anyhow::Result<Job<'a>> {
        let words: Vec<&str> = ["job"].iter().chain(words).copied().collect();
        let id = host.ask(&words, json)?.trim().to_string();
        Ok(Job { host, id, ended: std::cell::Cell::new(false) })
    }

    /// Returns the job's state and its output since the last call.
    fn read(&self) -> anyhow::Result<(State, String)> {
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
    fn read_bytes(&self) -> anyhow::Result<(State, Vec<u8>)> {
        let (state, text) = self.read()?;
        let digits: Vec<u8> = text.bytes().filter(u8::is_ascii_hexdigit).collect();
        let value = |byte: u8| char::from(byte).to_digit(16).unwrap_or_default() as u8;
        let bytes = digits.chunks_exact(2).map(|pair| value(pair[0]) << 4 | value(pair[1]));
        Ok((state, bytes.collect()))
    }

    /// Writes input to the job; returns the number of bytes accepted.
    fn write(&self, bytes: &[u8]) -> anyhow::Result<usize> {
        let hex: String = bytes.iter().map(|byte| format!("{byte:02x}")).collect();
        self.host
            .ask(&["job", "write", &self.id, &hex], false)?
            .trim()
            .parse()
            .context("unexpected reply of the host: not a number")
    }

    fn finish(&self) -> anyhow::Result<()> {
        self.host.ask(&["job", "end", &self.id], false).map(drop)
    }

    fn stop(self) -> anyhow::Result<()> {
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
fn end_of(word: &str, port: u16) -> anyhow::Result<(String, u16)> {
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
