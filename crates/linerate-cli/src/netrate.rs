//! `netrate`: converts flags to a tool and its placement.

use crate::args::{FamilyArgs, LimitArgs, ServedArgs};
use crate::exit::{Exit, Fault};
use crate::place::{PlaceArgs, Where, seconds, serve_kernel, serve_ours};
use crate::surroundings::{self, Form};
use anyhow::Context;
use apps::netperf::session::{FarEnd, Play};
use apps::netrate::{
    CLIENTS_MAX, Cpu, Fetch, Figure, Httpd, Juggle, Netblast, Netreceive, Netsend, PATH, PAYLOAD_MAX, SETS_MAX,
    Tcpconnect, Tcpp, TcppServer, Tcpreceive, juggle,
};
use clap::{Args, Subcommand};
use std::ffi::OsString;
use std::io;
use std::net::IpAddr;
use std::process::Command;
use std::time::Duration;

/// Arguments of `netrate`.
#[derive(Args, Debug)]
#[command(after_help = "\
Both ends run in this command, as with 'linerate netperf', unless -H gives the address of a running far end: \
tcpreceive for tcpconnect, netreceive for netblast and netsend, httpd (or any HTTP server) for http.

Example:
  linerate netrate tcpconnect -l 10 --over router")]
pub struct NetrateArgs {
    #[command(subcommand)]
    pub tool: Tool,
}

/// Tools of netrate.
#[derive(Subcommand, Debug)]
pub enum Tool {
    /// Open and close TCP connections sequentially, and print the rate
    Tcpconnect {
        /// Run for this many seconds
        #[arg(short = 'l', value_name = "SECONDS", default_value = "60", value_parser = seconds)]
        time: Duration,
        #[command(flatten)]
        place: PlaceArgs,
    },
    /// Accept and echo one connection at a time, on TCP port 6060: the server of tcpconnect
    Tcpreceive(ReceiverArgs),
    /// Send datagrams back to back
    Netblast {
        /// Set the payload of a datagram in bytes
        #[arg(short = 's', value_name = "BYTES", default_value_t = 22, value_parser = payload)]
        payload: usize,
        /// Run for this many seconds
        #[arg(short = 'l', value_name = "SECONDS", default_value = "10", value_parser = seconds)]
        time: Duration,
        #[command(flatten)]
        place: PlaceArgs,
    },
    /// Send datagrams at a given rate, starting at a whole second
    Netsend {
        /// Set the payload of a datagram in bytes
        #[arg(short = 's', value_name = "BYTES", default_value_t = 22, value_parser = payload)]
        payload: usize,
        /// Set the rate in datagrams per second
        #[arg(short = 'r', value_name = "N", default_value_t = 1000, value_parser = clap::value_parser!(u32).range(1..=1_000_000))]
        rate: u32,
        /// Run for this many seconds; 0: until Ctrl-C
        #[arg(short = 'l', value_name = "SECONDS", default_value_t = 10, value_parser = clap::value_parser!(u64).range(..=86_400))]
        seconds: u64,
        #[command(flatten)]
        place: PlaceArgs,
    },
    /// Receive datagrams on UDP port 9000: the server of netblast and netsend
    Netreceive(ReceiverArgs),
    /// Bounce messages between two ends, with 0 to 4 in flight, and print CSV
    Juggle {
        /// Use the kernel's descriptors, as FreeBSD's juggle does: pipes, UDP sockets and socket
        /// pairs, in one thread, two threads and two processes
        #[arg(long, conflicts_with_all = ["over", "threads", "link", "far", "topo", "dispatch", "port"])]
        descriptors: bool,
        /// Run this many cycles
        #[arg(long, value_name = "N", default_value_t = juggle::CYCLES as u32, value_parser = clap::value_parser!(u32).range(1..))]
        cycles: u32,
        /// Echo standard input, as the other process of --descriptors
        #[arg(long, hide = true)]
        partner: bool,
        #[command(flatten)]
        place: PlaceArgs,
    },
    /// Transfer bytes over many connections; one connection warms up before the measurement
    Tcpp {
        /// Transfer this many bytes per connection
        #[arg(short = 'b', value_name = "BYTES", default_value_t = 10 << 20, value_parser = clap::value_parser!(u64).range(1..))]
        bytes: u64,
        /// Keep N connections open at a time
        #[arg(short = 'm', value_name = "N", default_value_t = 32, value_parser = clap::value_parser!(u16).range(1..=1024))]
        at_a_time: u16,
        /// Open N connections in total [default: as -m]
        #[arg(short = 't', value_name = "N", value_parser = clap::value_parser!(u64).range(1..))]
        conns: Option<u64>,
        /// Print connections per second instead of Gbps
        #[arg(short = 'C')]
        cps: bool,
        /// Run N sets of connections, each to its own L4 port (in FreeBSD's tcpp: processes, -p)
        #[arg(long, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u16).range(1..=SETS_MAX as i64))]
        procs: u16,
        /// Set the first L4 port of the far end (see -H) [default: 10000]
        #[arg(short = 'r', value_name = "L4PORT", requires = "far", conflicts_with = "far_port", value_parser = clap::value_parser!(u16).range(1..))]
        base: Option<u16>,
        /// Connect from N source addresses in turn
        #[arg(short = 'M', value_name = "N", value_parser = clap::value_parser!(u8).range(1..=100))]
        addresses: Option<u8>,
        /// Set the first source address, one of the near end's addresses [default: assigned if the
        /// near end runs here]
        #[arg(short = 'l', value_name = "A", requires = "addresses")]
        first: Option<IpAddr>,
        /// Print the processor usage during the run
        #[arg(short = 'T')]
        cpu: bool,
        #[command(flatten)]
        place: PlaceArgs,
    },
    /// Fetch a file by HTTP/1.0 repeatedly, and print the rate; opens one idle connection first
    Http {
        /// Keep N connections open at a time
        #[arg(short = 'n', value_name = "N", default_value_t = 32, value_parser = clap::value_parser!(u16).range(1..=CLIENTS_MAX as i64))]
        at_a_time: u16,
        /// Run for this many seconds
        #[arg(short = 's', value_name = "SECONDS", default_value = "20", value_parser = seconds)]
        time: Duration,
        /// Use a thread with blocking calls per connection; over pair, nic or native
        #[arg(short = 't', conflicts_with_all = ["far", "topo"])]
        threaded: bool,
        /// Fetch this path
        #[arg(value_name = "PATH", default_value = PATH, value_parser = path)]
        path: String,
        #[command(flatten)]
        place: PlaceArgs,
    },
    /// Receive tcpp's connections, on TCP ports 10000 to 10015: tcpp -s
    TcppServer(ReceiverArgs),
    /// Serve zeros on TCP port 80: the server of http
    Httpd(ReceiverArgs),
}

