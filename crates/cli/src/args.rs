//! The command line: every command and every flag, declared once. Help, completions and manual pages come from here.

mod measure;

pub use measure::{
    BenchArgs, BenchGroup, DmaName, LabArgs, LabCommand, LadderArgs, LadderName, ReportName, ReproArgs, StudyArgs,
    TesttoolArgs, ToolMode,
};

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
use clap::{Args, Parser, Subcommand, ValueEnum, ValueHint};
use std::ffi::OsString;
use std::path::PathBuf;

const EXIT_CODES: &str = "Exit codes: 0 done; 1 failed, a port lost, or frames unaccounted for; 2 wrong usage or configuration; \
                          3 no host answers.\nErrors are one line: what, where, what to do next.";

const GROUPS: &str = "\
Run hosts and bridges
  up FILE           Hosts of a TOML file, each on its own thread, until Ctrl-C or no port is left
  host              One host from flags: --port tap:tap0 --addr 10.0.0.2/24
  bridge PORT...    An Ethernet bridge: learns, forwards, floods; 'switch' is the same
  ftpd httpd iperf3 serve
                    One such host that serves files, echo discard chargen sink; iperf3 -s or -c
  kvd, filed        One that keeps keys and values for Redis clients, or files for fileload
Ask and change a running host (socket: --url or $LINERATE_CTL)
  ctl WORDS         Any of its words; 'ctl help' lists them
  ifconfig ip arp ndp route sysctl netstat ss show audit
                    The same without 'ctl'
  tcpdump, top      Its frames as they pass, printed or written as pcapng; its rates, live
  extcap            The same, and any port, in Wireshark: 'linerate extcap --install'
Frames as lines, through pipes ('linerate A + B + C' is A | B | C in one process)
  cat PORT, put PORT, pipe PORT
                    A port to standard output, standard input to a port, both ways
  grep PATTERN      Lines that match, or frames: dst=00:11:* type=ip
  mount DIR PORT... Ports as files: cat DIR/tap0, echo ... > DIR/tap0
  conv              Between text, binary, pcap, pcapng and JSON lines
  rewrite EXPR...   Fields changed, checksums with them: ip.ttl-=1 dst=00:11:22:33:44:55; NAT44
  crc               Checksums set right, or checked
  gen               Frames out of nothing
  mirror, split     A copy of each to other places; each to one of several
  delay, rate       Each a while later; no more than so many a second
  count, top        How many, how much, how fast; who is busiest
  tap, nanoping     A TAP interface of a text; ICMP echo in nanoseconds
Measure
  testtool MODE     rump2014's tool: send, recv or route packets, as fast as it goes
  ladder NAME       Each design choice's price, step by step
  repro NAME        A report's table, as it was and as it is here now
  bench GROUP       The figures of merit, beside their peers
  ab --a K --b K W  A workload, or a command line, with two settings: which is better, and why
  lab selftest      Whether the laboratory's verdicts hold on this machine
  report DIR        Results as one page for a browser; 'gate' says whether a run got slower
  netperf -t TEST   netperf's tests between two ends of ours, over the kernel, or between both
  netserver         The end that netperf asks, when it is in another process
  netrate TOOL      FreeBSD's tcpconnect, netblast, netsend, juggle, tcpp, http, at these places
  kvload, fileload  A database's and a file service's work at the same places
  rfc2544 PORT PORT Throughput, latency, loss, bursts of what is between two ports
  livelock          Frames forwarded against frames offered: by interrupts, and polled
  profile -- ...    Where a command's processor time goes, by function
  ministat          FreeBSD's statistics of columns of numbers
Check
  pkt FILE...       Scripts of packets and calls against our TCP, on virtual time
About linerate
  ports             Kinds of ports and their options
  completions SHELL, man DIR
                    For the shell, for man(1)
  help COMMAND      More about a command";

/// A user-space network system: hosts, ports, and what a packet costs.
#[derive(Parser, Debug)]
#[command(
    name = "linerate",
    version,
    max_term_width = 110,
    after_help = EXIT_CODES,
    help_template = "{about}\n\n{usage-heading} linerate COMMAND ...\n\n{before-help}Options:\n{options}{after-help}",
    before_help = GROUPS,
    disable_help_subcommand = false
)]
pub struct Cli {
    #[command(subcommand)]
    pub command: Command,
}

