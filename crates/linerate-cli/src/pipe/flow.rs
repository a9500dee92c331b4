//! Commands that generate, count, copy, delay or limit frames.

use super::args::StreamArgs;
use super::ends;
use crate::exit::{Fault, notice, write_out};
use clap::{Args, ValueEnum};
use pipe::count::{Count, Say};
use pipe::delay::{Delay, Full, Later, Limit};
use pipe::flow::Key;
use pipe::ports::Counter;
use pipe::rate::{Bits, Rate};
use pipe::targets::{By, Mirror, Split, Target};
use pipe::top::{Field, Top, TopConfig};
use pipe::{Stage, units};
use std::io::Write;
use std::time::Duration;

/// Function that creates a stage when its row starts.
pub type Make = Box<dyn FnOnce() -> anyhow::Result<Box<dyn Stage>>>;

/// Arguments of `mirror`.
#[derive(Args, Debug, Clone)]
#[command(after_help = "\
A target that fails receives no further frames, and the missed frames are counted. The other targets continue, as \
with tee, and the exit code is 1.

Example:
  linerate cat tap:tap0 + mirror -t seen.pcapng -t tap:tap2 + put tap:tap1")]
pub struct MirrorArgs {
    /// Copy to this port or file; the extension selects the file's format: .pcapng, .pcap, .bpkt
    /// (bin2), .jsonl, else text
    #[arg(short, long = "target", value_name = "FILE|PORT", required = true)]
    pub targets: Vec<String>,
    #[command(flatten)]
    pub stream: StreamArgs,
}

/// Arguments of `split`, also called `balance`.
#[derive(Args, Debug, Clone)]
#[command(after_help = "\
Example:
  linerate cat tap:tap0 + split --by flow -t - -t tap:tap2 + put tap:tap1")]
pub struct SplitArgs {
    /// Send to this target: a port, a file, or - for standard output
    #[arg(short, long = "target", value_name = "FILE|PORT|-", required = true)]
    pub targets: Vec<String>,
    /// Select the target of a frame by this property
    #[arg(long, value_enum, default_value_t = ByArg::Flow)]
    pub by: ByArg,
    /// Send both directions of a flow to the same target, with --by flow
    #[arg(long, visible_alias = "symmetric")]
    pub both_ways: bool,
    /// Set the seed of the hash, so that every run selects the same targets [default: random]
    #[arg(long, value_name = "N")]
    pub seed: Option<u64>,
    #[command(flatten)]
    pub stream: StreamArgs,
}

/// Property of a frame that selects its target.
#[derive(ValueEnum, Clone, Copy, PartialEq, Eq, Debug)]
pub enum ByArg {
    /// Select by IP addresses, protocol and ports; for other frames by MAC addresses and EtherType
    Flow,
    /// Select by destination MAC address
    Dst,
    /// Select by source MAC address
    Src,
    /// Select by VLAN identifier
    Vlan,
    /// Select the targets in turn
    Round,
}

/// Flags that limit the amount of frames that a stage buffers.
#[derive(Args, Debug, Clone)]
pub struct LimitArgs {
    /// Buffer at most this many bytes of frames, as in 64M
    #[arg(long, value_name = "BYTES", value_parser = units::bytes, default_value = "64M")]
    pub limit: u64,
    /// Drop and count frames beyond the limit, instead of pausing the input
    #[arg(long)]
    pub drop: bool,
}

impl LimitArgs {
    fn limit(&self) -> Limit {
        let full = if self.drop { Full::Drop } else { Full::Wait };
        Limit { bytes: usize::try_from(self.limit).unwrap_or(usize::MAX), full }
    }
}

/// Arguments of `delay`.
#[derive(Args, Debug, Clone)]
#[command(after_help = "\
Examples:
  linerate cat tap:tap0 | linerate delay 10ms | linerate put tap:tap1
  linerate cat -t tap:tap0 | linerate delay --stamp 10ms | linerate put tap:tap1")]
pub struct DelayArgs {
    /// Delay frames by this time, as in 10ms
    #[arg(value_name = "DURATION", value_parser = units::duration)]
    pub delay: Duration,
    /// Vary the delay randomly by up to this time; frames stay in order
    #[arg(long, value_name = "DURATION", value_parser = units::duration, default_value = "0s", conflicts_with = "stamp")]
    pub jitter: Duration,
    /// Set the seed of the random jitter [default: random]
    #[arg(long, value_name = "N")]
    pub seed: Option<u64>,
    /// Add the delay to the timestamps of frames instead of holding them; 'put' then sends them at
    /// that time
    #[arg(long)]
    pub stamp: bool,
    #[command(flatten)]
    pub limit: LimitArgs,
    #[command(flatten)]
    pub stream: StreamArgs,
}

