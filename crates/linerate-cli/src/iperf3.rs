//! `iperf3 -s` and `iperf3 -c`: runs a host, configured by flags, as server or client of an iperf3
//! test. The peer may be the original iperf3 ("stock").

mod output;

use crate::args::{FamilyArgs, ServedArgs};
use crate::exit::{Exit, Fault, notice};
use crate::hosts::{self, Audits};
use crate::running::{Running, Works};
use crate::serve;
use crate::surroundings;
use anyhow::Context;
use apps::iperf3::{
    self, COOKIE, Client, ClientConfig, ClientError, Counters, CpuTimes, DATAGRAM, Iperf3, Params, Protocol, RateUnit,
};
use apps::streams::CongestionName;
use apps::streams::any_towards;
use clap::Args;
use lab::env::Environment;
use lab::measuring::Measuring;
use node::remote::{Families, Remote};
use output::Output;
use programs::{Role, everywhere_of};
use std::ffi::OsString;
use std::fs::File;
use std::io::{self, BufRead, BufReader, Read};
use std::net::{IpAddr, Ipv6Addr, SocketAddr};
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Duration;

/// Default of --rcv-timeout, in milliseconds.
const RCV_TIMEOUT_MS: u64 = 120_000;

/// Arguments of `iperf3`.
#[derive(Args, Debug)]
#[command(after_help = "\
The flags of 'linerate host' apply. A server ends in the same cases as 'linerate host', a client after its test. \
Numbers accept the suffixes K, M, G: powers of 1024 for bytes, of 1000 for bits per second. --port is a port of the \
host, -p the TCP port.

Example:
  linerate iperf3 -s --port tap:tap0 --addr 10.0.0.2/24
  iperf3 -c 10.0.0.2
  linerate iperf3 -c 10.0.0.1 -u -b 100M --port tap:tap0 --addr 10.0.0.2/24")]
pub struct Iperf3Args {
    /// Run in server mode
    #[arg(short = 's', long, conflicts_with = "client")]
    pub server: bool,
    /// Run in client mode, connecting to this host
    #[arg(short = 'c', long, value_name = "HOST")]
    pub client: Option<Remote>,
    /// Run the client in the running host at this control socket
    #[arg(long, value_name = "URL", requires = "client", conflicts_with_all = ["port", "metrics", "bind", "logfile", "file", "cport"])]
    pub url: Option<String>,
    /// Print one JSON object per test
    #[arg(short = 'J', long)]
    pub json: bool,
    /// Set the seconds between periodic reports; 0: only a final report
    #[arg(short = 'i', long, value_name = "S", default_value_t = 1.0)]
    pub interval: f64,
    /// Set the idle timeout of a test in milliseconds
    #[arg(long, value_name = "MS", default_value_t = RCV_TIMEOUT_MS)]
    pub rcv_timeout: u64,
    /// Bind to this address of the host
    #[arg(short = 'B', long, value_name = "A")]
    pub bind: Option<IpAddr>,
    /// Set the unit of rates: k, m, g, t for bits, K, M, G, T for bytes [default: adaptive]
    #[arg(short = 'f', long, value_name = "UNIT", value_parser = rate_unit)]
    pub format: Option<RateUnit>,
    /// Set CPU affinity to core N, as --core does
    #[arg(short = 'A', long, value_name = "N", value_parser = affinity)]
    pub affinity: Option<u32>,
    /// Append the output to this log file instead of printing it
    #[arg(long, value_name = "FILE", value_hint = clap::ValueHint::FilePath)]
    pub logfile: Option<PathBuf>,
    /// Force flushing output at every interval; always on
    #[arg(long)]
    pub forceflush: bool,
    /// Emit a timestamp before each output line, in this strftime(3) format [default: '%c ']
    #[arg(long, value_name = "FORMAT", num_args = 0..=1, require_equals = true, default_missing_value = "%c ",
        conflicts_with = "json")]
    pub timestamps: Option<String>,
    #[command(flatten)]
    pub stock: StockArgs,
    #[command(flatten)]
    pub of_server: ServerArgs,
    #[command(flatten)]
    pub of_client: ClientArgs,
    #[command(flatten)]
    pub served: ServedArgs,
}

impl Iperf3Args {
    /// Returns the flags of the host, with the core that -A sets.
    fn served_here(&self) -> ServedArgs {
        let mut served = self.served.clone();
        served.host.core = self.affinity.map(|core| core.to_string()).or(served.host.core);
        served
    }
}

