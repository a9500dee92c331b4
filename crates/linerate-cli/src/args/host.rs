//! Flags that describe a host, and those of hosts that run one application.

use crate::log::LogFormat;
use crate::metrics_server::MetricsArgs;
use crate::sandbox::SandboxArgs;
use apps::slots::Limits;
use clap::{Args, ValueHint};
use node::remote::Families;
use std::path::PathBuf;

/// Arguments of `up`.
#[derive(Args, Debug)]
#[command(after_help = "\
'linerate keys' lists the keys of the file. The control socket of a host is DIR/NAME.sock. Without --control-dir, \
--url also accepts the host's name, as in 'linerate ctl --url a ip neigh'. SIGHUP and the control command 'reload' apply changes \
of the file; 'ctl help reload' has more. A host ends on Ctrl-C, on the control command 'stop', or when all its ports are closed (end of a capture file, device removed), unless the host's key \
'stay' is on. It then prints an audit of its frames. Exit code 1: a frame is unaccounted for, or a port was lost.

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
    /// Write a newline to open file descriptor N when all hosts run
    #[arg(long, value_name = "N")]
    pub ready_fd: Option<u32>,
    #[command(flatten)]
    pub metrics: MetricsArgs,
    /// Log messages and events (links, neighbors, routes, limits) as text, json or journal
    #[arg(long, value_name = "FORMAT", conflicts_with = "sim")]
    pub log: Option<LogFormat>,
    /// Set a key or sysctl of every host, as in pool.kind=zone
    #[arg(long = "set", value_name = "K=V", value_parser = key_value)]
    pub set: Vec<(String, String)>,
    /// Check the file, print what would be opened, and exit
    #[arg(long)]
    pub check: bool,
    /// Run in virtual time for this many seconds; each host sends a UDP datagram to each echo
    /// service once a second
    #[arg(long, value_name = "SECONDS", conflicts_with = "metrics", value_parser = clap::value_parser!(u64).range(1..=86_400))]
    pub sim: Option<u64>,
    /// Run a control command or a client (ping, traceroute, nc, nslookup, http get, iperf3 -c) on a
    /// host before the echo test of --sim
    #[arg(long = "do", value_name = "HOST WORDS", requires = "sim")]
    pub words: Vec<String>,
    /// Set the random seed of --sim
    #[arg(long, value_name = "N", default_value_t = 1, requires = "sim")]
    pub seed: u64,
    #[command(flatten)]
    pub sandbox: SandboxArgs,
}

const HOST_HELP: &str = "\
--addr, --dhcp, --mac, --mtu, --mirror and --offload apply to the preceding --port. The host ends on Ctrl-C, on the control \
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
    /// Add an address to the preceding port; 'auto' selects IPv6 autoconfiguration, 'dhcp' DHCP
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
    /// Offload tasks to the preceding port: ip4csum, udp4csum, rxcsum, tso4
    #[arg(long, value_name = "WHAT", value_delimiter = ',')]
    pub offload: Vec<String>,
    #[arg(long, value_name = "KIND[:PORT]", help = service_help())]
    pub service: Vec<String>,
    /// Add a route via a gateway: default,10.0.0.1 or 10.1.0.0/16,10.0.0.1
    #[arg(long, value_name = "TO,VIA")]
    pub route: Vec<String>,
    /// Set the name of the host
    #[arg(long, value_name = "NAME")]
    pub name: Option<String>,
    /// Select locks: up (one thread), light or heavy
    #[arg(long, value_name = "KIND")]
    pub locks: Option<String>,
    /// Pin the host to this CPU core
    #[arg(long, value_name = "N")]
    pub core: Option<String>,
    /// Set a key or sysctl, as in pool.kind=zone or net.inet.ip.forwarding=1
    #[arg(long = "set", value_name = "K=V", value_parser = key_value)]
    pub set: Vec<(String, String)>,
    /// Create the control socket at this path
    #[arg(long, value_name = "PATH", value_hint = ValueHint::FilePath, value_parser = control_path)]
    pub control: Option<PathBuf>,
    /// Write a newline to open file descriptor N when the host runs
    #[arg(long, value_name = "N")]
    pub ready_fd: Option<u32>,
}

/// Returns the help text of `--service`, which lists the declared kinds of services.
fn service_help() -> String {
    format!("Run a service: {}; a port may follow, as in echo:7", node::config::ServiceKind::WORDS)
}

const RUN_HELP: &str = "\
The program and its children run unmodified, also if they are linked statically: their calls that open TCP sockets are \
answered by the host, through a seccomp filter. They have a network namespace of their own without devices, so nothing else \
of them reaches a network. --addr and the like apply to the preceding --port. Exit code: that of the program; 128 and the \
signal that ended it; 126 if it cannot be started, 127 if it was not found.

