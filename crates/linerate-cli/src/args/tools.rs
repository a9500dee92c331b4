//! Arguments of `extcap`, `profile`, `pkt` and `ports`.

use clap::{Args, ValueHint};
use std::ffi::OsString;
use std::path::PathBuf;

/// Arguments of `extcap`.
#[derive(Args, Debug)]
#[command(after_help = "\
Wireshark passes all flags except --install. It lists the interface 'linerate', which opens any port by its name, and \
one interface for each port of a running host. Hosts are found by their control sockets: in the default directory of \
'linerate up', and at $LINERATE_CTL. Capture filters are tcpdump expressions. See docs/extcap.md.

Examples:
  linerate extcap --install
  linerate extcap --extcap-interfaces")]
pub struct ExtcapArgs {
    /// Create a link to this program in DIR [default: tshark's personal extcap folder]
    #[arg(long, value_name = "DIR", num_args = 0..=1, value_hint = ValueHint::DirPath)]
    pub install: Option<Option<PathBuf>>,
    /// List the interfaces
    #[arg(long = "extcap-interfaces")]
    pub interfaces: bool,
    /// Select the interface
    #[arg(long = "extcap-interface", value_name = "NAME")]
    pub interface: Option<String>,
    /// List the link types of --extcap-interface
    #[arg(long = "extcap-dlts")]
    pub dlts: bool,
    /// List the options of --extcap-interface
    #[arg(long = "extcap-config")]
    pub config: bool,
    /// Capture into --fifo
    #[arg(long)]
    pub capture: bool,
    /// Write frames to this FIFO or file
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath)]
    pub fifo: Option<PathBuf>,
    /// Capture matching frames; without --capture, only check the expression
    #[arg(long = "extcap-capture-filter", value_name = "EXPR", allow_hyphen_values = true)]
    pub filter: Option<String>,
    /// Open this port for interface 'linerate', as in tap:tap0 [default: a generator]
    #[arg(long, value_name = "SPEC")]
    pub port: Option<String>,
    /// Keep this many bytes of each frame
    #[arg(long, value_name = "BYTES", default_value_t = node::capture::SNAPLEN,
          value_parser = clap::value_parser!(u32).range(1..=i64::from(node::capture::SNAPLEN)))]
    pub snaplen: u32,
    /// Accept Wireshark's version; no effect
    #[arg(long = "extcap-version", value_name = "V", num_args = 0..=1, hide = true)]
    pub wireshark: Option<Option<String>>,
}

/// Arguments of `profile`.
#[derive(Args, Debug)]
#[command(after_help = "\
Each of the command's threads samples itself; neither root nor a hardware counter is needed. Shares are of processor \
time. With --json and --folded the command's own output goes to standard error.

Examples:
  linerate profile -- testtool -c 50000000 send
  linerate profile --svg send.svg -- testtool -c 50000000 send
  linerate profile --folded -- testtool -c 50000000 send > before.folded
  linerate profile --diff before.folded -- testtool -c 50000000 -b 32 send")]
pub struct ProfileArgs {
    /// Print one JSON object instead of the tables
    #[arg(short, long, conflicts_with = "folded")]
    pub json: bool,
    /// Print stacks as lines 'thread;outer;inner MICROSECONDS'
    #[arg(long)]
    pub folded: bool,
    /// Draw a flamegraph into this file
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath)]
    pub svg: Option<PathBuf>,
    /// Compare with a profile that an earlier run printed with --folded
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath)]
    pub diff: Option<PathBuf>,
    /// Take this many samples per second of a thread's CPU time, 1 to 10000
    #[arg(long, value_name = "HZ", default_value_t = lab::profile::RATE_HZ,
          value_parser = clap::value_parser!(u32).range(1..=i64::from(lab::profile::RATE_MAX_HZ)))]
    pub rate: u32,
    /// Also print each host's CPU ticks by processing stage (cost ledger); the profile includes the
    /// ledger's overhead
    #[arg(long)]
    pub ledger: bool,
    /// Run and profile this linerate command
    #[arg(required = true, last = true, value_name = "COMMAND")]
    pub command: Vec<OsString>,
}

/// Arguments of `pkt`.
#[derive(Args, Debug)]
#[command(after_help = "\
Prints one line for each script. For a failed script, it also prints the expected and the actual event. Shell commands \
are not run. 'sysctl' and similar commands set sysctls, also in shell scripts that consist of such lines.

Example:
  linerate pkt crates/pkt/scripts/*/*.pkt")]
pub struct PktArgs {
    /// Ignore the PSH flag, since stacks set it on different segments
    #[arg(long)]
    pub any_psh: bool,
    /// Run scripts with this IP version: ipv4, ipv4-mapped-ipv6, ipv6, or 'each' for every version
    /// of the script [default: the script's, or ipv4]
    #[arg(long, value_name = "VERSION", value_parser = ip_versions)]
    pub ip_version: Option<IpVersions>,
    /// Update the 'counters' lines of the scripts to the current values; review the diff
    #[arg(long)]
    pub restate_counters: bool,
    /// Print failures only
    #[arg(short, long)]
    pub quiet: bool,
    /// Run these scripts
    #[arg(required = true, value_name = "FILE", value_hint = ValueHint::FilePath)]
    pub files: Vec<PathBuf>,
}

/// Value of `pkt --ip-version`.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum IpVersions {
    /// One IP version.
    One(pkt::IpVersion),
    /// Every IP version that the script supports.
    Each,
}

fn ip_versions(text: &str) -> Result<IpVersions, String> {
    match text {
        "each" => Ok(IpVersions::Each),
        _ => text.parse().map(IpVersions::One).map_err(|why: String| format!("{why}, or each")),
    }
}

/// Arguments of `ports`.
#[derive(Args, Debug)]
pub struct PortsArgs {
    /// List this kind only
    pub kind: Option<String>,
    /// Print JSON instead of text
    #[arg(short, long)]
    pub json: bool,
}
