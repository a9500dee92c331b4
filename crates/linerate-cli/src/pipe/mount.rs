//! `mount`: ports as files of a directory.

use super::ends;
use crate::exit::{Exit, Fault, notice};
use anyhow::Context;
use clap::{Args, ValueHint};
use pipe::mount::{self, MountError, Options, Report};
use std::path::PathBuf;
use wire::text::{MAX_FRAME, MIN_FRAME};

/// Arguments of `mount`.
#[derive(Args, Debug, Clone)]
#[command(after_help = "\
DIR/tap0 contains lines of text, DIR/rtap0 records (bin2), DIR/stats/tap0 counters. DIR/global_time is the counter of \
timestamps. DIR/local_time1 to DIR/local_time7 are the registers from which the timestamps of frames to send count \
(hexadecimal, readable and writable).

A read waits for a frame and returns as many whole frames as fit; a buffer smaller than a frame receives it in \
pieces. Each reader receives all frames that arrive while it has the file open. A reader too slow for --ring loses the \
oldest frames; stats has their number. A write may contain several lines and may end within a line. A write without \
any valid frame fails (EINVAL); other invalid lines are counted. The files cannot seek: use 'cat DIR/tap0 | head', \
because head alone seeks back to the end of the printed lines.

Ends on Ctrl-C, on 'fusermount3 -u DIR', or when all ports are closed and their frames are read. Exit codes: 0 \
success; 1 a port was lost, a frame was too long or too short, or DIR cannot be mounted; 2 invalid usage. Only the \
current user can open the files. Root needs /dev/fuse; other users also need fusermount3.

Examples:
  linerate mount /tmp/net tap:tap0 tap:tap1 &
  awk '$1==\"001122334455\"' < /tmp/net/tap0 > /tmp/net/tap1
  dd if=/tmp/net/rtap0 of=recv.bpkt bs=1M count=10
  printf '%s\\n' \"$frame\" \"$frame\" > /tmp/net/tap0")]
pub struct MountArgs {
    /// Mount on this existing directory
    #[arg(value_name = "DIR", value_hint = ValueHint::DirPath)]
    pub dir: PathBuf,
    /// Mount these ports, as in tap:tap0 or 'pktgen(size=22):pg0'
    #[arg(value_name = "PORT", required = true)]
    pub ports: Vec<String>,
    /// Name the files 0, r0, 1, r1, ... in the order of the ports, as ethpipe does
    #[arg(short, long)]
    pub numbered: bool,
    /// Prefix each line with the frame's arrival time, as in format f2; records always have it
    #[arg(short = 't', long)]
    pub stamp: bool,
    /// Send each frame at once, ignoring its timestamp
    #[arg(long)]
    pub at_once: bool,
    /// Buffer at most this many bytes of received frames per file, for slow readers
    #[arg(long, value_name = "BYTES", default_value_t = 4 << 20, value_parser = clap::value_parser!(u32).range(65_536..=1 << 30))]
    pub ring: u32,
    /// Set the nanoseconds per tick of timestamps
    #[arg(long, value_name = "NS", default_value_t = 8, value_parser = clap::value_parser!(u64).range(1..=1_000_000_000))]
    pub tick: u64,
}

/// Mounts the ports and serves their files until the mount ends.
pub fn run(args: &MountArgs) -> anyhow::Result<Exit> {
    dispatch::install_stop_handler().context("cannot catch Ctrl-C")?;
    let ports = args.ports.iter().map(|name| ends::open(name)).collect::<anyhow::Result<Vec<_>>>()?;
    let options = Options {
        dir: args.dir.clone(),
        numbered: args.numbered,
        stamped: args.stamp,
        timed: !args.at_once,
        ring: args.ring as usize,
        tick_ns: args.tick,
        stop: dispatch::stop_requested,
    };
    let dir = args.dir.display();
    let ready = |names: &mount::Names| notice(&format!("{dir}: mounted; files {}", names.ports.join(" ")));
    let reports = mount::serve(ports, &options, ready).map_err(|error| match error {
        MountError::Names(why) => Fault::usage(why),
        other => other.into(),
    })?;
    // Every report is printed, also after a failure.
    let undone = reports.iter().filter(|report| print_report(report)).count();
    Ok(if undone > 0 { Exit::Failed } else { Exit::Fine })
}

/// Prints the warnings of a port and the numbers of frames that it lost. Returns whether the port
/// failed, or a frame was too long or too short.
fn print_report(report: &Report) -> bool {
    let Report { port, counts, lost, warnings } = report;
    let say = |count: u64, what: &str| {
        if count > 0 {
            notice(&format!("{port}: {count} {what}"));
        }
    };
    warnings.iter().for_each(|warning| notice(&format!("{port}: {warning}")));
    if let Some(why) = lost {
        notice(&format!("{port}: port lost: {why}"));
    }
    say(counts.overflow, "frames lost before a slow reader read them");
    let refused = format!("frames skipped: length must be {MIN_FRAME} to {MAX_FRAME} bytes");
    say(counts.refused, &refused);
    say(counts.too_long, "frames not sent: longer than the port's maximum");
    let early = counts.accepted.saturating_sub(counts.sent + counts.too_long);
    say(early, "frames not sent: stopped before their send time");
    let first = counts.first_bad.as_ref().map_or(String::new(), |why| format!("; first error: {why}"));
    say(counts.bad_lines, &format!("written lines are not valid frames{first}"));
    lost.is_some() || counts.refused + counts.too_long > 0
}