/// Flags of a tool that only runs the far end.
#[derive(Args, Debug)]
pub struct ReceiverArgs {
    /// Use the kernel's sockets
    #[arg(long)]
    pub native: bool,
    #[command(flatten)]
    pub family: FamilyArgs,
    #[command(flatten)]
    pub limits: LimitArgs,
    #[command(flatten)]
    pub served: ServedArgs,
}

impl Tool {
    /// Returns whether this tool only runs the far end, which prints no figure of its own.
    fn is_far_end(&self) -> bool {
        match self {
            Tool::TcppServer(_) | Tool::Httpd(_) | Tool::Tcpreceive(_) | Tool::Netreceive(_) => true,
            Tool::Juggle { partner, .. } => *partner,
            _ => false,
        }
    }
}

/// Runs `netrate TOOL`.
pub fn run(args: &NetrateArgs, words: &[OsString]) -> anyhow::Result<Exit> {
    let words = words.get(1..).unwrap_or_default();
    match args.tool.is_far_end() {
        true => run_tool(&args.tool, words, &mut io::stdout()),
        false => surroundings::measured(Form::Text, |out| run_tool(&args.tool, words, out)),
    }
}

fn run_tool(tool: &Tool, words: &[OsString], out: &mut dyn io::Write) -> anyhow::Result<Exit> {
    match tool {
        Tool::Tcpconnect { time, place } => play(place, words, &mut Tcpconnect::new(*time, out)),
        Tool::Netblast { payload, time, place } => {
            play(place, words, &mut Netblast { payload: *payload, time: *time, out })
        }
        Tool::Netsend { payload, rate, seconds, place } => {
            play(place, words, &mut Netsend { payload: *payload, rate: *rate, seconds: *seconds, out })
        }
        Tool::Juggle { partner: true, .. } => Ok(lab::native::juggle::partner().map(|()| Exit::Fine)?),
        Tool::Juggle { descriptors: true, cycles, .. } => descriptors(out, *cycles as usize),
        Tool::Juggle { cycles, place, .. } => {
            let name = if place.has_threads() { "thread_juggle" } else { "juggle" };
            play(place, words, &mut Juggle { cycles: *cycles as usize, ..Juggle::new(name, out) })
        }
        Tool::Tcpp { bytes, at_a_time, conns, cps, procs, base, addresses, first, cpu, place } => {
            let figure = if *cps { Figure::Cps } else { Figure::Gbps };
            let (at_a_time, conns) = (usize::from(*at_a_time), conns.unwrap_or(u64::from(*at_a_time)));
            if at_a_time * usize::from(*procs) > 1024 {
                return Err(Fault::usage(format!(
                    "{procs} sets of {at_a_time} connections exceed the maximum of 1024"
                )));
            }
            let mut at = place.place(words, base.unwrap_or(TcppServer::PORT))?;
            let from = addresses.map_or(Ok(Vec::new()), |n| at.addresses(n, *first))?;
            let cpu = cpu.then_some(processors as fn() -> Option<Cpu>);
            at.play(&mut Tcpp { bytes: *bytes, sets: *procs, at_a_time, conns, from, cpu, figure, out })
        }
        Tool::Http { at_a_time, time, threaded, path, place } => {
            let mut fetch = Fetch { at_a_time: usize::from(*at_a_time), time: *time, path, out, done: None };
            match place.place(words, Httpd::PORT)? {
                Where::Here(place) if *threaded => {
                    dispatch::install_stop_handler().context("cannot catch Ctrl-C")?;
                    place.http_threads(&mut fetch).map(|()| Exit::Fine).map_err(Fault::usage)
                }
                at => at.play(&mut fetch),
            }
        }
        Tool::TcppServer(args) => receive::<TcppServer>("tcpp-server", args, words),
        Tool::Httpd(args) => receive::<Httpd>("httpd", args, words),
        Tool::Tcpreceive(args) => receive::<Tcpreceive>("tcpreceive", args, words),
        Tool::Netreceive(args) => receive::<Netreceive>("netreceive", args, words),
    }
}