#[derive(Subcommand, Debug)]
pub enum Command {
    /// Run the hosts of a TOML file, each on its own thread, until Ctrl-C or no port is left
    Up(UpArgs),
    /// Run one host made from flags, until Ctrl-C or no port is left
    Host(HostArgs),
    /// Run a learning bridge over ports, which may be text; or ask one that runs
    #[command(visible_alias = "switch")]
    Bridge(BridgeArgs),
    /// Serve files over FTP from a host made from flags; /dev/zero and /dev/null are always there
    Ftpd(FilesArgs),
    /// Serve files over HTTP from a host made from flags; /dev/zero?bytes=N too
    Httpd(FilesArgs),
    /// Measure a path as iperf3 does, as server or client, from a host made from flags
    Iperf3(Box<Iperf3Args>),
    /// Serve echo, discard, chargen or sink over TCP from a host made from flags
    Serve(ServeArgs),
    /// Keep keys and values for Redis clients, in memory, on a host made from flags
    Kvd(Box<KvdArgs>),
    /// Keep files in memory for 'linerate fileload', on a host made from flags
    Filed(Box<FiledArgs>),
    /// Say words to a running host and print its answer
    Ctl(CtlArgs),
    /// Ifaces of a running host, in BSD's words
    Ifconfig(ShortArgs),
    /// Addresses, links, routes, neighbors of a running host, in iproute2's words
    Ip(ShortArgs),
    /// Neighbors of a running host
    Arp(ShortArgs),
    /// Neighbors of IPv6 of a running host
    Ndp(ShortArgs),
    /// Routes of a running host, in BSD's words
    Route(ShortArgs),
    /// Knobs of a running host
    Sysctl(ShortArgs),
    /// Connections (-a), counters in sentences (-s [-p tcp]), pools (-m), ifaces (-i), routes (-r) of a running host
    Netstat(ShortArgs),
    /// Sockets of a running host, in iproute2's words: -t -u -l -a -i -o -e -p -m -s
    Ss(ShortArgs),
    /// pools, locks, ports, drops, counters, ledger [on|off], sockets or topology of a running host
    Show(ShortArgs),
    /// The balance of frames of a running host: in, out, held, dropped by reason
    Audit(ShortArgs),
    /// Frames of a running host as they pass its ports
    Tcpdump(TcpdumpArgs),
    /// Any port, and those of running hosts, as interfaces of Wireshark and tshark
    Extcap(ExtcapArgs),
    #[command(flatten)]
    InARow(RowCommand),
    /// Both: standard input to the port, the port to standard output
    Pipe(PipeArgs),
    /// Ports as files of a directory, to read and write frames
    Mount(MountArgs),
    /// Make a TAP interface of standard input and output
    Tap(TapArgs),
    /// Ask by ARP and ICMP echo through a port, and say how long the answers took, in nanoseconds
    Nanoping(NanopingArgs),
    /// rump2014's testtool: send, receive or route UDP packets and say how many a second
    Testtool(TesttoolArgs),
    /// Each design choice's price, step by step
    Ladder(LadderArgs),
    /// The laboratory itself: whether its verdicts hold on this machine
    Lab(LabArgs),
    /// A report's table, as it was and as it is here now
    Repro(ReproArgs),
    /// The figures of merit, beside their peers in the same run
    Bench(BenchArgs),
    /// Results of a directory as one page for a browser
    Report(ReportArgs),
    /// Is a run as fast as an earlier one? For who decides without looking
    Gate(GateArgs),
    /// One workload with the hosts set this way and that: which is better, and why
    Ab(AbArgs),
    /// netperf's tests: TCP and UDP, streams, requests, connections; ours, over TAP, and the kernel's
    Netperf(NetperfArgs),
    /// Be the end that netperf asks, on a host made from flags or on the kernel
    Netserver(NetserverArgs),
    /// FreeBSD's netrate tools: connections, datagrams, messages, streams
    Netrate(NetrateArgs),
    /// A database's work: GETs and SETs of keys of which few are wanted often, by many clients
    Kvload(Box<KvloadArgs>),
    /// A file service's work: names, attributes, reads and writes, by many clients
    Fileload(Box<FileloadArgs>),
    /// Throughput, latency, loss and bursts of a device between two ports, by RFC 2544; without ports, of our bridge
    Rfc2544(Rfc2544Args),
    /// Frames forwarded against frames offered: interrupts collapse beyond the knee, polling stays flat
    Livelock(LivelockArgs),
    /// Run another command and say where its processor time went
    Profile(ProfileArgs),
    /// FreeBSD's ministat(1): statistics of columns of numbers, compared by Student's t
    #[command(disable_help_flag = true)]
    Ministat {
        /// As ministat(1): [-Ans] [-C column] [-c confidence] [-d delimiter] [-w width] [file ...]
        #[arg(trailing_var_arg = true, allow_hyphen_values = true)]
        args: Vec<String>,
    },
    /// Play scripts of packets and calls, in packetdrill's syntax, against our TCP on virtual time
    Pkt(PktArgs),
    /// Kinds of ports and wrappers, with their options
    Ports(PortsArgs),
    /// Print completions for a shell
    Completions {
        /// Which shell
        shell: clap_complete::Shell,
    },
    /// Write manual pages
    Man {
        /// Where to
        #[arg(value_hint = ValueHint::DirPath)]
        dir: PathBuf,
    },
}

