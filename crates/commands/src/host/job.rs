//! `job`: long-running work on a host. A client starts a job and then reads its output until the
//! job has ended or is stopped. Used by `linerate ping`, `traceroute`, `nc`, `http` and `iperf3`.

use super::context::{Ctl, DONE, HostForm};
use crate::jobs::{Datagrams, Make, Named, Ping, PingConfig, Stream, Trace, TraceConfig};
use clock::Duration;
use grammar::{Args, CommandError, Form};
use inet::iface::IfaceId;
use lock::Locks;
use node::jobs::{Around, End, JOBS_MAX, Work};
use serde_json::{Value, json};
use socket::Calls;
use socket::resolve::{Families, Lookup};
use std::marker::PhantomData;
use std::net::{IpAddr, SocketAddr};

/// Syntax forms of `job`.
pub(super) struct Forms<L>(PhantomData<L>);

impl<L: Locks> Forms<L> {
    pub(super) const ALL: &[HostForm<L>] = &[
        Form {
            grammar: "ping [-c COUNT:1-4294967295] [-i INTERVAL] [-W TIMEOUT] [-s BYTES:0-65507] [-t TTL:1-255] \
                      [-I SOURCE] [-M do|dont|want] [-n] [-4] [-6] HOST",
            about: "Start sending echo requests. SOURCE is an address or an interface; times are in seconds.",
            run: |ctl, args| start(ctl, args, ping(ctl, args)?, 0),
        },
        Form {
            grammar: "traceroute [-f FIRST:1-255] [-m HOPS:1-255] [-q PROBES:1-10] [-w TIMEOUT] [-s SOURCE] [-n] [-I] [-4] \
                      [-6] HOST",
            about: "Start tracing the route to a host.",
            run: |ctl, args| start(ctl, args, trace(args)?, 0),
        },
        Form {
            grammar: "tcp [-4] [-6] HOST PORT:1-65535",
            about: "Start a TCP connection.",
            run: |ctl, args| {
                let make: Make<L> =
                    Box::new(|to, others| Box::new(Stream::new(to, None).or_to(others.iter().copied())));
                connect(ctl, args, make)
            },
        },
        Form {
            grammar: "udp [-4] [-6] HOST PORT:1-65535",
            about: "Open a connected UDP socket.",
            run: |ctl, args| connect(ctl, args, Box::new(|to, _| Box::new(Datagrams::new(to)))),
        },
        Form {
            grammar: "iperf3 ARGUMENT...",
            about: "Start an iperf3 client. Arguments: [-4|-6] HOST PORT INTERVAL-MS COOKIE text|json PARAMS.",
            run: |ctl, args| {
                let started = ctl.host.jobs().start_program(args.words(), ctl.cx.now);
                number_of(started.map_err(CommandError::failed)?)
            },
        },
        Form {
            grammar: "read ID:1-4294967295",
            about: "Print the state of a job, and its output since the previous read.",
            run: |ctl, args| {
                let output = ctl.host.jobs().read(id(args), ctl.cx.now).ok_or_else(|| unknown(args))?;
                let state = match output.ended {
                    None => "running".to_string(),
                    Some(End::Done) => "done".to_string(),
                    Some(End::Failed(why)) => format!("failed {why}"),
                };
                Ok(format!("{state}\n{}", output.text))
            },
        },
        Form {
            grammar: "write ID:1-4294967295 HEX",
            about: "Send bytes on a connection, and print the number of accepted bytes.",
            run: |ctl, args| {
                let taken = ctl.host.jobs().write(id(args), &hex(args.text("HEX"))?, false);
                let taken = taken.ok_or_else(|| unknown(args))?;
                taken.map(|n| format!("{n}\n")).map_err(CommandError::failed)
            },
        },
        Form {
            grammar: "end ID:1-4294967295",
            about: "Close the sending side of a connection.",
            run: |ctl, args| {
                let ended = ctl.host.jobs().write(id(args), &[], true);
                ended.ok_or_else(|| unknown(args)).map(|_| String::new())
            },
        },
        Form {
            grammar: "stop ID:1-4294967295",
            about: "End a job.",
            run: |ctl, args| {
                let calls = ctl.host.shared_calls();
                let around = Around { stack: &ctl.host.stack, calls: &calls, cx: ctl.cx };
                if ctl.host.jobs().stop(id(args), &around) { DONE } else { Err(unknown(args)) }
            },
        },
        Form { grammar: "list", about: "List the jobs.", run: |ctl, _| Ok(list(ctl)) },
    ];
}

