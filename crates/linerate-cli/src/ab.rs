//! `ab`: builds two variants of a workload from the settings of two sides, and compares them.

use crate::args::StudyArgs;
use crate::exit::{Exit, Fault};
use crate::place::{in_namespace, seconds};
use crate::run;
use apps::netperf::{Length, Options, Test};
use clap::Args;
use dispatch::netisr::Mode;
use lab::ab::Variant;
use lab::ab::workload::{self, RIGS};
use lab::netperf::LockKind;
use lab::netperf::{DISPATCH, Drivers, Ground as _, Isr, Over, Place};
use lab::rigs::{Service, Work};
use node::config::HostConfig;
use std::time::Duration;
use wire::checksum;

/// Arguments of `ab`.
#[derive(Args, Debug)]
#[command(
    override_usage = "linerate ab [OPTIONS] --a SETTINGS --b SETTINGS {WORKLOAD | -- COMMAND...}",
    after_help = "\
SETTINGS are K=V[,K=V...]. A test between hosts accepts any key or sysctl of 'linerate up --set', which applies to \
every host, and these:
  over=pair|nic|router|native|veth|tap   threads=on   link.OPTION=VALUE
  locks=up|light|heavy (hosts on one thread)   checksum=KIND
  workstreams=N   net.isr.dispatch=direct|hybrid|deferred (of the router or far end)
Other workloads: send takes the ladder's settings (locks, context, pool, pages, clock, burst, ...); route takes \
routes, burst, locks and any key or setting of a host; bridge takes addresses, size and burst; filter takes expr; text \
takes kind and way. In a command line after --, {} is replaced by the settings of a side; sh runs {} alone. Prints a \
table with the verdict and the noise floor. For tests between hosts it also prints the ticks of an operation by stage \
and the counters that differ; then ministat's output.

Examples:
  linerate ab --a dispatch=direct --b dispatch=hybrid --both over=router TCP_RR
  linerate ab --a locks=up --b locks=heavy tcpconnect
  linerate ab --a pool=zone --b pool=stack send
  linerate ab --a expr=udp --b expr=tcp filter
  linerate ab --a -1 --b -9 -- sh -c 'head -c 4M /dev/zero | gzip {}'
  linerate ab --a ./before --b ./after -- {}"
)]
pub struct AbArgs {
    /// Use these settings for side A
    #[arg(long, value_name = "SETTINGS", required = true, allow_hyphen_values = true)]
    pub a: String,
    /// Use these settings for side B
    #[arg(long, value_name = "SETTINGS", required = true, allow_hyphen_values = true)]
    pub b: String,
    /// Apply these settings to both sides, before those of --a and --b
    #[arg(long, value_name = "SETTINGS", value_delimiter = ',', value_parser = setting)]
    pub both: Vec<(String, String)>,
    /// Run this workload: a netperf test, tcpconnect, a service, send, route, bridge, filter or
    /// text
    #[arg(value_name = "WORKLOAD", required_unless_present = "command", value_parser = workload)]
    pub workload: Option<Workload>,
    /// Run each trial between hosts for N seconds
    #[arg(short = 'l', value_name = "N", default_value = "0.02", value_parser = seconds)]
    pub length: Duration,
    #[command(flatten)]
    pub study: StudyArgs,
    /// Compare runs of this command line
    #[arg(last = true, value_name = "COMMAND", conflicts_with = "workload")]
    pub command: Vec<String>,
}

/// Workload of both sides.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Workload {
    /// A netperf test.
    Netperf(Test),
    /// Sequential TCP connections.
    Connect,
    /// Load test of a service.
    Serve(Service),
    /// Another workload, by its name in [`RIGS`], such as `send` or `bridge`.
    Rig(&'static str),
}

fn workload(word: &str) -> Result<Workload, String> {
    if word.eq_ignore_ascii_case("tcpconnect") {
        return Ok(Workload::Connect);
    }
    if let Some(service) = Service::ALL.into_iter().find(|service| service.name().eq_ignore_ascii_case(word)) {
        return Ok(Workload::Serve(service));
    }
    if let Some((name, _)) = RIGS.into_iter().find(|(name, _)| name.eq_ignore_ascii_case(word)) {
        return Ok(Workload::Rig(name));
    }
    let others: Vec<&str> = Service::ALL.map(Service::name).into_iter().chain(RIGS.map(|(name, _)| name)).collect();
    word.parse().map(Workload::Netperf).map_err(|why: String| format!("{why}, tcpconnect, {}", others.join(", ")))
}

