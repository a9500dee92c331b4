//! The workloads of `linerate ab`: a netperf test between hosts, one of the rigs in [`RIGS`], or
//! any command line.

use super::{Spent, Trials, Variant};
use crate::bench::{Codec, GIGABYTES};
use crate::netperf::{Ground, Observed, Place};
use crate::rigs::{BridgeRig, NetperfRig, RouteRig, SendRig, Work};
use crate::side::Side;
use crate::study::Unit;
use crate::subject::{Reading, Subject, from_fn, measure};
use crate::{alarm, timer};
use anyhow::{Context, bail, ensure};
use lock::{Heavy, Light, Up};
use node::config::HostConfig;
use rung::{LockKind, Settings};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};
use wire::filter::Filter;
use wire::text::Kind as TextKind;

/// A setting and its value.
pub type Setting = (String, String);

/// Names and descriptions of the workloads that have settings of their own.
pub const RIGS: [(&str, &str); 5] = [
    ("send", "send 22 bytes with sendto; settings: those printed by linerate ladder (locks, pool, burst, ...)"),
    ("route", "forward IPv4 packets; settings: routes=N, burst=N, locks, and every key and setting of a host"),
    ("bridge", "forward frames in a learning bridge; settings: addresses=N, size=BYTES, burst=N"),
    ("filter", "match frames against a filter; settings: expr=EXPRESSION (tcpdump filter)"),
    ("text", "convert frames to lines of text or back; settings: kind=NAME (code variant), way=encode|decode"),
];

/// Time limit of a trial with two hosts, or of a trial of a workload of [`RIGS`].
const LIMIT: Option<Duration> = Some(alarm::PATIENCE);

/// Returns the variant that runs the netperf test `work` between two hosts.
pub fn hosts(id: &str, words: &str, place: Place, work: Work) -> Variant {
    let unit = Unit { name: work.unit(), of: work.rate() };
    let name = id.to_owned();
    let (with_ledger, its_work) = (Place { ledger: true, ..place.clone() }, work.clone());
    let spent = move || spent(NetperfRig::counted(with_ledger.clone(), &its_work), &its_work);
    let trials = Trials::Hosts { one_thread: place.is_one_thread() };
    let side = Side::new(id, move || Ok(NetperfRig::new(&name, place.clone(), work.clone())));
    Variant { words: words.to_owned(), side, unit, trials, patience: LIMIT, spent: Some(Box::new(spent)) }
}

fn spent(mut rig: NetperfRig, work: &Work) -> anyhow::Result<Spent> {
    let (many, each) = work.each();
    let ops = rig.trial()?.ops as f64 / many;
    let Observed { netisr, counters, stages, switches } = rig.seen();
    let also = [
        ("netisr.directly", netisr.directly),
        ("netisr.queued", netisr.queued),
        ("netisr.refused", netisr.refused),
        ("netisr.wakeups", netisr.wakeups),
        ("switches.voluntary", switches[0]),
        ("switches.involuntary", switches[1]),
    ];
    let also = also.into_iter().map(|(name, count)| (name.to_owned(), count));
    let counters = counters.iter().map(|(name, count)| (name.clone(), *count)).chain(also);
    Ok(Spent {
        each,
        stages: stages.iter().map(|(stage, (ticks, _))| ((*stage).to_owned(), *ticks as f64 / ops)).collect(),
        counters: counters.map(|(name, count)| (name, count as f64 / ops)).collect(),
    })
}

