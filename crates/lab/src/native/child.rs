//! The child's side: sets its device up, says which, and does one run for each line that the parent sends.
//!
//! The parent chose the namespace before the exec, so the child finds itself in it. It has one thread, and ends at its
//! socket's end of file.

use std::ffi::OsStr;
use std::io::{BufRead, BufReader, Write};
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixStream;

use anyhow::{Context, bail};

use super::sink::Sink;
use super::worker::{Job, numbers};
use crate::os::{self, Pinned};

/// Set in the child's environment; its presence makes [`child_main_if_asked`] serve. The value says where the child is:
/// `own <the parent's user namespace>`, or `none <why>`.
pub(super) const ASKED: &str = "LINERATE_NATIVE_CHILD";

/// Serves as the child and does not return, if this process was started to be one. A program that uses this module
/// calls it before anything else: before it reads its arguments, and before it starts a thread.
pub fn child_main_if_asked() {
    super::tap::serve_if_asked();
    super::forward::serve_if_asked();
    if let Some(place) = std::env::var_os(ASKED) {
        std::process::exit(if serve(&place).is_ok() { 0 } else { 1 });
    }
}

/// The name of the user namespace that this process is in, as the kernel has it; empty where it does not say.
pub(super) fn user_namespace() -> String {
    std::fs::read_link("/proc/self/ns/user").unwrap_or_default().display().to_string()
}

fn serve(place: &OsStr) -> anyhow::Result<()> {
    let mut socket = BufReader::new(UnixStream::from(OwnedFd::from(port::os::stdin()?)));
    let mut sink = match sink(&place.to_string_lossy()) {
        Ok(sink) => sink,
        Err(why) => return Ok(writeln!(socket.get_mut(), "failed {}", one_line(&why))?),
    };
    writeln!(socket.get_mut(), "device {}", sink.device)?;
    let mut pinned = None;
    let mut line = String::new();
    while socket.read_line(&mut line)? > 0 {
        match obey(&mut sink, &mut pinned, line.trim_end()) {
            Ok(answer) => writeln!(socket.get_mut(), "done {answer}")?,
            Err(why) => writeln!(socket.get_mut(), "failed {}", one_line(&why))?,
        }
        line.clear();
    }
    Ok(())
}

fn sink(place: &str) -> anyhow::Result<Sink> {
    match place.split_once(' ') {
        Some(("own", outer)) => {
            let own = if user_namespace() == outer { "network namespace" } else { "user and network namespace" };
            Sink::tap(own).or_else(|why| Sink::own_loopback(&format!("no TAP ({})", one_line(&why))))
        }
        Some(("none", why)) => Sink::loopback(why),
        _ => bail!("{ASKED}={place}: neither own nor none"),
    }
}

/// An error with its causes, without the line ends that would break the conversation.
pub(super) fn one_line(why: &anyhow::Error) -> String {
    format!("{why:#}").replace('\n', " ")
}

fn obey(sink: &mut Sink, pinned: &mut Option<(usize, Pinned)>, line: &str) -> anyhow::Result<String> {
    let [count, size, burst, cpu] = numbers(line.strip_prefix("run ").context("not `run`")?)?;
    let job = Job { count, size: size as usize, burst: burst as usize };
    job.check()?;
    stay_on(pinned, cpu as usize)?;
    let before = sink.drops.read()?;
    let (reading, errors) = sink.send(job);
    let dropped = sink.drops.read()?.since(before);
    Ok(format!("{} {} {} {errors} {dropped}", reading.ticks, reading.wall_ns, reading.cpu_ns))
}

fn stay_on(pinned: &mut Option<(usize, Pinned)>, cpu: usize) -> anyhow::Result<()> {
    if pinned.as_ref().is_none_or(|(current, _)| *current != cpu) {
        *pinned = None; // before the new one: its drop restores the former set
        let pin = os::pin_to_cpu(cpu).with_context(|| format!("cannot stay on processor {cpu}"))?;
        *pinned = Some((cpu, pin));
    }
    Ok(())
}
