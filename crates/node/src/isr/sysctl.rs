//! Sysctls of netisr: their names, descriptions and values.

use super::error::IsrError;
use super::protocols::Received;
use dispatch::netisr::{Mode, Netisr, NetisrError, Policy, ProtocolRow, Snapshot};
use grammar::CommandError;

/// Setting of netisr that a sysctl reads and sets.
#[derive(Clone, Copy)]
enum Setting {
    /// Dispatch mode of protocols that have no mode of their own.
    Mode,
    /// The same mode as [`Setting::Mode`], as an on/off value: direct dispatch or not.
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

/// Words of all modes and policies.
pub const WORDS: &[&str] = &["default", "direct", "hybrid", "deferred", "source", "flow", "cpu"];

pub fn names() -> impl Iterator<Item = &'static str> {
    SYSCTLS.iter().map(|(name, ..)| *name)
}

/// Returns the description of the sysctl `name`; `None` if it does not belong to netisr.
pub fn sentence(name: &str) -> Option<&'static str> {
    SYSCTLS.iter().find(|(known, ..)| *known == name).map(|(.., sentence)| *sentence)
}

/// Returns the type with the range, and the default, of the sysctl `name`; `None` if it does not
/// belong to netisr.
pub fn takes(name: &str) -> Option<(&'static str, String)> {
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
/// result is the number that stands for a mode or policy, or the parsed number.
pub fn check(name: &str, text: &str) -> Option<Result<i64, CommandError>> {
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

/// Sets a sysctl to a value accepted by [`check`]. A name outside netisr is ignored. On a host
/// without netisr, all dispatch is direct, so only the value for direct dispatch is accepted.
pub(crate) fn set(netisr: Option<&Netisr<Received>>, name: &str, value: i64) -> Result<(), IsrError> {
    let Some(about) = setting(name) else { return Ok(()) };
    let requested = u8::try_from(value).ok();
    let mode = requested.and_then(Mode::of);
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
            netisr.set_policy(netisr.protocol(protocol)?, requested.and_then(Policy::of).unwrap_or_default())?;
        }
        Setting::OwnLimit(protocol) => netisr.set_qlimit(netisr.protocol(protocol)?, limit)?,
    }
    Ok(())
}

/// Value of a sysctl of netisr.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Value {
    /// A number, such as the limit of a queue.
    Number(usize),
    /// The name of a mode or policy.
    Word(&'static str),
}

/// Returns the value of the netisr sysctl `name`; `None` if netisr has no such sysctl. `snapshot`
/// returns the data of `netstat -Q`, which contain the values.
pub fn value(name: &str, snapshot: impl FnOnce() -> Snapshot) -> Option<Value> {
    let setting = setting(name)?;
    let Snapshot { settings, protocols, .. } = snapshot();
    let of =
        |protocol: &str, pick: fn(&ProtocolRow) -> Value| protocols.iter().find(|row| row.name == protocol).map(pick);
    match setting {
        Setting::Mode => Some(Value::Word(settings.mode.name())),
        Setting::Direct => Some(Value::Number(usize::from(settings.mode == Mode::Direct))),
        Setting::Limit => Some(Value::Number(settings.default_qlimit)),
        Setting::OwnMode(protocol) => of(protocol, |row| Value::Word(row.dispatch_word())),
        Setting::Policy(protocol) => of(protocol, |row| Value::Word(row.policy.name())),
        Setting::OwnLimit(protocol) => of(protocol, |row| Value::Number(row.qlimit)),
    }
}