/// Returns the variant that runs a workload of [`RIGS`] with these settings.
///
/// # Errors
/// Unknown workload, unknown setting or invalid value, named in the message.
pub fn rig(workload: &str, id: &str, settings: &[Setting]) -> anyhow::Result<Variant> {
    let words = words(settings);
    let variant = |side: Side, unit: Unit| Variant {
        words: words.clone(),
        side,
        unit,
        trials: Trials::Rig,
        patience: LIMIT,
        spent: None,
    };
    let name = id.to_owned();
    let side = match workload {
        "send" => {
            let line = words.replace(',', " ");
            let _: Settings = line.parse()?;
            Side::new(id, move || SendRig::new(&name, &line, false))
        }
        "route" => route(id, settings)?,
        "bridge" => {
            let (mut addresses, mut size, mut burst) = (1000, 64, 32);
            for (key, value) in settings {
                match key.as_str() {
                    "addresses" => addresses = number(key, value, 2, 1 << 20)?,
                    "size" => size = number(key, value, 64, 1518)?,
                    "burst" => burst = number(key, value, 1, 256)?,
                    _ => bail!("unknown setting '{key}' of bridge: expected addresses, size or burst"),
                }
            }
            Side::new(id, move || BridgeRig::new(&name, addresses, size - 4, burst))
        }
        "filter" => filter(id, settings)?,
        "text" => {
            let (mut kind, mut decode) = (TextKind::best(), false);
            for (key, value) in settings {
                match (key.as_str(), value.as_str()) {
                    ("kind", name) => {
                        let names: Vec<&str> = TextKind::available().map(TextKind::name).collect();
                        let found = TextKind::available().find(|kind| kind.name() == name);
                        kind = found.with_context(|| format!("kind={name}: expected one of {}", names.join(", ")))?;
                    }
                    ("way", "encode") => decode = false,
                    ("way", "decode") => decode = true,
                    ("way", other) => bail!("way={other}: expected encode or decode"),
                    _ => bail!("unknown setting '{key}' of text: expected kind or way"),
                }
            }
            let side = Side::new(id, move || Ok(Codec::new(&name, kind, decode)));
            return Ok(variant(side, GIGABYTES));
        }
        other => bail!("unknown workload '{other}'"),
    };
    Ok(variant(side, Unit::TICKS))
}

fn words(settings: &[Setting]) -> String {
    settings.iter().map(|(key, value)| format!("{key}={value}")).collect::<Vec<_>>().join(",")
}

fn number(key: &str, value: &str, least: usize, most: usize) -> anyhow::Result<usize> {
    let number = value.parse().ok().filter(|n| (least..=most).contains(n));
    number.with_context(|| format!("{key}={value}: expected {least} to {most}"))
}

fn route(id: &str, settings: &[Setting]) -> anyhow::Result<Side> {
    let (mut routes, mut burst, mut locks, mut config) = (10_000, 32, LockKind::Up, HostConfig::default());
    for (key, value) in settings {
        match key.as_str() {
            "routes" => routes = number(key, value, 1, 2_000_000)?,
            "burst" => burst = number(key, value, 1, 256)?,
            "locks" => locks = format!("locks={value}").parse::<Settings>()?.locks,
            _ => config.set(key, value).map_err(|why| anyhow::anyhow!(why))?,
        }
    }
    let name = id.to_owned();
    macro_rules! build {
        ($locks:ty) => {{
            let mut rig = RouteRig::<$locks>::with(&name, routes, &config)?;
            rig.set_burst(burst);
            Ok(Box::new(rig) as Box<dyn Subject>)
        }};
    }
    Ok(Side::new(id, move || match locks {
        LockKind::Up => build!(Up),
        LockKind::Light => build!(Light),
        LockKind::Heavy => build!(Heavy),
    }))
}

/// Number of frames passed through the filter in a trial of `filter`.
const FILTERED: u64 = 100_000;

fn filter(id: &str, settings: &[Setting]) -> anyhow::Result<Side> {
    let mut text = String::new();
    for (key, value) in settings {
        ensure!(key == "expr", "unknown setting '{key}' of filter: expected expr");
        text.clone_from(value);
    }
    Filter::compile(&text).map_err(|why| anyhow::anyhow!("expr={text}: {why}"))?;
    let name = id.to_owned();
    Ok(Side::new(id, move || {
        let filter = Filter::compile(&text).map_err(|why| anyhow::anyhow!("{why}"))?;
        let frames = crate::native::shell::mixed();
        Ok(from_fn(name.clone(), move || {
            let mut matched = 0u64;
            Ok(measure(FILTERED, || {
                for frame in frames.iter().cycle().take(FILTERED as usize) {
                    matched += u64::from(filter.matches(std::hint::black_box(frame)));
                }
                matched
            }))
        }))
    }))
}

/// Unit of the duration of a command: milliseconds.
const MILLISECONDS: Unit = Unit { name: "ms", of: |ticks| ticks * 1e3 / timer::rate().hz as f64 };