/// `up`.
#[derive(Args, Debug)]
#[command(after_help = "\
Each host answers at DIR/NAME.sock; without --control-dir its name is enough, as in 'linerate ctl
--url a ip neigh'. It ends on Ctrl-C, on the control word 'stop', or when all its
ports are over (a capture read to its end, a device gone), unless its key 'stay' is on. On its end
its audit is printed; the exit code is 1 if a frame is unaccounted for or a port was lost.

Example:
  linerate up topo/pair.toml --control-dir /tmp/lr &
  linerate ctl --url /tmp/lr/a.sock ip neigh
On virtual time: who was answered how often, and after how long (least, mean, most); then the audits
  linerate up --sim 10 topo/dumbbell.toml
With switches between the hosts, which answer words as bridges do
  linerate up topo/switched-ring.toml --control-dir /tmp/lr &
  linerate ctl --url /tmp/lr/s1.sock ifconfig")]
pub struct UpArgs {
    /// The TOML file: [[host]] and [[switch]] tables
    #[arg(value_hint = ValueHint::FilePath)]
    pub file: PathBuf,
    /// Where the control sockets go [default: $XDG_RUNTIME_DIR/linerate, or /tmp/linerate-UID]
    #[arg(long, value_name = "DIR", value_hint = ValueHint::DirPath)]
    pub control_dir: Option<PathBuf>,
    /// Set a key or knob of every host, as in the file: pool.kind=zone, net.inet.ip.forwarding=1
    #[arg(long = "set", value_name = "K=V", value_parser = key_value)]
    pub set: Vec<(String, String)>,
    /// Read and check the file, and run nothing
    #[arg(long)]
    pub check: bool,
    /// Not live, but so many seconds of virtual time: each host asks each echo once a second. Only datagrams are served
    #[arg(long, value_name = "SECONDS", value_parser = clap::value_parser!(u64).range(1..=86_400))]
    pub sim: Option<u64>,
    /// Of --sim: what is random follows from it
    #[arg(long, value_name = "N", default_value_t = 1, requires = "sim")]
    pub seed: u64,
}

/// `host`.
#[derive(Args, Debug)]
#[command(after_help = "\
--addr, --mac, --mtu and --offload are about the --port before them.
The host ends on Ctrl-C, on the control word 'stop', or when all its ports are over (a capture
read to its end: exit code 0; a device gone: 1); with --set stay=on it goes on without them.

Example: a host that answers ping and echoes UDP on the kernel's tap0
  linerate host --port tap:tap0 --addr 10.0.0.2/24 --service echo:7 --control /tmp/h.sock")]
