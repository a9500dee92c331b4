//! The arguments of the measuring commands: testtool, lab, ladder, repro, bench, and what these share.

use super::key_value;
use clap::{Args, Subcommand, ValueEnum, ValueHint};
use std::path::PathBuf;

/// `testtool`.
#[derive(Args, Debug)]
#[command(after_help = "\
The rc script is called as: SCRIPT unix:///path MODE PARALLEL; it configures the host with 'linerate ctl --url $1'
(see examples/config.sh). Without one the host is configured the same way from here.

Example:
  linerate testtool -c 1000000 send")]
pub struct TesttoolArgs {
    /// Packets moved at a time
    #[arg(short, value_name = "BURST", default_value_t = 1)]
    pub burst: usize,
    /// Packets or calls in all; 0: until Ctrl-C
    #[arg(short, value_name = "COUNT", default_value_t = 0)]
    pub count: u64,
    /// Pairs of interfaces, 1 to 32, with route: a host and a thread for each
    #[arg(short, value_name = "PARALLEL", default_value_t = 1)]
    pub parallel: usize,
    /// One host for all pairs
    #[arg(long)]
    pub shared: bool,
    /// The script that configures the host
    #[arg(short, value_name = "SCRIPT", value_hint = ValueHint::ExecutablePath)]
    pub rc: Option<PathBuf>,
    /// Bytes of payload
    #[arg(short, value_name = "SIZE", default_value_t = 22)]
    pub size: usize,
    /// The same loop on this machine's kernel (send only)
    #[arg(long)]
    pub native: bool,
    /// up (one thread), light or heavy [default: what the mode needs]
    #[arg(long, value_name = "KIND", default_value = "", hide_default_value = true)]
    pub locks: String,
    /// How free buffers are kept: stack, freelist, zone or malloc [default: stack]
    #[arg(long, value_name = "KIND")]
    pub pool: Option<buf::Kind>,
    /// How time is read: timespec, ns or tsc [default: tsc]
    #[arg(long, value_name = "KIND")]
    pub clock: Option<clock::Strategy>,
    /// How the running thread is found: register, inline or call [default: register]
    #[arg(long, value_name = "KIND")]
    pub context: Option<lock::How>,
    /// Checksum code: generic16, word64, neon, avx2 or avx512 [default: the widest]
    #[arg(long, value_name = "KIND")]
    pub checksum: Option<wire::checksum::Kind>,
    /// Set a knob: net.inet.udp.checksum=0
    #[arg(long = "set", value_name = "K=V", value_parser = key_value)]
    pub set: Vec<(String, String)>,
    /// One JSON object instead of the result block
    #[arg(short, long)]
    pub json: bool,
    /// What to do
    pub mode: ToolMode,
}

/// The modes of testtool.
#[derive(ValueEnum, Clone, Copy, PartialEq, Eq, Debug)]
pub enum ToolMode {
    /// The application sends, the port sinks
    Send,
    /// The port generates, the application receives
    Recv,
    /// Ports generate and sink, the host forwards between them
    Route,
}

/// Arguments that all studies share.
#[derive(Args, Debug)]
pub struct StudyArgs {
    /// One JSON object instead of the table
    #[arg(short, long)]
    pub json: bool,
    /// Few rounds: to see that it works, not to quote
    #[arg(long)]
    pub quick: bool,
    /// Draw the figures into this file
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath)]
    pub svg: Option<PathBuf>,
    /// Write every trial into this file, as lines of JSON
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath)]
    pub trials: Option<PathBuf>,
    /// Rounds, each of which builds every side anew [default: what the study needs]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    pub rounds: Option<u32>,
    /// The core to stay on [default: the last]
    #[arg(long, value_name = "N")]
    pub core: Option<usize>,
}

/// `lab`.
#[derive(Args, Debug)]
pub struct LabArgs {
    #[command(subcommand)]
    pub command: LabCommand,
}

/// Commands on the laboratory itself.
#[derive(Subcommand, Debug)]
pub enum LabCommand {
    /// Check on this machine that verdicts hold: equal sides, and planted differences of 5 %
    Selftest(SelftestArgs),
}

