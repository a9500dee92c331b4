//! Flags of the pipeline commands.

use clap::{Args, ValueHint};
use pipe::Format;
use std::path::PathBuf;

/// Flags of commands that read frames from files or standard input.
#[derive(Args, Debug, Clone, Default)]
pub struct StreamArgs {
    /// Read these files instead of standard input; '-' is standard input
    #[arg(value_name = "FILE", value_hint = ValueHint::FilePath)]
    pub files: Vec<PathBuf>,
    #[command(flatten)]
    pub form: FormArgs,
}

/// Flags that select formats and threads, for all pipeline commands.
#[derive(Args, Debug, Clone, Default)]
pub struct FormArgs {
    /// Set the input format: text, bin1, bin2, pcap, pcapng, jsonl [default: detected from the
    /// first bytes]
    #[arg(short = 'i', long = "in", value_name = "FORM")]
    pub input: Option<Format>,
    /// Set the output format: as --in, or text lines without (f1) or with timestamps (f2) [default:
    /// the input's]
    #[arg(short = 'o', long = "out", value_name = "FORM")]
    pub output: Option<Format>,
    /// Stop with exit code 1 at the first invalid line
    #[arg(long)]
    pub strict: bool,
    /// Use N threads
    #[arg(short = 'j', long, value_name = "N", value_parser = clap::value_parser!(u16).range(1..=256))]
    pub jobs: Option<u16>,
    /// With -j, write frames in any order
    #[arg(long)]
    pub unordered: bool,
    /// Set the nanoseconds per tick of timestamps [default: 8]
    #[arg(long, value_name = "NS", value_parser = clap::value_parser!(u64).range(1..=1_000_000_000))]
    pub tick: Option<u64>,
}

impl FormArgs {
    /// Returns the nanoseconds per tick of timestamps; 8 unless set, as in ethpipe.
    pub fn tick(&self) -> u64 {
        self.tick.unwrap_or(8)
    }
}

/// Arguments of `cat`.
#[derive(Args, Debug, Clone)]
#[command(after_help = "\
Without -o, frames are written as lines of text, for any input format: DST SRC TYPE and each byte in hexadecimal, \
without FCS. Devices are opened without receive offloads, so that frames arrive unmerged and with complete checksums.

Examples:
  linerate cat tap:tap0 | grep 'FFFFFFFFFFFF' | linerate put tap:tap1
  linerate cat -c 10 -o pcapng tap:tap0 | tshark -r -
  linerate cat trace.pcap | grep -c ' 0806 '")]
pub struct CatArgs {
    /// Read from this port, as in tap:tap0 or 'pktgen(count=10):', or from this file of frames; '-'
    /// is standard input
    #[arg(value_name = "PORT")]
    pub port: Option<String>,
    /// Stop after N frames
    #[arg(short = 'c', long, value_name = "N")]
    pub count: Option<u64>,
    /// Prefix each line with the frame's arrival time, as in format f2
    #[arg(short = 't', long)]
    pub stamp: bool,
    #[command(flatten)]
    pub form: FormArgs,
}

/// Arguments of `put`.
#[derive(Args, Debug, Clone)]
#[command(after_help = "\
A frame with a timestamp is sent at that time; 0000000000000000 means at once. The second digit selects one of \
eight registers; the time is relative to its value. A first digit of 1 first sets this register to the current time. \
Register 0 is the start of the machine, as in the output of 'linerate cat -t'.

Examples:
  linerate cat tap:tap0 | sed -e 's/8100 00 01 //' | linerate put tap:tap1
  linerate put tap:tap0 < recv.apkt")]
pub struct PutArgs {
    /// Send through this port, as in tap:tap0
    #[arg(value_name = "PORT")]
    pub port: String,
    /// Send each frame at once, ignoring its timestamp
    #[arg(long)]
    pub at_once: bool,
    #[command(flatten)]
    pub stream: StreamArgs,
}

/// Arguments of `pipe`.
#[derive(Args, Debug, Clone)]
#[command(after_help = "\
Frames of standard input are sent through the port, and received frames are written to standard output. Ends when \
the port is closed, on Ctrl-C, or, without --half, at the end of standard input.

Examples:
  linerate gen -n 3 -t 1 --udp 10.0.0.1:7-10.0.0.2:9 | linerate pipe pair:a
  mkfifo back; linerate pipe tap:tap0 < back | linerate pipe tap:tap1 > back")]
pub struct PipeArgs {
    /// Send and receive through this port, as in tap:tap0
    #[arg(value_name = "PORT")]
    pub port: String,
    /// Prefix each line with the frame's arrival time, as in format f2
    #[arg(short = 't', long)]
    pub stamp: bool,
    /// Send each frame at once, ignoring its timestamp
    #[arg(long)]
    pub at_once: bool,
    /// Keep writing received frames after the end of standard input
    #[arg(long)]
    pub half: bool,
    #[command(flatten)]
    pub form: FormArgs,
}

/// Arguments of `conv`.
#[derive(Args, Debug, Clone)]
#[command(after_help = "\
Examples:
  linerate conv -o pcapng frames.txt > frames.pcapng
  linerate conv trace.pcap | head -3
  linerate conv -o jsonl trace.pcap | jq .type")]
pub struct ConvArgs {
    #[command(flatten)]
    pub stream: StreamArgs,
}