impl Iperf3Args {
    /// Checks that the addresses of -c and -B belong to the family that -4 or -6 selects, and to
    /// the same family.
    fn check_family(&self) -> anyhow::Result<()> {
        let client = self.client.as_ref().and_then(Remote::ip);
        for (flag, addr) in [("-c", client), ("-B", self.bind)] {
            if let Some(addr) = addr {
                self.stock.family.families().check(flag, addr).map_err(Fault::usage)?;
            }
        }
        match (client, self.bind) {
            (Some(to), Some(from)) if to.is_ipv4() != from.is_ipv4() => {
                Err(Fault::usage(format!("iperf3: -B {from} and -c {to} are of different families")))
            }
            _ => Ok(()),
        }
    }
}

/// Flags of stock iperf3 that have little or no effect here.
#[derive(Args, Debug)]
pub struct StockArgs {
    #[command(flatten)]
    pub family: FamilyArgs,
    /// Print more details; no effect in server mode
    #[arg(short = 'V', long)]
    pub verbose: bool,
    /// Accept zero-copy mode; no effect
    #[arg(short = 'Z', long)]
    pub zerocopy: bool,
    /// Accept a debug level; no effect; see -V and 'linerate tcpdump'
    #[arg(short = 'd', long, num_args = 0..=1, require_equals = true, default_missing_value = "4", value_name = "LEVEL")]
    pub debug: Option<String>,
    /// Run the server in the background
    #[arg(short = 'D', long, conflicts_with = "client")]
    pub daemon: bool,
}

/// Flags for server mode only.
#[derive(Args, Debug)]
#[command(next_help_heading = "Server options")]
pub struct ServerArgs {
    /// Exit after one test
    #[arg(short = '1', long, conflicts_with = "client")]
    pub one_off: bool,
    /// Limit the number of concurrent tests; further clients get a busy error
    #[arg(long, value_name = "N", default_value_t = 16, value_parser = clap::value_parser!(u16).range(1..=64))]
    pub max_clients: u16,
    /// Limit the number of concurrent tests per client address [default: no limit]
    #[arg(long, value_name = "N", conflicts_with = "client", value_parser = clap::value_parser!(u16).range(1..=64))]
    pub per_peer: Option<u16>,
}