/// `lab selftest`.
#[derive(Args, Debug)]
#[command(after_help = "\
Rows of several commands are compared with separately built sides of the same settings, and with
sides slowed by 5 %. Wanted: at most 1 % firm verdicts on equal sides, at least 93 % of the 95 %
intervals containing 1, at least 80 % of the planted differences found. Exit codes: 0 no share is
worse than that beyond chance (p < 0.001), 1 one is, or a comparison could not be made.

Example:
  linerate lab selftest --comparisons 1000 --busy 2 --json")]
pub struct SelftestArgs {
    /// Comparisons of each sort: 100 take about two minutes
    #[arg(long, value_name = "N", default_value_t = 60, value_parser = clap::value_parser!(u32).range(1..))]
    pub comparisons: u32,
    /// Busy processes beside the measurement
    #[arg(long, value_name = "N", default_value_t = 0, value_parser = clap::value_parser!(u32).range(..=64))]
    pub busy: u32,
    /// One JSON object instead of the table
    #[arg(short, long)]
    pub json: bool,
    /// Few rounds: to see that it works
    #[arg(long)]
    pub quick: bool,
    /// Rounds of each comparison [default: the usual number of the row's command]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    pub rounds: Option<u32>,
    /// The core to stay on [default: the last]
    #[arg(long, value_name = "N")]
    pub core: Option<usize>,
}

/// `ladder`.
#[derive(Args, Debug)]
pub struct LadderArgs {
    /// Which ladder
    pub name: LadderName,
    /// The source tree of the rungs that need another build [default: the one around the current directory]
    #[arg(long, value_name = "DIR", value_hint = ValueHint::DirPath)]
    pub source: Option<PathBuf>,
    #[command(flatten)]
    pub study: StudyArgs,
}

/// The ladders.
#[derive(ValueEnum, Clone, Copy, PartialEq, Eq, Debug)]
pub enum LadderName {
    /// One UDP datagram sent, from the report's baseline to our best
    UdpSend,
}

/// `repro`.
#[derive(Args, Debug)]
pub struct ReproArgs {
    /// Which report
    pub name: ReportName,
    /// bridge2004: where a received frame is when the driver reads it [default: cold]
    #[arg(long, value_name = "PLACE")]
    pub dma: Option<DmaName>,
    /// rump2014: the source tree of the rungs that need another build [default: the one around the current directory]
    #[arg(long, value_name = "DIR", value_hint = ValueHint::DirPath)]
    pub source: Option<PathBuf>,
    #[command(flatten)]
    pub study: StudyArgs,
}

/// Places.
#[derive(ValueEnum, Clone, Copy, PartialEq, Eq, Debug)]
pub enum DmaName {
    /// In memory and in no cache, as on PCI
    Cold,
    /// In the cache, as from a card of today
    Copy,
}

/// The reports.
#[derive(ValueEnum, Clone, Copy, PartialEq, Eq, Debug)]
pub enum ReportName {
    /// Kantee and Cormack: rump kernel UDP sendto over a dummy interface
    Rump2014,
    /// Huber: FTP through a new stack under three configurations, and what they cost
    Rtems2014,
    /// Keio: Ethernet as a character device, frames as text through dd, grep and pipes
    Ethpipe2013,
    /// Nagelhout: a polled bridge of two and four ports, and what each tweak to the driver gives
    Bridge2004,
    /// Watson: netperf and tcpconnect, frames dispatched directly against queued, host to host and through a router
    Netisr2005,
}

/// `bench`.
#[derive(Args, Debug)]
pub struct BenchArgs {
    /// Which group
    pub group: BenchGroup,
    #[command(flatten)]
    pub study: StudyArgs,
}

/// The groups.
#[derive(ValueEnum, Clone, Copy, PartialEq, Eq, Debug)]
pub enum BenchGroup {
    /// Send, receive, forward, look up
    Udp,
    /// Bytes, transactions, connections
    Tcp,
    /// Frames as lines: made, read, matched, rewritten, beside the usual tools
    Text,
    /// Frames forwarded by their addresses, and the parts of that
    Bridge,
    /// Packets forwarded by a million routes, lookups, routes that change meanwhile
    Route,
    /// What netisr costs a frame; host-router-host and connections, beside the kernel
    Dispatch,
    /// Keys and values, files, round trips under load, evenness of datagrams: under stock tools, beside redis-server, nginx and iperf3
    Services,
}
