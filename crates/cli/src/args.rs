//! Command line: every command and flag is declared here once. Help, completions and manual pages
//! are generated from these declarations.

mod measure;
mod running;

pub use measure::{
    BenchArgs, BenchGroup, DmaName, LabArgs, LabCommand, LadderArgs, LadderName, ReportName, ReproArgs, StudyArgs,
    TesttoolArgs, ToolMode, usable_core,
};
pub use running::{CtlArgs, HttpArgs, NcArgs, NslookupArgs, PingArgs, ShortCommand, TcpdumpArgs, WhyArgs};
use running::{PING_HELP, TRACEROUTE_HELP};

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
use crate::sandbox::SandboxArgs;
use apps::slots::Limits;
use clap::{Args, Parser, Subcommand, ValueEnum, ValueHint};
use node::remote::Families;
use std::ffi::OsString;
use std::io::IsTerminal;
use std::path::PathBuf;

const EXIT_CODES: &str = "Exit codes: 0 success; 1 failure, a lost port, or frames unaccounted for; 2 invalid usage or \
                          configuration; 3 no host answers. An error is one line: what failed, where, what to do.";

const GROUPS: &str = "\
Run hosts and bridges
  up FILE           Run the hosts of a TOML file, each on its own thread
  host              Run one host from flags: --port tap:tap0 --addr 10.0.0.2/24
  bridge PORT...    Run an Ethernet bridge; 'switch' is the same
  ftpd httpd iperf3 serve
                    Run a host that serves files, iperf3, echo, discard, chargen
  kvd, filed        Run a host with a Redis service, or files for fileload
Query and change a running host (socket: --url or $LINERATE_CTL)
  ctl WORDS         Run any control command; 'ctl help' lists them
  ifconfig ip arp ndp route sysctl netstat ss show dhclient resolvectl audit
                    Run this control command, without 'ctl'
  tcpdump, top      Print or write its frames; show its rates
  why FLOW          Explain what becomes of a flow's frames
  ping traceroute nc nslookup http
                    Be a client with its addresses and routes
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
  mirror, split     Copy each frame to other places, or send it to one of them
  delay, rate       Delay each frame; limit the rate
  count, top        Count frames, bytes and rates; list the busiest
  tap, nanoping     Make a TAP interface of text; send ICMP echo, time it in ns
Measure
  testtool MODE     Send, receive or route packets as rump2014's tool does
  ladder NAME       Measure the cost of each design choice, step by step
  repro NAME        Reproduce a report's table, with the figures of both
  bench GROUP       Measure the figures of merit and those of peers
  ab --a K --b K W  Compare two settings of a workload or a command line
  lab selftest      Check the laboratory's verdicts on this machine
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
  pkt FILE...       Play packet scripts against our TCP, on virtual time
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

/// Minimum width of help text: below it, descriptions beside the flags would be one word per line.
const HELP_WIDTH_MIN: usize = 40;