fn id(args: &Args<'_>) -> u32 {
    args.int::<u32>("ID")
}

fn unknown(args: &Args<'_>) -> CommandError {
    CommandError::failed(format!("job {}: does not exist; an unread job ends after 30 s", args.text("ID")))
}

/// Starts a job for the peer `target` and returns the job's number.
fn start<L: Locks>(ctl: &Ctl<'_, L>, args: &Args<'_>, target: Target<L>, port: u16) -> Result<String, CommandError> {
    let work = target.start(&ctl.host.shared_calls(), port)?;
    number_of(ctl.host.jobs().start(args.words().join(" "), work, ctl.cx.now))
}

fn number_of(started: Option<u32>) -> Result<String, CommandError> {
    let full = || CommandError::failed(format!("cannot start a job: {JOBS_MAX} are open"));
    started.map(|id| format!("{id}\n")).ok_or_else(full)
}

fn connect<L: Locks>(ctl: &Ctl<'_, L>, args: &Args<'_>, make: Make<L>) -> Result<String, CommandError> {
    let port = args.int::<u16>("PORT");
    start(ctl, args, Target { host: args.text("HOST").to_string(), families: families(args), make }, port)
}

fn list<L: Locks>(ctl: &Ctl<'_, L>) -> String {
    let jobs = ctl.host.jobs().list();
    let row = |(id, about, ended): &(u32, String, bool)| json!({ "id": id, "job": about, "ended": ended });
    let line = |(id, about, ended): &(u32, String, bool)| {
        format!("{id:<4} {:<8} {about}\n", if *ended { "ended" } else { "running" })
    };
    ctl.listing(|| Value::Array(jobs.iter().map(row).collect()), || jobs.iter().map(line).collect())
}

/// The peer given in a command, and the constructor of the job's work from the peer's addresses.
struct Target<L: Locks> {
    host: String,
    families: Families,
    make: Make<L>,
}

impl<L: Locks> Target<L> {
    /// Creates the work of the job. If the peer is given by a name that must be looked up, the work
    /// starts with the lookup.
    fn start(self, calls: &Calls<'_, L>, port: u16) -> Result<Box<dyn Work<L>>, CommandError> {
        let mut lookup = Lookup::new(calls, &self.host, port, self.families);
        match lookup.turn(calls) {
            Some(Err(why)) => Err(CommandError::failed(why)),
            Some(Ok(addrs)) => match addrs.split_first() {
                Some((first, others)) => Ok((self.make)(*first, others)),
                None => Err(CommandError::failed(format!("{}: no address", self.host))),
            },
            None => Ok(Box::new(Named::new(lookup, self.make))),
        }
    }
}

/// Returns the address families selected by `-4` and `-6`.
fn families(args: &Args<'_>) -> Families {
    match () {
        () if args.has("-6") => Families::V6,
        () if args.has("-4") => Families::V4,
        () => Families::Any,
    }
}

/// Returns the address family of the source address `src`, or `wanted` without a source address.
fn families_of(src: Option<IpAddr>, wanted: Families) -> Families {
    match src {
        Some(IpAddr::V4(_)) => Families::V4,
        Some(IpAddr::V6(_)) => Families::V6,
        None => wanted,
    }
}

