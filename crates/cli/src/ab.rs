//! `ab`: knobs on both sides, to two variants of a workload.

use crate::args::StudyArgs;
use crate::exit::{Exit, Fault};
use crate::place::{end_with_stdin, inside, is_inside, seconds};
use crate::run;
use apps::netperf::{Length, Options, Test};
use clap::Args;
use dispatch::netisr::Mode;
use lab::ab::Variant;
use lab::netperf::{DISPATCH, Drivers, Isr, Over, Place};
use lab::rigs::{Service, Work};
use node::config::HostConfig;
use std::time::Duration;

/// `ab`.
#[derive(Args, Debug)]
#[command(after_help = "\
KNOBS are K=V[,K=V...]: any key or knob that 'linerate up --set' takes, of every host; and of the place
  over=pair|nic|router|native|veth|tap   threads=on   link.OPTION=VALUE, as in link.tso=on
  workstreams=N, net.isr.dispatch=direct|hybrid|deferred   netisr of the router, else the far end
The table says which is better and whether the noise floor allows to say so; below it, where the
ticks of an operation went and which counters moved differently; then ministat's words.

Examples:
  linerate ab --a net.isr.dispatch=direct --b net.isr.dispatch=deferred --both over=router TCP_RR
  linerate ab --a link.tso=off --b link.tso=on TCP_STREAM
  linerate ab --a net.isr.dispatch=direct --b net.isr.dispatch=deferred --both threads=on kvload
  linerate ab --a over=native --b over=pair tcpconnect")]
pub struct AbArgs {
    /// How the one is set
    #[arg(long, value_name = "KNOBS", required = true, value_delimiter = ',', value_parser = knob)]
    pub a: Vec<(String, String)>,
    /// How the other is
    #[arg(long, value_name = "KNOBS", required = true, value_delimiter = ',', value_parser = knob)]
    pub b: Vec<(String, String)>,
    /// What both have, before their own
    #[arg(long, value_name = "KNOBS", value_delimiter = ',', value_parser = knob)]
    pub both: Vec<(String, String)>,
    /// A test of netperf's, tcpconnect, kvload, fileload or http
    #[arg(value_name = "WORKLOAD", value_parser = workload)]
    pub workload: Workload,
    /// Seconds of a trial
    #[arg(short = 'l', value_name = "N", default_value = "0.1", value_parser = seconds)]
    pub length: Duration,
    #[command(flatten)]
    pub study: StudyArgs,
}

/// What both do.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Workload {
    /// netperf's.
    Netperf(Test),
    /// Connections, one after the other.
    Connect,
    /// Clients of a service.
    Serve(Service),
}

fn workload(word: &str) -> Result<Workload, String> {
    if word.eq_ignore_ascii_case("tcpconnect") {
        return Ok(Workload::Connect);
    }
    if let Some(service) = Service::ALL.into_iter().find(|service| service.name().eq_ignore_ascii_case(word)) {
        return Ok(Workload::Serve(service));
    }
    let others = Service::ALL.map(Service::name).join(", ");
    word.parse().map(Workload::Netperf).map_err(|why: String| format!("{why}, tcpconnect, {others}"))
}

fn knob(word: &str) -> Result<(String, String), String> {
    let (key, value) = word.split_once('=').ok_or("expected K=V")?;
    Ok((key.to_owned(), value.to_owned()))
}

/// `ab`.
pub fn run(args: &AbArgs) -> anyhow::Result<Exit> {
    let variant = |own: &[(String, String)]| -> Result<Variant, String> {
        let place = place(args.both.iter().chain(own))?;
        let work = match args.workload {
            Workload::Netperf(test) => {
                let options = Options { length: Length::Time(args.length), ..Options::new(test) };
                options.check()?;
                Work::Netperf(options)
            }
            Workload::Connect => Work::Connect(args.length),
            Workload::Serve(service) => Work::Serve(service, args.length),
        };
        let words: Vec<String> = own.iter().map(|(key, value)| format!("{key}={value}")).collect();
        Ok(Variant { words: words.join(","), place, work })
    };
    let side =
        |name: &str, own: &[(String, String)]| variant(own).map_err(|why| Fault::usage(format!("--{name}: {why}")));
    let variants = [side("a", &args.a)?, side("b", &args.b)?];
    if variants.iter().any(|variant| variant.place.wants_namespace()) && !is_inside() {
        return inside();
    }
    if is_inside() {
        end_with_stdin()?;
    }
    run::show(|options, progress| lab::ab::ab(&variants, options, progress), &args.study)
}

/// Where the ends stand with these knobs.
fn place<'k>(knobs: impl Iterator<Item = &'k (String, String)>) -> Result<Place, String> {
    let mut place = Place::new(Over::Pair);
    let mut isr: (Option<usize>, Option<Mode>) = (None, None);
    for (key, value) in knobs {
        match key.as_str() {
            "over" => place.over = value.parse()?,
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
        (Some(0), Some(_)) => return Err(format!("isr.workstreams=0: no netisr, so nothing for {DISPATCH}")),
        (workstreams, dispatch) => {
            Some(Isr { workstreams: workstreams.unwrap_or(1), dispatch: dispatch.unwrap_or_default() })
        }
    };
    place.check()?;
    Ok(place)
}

/// A key of netisr's, checked as a host would.
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
        let knobs: Vec<(String, String)> = words.split(',').map(|word| knob(word).unwrap()).collect();
        place(knobs.iter())
    }

    #[test]
    fn knobs_are_of_the_place_of_netisr_or_of_the_hosts() {
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
    fn wrong_knobs_are_told() {
        for (words, part) in [
            ("over=moon", "pair, nic, router"),
            ("threads=maybe", "on or off"),
            ("locks=light", "--threads"),
            ("net.isr.dispatch=default", "net.isr.dispatch"),
            ("net.inet.tcp.nonsense=1", "net.inet.tcp."),
            ("link.speed=9", "speed"),
            ("over=native,net.isr.dispatch=direct", "judged"),
            ("over=native,burst=8", "no host of ours"),
            ("isr.workstreams=0,net.isr.dispatch=direct", "no netisr"),
        ] {
            let why = of(words).unwrap_err();
            assert!(why.contains(part), "{words}: {why}");
        }
        assert!(workload("TCP_NONE").unwrap_err().ends_with("tcpconnect, kvload, fileload, http"));
        assert_eq!(workload("fileload"), Ok(Workload::Serve(Service::Files)));
        assert_eq!(workload("tcp_rr"), Ok(Workload::Netperf(Test::TcpRr)));
    }
}
