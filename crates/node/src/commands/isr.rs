//! Sysctls and tables of netisr: `sysctl net.isr`, `netstat -Q`, `show isr`.

use super::context::Ctl;
use crate::Host;
use crate::isr::{self, IsrError, Received};
use crate::split;
use dispatch::netisr::{Mode, Netisr, NetisrError, Policy, ProtocolRow, Settings, WorkRow};
use grammar::CommandError;
use lock::Locks;
use serde_json::{Map, Value, json};
use stats::Entry;

/// Setting of netisr that a sysctl reads and sets.
#[derive(Clone, Copy)]
enum Setting {
    /// Dispatch mode of protocols that have no mode of their own.
    Mode,
    /// The same mode as a switch: direct or not.
    Direct,
    /// Queue limit of protocols that have no limit of their own.
    Limit,
    /// Dispatch mode of a protocol.
    OwnMode(&'static str),
    /// Policy of a protocol.
    Policy(&'static str),
    /// Queue limit of a protocol.
    OwnLimit(&'static str),
}

/// The sysctls that can be set, as (name, setting, description).
const SYSCTLS: &[(&str, Setting, &str)] = &[
    (
        "net.isr.dispatch",
        Setting::Mode,
        "Dispatch of received frames: direct (processed at once), deferred (queued for a workstream) or hybrid (at once \
         if the workstream is idle).",
    ),
    (
        "net.isr.direct",
        Setting::Direct,
        "1 if dispatch is direct, 0 if it is hybrid or deferred. Setting 0 changes direct to deferred.",
    ),
    ("net.isr.enable", Setting::Direct, "Same as net.isr.direct (older name)."),
    ("net.isr.defaultqlimit", Setting::Limit, "Maximum number of frames of a protocol queued for a workstream."),
    ("net.isr.proto.ip.dispatch", Setting::OwnMode("ip"), "Dispatch of IPv4: default, direct, hybrid or deferred."),
    (
        "net.isr.proto.ip.policy",
        Setting::Policy("ip"),
        "Choice of the workstream for IPv4: source (by port), flow, or cpu (by RSS hash; in a split host by peer address).",
    ),
    ("net.isr.proto.ip.qlimit", Setting::OwnLimit("ip"), "Maximum number of IPv4 frames queued for a workstream."),
    ("net.isr.proto.arp.dispatch", Setting::OwnMode("arp"), "Dispatch of ARP: default, direct, hybrid or deferred."),
    ("net.isr.proto.arp.policy", Setting::Policy("arp"), "Choice of the workstream for ARP: source (by port) or flow."),
    ("net.isr.proto.arp.qlimit", Setting::OwnLimit("arp"), "Maximum number of ARP frames queued for a workstream."),
    (
        "net.isr.proto.ether.dispatch",
        Setting::OwnMode("ether"),
        "Dispatch of frames of other protocols: default, direct, hybrid or deferred.",
    ),
    (
        "net.isr.proto.ether.policy",
        Setting::Policy("ether"),
        "Choice of the workstream for frames of other protocols: source (by port) or flow.",
    ),
    (
        "net.isr.proto.ether.qlimit",
        Setting::OwnLimit("ether"),
        "Maximum number of frames of other protocols queued for a workstream.",
    ),
    ("net.isr.proto.ip6.dispatch", Setting::OwnMode("ip6"), "Dispatch of IPv6: default, direct, hybrid or deferred."),
    (
        "net.isr.proto.ip6.policy",
        Setting::Policy("ip6"),
        "Choice of the workstream for IPv6: source (by port), flow, or cpu (by RSS hash; in a split host by peer address).",
    ),
    ("net.isr.proto.ip6.qlimit", Setting::OwnLimit("ip6"), "Maximum number of IPv6 frames queued for a workstream."),
];

pub(super) fn names() -> impl Iterator<Item = &'static str> {
    SYSCTLS.iter().map(|(name, ..)| *name)
}

/// Returns the description of the sysctl `name`; `None` if it does not belong to netisr.
pub(super) fn sentence(name: &str) -> Option<&'static str> {
    SYSCTLS.iter().find(|(known, ..)| *known == name).map(|(.., sentence)| *sentence)
}

/// Returns the type with the range, and the default, of the sysctl `name`; `None` if it does not
/// belong to netisr.
pub(super) fn takes(name: &str) -> Option<(&'static str, String)> {
    let policy = Policy::default().name().to_string();
    Some(match setting(name)? {
        Setting::Mode => ("string: direct, hybrid or deferred", Mode::default().name().to_string()),
        Setting::Direct => ("integer, 0 to 1", u8::from(Mode::default() == Mode::Direct).to_string()),
        Setting::OwnMode(_) => ("string: default, direct, hybrid or deferred", "default".to_string()),
        Setting::Policy("ip" | "ip6") => ("string: source, flow or cpu", policy),
        Setting::Policy(_) => ("string: source or flow", policy),
        Setting::Limit | Setting::OwnLimit(_) => {
            ("integer, 0 to net.isr.maxqlimit", dispatch::netisr::QLIMIT_DEFAULT.to_string())
        }
    })
}

fn setting(name: &str) -> Option<Setting> {
    SYSCTLS.iter().find(|(known, ..)| *known == name).map(|(_, setting, _)| *setting)
}

/// Parses `text` as a value of the sysctl `name`; `None` if it does not belong to netisr. The
/// result is the number of a mode or policy, or the number itself.
pub(super) fn check(name: &str, text: &str) -> Option<Result<i64, CommandError>> {
    let bad = |why: NetisrError| {
        // `CommandError` adds the value and the word 'expected' to this text.
        let expected = match why {
            NetisrError::UnknownMode(_) => Mode::WORDS.to_string(),
            NetisrError::UnknownPolicy(_) => Policy::WORDS.to_string(),
            other => other.to_string(),
        };
        CommandError::bad(name, text, expected)
    };
    Some(match setting(name)? {
        Setting::Mode => text.parse::<Mode>().map(|mode| i64::from(mode.number())).map_err(bad),
        Setting::OwnMode(_) => Mode::own(text).map(|mode| mode.map_or(0, |mode| i64::from(mode.number()))).map_err(bad),
        Setting::Policy(_) => text.parse::<Policy>().map(|policy| i64::from(policy.number())).map_err(bad),
        Setting::Direct => match text {
            "1" | "on" | "true" => Ok(1),
            "0" | "off" | "false" => Ok(0),
            _ => Err(CommandError::bad(name, text, "0 or 1".to_string())),
        },
        Setting::Limit | Setting::OwnLimit(_) => {
            let number = text.parse().ok().filter(|n| (0..=i64::from(u32::MAX)).contains(n));
            number.ok_or_else(|| CommandError::bad(name, text, "a number of frames".to_string()))
        }
    })
}

/// Sets a sysctl to a value accepted by [`check`]. A name outside netisr is ignored. Without
/// netisr, all dispatch is direct, and only the value for direct dispatch is accepted.
pub(crate) fn set(netisr: Option<&Netisr<Received>>, name: &str, value: i64) -> Result<(), IsrError> {
    let Some(about) = setting(name) else { return Ok(()) };
    let asked = u8::try_from(value).ok();
    let mode = asked.and_then(Mode::of);
    let Some(netisr) = netisr else {
        let is_so = match about {
            Setting::Mode => mode == Some(Mode::Direct),
            Setting::Direct => value == 1,
            _ => false,
        };
        return if is_so { Ok(()) } else { Err(IsrError::None(name.to_string())) };
    };
    let limit = usize::try_from(value).unwrap_or(usize::MAX);
    let asks = match about {
        Setting::Mode | Setting::OwnMode(_) => mode,
        Setting::Direct if value == 1 => Some(Mode::Direct),
        _ => None,
    };
    asks.map_or(Ok(()), |mode| netisr.check_mode(mode))?;
    match about {
        Setting::Mode => netisr.set_mode(mode.unwrap_or_default()),
        Setting::Direct if value == 1 => netisr.set_mode(Mode::Direct),
        Setting::Direct if netisr.mode() == Mode::Direct => netisr.set_mode(Mode::Deferred),
        Setting::Direct => {}
        Setting::Limit => netisr.set_default_qlimit(limit)?,
        Setting::OwnMode(protocol) => netisr.set_own_mode(netisr.protocol(protocol)?, mode),
        Setting::Policy(protocol) => {
            netisr.set_policy(netisr.protocol(protocol)?, asked.and_then(Policy::of).unwrap_or_default())?;
        }
        Setting::OwnLimit(protocol) => netisr.set_qlimit(netisr.protocol(protocol)?, limit)?,
    }
    Ok(())
}

/// Returns the value of the netisr sysctl `name`; `None` if there is none of this name.
pub(super) fn value<L: Locks>(host: &Host<L>, name: &str) -> Option<Value> {
    let settings = || isr::snapshot(host).settings;
    let of = |protocol: &str, pick: fn(&ProtocolRow) -> Value| {
        isr::snapshot(host).protocols.iter().find(|row| row.name == protocol).map(pick)
    };
    match setting(name)? {
        Setting::Mode => Some(settings().mode.name().into()),
        Setting::Direct => Some(u8::from(settings().mode == Mode::Direct).into()),
        Setting::Limit => Some(settings().default_qlimit.into()),
        Setting::OwnMode(protocol) => of(protocol, |row| row.dispatch_word().into()),
        Setting::Policy(protocol) => of(protocol, |row| row.policy.name().into()),
        Setting::OwnLimit(protocol) => of(protocol, |row| row.qlimit.into()),
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
        let dispatched = dispatched(ctl.host).map(|dispatched| dispatched.iter().map(line).collect::<String>());
        format!(
            "{}\nThreads: {wakeups} wakeups, {sleeps} sleeps, {lost} frames lost, {restarts} restarts\n\
             Switches: {overtaken} frames at most came behind others of their flows\n{}",
            snapshot.text(),
            dispatched.map(|lines| format!("Dispatched to stacks:\n{lines}")).unwrap_or_default()
        )
    };
    ctl.listing(|| to_json(ctl), text)
}

/// Returns the counters of the dispatcher, if the host is a stack of a split host.
fn dispatched<L: Locks>(host: &Host<L>) -> Option<Vec<Entry>> {
    let shard = host.isr.as_ref()?.shard.as_ref()?;
    Some(split::entries(&shard.dispatched, &shard.strays))
}

fn to_json<L: Locks>(ctl: &Ctl<'_, L>) -> Value {
    let snapshot = isr::snapshot(ctl.host);
    let dispatched = dispatched(ctl.host)
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
        "wakeups": snapshot.wakeups, "sleeps": snapshot.sleeps, "restarts": snapshot.restarts, "dispatched": dispatched,
    })
}