/// Returns the interface of a link-local address; `None` for other addresses.
fn iface_of(addr: SocketAddr) -> Option<IfaceId> {
    match addr {
        SocketAddr::V6(v6) => inet::zone::iface_of(v6.scope_id()),
        SocketAddr::V4(_) => None,
    }
}

/// Returns the value of the parameter `name`, which is in seconds.
fn seconds(args: &Args<'_>, name: &str) -> Result<Option<Duration>, CommandError> {
    let Some(word) = args.get(name) else { return Ok(None) };
    let value = word.parse().ok().filter(|value| (0.001..=3600.0).contains(value));
    let bad = || CommandError::bad(&name.to_lowercase(), word, "seconds, from 0.001 to 3600");
    value.map(|value| Some(Duration::from_secs_f64(value))).ok_or_else(bad)
}

fn ping<L: Locks>(ctl: &Ctl<'_, L>, args: &Args<'_>) -> Result<Target<L>, CommandError> {
    let source = args.get("SOURCE");
    let src = source.and_then(|word| word.parse().ok());
    let iface = source.filter(|_| src.is_none()).map(|name| ctl.host.iface(name)).transpose()?;
    let host = args.text("HOST").to_string();
    let config = PingConfig {
        name: host.clone(),
        dst: IpAddr::V4(std::net::Ipv4Addr::UNSPECIFIED),
        src,
        iface: iface.map(|iface| iface.id),
        count: args.number("COUNT").map(|count| count as u64),
        interval: seconds(args, "INTERVAL")?.unwrap_or(Duration::from_secs(1)),
        timeout: seconds(args, "TIMEOUT")?,
        size: args.number("BYTES").unwrap_or(56) as usize,
        ttl: args.number("TTL").map(|ttl| ttl as u8),
        whole: args.get("-M") == Some("do"),
        json: ctl.json,
    };
    let families = families_of(config.src, families(args));
    let make = move |to: SocketAddr, _: &[SocketAddr]| -> Box<dyn Work<L>> {
        let iface = iface_of(to).or(config.iface);
        Box::new(Ping::new(PingConfig { dst: to.ip(), iface, ..config }))
    };
    Ok(Target { host, families, make: Box::new(make) })
}

fn trace<L: Locks>(args: &Args<'_>) -> Result<Target<L>, CommandError> {
    let host = args.text("HOST").to_string();
    let number = |name, default: u8| args.number(name).map_or(default, |n| n as u8);
    let address = |word: &str| word.parse().map_err(|_| CommandError::bad("-s", word, "an address of this host"));
    let config = TraceConfig {
        name: host.clone(),
        dst: IpAddr::V4(std::net::Ipv4Addr::UNSPECIFIED),
        iface: None,
        src: args.get("SOURCE").map(address).transpose()?,
        first: number("FIRST", 1),
        hops: number("HOPS", 30),
        probes: number("PROBES", 3),
        timeout: seconds(args, "TIMEOUT")?.unwrap_or(Duration::from_secs(1)),
    };
    if config.first > config.hops {
        return Err(CommandError::failed(format!("-f {}: must be at most -m, {}", config.first, config.hops)));
    }
    let families = families_of(config.src, families(args));
    let make = move |to: SocketAddr, _: &[SocketAddr]| -> Box<dyn Work<L>> {
        Box::new(Trace::new(TraceConfig { dst: to.ip(), iface: iface_of(to), ..config }))
    };
    Ok(Target { host, families, make: Box::new(make) })
}

fn hex(word: &str) -> Result<Vec<u8>, CommandError> {
    let bad = || CommandError::bad("write", "...", "pairs of hexadecimal digits");
    let digit = |byte: &u8| char::from(*byte).to_digit(16).map(|digit| digit as u8);
    let byte = |pair: &[u8]| match pair {
        [high, low] => Some(digit(high)? << 4 | digit(low)?),
        _ => None,
    };
    word.as_bytes().chunks(2).map(byte).collect::<Option<Vec<u8>>>().ok_or_else(bad)
}
