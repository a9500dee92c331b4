//! The flags of commands that keep the pipe.

use clap::{Args, ValueHint};
use pipe::Format;
use std::path::PathBuf;

/// Every command that reads frames and writes frames.
#[derive(Args, Debug, Clone, Default)]
pub struct StreamArgs {
    /// Files to read instead of standard input; - is standard input
    #[arg(value_name = "FILE", value_hint = ValueHint::FilePath)]
    pub files: Vec<PathBuf>,
    #[command(flatten)]
    pub form: FormArgs,
}

/// The same without files: their place is taken, or there are none.
#[derive(Args, Debug, Clone, Default)]
pub struct FormArgs {
    /// What is read: text, bin1, bin2, pcap, pcapng, jsonl [default: what its first bytes say]
    #[arg(short = 'i', long = "in", value_name = "FORM")]
    pub input: Option<Format>,
    /// What is written: the same words, or f1 (no stamps), f2 (stamps) [default: what is read]
    #[arg(short = 'o', long = "out", value_name = "FORM")]
    pub output: Option<Format>,
    /// End with exit code 1 at the first line that is no frame
    #[arg(long)]
    pub strict: bool,
    /// Threads
    #[arg(short = 'j', long, value_name = "N", value_parser = clap::value_parser!(u16).range(1..=256))]
    pub jobs: Option<u16>,
    /// With -j: do not keep the order
    #[arg(long)]
    pub unordered: bool,
    /// Nanoseconds of a stamp's tick [default: 8]
    #[arg(long, value_name = "NS", value_parser = clap::value_parser!(u64).range(1..=1_000_000_000))]
    pub tick: Option<u64>,
}

impl FormArgs {
    /// Nanoseconds of a stamp's tick: ethpipe's, unless another was asked for.
    pub fn tick(&self) -> u64 {
        self.tick.unwrap_or(8)
    }
}

/// `cat`.
#[derive(Args, Debug, Clone)]
#[command(after_help = "\
Frames are lines of text unless -o says otherwise, whatever is read: DST SRC TYPE and each byte in hexadecimal, \
without FCS. Where a frame came from a device that leaves checksums and segments to others, they were asked for whole.

Examples:
  linerate cat tap:tap0 | grep 'FFFFFFFFFFFF' | linerate put tap:tap1
  linerate cat -c 10 -o pcapng tap:tap0 | tshark -r -
  linerate cat trace.pcap | grep -c ' 0806 '")]
pub struct CatArgs {
    /// A port, as in tap:tap0 or 'pktgen(count=10):'; or a file of frames, - for standard input
    #[arg(value_name = "PORT")]
    pub port: Option<String>,
    /// End after so many frames
    #[arg(short = 'c', long, value_name = "N")]
    pub count: Option<u64>,
    /// Write the time of arrival in front of each line (f2)
    #[arg(short = 't', long)]
    pub stamp: bool,
    #[command(flatten)]
    pub form: FormArgs,
}

/// `put`.
#[derive(Args, Debug, Clone)]
#[command(after_help = "\
A line with a stamp waits for its time: 0000000000000000 is at once, a register (its second digit) counts from the \
last reset (its first), register 0 from the machine's start, as 'linerate cat -t' writes it.

Examples:
  linerate cat tap:tap0 | sed -e 's/8100 00 01 //' | linerate put tap:tap1
  linerate put tap:tap0 < recv.apkt")]
pub struct PutArgs {
    /// A port, as in tap:tap0
    #[arg(value_name = "PORT")]
    pub port: String,
    /// Send each frame when it comes, whatever its stamp says
    #[arg(long)]
    pub at_once: bool,
    #[command(flatten)]
    pub stream: StreamArgs,
}

/// `pipe`.
#[derive(Args, Debug, Clone)]
#[command(after_help = "\
Ends when the port is over, when standard input has ended and --half is not given, or with Ctrl-C.

Examples:
  linerate gen -n 3 -t 1 --udp 10.0.0.1:7-10.0.0.2:9 | linerate pipe pair:a
  mkfifo back; linerate pipe tap:tap0 < back | linerate pipe tap:tap1 > back")]
pub struct PipeArgs {
    /// A port, as in tap:tap0
    #[arg(value_name = "PORT")]
    pub port: String,
    /// Write the time of arrival in front of each line (f2)
    #[arg(short = 't', long)]
    pub stamp: bool,
    /// Send each frame when it comes, whatever its stamp says
    #[arg(long)]
    pub at_once: bool,
    /// Go on writing what the port receives when standard input has ended
    #[arg(long)]
    pub half: bool,
    #[command(flatten)]
    pub form: FormArgs,
}

/// `conv`.
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