fn setting(word: &str) -> Result<(String, String), String> {
    let (key, value) = word.split_once('=').ok_or_else(|| format!("'{word}': expected K=V"))?;
    Ok((key.to_owned(), value.to_owned()))
}

/// Returns the settings of one side: the settings common to both sides, then those of this side.
fn settings(args: &AbArgs, own: &str) -> Result<Vec<(String, String)>, String> {
    let own = own.split(',').filter(|word| !word.is_empty()).map(setting).collect::<Result<Vec<_>, _>>()?;
    Ok(args.both.iter().cloned().chain(own).collect())
}

/// Returns whether a side uses several threads. Processor time then measures nothing useful, so
/// both sides are measured in wall-clock time.
fn has_threads(args: &AbArgs, own: &str) -> bool {
    let place = settings(args, own).and_then(|settings| place(settings.iter()));
    place.is_ok_and(|place| !place.is_one_thread())
}

/// Builds a side. The `bool` is true if the side needs a network namespace.
fn variant(args: &AbArgs, id: &str, own: &str, wall_clock: bool) -> Result<(Variant, bool), String> {
    let Some(of) = args.workload else {
        return Ok((workload::command(id, own, &args.command).map_err(|why| format!("{why:#}"))?, false));
    };
    let settings = settings(args, own)?;
    let work = match of {
        Workload::Rig(name) => {
            return Ok((workload::rig(name, id, &settings).map_err(|why| format!("{why:#}"))?, false));
        }
        Workload::Netperf(test) => {
            let options = Options { length: Length::Time(args.length), ..Options::new(test) };
            options.check()?;
            Work::Netperf(options)
        }
        Workload::Connect => Work::Connect(args.length),
        Workload::Serve(service) => Work::Serve(service, args.length),
    };
    let place = Place { wall_clock, ..place(settings.iter())? };
    let apart = place.wants_namespace();
    Ok((workload::hosts(id, own, place, work), apart))
}

/// Runs `ab`.
pub fn run(args: &AbArgs) -> anyhow::Result<Exit> {
    let wall_clock = [&args.a, &args.b].into_iter().any(|own| has_threads(args, own));
    let side = |id: &str, own: &str| {
        variant(args, id, own, wall_clock).map_err(|why| Fault::usage(format!("--{id} {own}: {why}")))
    };
    let ((a, apart_a), (b, apart_b)) = (side("a", &args.a)?, side("b", &args.b)?);
    if (apart_a || apart_b)
        && let Some(exit) = in_namespace()?
    {
        return Ok(exit);
    }
    run::show(|options, progress| lab::ab::ab([a, b], options, progress), &args.study, None)
}

