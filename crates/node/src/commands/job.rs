//! `job`: long-running work. A job is started, then read until it has ended, or stopped. Used by
//! `linerate ping`, `traceroute`, `nc` and `http`.

use super::Ctl;
use super::parse;
use crate::jobs::{Around, Datagrams, End, JOBS_MAX, Make, Named, Ping, PingConfig, Stream, Trace, TraceConfig, Work};
use clock::Duration;
use grammar::{CommandError, Words};
use inet::iface::IfaceId;
use lock::Locks;
use serde_json::{Value, json};
use socket::Calls;
use socket::resolve::{Families, Lookup};
use std::net::{IpAddr, SocketAddr};

const VERBS: &[&str] = &["ping", "traceroute", "tcp", "udp", "iperf3", "read", "write", "end", "stop", "list"];

/// Grammar for `help`.
pub(super) const GRAMMAR: &str = "ping HOST [-c N] [-i S] [-s BYTES] [-t TTL] [-W S] [-I IF|SRC] [-M do] | traceroute HOST [-f N] [-m N] [-q N] [-w S] [-s SRC] | tcp [-4|-6] HOST PORT | udp [-4|-6] HOST PORT | iperf3 [-4|-6] HOST PORT INTERVAL-MS COOKIE text|json PARAMS | read ID | write ID HEX | end ID | stop ID | list";
/// Description for `help`.
pub(super) const ABOUT: &str =
    "Work that takes time: what 'linerate ping', 'traceroute', 'nc', 'http' and 'iperf3' start.";

pub(super) fn run<L: Locks>(ctl: &Ctl<'_, L>, mut words: Words<'_>) -> Result<String, CommandError> {
    let jobs = ctl.host.jobs();
    let (calls, now) = (ctl.host.shared_calls(), ctl.cx.now);
    let around = Around { stack: &ctl.host.stack, calls: &calls, cx: ctl.cx };
    let number = |words: &mut Words<'_>| -> Result<u32, CommandError> {
        Ok(parse::number("job", words.next("a job's number")?, 1, u32::MAX.into())? as u32)
    };
    let unknown = |id: u32| CommandError::failed(format!("{id}: no such job; one that is not read ends after 30 s"));
    let full = || CommandError::failed(format!("{JOBS_MAX} jobs are open already"));
    let all = words.rest().to_vec();
    let verb = words.next(&VERBS.join(", "))?;
    let work: Box<dyn Work<L>> = match verb {
        "ping" => ping(ctl, &mut words)?.start(&calls, 0)?,
        "traceroute" => trace(&mut words)?.start(&calls, 0)?,
        "tcp" | "udp" => {
            let families = families(&mut words);
            let host = words.next("a host")?.to_string();
            let port = parse::number("port", words.next("a port")?, 1, 65_535)? as u16;
            words.end()?;
            let make: Make<L> = match verb {
                "tcp" => Box::new(|to, others| Box::new(Stream::new(to, None).or_to(others.iter().copied()))),
                _ => Box::new(|to, _| Box::new(Datagrams::new(to))),
            };
            Target { host, families, make }.start(&calls, port)?
        }
        "iperf3" => {
            let started = jobs.start_program(&all, now).map_err(CommandError::failed)?;
            return started.map(|id| format!("{id}\n")).ok_or_else(full);
        }
        "read" => {
            let id = number(&mut words)?;
            words.end()?;
            let output = jobs.read(id, now).ok_or_else(|| unknown(id))?;
            let state = match output.ended {
                None => "running".to_string(),
                Some(End::Done) => "done".to_string(),
                Some(End::Failed(why)) => format!("failed {why}"),
            };
            return Ok(format!("{state}\n{}", output.text));
        }
        "write" => {
            let id = number(&mut words)?;
            let bytes = hex(words.next("hexadecimal digits")?)?;
            words.end()?;
            let taken = jobs.write(id, &bytes, false).ok_or_else(|| unknown(id))?;
            return taken.map(|n| format!("{n}\n")).map_err(CommandError::failed);
        }
        "end" => {
            let id = number(&mut words)?;
            words.end()?;
            return jobs.write(id, &[], true).ok_or_else(|| unknown(id)).map(|_| String::new());
        }
        "stop" => {
            let id = number(&mut words)?;
            words.end()?;
            return if jobs.stop(id, &around) { Ok(String::new()) } else { Err(unknown(id)) };
        }
        "list" => return words.end().map(|()| list(ctl)),
        other => return Err(CommandError::unknown("word", other, VERBS.iter().copied())),
    };
    words.end()?;
    let started = jobs.start(all.join(" "), work, now);
    started.map(|id| format!("{id}\n")).ok_or_else(full)
}

fn list<L: Locks>(ctl: &Ctl<'_, L>) -> String {
    let jobs = ctl.host.jobs().list();
    let row = |(id, about, ended): &(u32, String, bool)| json!({ "id": id, "job": about, "ended": ended });
    let line = |(id, about, ended): &(u32, String, bool)| {
        format!("{id:<4} {:<8} {about}\n", if *ended { "ended" } else { "running" })
    };
    ctl.listing(|| Value::Array(jobs.iter().map(row).collect()), || jobs.iter().map(line).collect())
}

/// A host as given, and the constructor of the work for its address.
struct Target<L: Locks> {
    host: String,
    families: Families,
    make: Make<L>,
}

