//! Netisr's sysctls and its table: `sysctl net.isr`, `netstat -Q`, `show isr`.

use super::Ctl;
use crate::Host;
use crate::isr::{self, IsrError, Received};
use crate::split;
use dispatch::netisr::{Mode, Netisr, NetisrError, Policy, ProtocolRow, Settings, WorkRow};
use grammar::CommandError;
use lock::Locks;
use serde_json::{Map, Value, json};
use stats::Entry;

/// Global dispatch mode, under the name of netisr2005 and under older names.
const DISPATCH: &str = "net.isr.dispatch";
const DIRECT: &str = "net.isr.direct";
const ENABLE: &str = "net.isr.enable";
const LIMIT: &str = "net.isr.defaultqlimit";

/// Name and description of all settable sysctls.
const KNOBS: &[(&str, &str)] = &[
    (
        DISPATCH,
        "When frames are taken through the stack: direct (at once), hybrid, or deferred (by a workstream's worker).",
    ),
    (DIRECT, "Is it direct? 1, or 0: hybrid or deferred. 0 makes direct deferred."),
    (ENABLE, "The oldest name of net.isr.direct."),
    (LIMIT, "How many frames of a protocol may wait in a workstream."),
    ("net.isr.proto.ip.dispatch", "For IPv4 alone: default (as all), direct, hybrid or deferred."),
    (
        "net.isr.proto.ip.policy",
        "How IPv4's workstreams are chosen: source, flow, or cpu: as a card with RSS would (of a split host: by the peer's address).",
    ),
    ("net.isr.proto.ip.qlimit", "How many frames of IPv4 may wait in a workstream."),
    ("net.isr.proto.arp.dispatch", "For ARP alone: default (as all), direct, hybrid or deferred."),
    ("net.isr.proto.arp.policy", "How ARP's workstreams are chosen: source, or flow."),
    ("net.isr.proto.arp.qlimit", "How many frames of ARP may wait in a workstream."),
    ("net.isr.proto.ether.dispatch", "For all other frames: default (as all), direct, hybrid or deferred."),
    ("net.isr.proto.ether.policy", "How the workstreams of all other frames are chosen: source, or flow."),
    ("net.isr.proto.ether.qlimit", "How many of all other frames may wait in a workstream."),
    ("net.isr.proto.ip6.dispatch", "For IPv6 alone: default (as all), direct, hybrid or deferred."),
    (
        "net.isr.proto.ip6.policy",
        "How IPv6's workstreams are chosen: source, flow, or cpu: as a card with RSS would (of a split host: by the peer's address).",
    ),
    ("net.isr.proto.ip6.qlimit", "How many frames of IPv6 may wait in a workstream."),
];

pub(super) fn names() -> impl Iterator<Item = &'static str> {
    KNOBS.iter().map(|(name, _)| *name)
}

/// Returns the description of a name.
pub(super) fn sentence(name: &str) -> Option<&'static str> {
    KNOBS.iter().find(|(known, _)| *known == name).map(|(_, sentence)| *sentence)
}

/// Returns the protocol and the setting of a per-protocol name.
fn of_protocol(name: &str) -> Option<(&str, &str)> {
    name.strip_prefix("net.isr.proto.")?.split_once('.')
}