#[derive(Subcommand, Debug)]
pub enum Command {
    /// Run the hosts of a TOML file until Ctrl-C or until no port is left
    Up(UpArgs),
    /// Run one host configured by flags until Ctrl-C or until no port is left
    Host(Box<AloneArgs>),
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
    /// Send ICMP echo requests through a port and print round trips in ns
    Nanoping(NanopingArgs),
    /// Send, receive or route UDP packets as rump2014's testtool; print rates
    Testtool(TesttoolArgs),
    /// Measure the cost of each design choice, step by step
    Ladder(LadderArgs),
    /// Check the verdicts of comparisons on this machine
    Lab(LabArgs),
    /// Reproduce a report's table, with its figures and those of this machine
    Repro(ReproArgs),
    /// Run a group of benchmarks, with peer programs in the same run
    Bench(BenchArgs),
    /// Show the results of a directory as one page for a browser
    Report(ReportArgs),
    /// Compare a run with a baseline, for CI: the exit code is the result
    Gate(GateArgs),
    /// Compare two settings of a workload or of a command line
    Ab(AbArgs),
    /// Run netperf's tests over our stack, over TAP, and over the kernel
    Netperf(NetperfArgs),
    /// Serve netperf tests from a host configured by flags, or the kernel
    Netserver(NetserverArgs),
    /// Run FreeBSD's netrate tools: connections, datagrams, messages, streams
    Netrate(NetrateArgs),
    /// Load a database with GET and SET requests for Zipf-distributed keys
    Kvload(Box<KvloadArgs>),
    /// Load a file service with lookups, reads and writes of many clients
    Fileload(Box<FileloadArgs>),
    /// Measure a device between two ports by RFC 2544; default: our bridge
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

/// Arguments of `up`.
#[derive(Args, Debug)]
#[command(after_help = "\
Run 'linerate keys' for a list of the keys of the file. The control socket of a host is DIR/NAME.sock. Without \
--control-dir, --url also accepts the host's name, as in 'linerate ctl --url a ip neigh'. A host ends on Ctrl-C, on \
the control command 'stop', or when all its ports are closed (end of a capture file, device removed), unless its key \
'stay' is on. It then prints its audit. The exit code is 1 if a frame is unaccounted for or a port was lost.

Example:
  linerate up topo/pair.toml --control-dir /tmp/lr &
  linerate ctl --url /tmp/lr/a.sock ip neigh
In virtual time, with UDP services only. Prints the number of echo replies, their minimum, mean and maximum delay, \
and the audits.
  linerate up --sim 10 topo/dumbbell.toml
With switches between the hosts. A switch accepts the control commands of a bridge.
  linerate up topo/switched-ring.toml --control-dir /tmp/lr &
  linerate ctl --url /tmp/lr/s1.sock ifconfig")]
pub struct UpArgs {
    /// Read this TOML file, with a table for each host and switch
    #[arg(value_hint = ValueHint::FilePath)]
    pub file: PathBuf,
    /// Create control sockets in DIR [default: $XDG_RUNTIME_DIR/linerate or /tmp/linerate-UID]
    #[arg(long, value_name = "DIR", value_hint = ValueHint::DirPath)]
    pub control_dir: Option<PathBuf>,
    /// Write a newline to this open descriptor when all hosts run
    #[arg(long, value_name = "N")]
    pub ready_fd: Option<u32>,
    /// Set a key or sysctl of every host, as in the file: pool.kind=zone
    #[arg(long = "set", value_name = "K=V", value_parser = key_value)]
    pub set: Vec<(String, String)>,
    /// Check the file and exit
    #[arg(long)]
    pub check: bool,
    /// Simulate for this many seconds: each host sends to each echo service once a second
    #[arg(long, value_name = "SECONDS", value_parser = clap::value_parser!(u64).range(1..=86_400))]
    pub sim: Option<u64>,
    /// Run this control command on a host before --sim, or this client: ping, traceroute, nc,
    /// nslookup, http get, iperf3 -c
    #[arg(long = "do", value_name = "HOST WORDS", requires = "sim")]
    pub words: Vec<String>,
    /// Set the random seed of --sim
    #[arg(long, value_name = "N", default_value_t = 1, requires = "sim")]
    pub seed: u64,
    #[command(flatten)]
    pub sandbox: SandboxArgs,
}

const HOST_HELP: &str = "\
--addr, --dhcp, --mac, --mtu and --offload apply to the preceding --port. The host ends on Ctrl-C, on the control \
command 'stop', or when all its ports are closed: with exit code 0 at the end of a capture file, 1 if a device was \
removed. With --set stay=on it keeps running without ports.

Example: a host that answers ping and echoes UDP on the kernel's tap0
  linerate host --port tap:tap0 --addr 10.0.0.2/24 --service echo:7";

/// Flags that describe a host.
#[derive(Args, Clone, Debug)]
pub struct HostArgs {
    /// Attach a port: tap:tap0, impair(loss=1%):tap:tap0; see 'linerate ports'
    #[arg(long, value_name = "SPEC")]
    pub port: Vec<String>,
    /// Add an address to the preceding port; 'auto': IPv6 autoconfiguration; 'dhcp': as --dhcp
    #[arg(long, value_name = "A/LEN")]
    pub addr: Vec<String>,
    /// Configure IPv4 on the preceding port by DHCP
    #[arg(long, overrides_with = "dhcp")]
    pub dhcp: bool,
    /// Use this name server
    #[arg(long, value_name = "ADDRESS")]
    pub dns: Vec<std::net::IpAddr>,
    /// Append this search domain to short names
    #[arg(long, value_name = "DOMAIN")]
    pub search: Vec<String>,
    /// Set the MAC address of the preceding port
    #[arg(long, value_name = "MAC")]
    pub mac: Vec<String>,
    /// Set the MTU of the preceding port
    #[arg(long, value_name = "BYTES")]
    pub mtu: Vec<String>,
    /// Offload to the preceding port: ip4csum, udp4csum, rxcsum, tso4
    #[arg(long, value_name = "WHAT", value_delimiter = ',')]
    pub offload: Vec<String>,
    #[arg(long, value_name = "KIND[:PORT]", help = service_help())]
    pub service: Vec<String>,
    /// Add a route via a gateway: default,10.0.0.1 or 10.1.0.0/16,10.0.0.1
    #[arg(long, value_name = "TO,VIA")]
    pub route: Vec<String>,
    /// Name the host
    #[arg(long, value_name = "NAME")]
    pub name: Option<String>,
    /// Select locks: up (one thread), light or heavy
    #[arg(long, value_name = "KIND")]
    pub locks: Option<String>,
    /// Pin the host to this CPU core
    #[arg(long, value_name = "N")]
    pub core: Option<String>,
    /// Set a key or sysctl: pool.kind=zone, net.inet.ip.forwarding=1
    #[arg(long = "set", value_name = "K=V", value_parser = key_value)]
    pub set: Vec<(String, String)>,
    /// Create the control socket at this path
    #[arg(long, value_name = "PATH", value_hint = ValueHint::FilePath, value_parser = control_path)]
    pub control: Option<PathBuf>,
    /// Write a newline to this open descriptor when the host runs
    #[arg(long, value_name = "N")]
    pub ready_fd: Option<u32>,
}

/// Returns the help of `--service`, with the kinds as they are declared.
fn service_help() -> String {
    format!("Run a service: {}; with a port as in echo:7", node::config::ServiceKind::WORDS)
}

/// Arguments of `host`.
#[derive(Args, Clone, Debug)]
#[command(after_help = HOST_HELP)]
pub struct AloneArgs {
    #[command(flatten)]
    pub host: HostArgs,
    #[command(flatten)]
    pub sandbox: SandboxArgs,
}

/// Flags of the address family.
#[derive(Args, Clone, Copy, Debug, Default)]
pub struct FamilyArgs {
    /// Use IPv6; a server serves both families unless -4 is given
    #[arg(short = '6', long, conflicts_with = "version4")]
    pub version6: bool,
    /// Use IPv4
    #[arg(short = '4', long)]
    pub version4: bool,
}

impl FamilyArgs {
    /// Returns the families that the flags permit.
    pub fn families(self) -> Families {
        Families::of(self.version4, self.version6)
    }
}

/// Flags of a host that runs one application.
#[derive(Args, Clone, Debug)]
pub struct ServedArgs {
    /// Listen on this TCP port [default: the protocol's]
    #[arg(short = 'p', value_name = "L4PORT", value_parser = clap::value_parser!(u16).range(1..))]
    pub listen: Option<u16>,
    /// Set the gateway of the default route
    #[arg(long, value_name = "A")]
    pub gateway: Option<std::net::IpAddr>,
    #[command(flatten)]
    pub host: HostArgs,
    #[command(flatten)]
    pub sandbox: SandboxArgs,
}

/// Limit on the connections of one peer.
#[derive(Args, Clone, Copy, Debug)]
pub struct PeerArgs {
    /// Limit concurrent connections of one address [default: half of all; ftpd 32]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=65_536))]
    pub per_peer: Option<u32>,
}

impl PeerArgs {
    /// Returns the limit that is set, or `default`.
    pub fn or(self, default: usize) -> usize {
        self.per_peer.map_or(default, |limit| limit as usize)
    }
}

/// Limits of a server's connections.
#[derive(Args, Clone, Copy, Debug)]
pub struct LimitArgs {
    /// Limit concurrent connections; beyond the limit, the longest idle one is closed [default:
    /// 1024; ftpd 256, netserver 64, tcpreceive 1]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=65_536))]
    pub connections: Option<u32>,
    #[command(flatten)]
    pub peers: PeerArgs,
}

impl LimitArgs {
    /// Returns the limits that are set, or those of a server with `most` connections.
    pub fn or(self, most: usize) -> Limits {
        let most = self.connections.map_or(most, |limit| limit as usize);
        Limits { most, per_peer: self.peers.or(most.div_ceil(2)) }
    }