pub struct HostArgs {
    /// A port, as in tap:tap0 or impair(loss=1%):tap:tap0; see 'linerate ports'
    #[arg(long, value_name = "SPEC")]
    pub port: Vec<String>,
    /// An address of the port before it
    #[arg(long, value_name = "A/LEN")]
    pub addr: Vec<String>,
    /// The MAC address of the port before it
    #[arg(long, value_name = "MAC")]
    pub mac: Vec<String>,
    /// The MTU of the port before it
    #[arg(long, value_name = "BYTES")]
    pub mtu: Vec<String>,
    /// Leave checksums to the port before it: ip4csum, udp4csum, rxcsum, tso4
    #[arg(long, value_name = "WHAT", value_delimiter = ',')]
    pub offload: Vec<String>,
    /// A service: echo, discard, iperf3, netserver; its port as in echo:7
    #[arg(long, value_name = "KIND[:PORT]")]
    pub service: Vec<String>,
    /// A route through a gateway: default,10.0.0.1 or 10.1.0.0/16,10.0.0.1
    #[arg(long, value_name = "TO,VIA")]
    pub route: Vec<String>,
    /// The host's name
    #[arg(long, value_name = "NAME")]
    pub name: Option<String>,
    /// up (one thread), light or heavy
    #[arg(long, value_name = "KIND")]
    pub locks: Option<String>,
    /// The core to stay on
    #[arg(long, value_name = "N")]
    pub core: Option<String>,
    /// Set a key or knob: pool.kind=zone, net.inet.ip.forwarding=1
    #[arg(long = "set", value_name = "K=V", value_parser = key_value)]
    pub set: Vec<(String, String)>,
    /// Where its control socket goes
    #[arg(long, value_name = "PATH", value_hint = ValueHint::FilePath)]
    pub control: Option<PathBuf>,
}

/// A host as `host` makes it, with one application.
#[derive(Args, Debug)]
pub struct ServedArgs {
    /// The TCP port to listen at [default: the protocol's]
    #[arg(short = 'p', value_name = "L4PORT", value_parser = clap::value_parser!(u16).range(1..))]
    pub listen: Option<u16>,
    /// The default route's gateway
    #[arg(long, value_name = "A")]
    pub gateway: Option<std::net::Ipv4Addr>,
    #[command(flatten)]
    pub host: HostArgs,
}

/// `ftpd` and `httpd`.
#[derive(Args, Debug)]
#[command(after_help = "\
The host's flags are those of 'linerate host'; it ends as that one does. /dev/zero gives without end,
/dev/null takes everything.

Example:
  linerate ftpd --port tap:tap0 --addr 10.0.0.2/24 --root /srv/files
  curl -o /dev/null ftp://anonymous@10.0.0.2/dev/zero")]
pub struct FilesArgs {
    /// Serve what is below this directory too; links that lead out are not followed
    #[arg(long, value_name = "DIR", value_hint = ValueHint::DirPath)]
    pub root: Option<PathBuf>,
    /// Take uploads below --root (ftpd): under new names, or under any
    #[arg(long, value_name = "WHICH", num_args = 0..=1, require_equals = true, default_missing_value = "new", requires = "root")]
    pub uploads: Option<UploadsArg>,
    #[command(flatten)]
    pub served: ServedArgs,
}

/// Which names uploads may have.
#[derive(ValueEnum, Clone, Copy, PartialEq, Eq, Debug)]
pub enum UploadsArg {
    /// Names that nothing has
    New,
    /// Any name: what was there is replaced
    Replace,
}

/// `serve`.
#[derive(Args, Debug)]
#[command(after_help = "\
The host's flags are those of 'linerate host'; it ends as that one does.

Example:
  linerate serve echo --port tap:tap0 --addr 10.0.0.2/24 -p 7")]
pub struct ServeArgs {
    /// What to serve
    pub kind: SmallKind,
    #[command(flatten)]
    pub served: ServedArgs,
}

/// The small services.
#[derive(ValueEnum, Clone, Copy, PartialEq, Eq, Debug)]
pub enum SmallKind {
    /// RFC 862, port 7: sends back what comes
    Echo,
    /// RFC 863, port 9: throws away what comes
    Discard,
    /// RFC 864, port 19: sends characters without end
    Chargen,
    /// Port 9: throws away what comes and says at its end how much it was
    Sink,
}