/// Arguments of `rate`.
#[derive(Args, Debug, Clone)]
#[command(after_help = "\
Bits are counted as on the wire, including FCS, preamble and gap: a frame of 64 bytes counts as 84.

Examples:
  linerate rate -r 100M trace.pcap | linerate put tap:tap0
  linerate cat tap:tap0 + rate -r 1000pps --drop + put tap:tap1")]
pub struct RateArgs {
    /// Set the rate in bits per second, as in 100M, or frames per second, as in 1000pps
    #[arg(short, long, value_name = "RATE", value_parser = units::rate)]
    pub rate: units::Rate,
    /// Set the burst that may pass after a pause, in bytes, or in frames if the rate is in pps
    /// [default: 10 ms of the rate]
    #[arg(long, value_name = "N", value_parser = units::bytes)]
    pub burst: Option<u64>,
    /// Count the bytes of the frame only, without FCS, preamble and gap
    #[arg(long)]
    pub payload: bool,
    #[command(flatten)]
    pub limit: LimitArgs,
    #[command(flatten)]
    pub stream: StreamArgs,
}

/// Arguments of `count`.
#[derive(Args, Debug, Clone)]
#[command(after_help = "\
Frames are passed on, and totals are printed to standard error. With -q, only totals are printed, to standard \
output.

Examples:
  linerate cat tap:tap0 | linerate count -I 1 | linerate put tap:tap1
  linerate count -q --json trace.pcap | jq .frames")]
pub struct CountArgs {
    /// Also print the totals every SECS seconds
    #[arg(short = 'I', long, value_name = "SECS", value_parser = seconds)]
    pub interval: Option<Duration>,
    /// Do not pass frames on to standard output
    #[arg(short, long)]
    pub quiet: bool,
    /// Print one JSON object per line
    #[arg(long)]
    pub json: bool,
    #[command(flatten)]
    pub stream: StreamArgs,
}

/// Flags of `top` for running hosts.
#[derive(Args, Debug, Clone)]
pub struct WatchArgs {
    /// Watch this running host: its control socket, or its name in 'linerate up'
    #[arg(long, value_name = "URL")]
    pub url: Vec<String>,
    /// Set the seconds between two updates of the hosts' counters
    #[arg(short = 'd', value_name = "SECS", default_value = "1", value_parser = interval)]
    pub interval: Duration,
    /// Print lines instead of the full-screen view
    #[arg(short, long)]
    pub batch: bool,
    /// Stop after N updates of the hosts
    #[arg(long, value_name = "N")]
    pub times: Option<u64>,
    /// Enable the cost ledger of the hosts, which counts CPU ticks by processing stage, while
    /// watching
    #[arg(long)]
    pub ledger: bool,
}

/// Parses the seconds between two updates, 0.1 to 3600.
fn interval(word: &str) -> Result<Duration, String> {
    let secs = word.parse().ok().and_then(|secs| Duration::try_from_secs_f64(secs).ok());
    let within = Duration::from_millis(100)..=Duration::from_secs(3600);
    secs.filter(|secs| within.contains(secs)).ok_or_else(|| "expected seconds, 0.1 to 3600".to_owned())
}

/// Arguments of `top`.
#[derive(Args, Debug, Clone)]
#[command(after_help = "\
For a stream of frames, the table has a fixed size (Space-Saving): a count may be too large by at most its error, \
never too small, and no key that is not shown exceeds the bound below the table. For running hosts (--url, or on a \
terminal all hosts of 'linerate up'), prints ports, netisr workstreams, drop reasons, and with --ledger CPU ticks by \
processing stage, every -d seconds, until q or Ctrl-C.

Examples:
  linerate top -q -k ip -n 20 trace.pcap
  linerate cat -c 100000 tap:tap0 | linerate top -q -k src,type --json
  linerate top --url a --url b --ledger
  linerate top --url a --batch --times 1")]
pub struct TopArgs {
    #[command(flatten)]
    pub watch: WatchArgs,
    /// Group frames by flow, dst, src, type, vlan, ip; or by several, separated by commas
    #[arg(short = 'k', long = "key", value_name = "FIELDS", value_delimiter = ',', default_value = "flow")]
    pub fields: Vec<Field>,
    /// Print the N busiest entries
    #[arg(short = 'n', value_name = "N", default_value_t = 10)]
    pub show: usize,
    /// Set the number of table entries; with more entries the counts are more accurate
    #[arg(long, value_name = "N", default_value_t = 4096, value_parser = clap::value_parser!(u32).range(1..=1 << 24))]
    pub table: u32,
    /// Rank by bytes on the wire instead of frames
    #[arg(long)]
    pub bytes: bool,
    /// Do not pass frames on to standard output
    #[arg(short, long)]
    pub quiet: bool,
    /// Print one JSON object
    #[arg(long)]
    pub json: bool,
    #[command(flatten)]
    pub stream: StreamArgs,
}