    /// Returns the limits as [`LimitArgs::or`] does, with at most `per_peer` connections of one
    /// address unless set higher.
    pub fn or_at_most(self, most: usize, per_peer: usize) -> Limits {
        let Limits { most, per_peer: half } = self.or(most);
        Limits { most, per_peer: self.peers.or(half.min(per_peer)) }
    }
}

/// Arguments of `ftpd` and `httpd`.
#[derive(Args, Debug)]
#[command(after_help = "\
The flags of 'linerate host' apply, and the host ends in the same cases. /dev/zero is an endless file; over HTTP, \
/dev/zero?bytes=N has N bytes. /dev/null accepts any upload. FTP implements the minimum of RFC 959, RFC 2428, RFC 3659 \
(MLSD, SIZE, MDTM, REST), APPE, and patterns (* ? [a-z]) in LIST and NLST; and as far as --uploads permits, MKD, RMD, \
DELE, RNFR and RNTO.

Example:
  linerate ftpd --port tap:tap0 --addr 10.0.0.2/24 --root /srv/files
  curl -o /dev/null ftp://anonymous@10.0.0.2/dev/zero")]
pub struct FilesArgs {
    /// Serve the files in this directory too; links out of it are not followed
    #[arg(long, value_name = "DIR", value_hint = ValueHint::DirPath)]
    pub root: Option<PathBuf>,
    /// Accept uploads to --root (ftpd): under new names only, or any name
    #[arg(long, value_name = "WHICH", num_args = 0..=1, require_equals = true, default_missing_value = "new", requires = "root")]
    pub uploads: Option<UploadsArg>,
    #[command(flatten)]
    pub limits: LimitArgs,
    #[command(flatten)]
    pub served: ServedArgs,
}

/// Permitted names of uploads.
#[derive(ValueEnum, Clone, Copy, PartialEq, Eq, Debug)]
pub enum UploadsArg {
    /// Allow new names and directories
    New,
    /// Allow any name: existing files may also be appended to, renamed and removed
    Replace,
}

/// Arguments of `serve`.
#[derive(Args, Debug)]
#[command(after_help = "\
The flags of 'linerate host' apply, and the host ends in the same cases.

Example:
  linerate serve echo --port tap:tap0 --addr 10.0.0.2/24 -p 7")]
pub struct ServeArgs {
    /// Select the service
    pub kind: SmallKind,
    #[command(flatten)]
    pub limits: LimitArgs,
    #[command(flatten)]
    pub served: ServedArgs,
}

/// Services of `serve`.
#[derive(ValueEnum, Clone, Copy, PartialEq, Eq, Debug)]
pub enum SmallKind {
    /// Send back received bytes (RFC 862, port 7)
    Echo,
    /// Discard received bytes (RFC 863, port 9)
    Discard,
    /// Send an endless stream of characters (RFC 864, port 19)
    Chargen,
    /// Discard received bytes and print their number at the end (port 9)
    Sink,
}

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
    /// List its link types
    #[arg(long = "extcap-dlts")]
    pub dlts: bool,
    /// List its options
    #[arg(long = "extcap-config")]
    pub config: bool,
    /// Capture into --fifo
    #[arg(long)]
    pub capture: bool,
    /// Write frames to this FIFO or file
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath)]
    pub fifo: Option<PathBuf>,
    /// Capture matching frames; without --capture, check the expression
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
    /// Print stacks as lines, 'thread;outer;inner MICROSECONDS'
    #[arg(long)]
    pub folded: bool,
    /// Draw a flamegraph into this file
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath)]
    pub svg: Option<PathBuf>,
    /// Compare with the output of an earlier --folded
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath)]
    pub diff: Option<PathBuf>,
    /// Take this many samples per second of a thread's CPU time, 1 to 10000
    #[arg(long, value_name = "HZ", default_value_t = lab::profile::RATE_HZ,
          value_parser = clap::value_parser!(u32).range(1..=i64::from(lab::profile::RATE_MAX_HZ)))]
    pub rate: u32,
    /// Print the hosts' cost ledgers too; the profile includes their overhead
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
  linerate pkt crates/sim/tests/pkt/*/*.pkt")]
pub struct PktArgs {
    /// Ignore the PSH flag, which other stacks set in other segments
    #[arg(long)]
    pub any_psh: bool,
    /// Run scripts with this IP version: ipv4, ipv4-mapped-ipv6, ipv6, or 'each' for every version
    /// of the script [default: the script's, or ipv4]
    #[arg(long, value_name = "VERSION", value_parser = ip_versions)]
    pub ip_version: Option<IpVersions>,
    /// Rewrite the 'counters' lines of the scripts; review the diff
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
    /// One version, as given.
    One(sim::pkt::IpVersion),
    /// Each version of the script.
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

/// Parses the path of --control, which may also be a URL as for --url.
pub fn control_path(text: &str) -> Result<PathBuf, String> {
    node::control::path_of(text).map_err(|why| why.to_string())
}

pub fn key_value(text: &str) -> Result<(String, String), String> {
    match text.split_once('=') {
        Some((key, value)) if !key.trim().is_empty() => Ok((key.trim().to_string(), value.trim().to_string())),
        _ => Err("expected KEY=VALUE, as in net.inet.ip.forwarding=1".to_string()),
    }
}

#[cfg(test)]
mod tests;