Examples: a page from a server of the kernel, and a server on the host
  linerate run --port tap:tap0 --addr 10.0.0.2/24 -- curl http://10.0.0.1/
  linerate run --port tap:tap0 --addr 10.0.0.2/24 -- redis-server --protected-mode no";

/// Arguments of `run`.
#[derive(Args, Clone, Debug)]
#[command(after_help = RUN_HELP)]
pub struct RunArgs {
    #[command(flatten)]
    pub host: HostArgs,
    #[command(flatten)]
    pub metrics: MetricsArgs,
    /// Print the audit of the host's frames on standard error at the end
    #[arg(long)]
    pub audit: bool,
    /// Run this program with these arguments
    #[arg(last = true, required = true, value_name = "PROGRAM", value_hint = ValueHint::CommandWithArguments)]
    pub program: Vec<std::ffi::OsString>,
}

/// Arguments of `host`.
#[derive(Args, Clone, Debug)]
#[command(after_help = HOST_HELP)]
pub struct AloneArgs {
    #[command(flatten)]
    pub host: HostArgs,
    /// Accept the routes of FRR's zebra (FPM) at this loopback address: 127.0.0.1:2620
    #[arg(long, value_name = "ADDR")]
    pub fpm: Option<String>,
    /// Create this TAP device in --netns for the preceding port; FRR's daemons receive and send
    /// control packets there
    #[arg(long, value_name = "DEVICE")]
    pub mirror: Vec<String>,
    /// Use this network namespace for the devices of --mirror and the listener of --fpm [default:
    /// dataplane]
    #[arg(long, value_name = "NAME|PATH", requires = "mirror")]
    pub netns: Option<String>,
    #[command(flatten)]
    pub metrics: MetricsArgs,
    /// Log messages and events (links, neighbors, routes, limits) as text, json or journal
    #[arg(long, value_name = "FORMAT")]
    pub log: Option<LogFormat>,
    /// Check the flags, print what would be opened, and exit
    #[arg(long)]
    pub check: bool,
    #[command(flatten)]
    pub sandbox: SandboxArgs,
}

/// Flags that select the address family.
#[derive(Args, Clone, Copy, Debug, Default)]
pub struct FamilyArgs {
    /// Use IPv6; without -4 and -6, a server uses both families
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
    /// Listen on this TCP port [default: the standard port of the protocol]
    #[arg(short = 'p', value_name = "L4PORT", value_parser = clap::value_parser!(u16).range(1..))]
    pub listen: Option<u16>,
    /// Set the gateway of the default route
    #[arg(long, value_name = "A")]
    pub gateway: Option<std::net::IpAddr>,
    #[command(flatten)]
    pub host: HostArgs,
    #[command(flatten)]
    pub metrics: MetricsArgs,
    #[command(flatten)]
    pub sandbox: SandboxArgs,
}

/// Limit of the connections from one client address.
#[derive(Args, Clone, Copy, Debug)]
pub struct PeerArgs {
    /// Limit concurrent connections from one address [default: half of --connections; ftpd 32]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=65_536))]
    pub per_peer: Option<u32>,
}

impl PeerArgs {
    /// Returns the limit given by the flag, or `default` without the flag.
    pub fn or(self, default: usize) -> usize {
        self.per_peer.map_or(default, |limit| limit as usize)
    }
}

/// Limits of the connections to a server.
#[derive(Args, Clone, Copy, Debug)]
pub struct LimitArgs {
    /// Limit concurrent connections; a connection beyond the limit closes the one that has been
    /// idle longest [default: 1024; ftpd 256, netserver 64, tcpreceive 1]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=65_536))]
    pub connections: Option<u32>,
    #[command(flatten)]
    pub peers: PeerArgs,
}

impl LimitArgs {
    /// Returns the limits given by the flags; without flags, `most` connections in total and half
    /// as many from one address.
    pub fn or(self, most: usize) -> Limits {
        let most = self.connections.map_or(most, |limit| limit as usize);
        Limits { most, per_peer: self.peers.or(most.div_ceil(2)) }
    }

    /// Returns the limits as [`LimitArgs::or`] does, but with a default of at most `per_peer`
    /// connections from one address.
    pub fn or_at_most(self, most: usize, per_peer: usize) -> Limits {
        let Limits { most, per_peer: half } = self.or(most);
        Limits { most, per_peer: self.peers.or(half.min(per_peer)) }
    }
}

/// Parses the value of --control: a path, or a URL as for --url.
pub fn control_path(text: &str) -> Result<PathBuf, String> {
    node::control::path_of(text).map_err(|why| why.to_string())
}

pub fn key_value(text: &str) -> Result<(String, String), String> {
    match text.split_once('=') {
        Some((key, value)) if !key.trim().is_empty() => Ok((key.trim().to_string(), value.trim().to_string())),
        _ => Err("expected KEY=VALUE, as in net.inet.ip.forwarding=1".to_string()),
    }
}
