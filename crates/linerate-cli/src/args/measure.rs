//! Arguments of the measuring commands: testtool, lab, ladder, repro and bench.
//!
//! [`StudyArgs`] holds the flags that ladder, repro, bench and ab have in common. The doc comments
//! of the fields are the help texts.

use super::host::{FamilyArgs, key_value};
use clap::{Args, Subcommand, ValueEnum, ValueHint};
use std::path::PathBuf;

/// Arguments of `testtool`.
#[derive(Args, Debug)]
#[command(after_help = "\
The rc script is called as SCRIPT unix:///path MODE PARALLEL. It configures the host with 'linerate ctl --url $1', as \
examples/config.sh does. Without a script, testtool configures the host with the same settings. --context inline and \
call require --locks light or heavy.

Example:
  linerate testtool -c 1000000 send")]
pub struct TesttoolArgs {
    /// Process packets in bursts of this size
    #[arg(short, value_name = "BURST", default_value_t = 1)]
    pub burst: usize,
    /// Stop after this many packets or calls; 0: run until Ctrl-C
    #[arg(short, value_name = "COUNT", default_value_t = 0)]
    pub count: u64,
    /// Route over this many pairs of ports, 1 to 32, each with a host and a thread
    #[arg(short, value_name = "PARALLEL", default_value_t = 1)]
    pub parallel: usize,
    /// Use one host for all pairs of ports (route only)
    #[arg(long)]
    pub shared: bool,
    /// Configure each host with this script
    #[arg(short, value_name = "SCRIPT", value_hint = ValueHint::ExecutablePath)]
    pub rc: Option<PathBuf>,
    /// Set the payload of a datagram in bytes, up to 65507
    #[arg(short, value_name = "SIZE", default_value_t = 22)]
    pub size: usize,
    #[command(flatten)]
    pub family: FamilyArgs,
    /// Send from a socket of this machine's kernel in the same loop (send only)
    #[arg(long)]
    pub native: bool,
    /// Select locks: up (one thread), light, heavy [default: as the mode requires]
    #[arg(long, value_name = "KIND", default_value = "", hide_default_value = true)]
    pub locks: String,
    /// Select the buffer pool: stack, freelist, zone, malloc [default: stack]
    #[arg(long, value_name = "KIND")]
    pub pool: Option<buf::Kind>,
    /// Select the clock: timespec, timespec-tsc, ns, tsc [default: tsc]
    #[arg(long, value_name = "KIND")]
    pub clock: Option<clock::Strategy>,
    /// Select how the current thread is found: register, inline, call [default: register]
    #[arg(long, value_name = "KIND")]
    pub context: Option<lock::How>,
    /// Select the checksum routine: generic16, word64, neon, avx2, avx512 [default: the widest]
    #[arg(long, value_name = "KIND")]
    pub checksum: Option<wire::checksum::Kind>,
    /// Set a sysctl, as in net.inet.udp.checksum=0
    #[arg(long = "set", value_name = "K=V", value_parser = key_value)]
    pub set: Vec<(String, String)>,
    /// Print one JSON object instead of the result block
    #[arg(short, long)]
    pub json: bool,
    /// Select the traffic
    pub mode: ToolMode,
}

/// Modes of testtool.
#[derive(ValueEnum, Clone, Copy, PartialEq, Eq, Debug)]
pub enum ToolMode {
    /// Send from an application to a discarding port
    Send,
    /// Receive in an application from a generating port
    Recv,
    /// Forward through the host from generating ports to discarding ports
    Route,
}

/// Parses the number of a core on which a thread of this program can run.
pub fn usable_core(word: &str) -> Result<usize, String> {
    let core = word.parse().map_err(|why: std::num::ParseIntError| why.to_string())?;
    dispatch::pinned_to_core(core).map(|_| core).map_err(|why| why.to_string())
}

/// Arguments of every study.
#[derive(Args, Debug)]
pub struct StudyArgs {
    /// Print one JSON object instead of the table
    #[arg(short, long)]
    pub json: bool,
    /// Run few rounds, to try the command; the results are imprecise
    #[arg(long)]
    pub quick: bool,
    /// Write a chart of the results to this SVG file
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath)]
    pub svg: Option<PathBuf>,
    /// Write every trial to this file as JSON lines
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath)]
    pub trials: Option<PathBuf>,
    /// Run this many rounds; each builds the measured variants anew [default: depends on the
    /// command]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    pub rounds: Option<u32>,
    /// Stop and report the finished rows if a build or trial takes longer than this [default: 180;
    /// with a command line: no limit]
    #[arg(long, value_name = "SECONDS", value_parser = clap::value_parser!(u64).range(1..=86_400))]
    pub limit: Option<u64>,
    /// Pin the measurement to this CPU core [default: the last]
    #[arg(long, value_name = "N", value_parser = usable_core)]
    pub core: Option<usize>,
}

/// Arguments of `lab`.
#[derive(Args, Debug)]
pub struct LabArgs {
    #[command(subcommand)]
    pub command: LabCommand,
}

