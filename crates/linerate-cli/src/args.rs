//! Command line: declares every command and flag once. Help, completions and manual pages are
//! generated from these declarations.

mod host;
mod measure;
mod running;
mod serve;
mod tools;

pub use host::{
    AloneArgs, FamilyArgs, HostArgs, LimitArgs, PeerArgs, RunArgs, ServedArgs, UpArgs, control_path, key_value,
};
pub use measure::{
    BenchArgs, BenchGroup, DmaName, LabArgs, LabCommand, LadderArgs, LadderName, ReportName, ReproArgs, StudyArgs,
    TesttoolArgs, ToolMode, usable_core,
};
pub use running::{CtlArgs, HttpArgs, NcArgs, NslookupArgs, PingArgs, ShortCommand, TcpdumpArgs, WhyArgs};
use running::{PING_HELP, TRACEROUTE_HELP};
pub use serve::{FilesArgs, ServeArgs, SmallKind, UploadsArg};
pub use tools::{ExtcapArgs, IpVersions, PktArgs, PortsArgs, ProfileArgs};

use crate::ab::AbArgs;
use crate::bridge::BridgeArgs;
use crate::files::{FiledArgs, FileloadArgs};
use crate::iperf3::Iperf3Args;
use crate::kv::{KvdArgs, KvloadArgs};
use crate::livelock::LivelockArgs;
use crate::netperf::{NetperfArgs, NetserverArgs};
use crate::netrate::NetrateArgs;
use crate::pipe::{MountArgs, NanopingArgs, PipeArgs, RowCommand, TapArgs};
use crate::results::{GateArgs, ReportArgs};
use crate::rfc2544::Rfc2544Args;
use clap::{Parser, Subcommand, ValueHint};
use std::io::IsTerminal;
use std::path::PathBuf;

const EXIT_CODES: &str = "Exit codes: 0 success; 1 failure, a lost port, or frames unaccounted for; 2 invalid usage or \
                          configuration; 3 no host answers. An error is one line: what failed, where, what to do.";

const GROUPS: &str = "\
Run hosts and bridges
  up FILE           Run the hosts of a TOML file, each on its own thread
  host              Run one host from flags: --port tap:tap0 --addr 10.0.0.2/24
  bridge PORT...    Run an Ethernet bridge (alias: switch)
  ftpd httpd iperf3 serve
                    Run a host that serves files, iperf3, echo, discard, chargen
  kvd, filed        Run a host that serves Redis clients, or fileload
Query and change a running host (socket: --url or $LINERATE_CTL)
  ctl WORDS         Run any control command; 'ctl help' lists them
  ifconfig ip arp ndp route sysctl netstat ss show dhclient resolvectl audit
                    Run this control command, without 'ctl'
  tcpdump, top      Print or write its frames; show its rates
  why FLOW          Explain how it handles the frames of a flow
  ping traceroute nc nslookup http
                    Run this client on it, with its addresses and routes
  extcap            Offer its ports to Wireshark: 'linerate extcap --install'
Frames as lines, through pipes ('linerate A + B' is A | B in one process)
  cat PORT, put PORT, pipe PORT
                    Copy a port to output, input to a port, or both
  grep PATTERN      Select lines by pattern, frames by field: type=ip
  mount DIR PORT... Mount ports as files: cat DIR/tap0, echo ... > DIR/tap0
  conv              Convert between text, binary, pcap, pcapng and JSON lines
  rewrite EXPR...   Change fields and checksums: ip.ttl-=1 vlan.push=7; NAT44
  crc               Correct or check checksums
  gen               Generate frames
  mirror, split     Copy each frame to several targets, or send it to one
  delay, rate       Delay each frame; limit the rate
  count, top        Count frames, bytes and rates; list the busiest
  tap, nanoping     Create a TAP interface of text lines; time pings in ns
Measure
  testtool MODE     Send, receive or route UDP packets; print the rate
  ladder NAME       Measure the cost of each design choice, step by step
  repro NAME        Measure the rows of a published table, and compare
  bench GROUP       Run a group of benchmarks, with peer programs
  ab --a K --b K W  Compare two settings of a workload or a command line
  lab selftest      Check the verdicts of comparisons on this machine
  report DIR        Show the results in DIR as one page ('gate' compares runs)
  netperf -t TEST   Run netperf's tests between hosts, kernels, or both
  netserver         Run the far end of netperf in a process of its own
  netrate TOOL      Run FreeBSD's tcpconnect, netblast, netsend, juggle, ...
  kvload, fileload  Load a database or a file service
  rfc2544 PORT PORT Measure throughput, latency, loss and bursts of a device
  livelock          Measure forwarded against offered load
  profile -- ...    Profile a command's processor time, by function
  ministat          Compare columns of numbers as FreeBSD's ministat(1) does
Check
  pkt FILE...       Run packetdrill scripts against linerate's TCP
About linerate
  ports, keys       List the kinds of ports; the keys of topology files
  completions SHELL, man DIR
                    Print shell completions; write manual pages
  help COMMAND      Print help about a command";

/// User-space network stack: run hosts and ports, measure the cost of a packet.
#[derive(Parser, Debug)]
#[command(
    name = "linerate",
    version,
    term_width = help_width(),
    after_help = EXIT_CODES,
    help_template = "{about}\n\n{usage-heading} linerate COMMAND ...\n\n{before-help}Options:\n{options}{after-help}",
    before_help = GROUPS,
    disable_help_subcommand = false
)]
pub struct Cli {
    #[command(subcommand)]
    pub command: Command,
}

