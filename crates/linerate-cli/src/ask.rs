//! Clients that run in a running host: `ping`, `traceroute`, `nc`, `nslookup`, `http get`. The host
//! performs the work as jobs ([`node`]'s control commands `job ...`), with its own addresses and
//! routes. This process starts the jobs, copies input and output, and prints.

mod http;
mod job;
mod lookup;

use crate::args::{HttpArgs, NcArgs, NslookupArgs, PingArgs};
use crate::exit::{Exit, print};
use crate::running::{Running, Works};
use anyhow::Context;
use job::{Job, PAUSE, State};
use std::io::{self, Read, Write};
use std::sync::mpsc::{self, TryRecvError};
use std::time::{Duration, Instant};

/// Bytes of input written to a job at a time.
const CHUNK: usize = 16 * 1024;

/// Runs `ping` or `traceroute` as a job of the host, and prints the job's lines as they arrive.
/// After Ctrl-C, a ping still prints its summary.
///
/// # Errors
/// No host replies at the control socket, the host rejects the arguments, or the job fails.
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
/// The server cannot be reached, or the test failed.
pub fn iperf3(host: &dyn Works, words: &[&str]) -> anyhow::Result<Exit> {
    dispatch::install_stop_handler().context("cannot catch Ctrl-C")?;
    let words: Vec<&str> = ["iperf3"].iter().chain(words).copied().collect();
    follow(&Job::start(host, &words, false)?)
}

/// Prints a job's lines until it ends.
fn follow(job: &Job<'_>) -> anyhow::Result<Exit> {
    let mut requested = None;
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
            && *requested.get_or_insert_with(Instant::now) + Duration::from_secs(1) < Instant::now()
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
/// No host replies at the control socket, or the connection fails.
pub fn nc(args: &NcArgs) -> anyhow::Result<Exit> {
    connect(&Running::of(args.url.as_deref())?, args)
}

/// Runs [`nc`] from `host`. In virtual time the clock stops while this process waits for input.
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
/// No host replies at the control socket, no name server replies, or the name is invalid.
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
/// No host replies at the control socket, the server cannot be reached, or its response is invalid.
pub fn http(args: &HttpArgs) -> anyhow::Result<Exit> {
    get(&Running::of(args.url.as_deref())?, args)
}

/// Runs [`http()`] from `host`.
pub fn get(host: &dyn Works, args: &HttpArgs) -> anyhow::Result<Exit> {
    http::run(host, args)
}