/// `ctl`.
#[derive(Args, Debug)]
#[command(after_help = "\
Examples:
  linerate ctl --url unix:///tmp/h.sock ifconfig pg0 create inet 1.0.0.1 udp4csum
  LINERATE_CTL=/tmp/h.sock linerate ctl -j ip route | jq .
  linerate ctl help")]
pub struct CtlArgs {
    /// The control socket: unix:///path or /path
    #[arg(long, value_name = "URL", env = "LINERATE_CTL", hide_env_values = true)]
    pub url: Option<String>,
    /// JSON instead of text, where there is a listing
    #[arg(short, long)]
    pub json: bool,
    /// What to say; 'help' lists what there is
    #[arg(required = true, trailing_var_arg = true, allow_hyphen_values = true)]
    pub words: Vec<String>,
}

/// The short forms of `ctl`.
#[derive(Args, Debug)]
#[command(after_help = "The same as 'linerate ctl' with this word in front; 'linerate ctl help' has the grammar.")]
pub struct ShortArgs {
    /// The control socket: unix:///path or /path
    #[arg(long, value_name = "URL", env = "LINERATE_CTL", hide_env_values = true)]
    pub url: Option<String>,
    /// JSON instead of text, where there is a listing
    #[arg(short, long)]
    pub json: bool,
    /// The program's own words
    #[arg(trailing_var_arg = true, allow_hyphen_values = true)]
    pub words: Vec<String>,
}

/// `tcpdump`.
#[derive(Args, Debug)]
#[command(after_help = "\
Ends with Ctrl-C, or after -c. Times are UTC. Frames are shown as the port gives and takes them: a checksum that is left
to the port is not filled in. What the host had no room for (4 MiB unread) is counted and told at the end.

Examples:
  linerate tcpdump --url /tmp/h.sock -i tap0 -c 10
  linerate tcpdump --url /tmp/h.sock -w - | wireshark -k -i -")]
pub struct TcpdumpArgs {
    /// The control socket: unix:///path or /path
    #[arg(long, value_name = "URL", env = "LINERATE_CTL", hide_env_values = true)]
    pub url: Option<String>,
    /// The iface, or any: all that have a port
    #[arg(short, value_name = "IFACE", default_value = "any")]
    pub iface: String,
    /// Frames after which to end
    #[arg(short, value_name = "N", value_parser = clap::value_parser!(u64).range(1..))]
    pub count: Option<u64>,
    /// Write to this file instead of printing; pcapng, or by its name pcap; - is standard output
    #[arg(short, value_name = "FILE", value_hint = ValueHint::FilePath)]
    pub write: Option<PathBuf>,
    /// Bytes kept of each frame
    #[arg(short, value_name = "BYTES", default_value_t = node::capture::SNAPLEN,
          value_parser = clap::value_parser!(u32).range(1..=i64::from(node::capture::SNAPLEN)))]
    pub snaplen: u32,
    /// Print the link header too
    #[arg(short = 'e')]
    pub link: bool,
    /// Print no times
    #[arg(short = 't')]
    pub no_time: bool,
    /// Print numbers, not names: always so
    #[arg(short = 'n')]
    pub numbers: bool,
}

/// `extcap`.
#[derive(Args, Debug)]
#[command(after_help = "\
Wireshark gives all flags but --install, and shows the interfaces in its list: 'linerate', which is any port by its name, and
one for each port of a host whose control socket is where 'linerate up' puts it, or at $LINERATE_CTL. Capture filters are
tcpdump's expressions. docs/extcap.md has more.

Examples:
  linerate extcap --install
  linerate extcap --extcap-interfaces")]