impl MirrorArgs {
    pub fn make(self) -> (Make, StreamArgs) {
        let tick = self.stream.form.tick();
        let files = self.stream.files.clone();
        let make = move || {
            ends::check_targets(&self.targets, &files)?;
            let targets: anyhow::Result<Vec<Target>> = self.targets.iter().map(|name| target(name, tick)).collect();
            Ok(Box::new(Mirror::new(targets?)) as Box<dyn Stage>)
        };
        (Box::new(make), self.stream)
    }
}

impl SplitArgs {
    pub fn make(self) -> (Make, StreamArgs) {
        let tick = self.stream.form.tick();
        let files = self.stream.files.clone();
        let make = move || {
            if self.both_ways && self.by != ByArg::Flow {
                return Err(Fault::usage("--both-ways: requires --by flow"));
            }
            if self.targets.iter().filter(|name| *name == "-").count() > 1 {
                return Err(Fault::usage("-t -: standard output is given twice"));
            }
            ends::check_targets(&self.targets, &files)?;
            let by = match self.by {
                ByArg::Flow if self.both_ways => By::BothWays,
                ByArg::Flow => By::Flow,
                ByArg::Dst => By::Dst,
                ByArg::Src => By::Src,
                ByArg::Vlan => By::Vlan,
                ByArg::Round => By::Round,
            };
            let of = |name: &String| if name == "-" { Ok(Target::row()) } else { target(name, tick) };
            let targets: anyhow::Result<Vec<Target>> = self.targets.iter().map(of).collect();
            let key = self.seed.map_or_else(Key::random, Key::of_seed);
            Ok(Box::new(Split::new(targets?, by, key)) as Box<dyn Stage>)
        };
        (Box::new(make), self.stream)
    }
}

impl DelayArgs {
    pub fn make(self) -> (Make, StreamArgs) {
        let tick = self.stream.form.tick();
        let limit = self.limit.limit();
        let make = move || -> anyhow::Result<Box<dyn Stage>> {
            if self.stamp {
                return Ok(Box::new(Later::new(self.delay, tick)));
            }
            let seed = self.seed.unwrap_or_else(|| Key::random().number([]));
            Ok(Box::new(Delay::new(self.delay, self.jitter, seed, limit)))
        };
        (Box::new(make), self.stream)
    }
}

impl RateArgs {
    pub fn make(self) -> (Make, StreamArgs) {
        let bits = if self.payload { Bits::Payload } else { Bits::Wire };
        let rate = Rate::new(self.rate, bits, self.burst, self.limit.limit());
        (Box::new(move || Ok(Box::new(rate) as Box<dyn Stage>)), self.stream)
    }
}

impl CountArgs {
    pub fn make(self) -> (Make, StreamArgs) {
        let make = move || {
            let clock = Counter::new(1).clock();
            let count = Count::new(clock, !self.quiet, self.interval, self.json, say(self.quiet, self.json));
            Ok(Box::new(count) as Box<dyn Stage>)
        };
        (Box::new(make), self.stream)
    }
}

impl TopArgs {
    pub fn make(self) -> (Make, StreamArgs) {
        let config = TopConfig {
            fields: self.fields,
            show: self.show,
            table: self.table as usize,
            by_bytes: self.bytes,
            json: self.json,
            pass: !self.quiet,
        };
        let make = move || Ok(Box::new(Top::new(config, say(self.quiet, self.json))) as Box<dyn Stage>);
        (Box::new(make), self.stream)
    }
}

/// Returns the function that prints a report: to standard output if no frames go there (`quiet`),
/// otherwise to standard error.
fn say(quiet: bool, json: bool) -> Say {
    match (quiet, json) {
        (true, _) => Box::new(|text| write_out(&format!("{text}\n"))),
        (false, true) => Box::new(|text| writeln!(std::io::stderr(), "{text}")),
        (false, false) => Box::new(|text| {
            text.lines().for_each(notice);
            Ok(())
        }),
    }
}

fn target(name: &str, tick: u64) -> anyhow::Result<Target> {
    Ok(Target::new(name, ends::target(name, tick)?))
}

/// Parses seconds: `1`, `0.5`, or a number with a unit.
pub fn seconds(word: &str) -> Result<Duration, String> {
    let with_unit = if word.ends_with(|c: char| c.is_ascii_digit()) { format!("{word}s") } else { word.to_owned() };
    let long = units::duration(&with_unit).map_err(|why| why.to_string())?;
    if long.is_zero() { Err("expected a time above 0".into()) } else { Ok(long) }
}