/// Returns the width of help text in columns: that of the terminal, $COLUMNS, or 80 if standard
/// output is not a terminal.
fn help_width() -> usize {
    let of_terminal = || ratatui::crossterm::terminal::size().ok().map(|(columns, _)| usize::from(columns));
    let of_variable = || std::env::var("COLUMNS").ok()?.parse().ok();
    let width = if std::io::stdout().is_terminal() { of_terminal() } else { None };
    width.or_else(of_variable).filter(|columns| *columns >= HELP_WIDTH_MIN).unwrap_or(80)
}

/// Minimum terminal width in columns to which help text is wrapped. On a narrower terminal, the
/// descriptions of flags would have one word per line, so 80 columns are used instead.
const HELP_WIDTH_MIN: usize = 40;

#[derive(Subcommand, Debug)]
pub enum Command {
    /// Run the hosts of a TOML file until Ctrl-C or until no port is left
    Up(UpArgs),
    /// Run one host configured by flags until Ctrl-C or until no port is left
    Host(Box<AloneArgs>),
    /// Run a program whose TCP sockets are those of a host configured by flags
    Run(Box<RunArgs>),
    /// Run a learning bridge over ports, or send a command to a running one
    #[command(visible_alias = "switch")]
    Bridge(BridgeArgs),
    /// Serve files over FTP from a host configured by flags
    Ftpd(FilesArgs),
    /// Serve files over HTTP from a host configured by flags
    Httpd(FilesArgs),
    /// Measure throughput as iperf3 does, from a host configured by flags
    Iperf3(Box<Iperf3Args>),
    /// Serve echo, discard, chargen or sink over TCP
    Serve(ServeArgs),
    /// Serve keys and values to Redis clients from a host configured by flags
    Kvd(Box<KvdArgs>),
    /// Serve in-memory files to 'linerate fileload'
    Filed(Box<FiledArgs>),
    /// Run a control command on a running host and print its output
    Ctl(CtlArgs),
    #[command(flatten)]
    Short(ShortCommand),
    /// Print or write the frames that pass the ports of a running host
    Tcpdump(TcpdumpArgs),
    /// Explain how a running host or bridge handles the frames of a flow
    Why(WhyArgs),
    /// Send echo requests from a running host and print the replies
    #[command(after_help = PING_HELP)]
    Ping(PingArgs),
    /// Print the route that packets take from a running host to an address
    #[command(after_help = TRACEROUTE_HELP)]
    Traceroute(PingArgs),
    /// Copy stdin and stdout over a TCP or UDP connection of a running host
    Nc(NcArgs),
    /// Query a name server from a running host
    Nslookup(NslookupArgs),
    /// Get a page over HTTP, as a client on a running host
    Http(HttpArgs),
    /// Provide ports, also those of running hosts, to Wireshark and tshark
    Extcap(ExtcapArgs),
    #[command(flatten)]
    InARow(RowCommand),
    /// Copy standard input to a port and the port to standard output
    Pipe(PipeArgs),
    /// Mount ports as files of a directory, to read and write frames
    Mount(MountArgs),
    /// Create a TAP interface connected to standard input and output
    Tap(TapArgs),
    /// Send ICMP echo requests through a port and print round-trip times in ns
    Nanoping(NanopingArgs),
    /// Send, receive or route UDP packets and print the rate
    Testtool(TesttoolArgs),
    /// Measure the cost of each design choice, step by step
    Ladder(LadderArgs),
    /// Check the verdicts of comparisons on this machine
    Lab(LabArgs),
    /// Measure the rows of a published report's table and compare the figures
    Repro(ReproArgs),
    /// Run a group of benchmarks, with peer programs in the same run
    Bench(BenchArgs),
    /// Combine the results in a directory into one HTML page
    Report(ReportArgs),
    /// Compare a run with a baseline; the exit code reports slowdowns, for CI
    Gate(GateArgs),
    /// Compare two settings of a workload or of a command line
    Ab(AbArgs),
    /// Run netperf's tests over our stack, over TAP, and over the kernel
    Netperf(NetperfArgs),
    /// Run the far end of netperf on a host configured by flags, or on the kernel
    Netserver(NetserverArgs),
    /// Run FreeBSD's netrate tools: connections, datagrams, messages, streams
    Netrate(NetrateArgs),
    /// Load a database with GET and SET requests for Zipf-distributed keys
    Kvload(Box<KvloadArgs>),
    /// Load a file service with lookups, reads and writes of many clients
    Fileload(Box<FileloadArgs>),
    /// Measure a device between two ports (RFC 2544), by default linerate's bridge
    Rfc2544(Rfc2544Args),
    /// Measure forwarded against offered load, with interrupts and with polling
    Livelock(LivelockArgs),
    /// Run another command and profile its processor time
    Profile(ProfileArgs),
    /// Compare columns of numbers by Student's t, as FreeBSD's ministat(1) does
    Ministat {
        /// Pass [-Ans] [-C column] [-c confidence] [-d delimiter] [-w width] [file ...]
        #[arg(trailing_var_arg = true, allow_hyphen_values = true)]
        args: Vec<String>,
    },
    /// Run packetdrill scripts against linerate's TCP, in virtual time
    Pkt(PktArgs),
    /// List the kinds of ports and wrappers, with their options
    Ports(PortsArgs),
    /// Print the keys of topology files, with types, defaults, descriptions
    Keys,
    /// Print completions for a shell
    Completions {
        /// Select the shell
        shell: clap_complete::Shell,
    },
    /// Write manual pages
    Man {
        /// Write into this directory
        #[arg(value_hint = ValueHint::DirPath)]
        dir: PathBuf,
    },
}

#[cfg(test)]
mod tests;