pub struct ExtcapArgs {
    /// Link this program into DIR [default: the extcap folder in the home that tshark tells of]
    #[arg(long, value_name = "DIR", num_args = 0..=1, value_hint = ValueHint::DirPath)]
    pub install: Option<Option<PathBuf>>,
    /// List the interfaces
    #[arg(long = "extcap-interfaces")]
    pub interfaces: bool,
    /// The interface that is meant
    #[arg(long = "extcap-interface", value_name = "NAME")]
    pub interface: Option<String>,
    /// Its link types
    #[arg(long = "extcap-dlts")]
    pub dlts: bool,
    /// Its options
    #[arg(long = "extcap-config")]
    pub config: bool,
    /// Capture, into --fifo
    #[arg(long)]
    pub capture: bool,
    /// Where frames go
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath)]
    pub fifo: Option<PathBuf>,
    /// Frames to capture; without --capture, what is wrong with the expression is printed
    #[arg(long = "extcap-capture-filter", value_name = "EXPR", allow_hyphen_values = true)]
    pub filter: Option<String>,
    /// The port behind 'linerate', as in tap:tap0 [default: a generator]
    #[arg(long, value_name = "SPEC")]
    pub port: Option<String>,
    /// Bytes kept of each frame
    #[arg(long, value_name = "BYTES", default_value_t = node::capture::SNAPLEN,
          value_parser = clap::value_parser!(u32).range(1..=i64::from(node::capture::SNAPLEN)))]
    pub snaplen: u32,
    /// Wireshark's version, which changes nothing
    #[arg(long = "extcap-version", value_name = "V", num_args = 0..=1, hide = true)]
    pub wireshark: Option<Option<String>>,
}

/// `profile`.
#[derive(Args, Debug)]
#[command(after_help = "\
Each of the command's threads samples itself; neither root nor a hardware counter is needed. Shares
are of processor time. With --json and --folded the command's own output goes to standard error.

Examples:
  linerate profile -- testtool -c 50000000 send
  linerate profile --svg send.svg -- testtool -c 50000000 send
  linerate profile --folded -- testtool -c 50000000 send > before.folded
  linerate profile --diff before.folded --svg change.svg -- testtool -c 50000000 -b 32 send")]
pub struct ProfileArgs {
    /// One JSON object instead of the tables
    #[arg(short, long, conflicts_with = "folded")]
    pub json: bool,
    /// Stacks as lines, 'thread;outer;inner MICROSECONDS', instead of the tables
    #[arg(long)]
    pub folded: bool,
    /// Draw a flamegraph into this file
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath)]
    pub svg: Option<PathBuf>,
    /// Compare with stacks that --folded wrote: in the tables, the lines ('stack before after') and the flamegraph
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath)]
    pub diff: Option<PathBuf>,
    /// Samples a second of a thread's processor time, 1 to 10000
    #[arg(long, value_name = "HZ", default_value_t = lab::profile::RATE_HZ,
          value_parser = clap::value_parser!(u32).range(1..=i64::from(lab::profile::RATE_MAX_HZ)))]
    pub rate: u32,
    /// Switch the hosts' cost ledgers on and print their ticks too; they cost time, which the profile then shows
    #[arg(long)]
    pub ledger: bool,
    /// The command, as after 'linerate'
    #[arg(required = true, last = true, value_name = "COMMAND")]
    pub command: Vec<OsString>,
}

/// `pkt`.
#[derive(Args, Debug)]
#[command(after_help = "\
One line for each script; of one that does not hold, what was expected and what came.
Shell commands are not run: 'sysctl' and its like set knobs, scripts of such lines are read.

Example:
  linerate pkt crates/sim/tests/pkt/*/*.pkt")]
pub struct PktArgs {
    /// Where PSH stands is not compared: scripts from elsewhere know another sender's habits
    #[arg(long)]
    pub any_psh: bool,
    /// Write what 'counters' lines would have to state into the scripts; look at the difference before you keep it
    #[arg(long)]
    pub restate_counters: bool,
    /// Only what does not hold
    #[arg(short, long)]
    pub quiet: bool,
    /// The scripts
    #[arg(required = true, value_name = "FILE", value_hint = ValueHint::FilePath)]
    pub files: Vec<PathBuf>,
}

/// `ports`.
#[derive(Args, Debug)]
pub struct PortsArgs {
    /// Only this kind
    pub kind: Option<String>,
    /// JSON instead of text
    #[arg(short, long)]
    pub json: bool,
}

pub fn key_value(text: &str) -> Result<(String, String), String> {
    match text.split_once('=') {
        Some((key, value)) if !key.trim().is_empty() => Ok((key.trim().to_string(), value.trim().to_string())),
        _ => Err("expected KEY=VALUE, as in net.inet.ip.forwarding=1".to_string()),
    }
}

#[cfg(test)]
mod tests;
