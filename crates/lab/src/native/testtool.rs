//! `linerate testtool --native send`: the tool's result block, with the host kernel's `send` in
//! place of our stack's.
//!
//! The source is the kernel's connected socket. The sink is a device that drops the packets and
//! counts them. Only the send calls are timed. With `-b` above 1, sendmmsg(2) sends that many
//! datagrams per call. The program's main must call [`crate::child_main_if_requested`] first.

use std::io::Write;
use std::time::Duration;

use anyhow::ensure;
use programs::testtool::{self, Mode, Options, Outcome};

use port::pktgen::Family;

use super::send::{Job, Sender};
use super::subject::repeat;

/// Bytes of the Ethernet, IPv4 and UDP headers in front of the payload.
const HEADERS: u64 = 42;

/// Runs the tool on the host kernel and prints its result block (or JSON), with the device that
/// received the packets. Ctrl-C ends it early, after the current run of at most a million packets.
///
/// # Errors
/// A mode other than `send`; options that apply to our stack only, or are out of range; otherwise
/// as [`super::NativeSend::start`].
pub fn native(options: &Options, out: &mut dyn Write) -> anyhow::Result<()> {
    let job = job(options)?;
    testtool::report(options, out, || send(&mut Sender::start()?, job))
}

fn job(options: &Options) -> anyhow::Result<Job> {
    testtool::check(options)?;
    let mode = options.mode.word();
    ensure!(
        options.mode == Mode::Send,
        "--native: mode '{mode}' is not supported, the host kernel is measured in send only"
    );
    ensure!(options.family == Family::V4, "--native: -6 is not supported, the host kernel is measured over IPv4 only");
    ensure!(options.rc.is_none(), "--native: an rc script configures our stack, not the host kernel");
    ensure!(
        options.locks.is_empty(),
        "--native: --locks {} applies to our stack, not to the host kernel",
        options.locks
    );
    ensure!(options.sysctl.is_empty(), "--native: settings configure our stack, not the host kernel");
    let count = if options.count == 0 { u64::MAX } else { options.count };
    let job = Job { count, size: options.size, burst: options.burst };
    job.check()?;
    Ok(job)
}

fn send(sender: &mut Sender, job: Job) -> anyhow::Result<Outcome> {
    let done = repeat(sender, job, dispatch::stop_requested)?;
    let sent = done.reading.ops;
    let mut outcome = Outcome::new(Mode::Send, 1, Duration::from_nanos(done.reading.wall_ns));
    (outcome.source_count, outcome.source_bytes) = (sent, sent * job.size as u64);
    (outcome.sink_count, outcome.sink_bytes) = (done.dropped, done.dropped * (job.size as u64 + HEADERS));
    outcome.device = Some(sender.device().to_owned());
    Ok(outcome)
}