/// Flags for client mode only.
#[derive(Args, Debug)]
#[command(next_help_heading = "Client options")]
pub struct ClientArgs {
    /// Use UDP rather than TCP
    #[arg(short = 'u', long, conflicts_with = "server")]
    pub udp: bool,
    /// Set the time in seconds to transmit for [default: 10]
    #[arg(short = 't', long, value_name = "S", conflicts_with_all = ["server", "bytes", "blockcount"])]
    pub time: Option<u64>,
    /// Set the number of bytes to transmit, instead of -t
    #[arg(short = 'n', long, value_name = "N[KMG]", value_parser = amount, conflicts_with_all = ["server", "blockcount"])]
    pub bytes: Option<u64>,
    /// Set the number of blocks or datagrams to transmit, instead of -t
    #[arg(short = 'k', long, value_name = "N[KMG]", value_parser = amount, conflicts_with = "server")]
    pub blockcount: Option<u64>,
    /// Set the length of a block or datagram in bytes [default: 128K; UDP: from the MSS]
    #[arg(short = 'l', long, value_name = "N[KM]", value_parser = amount, conflicts_with = "server")]
    pub length: Option<u64>,
    /// Set the target bitrate in bits/sec of each stream, 0 for unlimited, and blocks per burst
    /// [default: 0; UDP 1M]
    #[arg(short = 'b', long, value_name = "N[KMG][/M]", value_parser = bitrate, conflicts_with = "server")]
    pub bitrate: Option<(u64, u64)>,
    /// Set the number of parallel streams in each direction
    #[arg(short = 'P', long, value_name = "N", default_value_t = 1, conflicts_with = "server")]
    pub parallel: u32,
    /// Run in reverse mode: the server sends
    #[arg(short = 'R', long, conflicts_with_all = ["server", "bidir"])]
    pub reverse: bool,
    /// Run in bidirectional mode: both ends send
    #[arg(long, conflicts_with = "server")]
    pub bidir: bool,
    /// Omit the first S seconds of the test from the result
    #[arg(short = 'O', long, value_name = "S", default_value_t = 0, conflicts_with = "server")]
    pub omit: u64,
    /// Set the socket buffer size in bytes
    #[arg(short = 'w', long, value_name = "N[KM]", value_parser = amount, conflicts_with = "server")]
    pub window: Option<u64>,
    /// Set the maximum segment size in bytes
    #[arg(
        short = 'M',
        long,
        value_name = "N",
        default_value_t = 0,
        hide_default_value = true,
        conflicts_with = "server"
    )]
    pub set_mss: u16,
    /// Set TCP no delay, disabling Nagle's algorithm
    #[arg(short = 'N', long, conflicts_with = "server")]
    pub no_delay: bool,
    /// Set the congestion control algorithm of both ends
    #[arg(short = 'C', long, value_name = "NAME", value_parser = congestion, conflicts_with = "server")]
    pub congestion: Option<CongestionName>,
    /// Set the IP type of service, 0 to 255, also as 0x10 or 020
    #[arg(short = 'S', long, value_name = "N", default_value = "0", hide_default_value = true, value_parser = tos, conflicts_with = "server")]
    pub tos: u8,
    /// Set the IP DSCP value: 0 to 63, or af11 to af43, cs0 to cs7, ef, va, le
    #[arg(long, value_name = "DSCP", value_parser = dscp, conflicts_with_all = ["server", "tos"])]
    pub dscp: Option<u8>,
    /// Send this file, or with -R write received data to it
    #[arg(short = 'F', long, value_name = "FILE", value_hint = clap::ValueHint::FilePath, conflicts_with_all = ["server", "udp", "bidir"])]
    pub file: Option<PathBuf>,
    /// Use a repeating pattern as payload, instead of random bytes
    #[arg(long, conflicts_with = "server")]
    pub repeating_payload: bool,
    /// Bind the first stream to this client port, further streams to the next ports
    #[arg(long, value_name = "L4PORT", default_value_t = 0, hide_default_value = true, conflicts_with = "server")]
    pub cport: u16,
    /// Set the timeout for control connection setup in milliseconds [default: TCP's]
    #[arg(long, value_name = "MS", conflicts_with = "server")]
    pub connect_timeout: Option<u64>,
    /// Use 64-bit counters in UDP test packets
    #[arg(long, conflicts_with = "server")]
    pub udp_counters_64bit: bool,
    /// Get results from the server
    #[arg(long, conflicts_with = "server")]
    pub get_server_output: bool,
    /// Prefix every output line with TEXT, and include it in the JSON report
    #[arg(short = 'T', long, value_name = "TEXT", conflicts_with = "server")]
    pub title: Option<String>,
    /// Include TEXT in the JSON report
    #[arg(long, value_name = "TEXT", conflicts_with = "server")]
    pub extra_data: Option<String>,
    /// Measure round-trip times during the test; requires a linerate server
    #[arg(long, conflicts_with = "server")]
    pub latency: bool,
}

/// Parses a size such as `512K`, with powers of 1024.
fn amount(text: &str) -> Result<u64, String> {
    scaled(text, 1024)
}

/// Parses a number followed by K, M, G or T.
fn scaled(text: &str, step: u64) -> Result<u64, String> {
    let wrong = || "expected a number, as in 10, 1.5M or 2G".to_string();
    let power = match text.bytes().last().map(|last| last.to_ascii_uppercase()) {
        Some(b'K') => 1,
        Some(b'M') => 2,
        Some(b'G') => 3,
        Some(b'T') => 4,
        _ => 0,
    };
    let digits = text.get(..text.len() - usize::from(power > 0)).ok_or_else(wrong)?;
    let value: f64 = digits.parse().map_err(|_| wrong())?;
    let value = value * (step as f64).powi(power);
    if (0.0..9.0e15).contains(&value) { Ok(value as u64) } else { Err(wrong()) }
}

/// Parses a bitrate: `100M`, `1G/20`.
fn bitrate(text: &str) -> Result<(u64, u64), String> {
    let (rate, burst) = text.split_once('/').unwrap_or((text, "1"));
    let burst = burst.parse().ok().filter(|burst| (1..=1000).contains(burst));
    Ok((scaled(rate, 1000)?, burst.ok_or("burst must be 1 to 1000 blocks, as in 100M/10")?))
}

fn congestion(text: &str) -> Result<CongestionName, String> {
    CongestionName::new(text).ok_or_else(|| "expected a name, as in cubic".to_string())
}