/// Runs juggle over the kernel's descriptors. Its second process is another run of this program.
fn descriptors(out: &mut dyn io::Write, cycles: usize) -> anyhow::Result<Exit> {
    dispatch::install_stop_handler().context("cannot catch Ctrl-C")?;
    let partner = || {
        let mut command = Command::new("/proc/self/exe");
        command.args(["netrate", "juggle", "--partner"]);
        command
    };
    lab::native::juggle::juggle(out, cycles, &partner).map(|()| Exit::Fine)
}

/// Reads the processor times in the first line of /proc/stat (proc_stat(5)).
fn processors() -> Option<Cpu> {
    let text = std::fs::read_to_string("/proc/stat").ok()?;
    let ticks: Vec<u64> =
        text.lines().next()?.split_whitespace().skip(1).filter_map(|word| word.parse().ok()).collect();
    let [user, nice, system, idle, waiting, interrupts, soft, ..] = *ticks.as_slice() else { return None };
    Some([user, nice, system, interrupts + soft, idle + waiting])
}

fn play<P: Play>(place: &PlaceArgs, words: &[OsString], tool: &mut P) -> anyhow::Result<Exit> {
    place.place(words, <P::Far>::PORT)?.play(tool)
}

fn receive<A: FarEnd>(name: &str, args: &ReceiverArgs, words: &[OsString]) -> anyhow::Result<Exit> {
    let port = args.served.listen.unwrap_or(A::PORT);
    match args.native {
        true => serve_kernel::<A>(name, &args.served, args.family, port, args.limits),
        false => serve_ours::<A>(&args.served, words, args.family, port, args.limits),
    }
}

/// Parses a path that is valid in the first line of a request.
fn path(word: &str) -> Result<String, String> {
    let good = word.starts_with('/') && word.len() <= 1024 && word.bytes().all(|byte| byte.is_ascii_graphic());
    good.then(|| word.to_owned()).ok_or_else(|| "expected a path that begins with / and has no spaces".to_owned())
}

fn payload(word: &str) -> Result<usize, String> {
    let bytes = word.parse().ok().filter(|bytes| *bytes <= PAYLOAD_MAX);
    bytes.ok_or_else(|| format!("expected 0 to {PAYLOAD_MAX} bytes"))
}