/// Commands of `lab`, which check the method of measurement.
#[derive(Subcommand, Debug)]
pub enum LabCommand {
    /// Check verdicts on equal variants and on known differences of 5 %
    Selftest(SelftestArgs),
}

/// Arguments of `lab selftest`.
#[derive(Args, Debug)]
#[command(after_help = "\
For each of six kinds of rows, compares a variant with an equal one that is built separately, and with one slowed \
down by 5 %. Targets: at most 1 % firm verdicts on equal variants, at least 93 % of the 95 % intervals contain 1, at \
least 80 % of the known differences found. Exit codes: 0 if no share misses its target beyond chance (p < 0.001), 1 if \
one does or if a comparison failed.

Example:
  linerate lab selftest --comparisons 1000 --busy 2 --json")]
pub struct SelftestArgs {
    /// Run this many comparisons of each kind of row; 100 take about three minutes
    #[arg(long, value_name = "N", default_value_t = 60, value_parser = clap::value_parser!(u32).range(1..))]
    pub comparisons: u32,
    /// Run this many busy processes during the measurement
    #[arg(long, value_name = "N", default_value_t = 0, value_parser = clap::value_parser!(u32).range(..=64))]
    pub busy: u32,
    /// Print one JSON object instead of the table
    #[arg(short, long)]
    pub json: bool,
    /// Run few rounds, to try the command; the results are imprecise
    #[arg(long)]
    pub quick: bool,
    /// Run this many rounds per comparison [default: as the command that measures such rows]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    pub rounds: Option<u32>,
    /// Pin the measurement to this CPU core [default: the last]
    #[arg(long, value_name = "N", value_parser = usable_core)]
    pub core: Option<usize>,
}

/// Arguments of `ladder`.
#[derive(Args, Debug)]
pub struct LadderArgs {
    /// Select the ladder
    pub name: LadderName,
    /// Build the measured variants from this source tree [default: the current one]
    #[arg(long, value_name = "DIR", value_hint = ValueHint::DirPath)]
    pub source: Option<PathBuf>,
    #[command(flatten)]
    pub study: StudyArgs,
}

/// Names of ladders.
#[derive(ValueEnum, Clone, Copy, PartialEq, Eq, Debug)]
pub enum LadderName {
    /// Send UDP datagrams, from the baseline of the report rump2014 to the fastest settings
    UdpSend,
}

/// Arguments of `repro`.
#[derive(Args, Debug)]
pub struct ReproArgs {
    /// Select the report
    pub name: ReportName,
    /// Set where received frames are when the driver reads them (bridge2004) [default: cold]
    #[arg(long, value_name = "PLACE")]
    pub dma: Option<DmaName>,
    /// Build the measured variants from this source tree (rump2014) [default: the current one]
    #[arg(long, value_name = "DIR", value_hint = ValueHint::DirPath)]
    pub source: Option<PathBuf>,
    #[command(flatten)]
    pub study: StudyArgs,
}

/// Location of a received frame when the driver reads it.
#[derive(ValueEnum, Clone, Copy, PartialEq, Eq, Debug)]
pub enum DmaName {
    /// Frames in memory but not in the CPU cache, as after DMA over PCI
    Cold,
    /// Frames in the CPU cache, as after DMA by a current NIC
    Copy,
}

/// Names of reports.
#[derive(ValueEnum, Clone, Copy, PartialEq, Eq, Debug)]
pub enum ReportName {
    /// Kantee and Cormack: UDP sendto of a rump kernel over a dummy interface
    Rump2014,
    /// Huber: FTP through a new stack, and the cost of three configurations
    Rtems2014,
    /// Keio: Ethernet as a character device, frames as text through pipes
    Ethpipe2013,
    /// Nagelhout, 2004: a polling bridge, and the gain of each driver change
    Bridge2004,
    /// Watson: netperf and tcpconnect under direct and queued dispatch
    Netisr2005,
}

/// Arguments of `bench`.
#[derive(Args, Debug)]
pub struct BenchArgs {
    /// Select the group
    pub group: BenchGroup,
    #[command(flatten)]
    pub study: StudyArgs,
}

/// Groups of benchmarks.
#[derive(ValueEnum, Clone, Copy, PartialEq, Eq, Debug)]
pub enum BenchGroup {
    /// Measure UDP: send, receive, forward, lookup
    Udp,
    /// Measure TCP: bytes, transactions, connections
    Tcp,
    /// Measure the processing of frames as lines of text, compared with the usual tools
    Text,
    /// Measure a learning bridge and the parts of its path
    Bridge,
    /// Measure forwarding and lookups with a million routes, some of them changing
    Route,
    /// Measure the cost per frame of netisr dispatch, and TCP connections compared with the kernel
    Dispatch,
    /// Measure single functions and structures: checksums, parsers, TCP, route tables, simulation
    Parts,
    /// Measure services with stock tools, compared with redis-server, nginx and iperf3
    Services,
}