fn rate_unit(text: &str) -> Result<RateUnit, String> {
    let mut letters = text.chars();
    let unit = letters.next().and_then(RateUnit::new).filter(|_| letters.next().is_none());
    unit.ok_or_else(|| "expected one of k, m, g, t, K, M, G, T".to_string())
}

fn affinity(text: &str) -> Result<u32, String> {
    if text.contains(',') {
        return Err("expected one core; set the server's core on the server".to_string());
    }
    text.parse().map_err(|_| "expected the number of a core".to_string())
}

/// Parses a decimal, octal or hexadecimal number: `52`, `064` and `0x34` are equal.
fn based(text: &str) -> Option<u8> {
    let number = |digits: &str, base| u8::from_str_radix(digits, base).ok().filter(|_| !digits.starts_with('+'));
    match text.strip_prefix("0x").or_else(|| text.strip_prefix("0X")) {
        Some(hex) => number(hex, 16),
        None if text.len() > 1 && text.starts_with('0') => number(text, 8),
        None => number(text, 10),
    }
}

fn tos(text: &str) -> Result<u8, String> {
    based(text).ok_or_else(|| "expected 0 to 255, as in 52, 064 or 0x34".to_string())
}

/// Parses a DSCP and returns it as a type-of-service byte. Names: RFC 2474 (cs), RFC 2597 (af), RFC
/// 3246 (ef), RFC 5865 (va), RFC 8622 (le).
fn dscp(text: &str) -> Result<u8, String> {
    let name = text.to_ascii_lowercase();
    let class = |prefix: &str, most| {
        let digits = name.strip_prefix(prefix)?.as_bytes();
        digits
            .iter()
            .all(u8::is_ascii_digit)
            .then(|| digits.iter().map(|digit| digit - b'0').collect::<Vec<u8>>())
            .filter(|digits| digits.len() == most)
    };
    let point = match name.as_str() {
        "ef" => Some(46),
        "va" => Some(44),
        "le" => Some(1),
        _ => match (class("cs", 1).as_deref(), class("af", 2).as_deref()) {
            (Some(&[class @ 0..=7]), _) => Some(8 * class),
            (_, Some(&[class @ 1..=4, drop @ 1..=3])) => Some(8 * class + 2 * drop),
            _ => based(&name).filter(|point| *point < 64),
        },
    };
    let wrong = "expected 0 to 63, af11 to af43, cs0 to cs7, ef, va or le";
    point.map(|point| point << 2).ok_or_else(|| wrong.to_string())
}

/// Runs `iperf3 -s` or `-c`.
pub fn run(args: &Iperf3Args, words: &[OsString]) -> anyhow::Result<Exit> {
    args.check_family()?;
    if args.client.is_none() && !args.server {
        return Err(Fault::usage("iperf3: must either be a client (-c) or server (-s)"));
    }
    if args.affinity.is_some() && args.served.host.core.is_some() {
        return Err(Fault::usage("-A and --core exclude each other"));
    }
    if !(args.interval == 0.0 || (0.1..=60.0).contains(&args.interval)) {
        return Err(Fault::usage("-i: expected 0, or 0.1 to 60 seconds"));
    }
    match &args.client {
        Some(to) => client(args, words, to),
        None if args.stock.daemon && std::env::var_os(IN_BACKGROUND).is_none() => in_background(),
        None => server(args, words),
    }
}

/// Environment variable that marks the background process of -D.
const IN_BACKGROUND: &str = "LINERATE_IN_BACKGROUND";

/// Runs this command line again as a background process in a new process group. Returns when the
/// new process accepts clients or, if it fails to start, with its exit code.
fn in_background() -> anyhow::Result<Exit> {
    let mut command = Command::new(std::env::current_exe().context("cannot find the path of this program")?);
    command.args(std::env::args_os().skip(1)).env(IN_BACKGROUND, "1").process_group(0);
    command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::piped());
    let mut child = command.spawn().context("cannot start this program")?;
    for line in child.stderr.take().into_iter().flat_map(|said| BufReader::new(said).lines()) {
        let line = line.context("cannot read the server's output")?;
        if line.ends_with(": running") || line.contains(": running; ") {
            notice(&format!("in the background as process {}", child.id()));
            return Ok(Exit::Fine);
        }
        notice(line.strip_prefix("linerate: ").unwrap_or(&line));
    }
    let code = child.wait().context("cannot wait for the server")?.code();
    Ok(if code == Some(2) { Exit::Usage } else { Exit::Failed })
}