/// Subject of a sysctl.
enum About<'a> {
    /// Global dispatch mode.
    Mode,
    /// Direct mode, on or off.
    Direct,
    /// Default queue limit.
    Limit,
    /// Dispatch mode of a protocol.
    OwnMode(&'a str),
    /// Policy of a protocol.
    Policy(&'a str),
    /// Queue limit of a protocol.
    OwnLimit(&'a str),
}

fn about(name: &str) -> Option<About<'_>> {
    sentence(name)?;
    Some(match (name, of_protocol(name)) {
        (DISPATCH, _) => About::Mode,
        (DIRECT | ENABLE, _) => About::Direct,
        (_, Some((protocol, "dispatch"))) => About::OwnMode(protocol),
        (_, Some((protocol, "policy"))) => About::Policy(protocol),
        (_, Some((protocol, _))) => About::OwnLimit(protocol),
        _ => About::Limit,
    })
}

/// Returns the number for `text`, if `name` belongs to netisr: that of a mode or policy, or the
/// number itself.
pub(super) fn check(name: &str, text: &str) -> Option<Result<i64, CommandError>> {
    let bad = |why: NetisrError| {
        // `CommandError` adds the value and 'expected' to the message.
        let expected = match why {
            NetisrError::UnknownMode(_) => Mode::WORDS.to_string(),
            NetisrError::UnknownPolicy(_) => Policy::WORDS.to_string(),
            other => other.to_string(),
        };
        CommandError::bad(name, text, expected)
    };
    Some(match about(name)? {
        About::Mode => text.parse::<Mode>().map(|mode| i64::from(mode.number())).map_err(bad),
        About::OwnMode(_) => Mode::own(text).map(|mode| mode.map_or(0, |mode| i64::from(mode.number()))).map_err(bad),
        About::Policy(_) => text.parse::<Policy>().map(|policy| i64::from(policy.number())).map_err(bad),
        About::Direct => match text {
            "1" | "on" | "true" => Ok(1),
            "0" | "off" | "false" => Ok(0),
            _ => Err(CommandError::bad(name, text, "0 or 1".to_string())),
        },
        About::Limit | About::OwnLimit(_) => {
            let number = text.parse().ok().filter(|n| (0..=i64::from(u32::MAX)).contains(n));
            number.ok_or_else(|| CommandError::bad(name, text, "a number of frames".to_string()))
        }
    })
}

/// Sets a value accepted by [`check`]; names outside netisr are ignored. Without netisr all
/// dispatch is direct, and only that value is accepted.
pub(crate) fn set(netisr: Option<&Netisr<Received>>, name: &str, value: i64) -> Result<(), IsrError> {
    let Some(about) = about(name) else { return Ok(()) };
    let asked = u8::try_from(value).ok();
    let mode = asked.and_then(Mode::of);
    let Some(netisr) = netisr else {
        let is_so = match about {
            About::Mode => mode == Some(Mode::Direct),
            About::Direct => value == 1,
            _ => false,
        };
        return if is_so { Ok(()) } else { Err(IsrError::None(name.to_string())) };
    };
    let limit = usize::try_from(value).unwrap_or(usize::MAX);
    let asks = match about {
        About::Mode | About::OwnMode(_) => mode,
        About::Direct if value == 1 => Some(Mode::Direct),
        _ => None,
    };
    asks.map_or(Ok(()), |mode| netisr.check_mode(mode))?;
    match about {
        About::Mode => netisr.set_mode(mode.unwrap_or_default()),
        About::Direct if value == 1 => netisr.set_mode(Mode::Direct),
        About::Direct if netisr.mode() == Mode::Direct => netisr.set_mode(Mode::Deferred),
        About::Direct => {}
        About::Limit => netisr.set_default_qlimit(limit)?,
        About::OwnMode(protocol) => netisr.set_own_mode(netisr.protocol(protocol)?, mode),
        About::Policy(protocol) => {
            netisr.set_policy(netisr.protocol(protocol)?, asked.and_then(Policy::of).unwrap_or_default())?;
        }
        About::OwnLimit(protocol) => netisr.set_qlimit(netisr.protocol(protocol)?, limit)?,
    }
    Ok(())
}

/// Returns the value of a netisr sysctl.
pub(super) fn value<L: Locks>(host: &Host<L>, name: &str) -> Option<Value> {
    let settings = || isr::snapshot(host).settings;
    match name {
        "net.isr.numthreads" => return Some(settings().threads.into()),
        "net.isr.maxthreads" => return Some(settings().max_threads.into()),
        "net.isr.bindthreads" => return Some(u8::from(settings().bound).into()),
        "net.isr.maxprot" => return Some(dispatch::netisr::PROTOCOLS_MAX.into()),
        "net.isr.maxqlimit" => return Some(settings().max_qlimit.into()),
        _ => {}
    }
    let of = |protocol: &str, pick: fn(&ProtocolRow) -> Value| {
        isr::snapshot(host).protocols.iter().find(|row| row.name == protocol).map(pick)
    };
    match about(name)? {
        About::Mode => Some(settings().mode.name().into()),
        About::Direct => Some(u8::from(settings().mode == Mode::Direct).into()),
        About::Limit => Some(settings().default_qlimit.into()),
        About::OwnMode(protocol) => of(protocol, |row| row.dispatch_word().into()),
        About::Policy(protocol) => of(protocol, |row| row.policy.name().into()),
        About::OwnLimit(protocol) => of(protocol, |row| row.qlimit.into()),
    }
}

/// Returns the table of `netstat -Q`.
pub(super) fn table<L: Locks>(ctl: &Ctl<'_, L>) -> String {
    ctl.listing(|| to_json(ctl), || isr::snapshot(ctl.host).text())
}

/// Returns the output of `show isr`: the table of `netstat -Q`, and the cost of thread switches.
pub(super) fn shown<L: Locks>(ctl: &Ctl<'_, L>) -> String {
    let text = || {
        let snapshot = isr::snapshot(ctl.host);
        let lost: u64 = snapshot.work.iter().map(|row| row.lost).sum();
        let (wakeups, sleeps) = (snapshot.wakeups, snapshot.sleeps);
        let overtaken: u64 = snapshot.protocols.iter().map(|row| row.overtaken).sum();
        let restarts = snapshot.restarts;
        let line = |entry: &Entry| format!("\t{:<24} {:>12}  {}\n", entry.name, entry.value, entry.sentence);
        let steered = steered(ctl.host).map(|steered| steered.iter().map(line).collect::<String>());
        format!(
            "{}\nThreads: {wakeups} wakeups, {sleeps} sleeps, {lost} frames lost, {restarts} restarts\n\
             Switches: {overtaken} frames at most came behind others of their flows\n{}",
            snapshot.text(),
            steered.map(|lines| format!("Steered to stacks:\n{lines}")).unwrap_or_default()
        )
    };
    ctl.listing(|| to_json(ctl), text)
}

/// Returns the counters of the dispatcher, if the host is a stack of a split host.
fn steered<L: Locks>(host: &Host<L>) -> Option<Vec<Entry>> {
    let seat = host.isr.as_ref()?.seat.as_ref()?;
    Some(split::entries(&seat.steered, &seat.strays))
}

fn to_json<L: Locks>(ctl: &Ctl<'_, L>) -> Value {
    let snapshot = isr::snapshot(ctl.host);
    let steered = steered(ctl.host)
        .map(|entries| entries.into_iter().map(|entry| (entry.name, Value::from(entry.value))).collect::<Map<_, _>>());
    let Settings { threads, max_threads, default_qlimit, max_qlimit, mode, bound } = snapshot.settings;
    let protocol = |row: &ProtocolRow| {
        json!({
            "name": row.name, "protocol": row.number, "queue-limit": row.qlimit, "policy": row.policy.name(),
            "dispatch": row.dispatch_word(), "flags": row.flags(), "overtaken": row.overtaken,
        })
    };
    let work = |row: &WorkRow| {
        json!({
            "workstream": row.workstream, "cpu": row.cpu, "name": row.name, "length": row.len,
            "watermark": row.watermark, "dispatched": row.dispatched, "hybrid-dispatched": row.hybrid_dispatched,
            "queue-drops": row.qdrops, "queued": row.queued, "handled": row.handled, "lost": row.lost,
        })
    };
    json!({
        "threads": threads, "max-threads": max_threads, "default-queue-limit": default_qlimit,
        "max-queue-limit": max_qlimit, "dispatch-policy": mode.name(), "bound": bound,
        "protocols": snapshot.protocols.iter().map(protocol).collect::<Vec<_>>(),
        "workstreams": snapshot.work.iter().map(work).collect::<Vec<_>>(),
        "wakeups": snapshot.wakeups, "sleeps": snapshot.sleeps, "restarts": snapshot.restarts, "steered": steered,
    })
}