/// Returns the variant that runs a command line. The settings of the side replace `{}` in each word
/// of `command`. If `command` is `{}` alone, `sh -c` runs the settings as a command.
///
/// # Errors
/// `command` is empty.
pub fn command(id: &str, words: &str, command: &[String]) -> anyhow::Result<Variant> {
    ensure!(!command.is_empty(), "no command after --");
    let line: Vec<String> = if command == ["{}"] {
        ["sh", "-c", words].map(str::to_owned).to_vec()
    } else {
        command.iter().map(|word| word.replace("{}", words)).collect()
    };
    let name = id.to_owned();
    let side = Side::new(id, move || {
        let (line, name) = (line.clone(), name.clone());
        Ok(from_fn(name.clone(), move || run(&name, &line)))
    });
    Ok(Variant {
        words: words.to_owned(),
        side,
        unit: MILLISECONDS,
        trials: Trials::Command,
        patience: None,
        spent: None,
    })
}

/// Runs the command once and measures the wall-clock time from start to exit.
fn run(id: &str, line: &[String]) -> anyhow::Result<Reading> {
    let [program, words @ ..] = line else { bail!("{id}: the command line is empty") };
    let mut command = Command::new(program);
    command.args(words).stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::piped());
    let begun = Instant::now();
    let child = command.spawn().with_context(|| format!("cannot start {program}"))?;
    alarm::command(Some(child.id()));
    let output = child.wait_with_output();
    let wall_ns = begun.elapsed().as_nanos() as u64;
    alarm::command(None);
    let output = output?;
    let said = String::from_utf8_lossy(&output.stderr);
    ensure!(
        output.status.success(),
        "{program} failed: {}: {}",
        output.status,
        said.lines().last().unwrap_or_default()
    );
    let ticks = (u128::from(wall_ns) * u128::from(timer::rate().hz) / 1_000_000_000) as u64;
    Ok(Reading { ops: 1, ticks, wall_ns, cpu_ns: wall_ns })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parsed(text: &str) -> Vec<Setting> {
        let pairs = text.split(',').filter_map(|word| word.split_once('='));
        pairs.map(|(key, value)| (key.to_owned(), value.to_owned())).collect()
    }

    #[test]
    fn every_workload_runs_with_its_settings() {
        for (workload, settings) in [
            ("send", "locks=light,pool=zone"),
            ("route", "routes=100,burst=8,locks=heavy,pool.kind=zone"),
            ("bridge", "addresses=10,size=1518,burst=1"),
            ("filter", "expr=udp port 53"),
            ("text", "kind=portable,way=decode"),
        ] {
            let variant = rig(workload, "a", &parsed(settings)).unwrap();
            assert!(variant.patience.is_some() && variant.side.build().unwrap().trial().unwrap().ops > 0, "{workload}");
            assert_eq!(variant.words, settings);
        }
    }

    #[test]
    fn invalid_settings_have_an_error_message() {
        for (workload, settings, part) in [
            ("send", "locks=none", "up, light or heavy"),
            ("route", "routes=0", "expected 1 to"),
            ("route", "colour=red", "colour"),
            ("bridge", "size=63", "64 to 1518"),
            ("bridge", "ports=3", "addresses, size or burst"),
            ("filter", "expr=udp port", "expr=udp port"),
            ("text", "kind=neon9", "expected one of portable"),
            ("text", "way=up", "encode or decode"),
            ("moon", "", "unknown workload 'moon'"),
        ] {
            let why = rig(workload, "a", &parsed(settings)).err().map(|why| format!("{why:#}")).unwrap_or_default();
            assert!(why.contains(part), "{workload} {settings}: {why}");
        }
    }

    #[test]
    fn a_command_takes_the_sides_words_and_a_failed_one_is_an_error() {
        let run = |words: &str, line: &[&str]| {
            let line: Vec<String> = line.iter().map(|word| (*word).to_owned()).collect();
            command("a", words, &line).unwrap().side.build().unwrap().trial()
        };
        assert_eq!(run("exit 0", &["{}"]).unwrap().ops, 1);
        assert!(run("5", &["test", "{}", "=", "5"]).is_ok());
        let why = run("echo no room >&2; exit 3", &["{}"]).unwrap_err().to_string();
        assert!(why.contains("no room") && why.contains('3'), "{why}");
        assert!(format!("{:#}", run("", &["/nowhere/x"]).unwrap_err()).contains("/nowhere/x"));
        assert!(command("a", "", &[]).is_err());
        assert_eq!(command("a", "", &["{}".to_owned()]).unwrap().patience, None, "a command lasts as long as it does");
    }
}