fn server(args: &Iperf3Args, words: &[OsString]) -> anyhow::Result<Exit> {
    let port = args.served.listen.unwrap_or(iperf3::PORT);
    let any = everywhere_of(args.stock.family.families(), port);
    let at = args.bind.map_or(any, |bind| SocketAddr::from((bind, port)));
    let mut output = Output::open(args.logfile.as_deref(), args.timestamps.as_deref())?;
    let app = |wall| {
        Iperf3::new(iperf3::Config {
            json: args.json,
            interval: Duration::from_secs_f64(args.interval),
            idle: Duration::from_millis(args.rcv_timeout),
            unit: args.format,
            clients_max: args.of_server.max_clients.into(),
            clients_per_peer: args.of_server.per_peer.unwrap_or(args.of_server.max_clients).into(),
            datagrams_at: Some(at),
            cpu: Some(CpuTimes::of_process),
            wall: Some(wall),
            ..iperf3::Config::default()
        })
    };
    let one_off = args.of_server.one_off;
    let mut reported = 0;
    let turned = |app: &mut Iperf3| {
        say(&mut output, app.take_output(), args.json, Environment::detect)?;
        if app.counts.tests.get() > reported && !app.is_testing() {
            reported = app.counts.tests.get();
            if !args.json {
                surroundings::show(&Environment::detect());
            }
        }
        let is_enough = one_off && app.counts.tests.get() > 0 && !app.is_testing();
        if is_enough {
            app.reset();
        }
        Ok(is_enough)
    };
    let (_, outcome, audits) =
        serve::run_as(&args.served_here(), words, Role::Server(&[at]), |wall, _| app(wall), turned)?;
    hosts::report(&[outcome], audits)
}

fn client(args: &Iperf3Args, words: &[OsString], to: &Remote) -> anyhow::Result<Exit> {
    let params = params(&args.of_client)?;
    if args.of_client.file.is_some() && params.reverse && params.streams > 1 {
        return Err(Fault::usage("-F with -R: only one stream is supported, since all would write to the same file"));
    }
    if let Some(url) = &args.url {
        return ask(args, &Running::of(Some(url))?, to, params);
    }
    if let Some(path) = &args.of_client.file {
        let of_it = |why: io::Error| Fault::usage(format!("-F {}: {why}", path.display()));
        can_open(path, params.reverse).map_err(of_it)?;
    }
    let mut output = Output::open(args.logfile.as_deref(), args.timestamps.as_deref())?;
    let on = hosts::from_flags(&args.served.host, words).map_err(Fault::usage)?;
    let port = args.served.listen.unwrap_or(iperf3::PORT);
    on.socket_addr(to, port).map_err(|why| Fault::usage(format!("iperf3: -c: {why}")))?;
    // The server's address is unspecified until the host runs and resolves the name.
    let unknown = SocketAddr::from((Ipv6Addr::UNSPECIFIED, port));
    let cookie = cookie().context("cannot read random bytes for the session cookie")?;
    let mut config = ClientConfig {
        file: args.of_client.file.clone(),
        unit: args.format,
        from_port: args.of_client.cport,
        json: args.json,
        verbose: args.stock.verbose,
        interval: Duration::from_secs_f64(args.interval),
        idle: Duration::from_millis(args.rcv_timeout),
        latency: args.of_client.latency,
        cpu: Some(CpuTimes::of_process),
        ..ClientConfig::new(params, unknown, cookie)
    };
    if let Some(ms) = args.of_client.connect_timeout {
        config.connect_patience = Duration::from_millis(ms);
    }
    // `wall` is the calendar time at which the host's clock was zero.
    let bind = args.bind;
    let app = move |wall, peer: Option<SocketAddr>| {
        let mut config = config;
        (config.wall, config.to) = (Some(wall), peer.unwrap_or(unknown));
        config.from = bind.unwrap_or(any_towards(config.to).ip());
        Client::new(config, clock::Instant::ZERO)
    };
    let (_measuring, env) = Measuring::begin();
    let turned = |app: &mut Client| {
        say(&mut output, app.take_output(), args.json, || env.clone())?;
        Ok(app.result().is_some())
    };
    let families = match args.bind {
        Some(IpAddr::V4(_)) => Families::V4,
        Some(IpAddr::V6(_)) => Families::V6,
        None => args.stock.family.families(),
    };
    let role = Role::Client(to, port, families);
    let (app, outcome, _) = serve::run_as(&args.served_here(), words, role, app, turned)?;
    // Standard output contains only the report of the measurement, since other programs parse it.
    let exit = hosts::report(&[outcome], Audits::Stderr)?;
    let measured = matches!(app.result(), Some(Ok(()) | Err(ClientError::Interrupted)));
    if measured && !args.json {
        surroundings::show(&env);
    }
    match app.result() {
        Some(Ok(())) => Ok(exit),
        Some(Err(why @ ClientError::Interrupted)) => {
            notice(&format!("iperf3: {why}"));
            Ok(Exit::Failed)
        }
        Some(Err(why)) => {
            notice(&format!("iperf3: error - {why}"));
            Ok(Exit::Failed)
        }
        None => {
            notice("iperf3: error - the host ended during the test");
            Ok(Exit::Failed)
        }
    }
}