/// Returns the placement of the two ends of the test that the settings select.
fn place<'k>(settings: impl Iterator<Item = &'k (String, String)>) -> Result<Place, String> {
    let mut place = Place::new(Over::Pair);
    let mut isr: (Option<usize>, Option<Mode>) = (None, None);
    for (key, value) in settings {
        match key.as_str() {
            "over" => place.over = value.parse()?,
            "locks" => {
                place.locks = match value.as_str() {
                    "up" => LockKind::Up,
                    "light" => LockKind::Light,
                    "heavy" => LockKind::Heavy,
                    _ => return Err(format!("locks={value}: expected up, light or heavy")),
                }
            }
            "checksum" => {
                let kinds = || checksum::Kind::available();
                let found = kinds().find(|kind| kind.to_string() == *value);
                let names = || kinds().map(|kind| kind.to_string()).collect::<Vec<_>>().join(", ");
                place.checksum = Some(found.ok_or_else(|| format!("checksum={value}: expected one of {}", names()))?);
            }
            "threads" => place.drivers = if switch(key, value)? { Drivers::Each } else { Drivers::One },
            "workstreams" | "isr.workstreams" => isr.0 = Some(judged("isr.workstreams", value)?.isr.workstreams),
            DISPATCH | "dispatch" => {
                let number = judged(DISPATCH, value)?.sysctl.get(DISPATCH).copied().unwrap_or_default();
                isr.1 = u8::try_from(number).ok().and_then(Mode::of);
            }
            _ => match key.strip_prefix("link.") {
                Some(option) => {
                    let comma = if place.link.is_empty() { "" } else { "," };
                    place.link = format!("{}{comma}{option}={value}", place.link);
                }
                None => {
                    HostConfig::default().set(key, value)?;
                    place.set.retain(|(known, _)| known != key);
                    place.set.push((key.clone(), value.clone()));
                }
            },
        }
    }
    place.isr = match isr {
        (None, None) | (Some(0), None) => None,
        (Some(0), Some(_)) => return Err(format!("isr.workstreams=0: no netisr, so {DISPATCH} has no effect")),
        (workstreams, dispatch) => {
            Some(Isr { workstreams: workstreams.unwrap_or(1), dispatch: dispatch.unwrap_or_default() })
        }
    };
    place.check()?;
    Ok(place)
}

/// Parses one configuration key of netisr, with the checks of a host's configuration.
fn judged(key: &str, value: &str) -> Result<HostConfig, String> {
    let mut config = HostConfig::default();
    config.set(key, value)?;
    Ok(config)
}

fn switch(key: &str, value: &str) -> Result<bool, String> {
    match value {
        "on" | "1" | "true" => Ok(true),
        "off" | "0" | "false" => Ok(false),
        _ => Err(format!("{key}={value}: expected on or off")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(words: &str) -> Result<Place, String> {
        let settings: Vec<(String, String)> = words.split(',').map(|word| setting(word).unwrap()).collect();
        place(settings.iter())
    }

    #[test]
    fn settings_set_the_placement_netisr_or_the_hosts() {
        let made =
            of("over=router,threads=on,link.tso=on,link.csum=on,net.inet.tcp.delay_fin_ack=0,pool.kind=zone").unwrap();
        assert_eq!((made.over, made.drivers, made.link.as_str()), (Over::Router, Drivers::Each, "tso=on,csum=on"));
        assert_eq!((made.set.len(), made.isr), (2, None));
        let isr = of("net.isr.dispatch=deferred").unwrap().isr;
        assert_eq!(isr, Some(Isr { workstreams: 1, dispatch: Mode::Deferred }));
        assert_eq!(of("workstreams=2,dispatch=direct").unwrap().isr.map(|isr| isr.workstreams), Some(2));
        let last = of("net.inet.tcp.delay_fin_ack=0,net.inet.tcp.delay_fin_ack=1").unwrap();
        assert_eq!(last.set, [("net.inet.tcp.delay_fin_ack".to_owned(), "1".to_owned())], "the last counts");
    }

    #[test]
    fn invalid_settings_are_rejected() {
        for (words, part) in [
            ("over=moon", "pair, nic, router"),
            ("threads=maybe", "on or off"),
            ("locks=none", "up, light or heavy"),
            ("locks=light,threads=on", "on one thread"),
            ("checksum=crc", "one of"),
            ("net.isr.dispatch=default", "net.isr.dispatch"),
            ("net.inet.tcp.nonsense=1", "net.inet.tcp."),
            ("link.speed=9", "speed"),
            ("over=native,net.isr.dispatch=direct", "only over pair, nic or router"),
            ("over=native,burst=8", "without a host of our stack"),
            ("isr.workstreams=0,net.isr.dispatch=direct", "no netisr"),
        ] {
            let why = of(words).unwrap_err();
            assert!(why.contains(part), "{words}: {why}");
        }
        assert!(workload("TCP_NONE").unwrap_err().ends_with("http, send, route, bridge, filter, text"));
        assert_eq!(workload("Route"), Ok(Workload::Rig("route")));
        assert_eq!(workload("fileload"), Ok(Workload::Serve(Service::Files)));
        assert_eq!(workload("tcp_rr"), Ok(Workload::Netperf(Test::TcpRr)));
    }
}