impl<L: Locks> Target<L> {
    /// Returns the work: at once for an address, after a lookup for a name.
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

/// Parses `-4` and `-6`.
fn families(words: &mut Words<'_>) -> Families {
    match words.peek() {
        Some("-4") => words.take().map_or(Families::Any, |_| Families::V4),
        Some("-6") => words.take().map_or(Families::Any, |_| Families::V6),
        _ => Families::Any,
    }
}

/// Returns the families that match a source address.
fn families_of(src: Option<IpAddr>, wanted: Families) -> Families {
    match src {
        Some(IpAddr::V4(_)) => Families::V4,
        Some(IpAddr::V6(_)) => Families::V6,
        None => wanted,
    }
}

/// Returns the interface of a link-local address.
fn iface_of(addr: SocketAddr) -> Option<IfaceId> {
    match addr {
        SocketAddr::V6(v6) => inet::zone::iface_of(v6.scope_id()),
        SocketAddr::V4(_) => None,
    }
}

fn seconds(flag: &str, word: &str) -> Result<Duration, CommandError> {
    let bad = || CommandError::bad(flag, word, "seconds, from 0.001 to 3600");
    let value: f64 = word.parse().map_err(|_| bad())?;
    if (0.001..=3600.0).contains(&value) { Ok(Duration::from_secs_f64(value)) } else { Err(bad()) }
}

fn ping<L: Locks>(ctl: &Ctl<'_, L>, words: &mut Words<'_>) -> Result<Target<L>, CommandError> {
    let (mut host, mut families) = (None, Families::Any);
    let mut config = PingConfig {
        name: String::new(),
        dst: IpAddr::V4(std::net::Ipv4Addr::UNSPECIFIED),
        src: None,
        iface: None,
        count: None,
        interval: Duration::from_secs(1),
        timeout: None,
        size: 56,
        ttl: None,
        whole: false,
        json: ctl.json,
    };
    while let Some(word) = words.take() {
        let mut value = || words.next("a value");
        match word {
            "-c" => config.count = Some(parse::number(word, value()?, 1, i64::from(u32::MAX))? as u64),
            "-i" => config.interval = seconds(word, value()?)?,
            "-W" => config.timeout = Some(seconds(word, value()?)?),
            "-s" => config.size = parse::number(word, value()?, 0, 65_507)? as usize,
            "-t" => config.ttl = Some(parse::number(word, value()?, 1, 255)? as u8),
            "-M" => match value()? {
                "do" => config.whole = true,
                "dont" | "want" => config.whole = false,
                other => return Err(CommandError::bad(word, other, "do, want or dont")),
            },
            "-I" => {
                let value = value()?;
                match value.parse() {
                    Ok(addr) => config.src = Some(addr),
                    Err(_) => config.iface = Some(ctl.iface(value)?.id),
                }
            }
            "-n" => {}
            "-4" => families = Families::V4,
            "-6" => families = Families::V6,
            word if word.starts_with('-') => {
                let known = ["-c", "-i", "-s", "-t", "-W", "-I", "-M", "-n"];
                return Err(CommandError::unknown("option", word, known.into_iter()));
            }
            word if host.is_none() => host = Some(word.to_string()),
            other => return Err(CommandError::unknown("word", other, std::iter::empty())),
        }
    }
    let host = host.ok_or_else(|| CommandError::missing("a host to ping"))?;
    config.name = host.clone();
    let families = families_of(config.src, families);
    let make = move |to: SocketAddr, _: &[SocketAddr]| -> Box<dyn Work<L>> {
        let iface = iface_of(to).or(config.iface);
        Box::new(Ping::new(PingConfig { dst: to.ip(), iface, ..config }))
    };
    Ok(Target { host, families, make: Box::new(make) })
}

fn trace<L: Locks>(words: &mut Words<'_>) -> Result<Target<L>, CommandError> {
    let (mut host, mut families) = (None, Families::Any);
    let mut config = TraceConfig {
        name: String::new(),
        dst: IpAddr::V4(std::net::Ipv4Addr::UNSPECIFIED),
        iface: None,
        src: None,
        first: 1,
        hops: 30,
        probes: 3,
        timeout: Duration::from_secs(1),
    };
    while let Some(word) = words.take() {
        let mut value = || words.next("a value");
        match word {
            "-f" => config.first = parse::number(word, value()?, 1, 255)? as u8,
            "-m" => config.hops = parse::number(word, value()?, 1, 255)? as u8,
            "-q" => config.probes = parse::number(word, value()?, 1, 10)? as u8,
            "-w" => config.timeout = seconds(word, value()?)?,
            "-s" => {
                let value = value()?;
                let bad = |_| CommandError::bad("-s", value, "an address of this host");
                config.src = Some(value.parse().map_err(bad)?);
            }
            "-n" | "-I" => {}
            "-4" => families = Families::V4,
            "-6" => families = Families::V6,
            word if word.starts_with('-') => {
                let known = ["-f", "-m", "-q", "-w", "-s", "-n", "-I"];
                return Err(CommandError::unknown("option", word, known.into_iter()));
            }
            word if host.is_none() => host = Some(word.to_string()),
            other => return Err(CommandError::unknown("word", other, std::iter::empty())),
        }
    }
    let host = host.ok_or_else(|| CommandError::missing("a host to trace the route to"))?;
    if config.first > config.hops {
        return Err(CommandError::failed(format!("-f {}: more than -m {}", config.first, config.hops)));
    }
    config.name = host.clone();
    let families = families_of(config.src, families);
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