/// Runs `iperf3 -c` in a simulated host, in virtual time.
///
/// # Errors
/// A flag cannot be used in virtual time, -c is missing, or the test failed.
pub fn simulated(host: &dyn Works, args: &Iperf3Args) -> anyhow::Result<Exit> {
    args.check_family()?;
    let wrong = "iperf3: expected -c HOST; a server is a service in the topology file";
    let to = args.client.as_ref().ok_or_else(|| Fault::usage(wrong))?;
    let elsewhere = [
        ("-B", args.bind.is_some()),
        ("-F", args.of_client.file.is_some()),
        ("--cport", args.of_client.cport != 0),
        ("--logfile", args.logfile.is_some()),
        ("--url", args.url.is_some()),
        ("--port", !args.served.host.port.is_empty()),
    ];
    if let Some((flag, _)) = elsewhere.iter().find(|(_, given)| *given) {
        return Err(Fault::usage(format!("iperf3: {flag} cannot be used in virtual time")));
    }
    ask(args, host, to, params(&args.of_client)?)
}

/// Checks the file of -F before the test begins: a file to send must be readable, one to write
/// needs an existing directory.
fn can_open(path: &Path, is_written: bool) -> io::Result<()> {
    match path.parent() {
        _ if !is_written => File::open(path).map(drop),
        Some(parent) if !parent.as_os_str().is_empty() => std::fs::read_dir(parent).map(drop),
        _ => Ok(()),
    }
}

/// Runs the client in a host that is running already.
fn ask(args: &Iperf3Args, host: &dyn Works, to: &Remote, mut params: Params) -> anyhow::Result<Exit> {
    let ignored = [
        ("-f", args.format.is_some()),
        ("-A", args.affinity.is_some()),
        ("--timestamps", args.timestamps.is_some()),
        ("--rcv-timeout", args.rcv_timeout != RCV_TIMEOUT_MS),
        ("-V", args.stock.verbose),
        ("--latency", args.of_client.latency),
        ("--connect-timeout", args.of_client.connect_timeout.is_some()),
    ];
    if let Some((flag, _)) = ignored.iter().find(|(_, given)| *given) {
        return Err(Fault::usage(format!("iperf3: {flag} cannot be used in a running host")));
    }
    if params.block == 0 {
        params.block = DATAGRAM; // the segment size depends on the host's path and is unknown here
    }
    let port = args.served.listen.unwrap_or(iperf3::PORT).to_string();
    let interval = ((args.interval * 1e3) as u64).to_string();
    // In virtual time the cookie is constant, so that runs with the same seed send the same bytes.
    let letters = match host.is_virtual() {
        true => [b'a'; COOKIE],
        false => cookie().context("cannot read random bytes for the session cookie")?,
    };
    let letters = String::from_utf8_lossy(&letters[..COOKIE - 1]).into_owned();
    let form = if args.json { "json" } else { "text" };
    let (to, params) = (to.to_string(), params.to_json().to_string());
    let family = match args.stock.family.families() {
        Families::Any => None,
        Families::V4 => Some("-4"),
        Families::V6 => Some("-6"),
    };
    let words = [to.as_str(), &port, &interval, &letters, form, &params];
    crate::ask::iperf3(host, &family.into_iter().chain(words).collect::<Vec<_>>())
}

/// Writes `said`, the output of the application. Text is unchanged. A JSON report gets the
/// environment of the measurement under the key `linerate`, which stock iperf3 does not use.
fn say(output: &mut Output, said: String, json: bool, env: impl FnOnce() -> Environment) -> anyhow::Result<()> {
    if said.is_empty() {
        return Ok(());
    }
    match surroundings::add_to(&said, &env(), Some("linerate")) {
        Ok(reports) if json => {
            reports.iter().try_for_each(|report| output.write(&(serde_json::to_string_pretty(report)? + "\n")))
        }
        _ => output.write(&said),
    }
}

/// Returns the parameters of the test; returns an error if a server would reject them.
fn params(args: &ClientArgs) -> anyhow::Result<Params> {
    let (rate, burst) = args.bitrate.unwrap_or((if args.udp { iperf3::UDP_RATE } else { 0 }, 1));
    let has_amount = args.bytes.is_some() || args.blockcount.is_some();
    let params = Params {
        protocol: if args.udp { Protocol::Udp } else { Protocol::Tcp },
        time: Duration::from_secs(if has_amount { 0 } else { args.time.unwrap_or(10) }),
        omit: Duration::from_secs(args.omit),
        bytes: args.bytes.unwrap_or(0),
        blocks: args.blockcount.unwrap_or(0),
        streams: args.parallel,
        reverse: args.reverse,
        bidir: args.bidir,
        burst,
        counters: if args.udp_counters_64bit { Counters::Wide } else { Counters::Narrow },
        rate,
        wants_output: args.get_server_output,
        title: args.title.clone(),
        extra: args.extra_data.clone(),
        tos: args.dscp.unwrap_or(args.tos),
        repeating_payload: args.repeating_payload,
        nodelay: args.no_delay,
        mss: args.set_mss,
        window: args.window.unwrap_or(0) as usize,
        congestion: args.congestion,
        ..Params::default()
    };
    let default = if args.udp { 0 } else { params.block };
    let params = Params { block: args.length.map_or(default, |length| length as usize), ..params };
    params.check().map_err(Fault::usage)?;
    Ok(params)
}

/// Generates the 37-byte session cookie: 36 random characters and NUL.
fn cookie() -> anyhow::Result<[u8; COOKIE]> {
    let mut cookie = [0; COOKIE];
    std::fs::File::open("/dev/urandom")?.read_exact(&mut cookie)?;
    let letters = b"abcdefghijklmnopqrstuvwxyz234567";
    for byte in &mut cookie {
        *byte = letters[usize::from(*byte) % letters.len()];
    }
    cookie[COOKIE - 1] = 0;
    Ok(cookie)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_accept_unit_suffixes() {
        assert_eq!(amount("128K"), Ok(131_072));
        assert_eq!(amount("1.5m"), Ok(1_572_864));
        assert_eq!(bitrate("100M/10"), Ok((100_000_000, 10)));
        assert_eq!(bitrate("2G"), Ok((2_000_000_000, 1)));
        assert_eq!(bitrate("0"), Ok((0, 1)));
        for wrong in ["", "K", "-1", "1x", "1e300", "NaN", "inf", "\u{fc}K", "9\u{fc}"] {
            assert!(amount(wrong).is_err(), "{wrong}");
        }
        assert!(bitrate("1M/0").is_err() && bitrate("1M/1001").is_err() && bitrate("/5").is_err());
    }

    #[test]
    fn code_points_are_names_or_numbers_in_any_base() {
        // RFC 2597 6: AF31 is 011010; RFC 3246: EF is 101110. The last two bits of the byte are not
        // part of the code point.
        for (text, tos) in
            [("ef", 0xb8), ("AF31", 0x68), ("cs1", 0x20), ("46", 0xb8), ("0x2e", 0xb8), ("056", 0xb8), ("0", 0)]
        {
            assert_eq!(dscp(text), Ok(tos), "{text}");
        }
        for wrong in ["64", "af44", "af50", "cs8", "cs", "af111", "", "-1", "+1"] {
            assert!(dscp(wrong).is_err(), "{wrong}");
        }
        assert_eq!((tos("52"), tos("064"), tos("0x34")), (Ok(52), Ok(52), Ok(52)));
        assert!(tos("256").is_err() && tos("08").is_err() && tos("0x").is_err());
        assert!(affinity("1,2").is_err() && affinity("1") == Ok(1));
    }

    #[test]
    fn cookies_are_alphanumeric() {
        let cookie = cookie().unwrap();
        assert!(cookie[..36].iter().all(u8::is_ascii_alphanumeric) && cookie[36] == 0);
    }
}
