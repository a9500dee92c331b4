//! `sysctl`: settings of the stack, and read-only values that are set when the host is created.

use super::context::Ctl;
use super::isr;
use crate::Host;
use dispatch::netisr::Settings;
use grammar::{CommandError, Form, Words, parse};
use inet::sysctls::Sysctls;
use lock::{Locks, Up};
use serde_json::{Map, Value};
use stats::SysctlInfo;

/// BSD's sysctl for the congestion control of new connections, whose values are names. The sysctl
/// `net.inet.tcp.cc.cubic` has the same setting as a number.
const ALGORITHM: &str = "net.inet.tcp.cc.algorithm";
const ALGORITHMS: &[&str] = &["newreno", "cubic"];

/// A sysctl that can only be read.
struct Fixed<L: Locks> {
    name: &'static str,
    about: &'static str,
    value: fn(&Host<L>) -> Value,
}

impl<L: Locks> Fixed<L> {
    const ALL: &[Fixed<L>] = &[
        Fixed {
            name: "hw.ncpu",
            about: "Number of CPU cores available to the process.",
            value: |_| dispatch::cores().into(),
        },
        Fixed {
            name: "kern.burst",
            about: "Maximum number of frames received from a port at once.",
            value: |host| host.burst().into(),
        },
        Fixed {
            name: "kern.clock",
            about: "Source of the time: timespec, timespec-tsc, ns or tsc.",
            value: |host| host.clock.strategy().map_or("simulated".to_string(), |s| s.to_string()).into(),
        },
        Fixed {
            name: "kern.context",
            about: "Method by which code finds the context of the running thread: register, inline or call.",
            value: |host| host.context().to_string().into(),
        },
        Fixed { name: "kern.hostname", about: "Name of the host.", value: |host| host.stack.name.as_str().into() },
        Fixed {
            name: "kern.locks",
            about: "Kind of locks: up (single-threaded), light (compare-and-swap) or heavy (semaphore).",
            value: |_| L::NAME.into(),
        },
        Fixed {
            name: "kern.pool.buffers",
            about: "Number of buffers in the pool.",
            value: |host| host.stack.pool.stats().buffers.into(),
        },
        Fixed {
            name: "kern.pool.kind",
            about: "Storage of the pool's free buffers: stack, freelist, zone or malloc.",
            value: |host| host.stack.pool.stats().kind.to_string().into(),
        },
        Fixed {
            name: "net.isr.bindthreads",
            about: "1 if each netisr thread is pinned to a CPU core, otherwise 0.",
            value: |host| u8::from(netisr(host).bound).into(),
        },
        Fixed {
            name: "net.isr.maxprot",
            about: "Maximum number of netisr protocols.",
            value: |_| dispatch::netisr::PROTOCOLS_MAX.into(),
        },
        Fixed {
            name: "net.isr.maxqlimit",
            about: "Maximum value of the queue limits of netisr, in frames.",
            value: |host| netisr(host).max_qlimit.into(),
        },
        Fixed {
            name: "net.isr.maxthreads",
            about: "Maximum number of netisr workstreams.",
            value: |host| netisr(host).max_threads.into(),
        },
        Fixed {
            name: "net.isr.numthreads",
            about: "Number of netisr workstreams.",
            value: |host| netisr(host).threads.into(),
        },
    ];

    fn named(name: &str) -> Option<&'static Fixed<L>> {
        Fixed::ALL.iter().find(|fixed| fixed.name == name)
    }
}

fn netisr<L: Locks>(host: &Host<L>) -> Settings {
    crate::isr::snapshot(host).settings
}

/// Object whose values `sysctl` reads and sets: a host or a switch.
pub(crate) trait Variables {
    /// Returns the names of all sysctls, in order.
    fn names(&self) -> Vec<String>;
    /// Returns the description of the sysctl `name`.
    fn sentence(&self, name: &str) -> String;
    /// Returns the value of the sysctl `name`.
    fn value(&self, name: &str) -> Value;
    /// Sets the sysctl `name` to the value in `text`.
    fn set(&self, name: &str, text: &str) -> Result<(), CommandError>;
}

/// Forms of `sysctl`.
pub(crate) const FORMS: &[Form<()>] = &[
    Form { grammar: "[-n] [-d] -a,-A", about: "List all sysctls; -n prints values only, -d descriptions.", run: () },
    Form { grammar: "[-n] [-d] NAME...", about: "Show sysctls by name, or all sysctls below a name.", run: () },
    Form { grammar: "[-n] [-w] NAME=VALUE...", about: "Set sysctls.", run: () },
];

const OPTIONS: &[Form<()>] = &[Form { grammar: "[-n] [-d] [-w,-q] [-a,-A]", about: "", run: () }];

/// Runs `sysctl` on `of`.
pub(crate) fn run(of: &dyn Variables, json: bool, mut words: Words<'_>) -> Result<String, CommandError> {
    let (_, options) = parse(OPTIONS, &mut words)?;
    let form = match () {
        () if options.has("-d") => Shown::Sentence,
        () if options.has("-n") => Shown::Value,
        () => Shown::NameValue,
    };
    if options.has("-a") {
        words.end()?;
        return Ok(show(of, json, &of.names(), form));
    }
    if let Some(option) = words.peek().filter(|word| word.starts_with('-')) {
        return Err(CommandError::unknown("option", option, ["-a", "-w", "-n", "-d"].into_iter()));
    }
    let mut out = String::new();
    let mut shown: Vec<String> = Vec::new();
    let mut word = words.next("-a, NAME or NAME=VALUE")?;
    loop {
        match word.split_once('=') {
            Some((name, value)) => out += &set(of, name.trim(), value.trim(), form)?,
            None => shown.extend(under(of, word)?),
        }
        let Some(next) = words.take() else { break };
        word = next;
    }
    if !shown.is_empty() {
        out += &show(of, json, &shown, form);
    }
    Ok(out)
}

/// Parts that are printed of each sysctl.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Shown {
    NameValue,
    Value,
    Sentence,
}

/// Returns the name itself if it is a sysctl, otherwise the names of all sysctls below it.
fn under(of: &dyn Variables, word: &str) -> Result<Vec<String>, CommandError> {
    let word = word.trim_end_matches('.');
    let below = |name: &&String| name.strip_prefix(word).is_some_and(|rest| rest.is_empty() || rest.starts_with('.'));
    let names = of.names();
    let found: Vec<String> = names.iter().filter(below).cloned().collect();
    let all = names.iter().map(String::as_str);
    if found.is_empty() { Err(CommandError::unknown("sysctl", word, all)) } else { Ok(found) }
}

fn show(of: &dyn Variables, json: bool, names: &[String], form: Shown) -> String {
    let value = |name: &str| if form == Shown::Sentence { of.sentence(name).into() } else { of.value(name) };
    if json {
        let all = names.iter().map(|name| (name.clone(), value(name))).collect::<Map<_, _>>();
        return format!("{}\n", Value::Object(all));
    }
    let line = |name: &String| {
        let value = plain_text(value(name));
        if form == Shown::Value { format!("{value}\n") } else { format!("{name}: {value}\n") }
    };
    names.iter().map(line).collect()
}

fn plain_text(value: Value) -> String {
    match value {
        Value::String(text) => text,
        other => other.to_string(),
    }
}

fn set(of: &dyn Variables, name: &str, text: &str, form: Shown) -> Result<String, CommandError> {
    let before = plain_text(of.value(name));
    of.set(name, text)?;
    let after = plain_text(of.value(name));
    Ok(if form == Shown::Value { format!("{after}\n") } else { format!("{name}: {before} -> {after}\n") })
}

impl<L: Locks> Variables for Ctl<'_, L> {
    fn names(&self) -> Vec<String> {
        names().map(str::to_string).collect()
    }

    fn sentence(&self, name: &str) -> String {
        if name == ALGORITHM {
            return format!("Congestion control of new TCP connections: {}.", ALGORITHMS.join(" or "));
        }
        if let Some(sentence) = isr::sentence(name) {
            return sentence.to_string();
        }
        let fixed = Fixed::<L>::named(name).map(|fixed| format!("{} Read only.", fixed.about));
        fixed.or_else(|| Sysctls::INFO.iter().find(|info| info.name == name).map(describe)).unwrap_or_default()
    }

    fn value(&self, name: &str) -> Value {
        let host = self.host;
        if name == ALGORITHM {
            return ALGORITHMS.get(usize::from(host.stack.sysctls.tcp_cc_cubic.on())).copied().into();
        }
        let fixed = Fixed::<L>::named(name).map(|fixed| (fixed.value)(host));
        fixed.or_else(|| isr::value(host, name)).unwrap_or_else(|| host.stack.sysctls.get(name).into())
    }

    fn set(&self, name: &str, text: &str) -> Result<(), CommandError> {
        if Fixed::<L>::named(name).is_some() {
            return Err(CommandError::failed(format!("{name}: read only: set when the host is created")));
        }
        let value = check(name, text)?;
        let netisr = self.host.isr.as_ref().map(|isr| isr.netisr.as_ref());
        isr::set(netisr, name, value).map_err(|why| CommandError::failed(why.to_string()))?;
        apply(&self.host.stack.sysctls, name, value);
        Ok(())
    }
}

/// Returns a setting's description, range and default.
pub(crate) fn describe(info: &SysctlInfo) -> String {
    format!("{} {} to {}, default {}.", info.sentence, info.min, info.max, info.default)
}

/// Returns the names of all sysctls of a host, in order.
pub(crate) fn names() -> impl Iterator<Item = &'static str> {
    let mut all: Vec<&'static str> = Sysctls::INFO.iter().map(|info| info.name).collect();
    all.extend(Fixed::<Up>::ALL.iter().map(|fixed| fixed.name).chain([ALGORITHM]).chain(isr::names()));
    all.sort_unstable();
    all.into_iter()
}

/// Parses `text` as a value of the sysctl `name` and checks it. Also used for configuration files
/// and flags.
pub(crate) fn check(name: &str, text: &str) -> Result<i64, CommandError> {
    if name == ALGORITHM {
        let asked = if text == "reno" { "newreno" } else { text }; // Linux's name
        let at = ALGORITHMS.iter().position(|word| *word == asked);
        return at.map(|at| at as i64).ok_or_else(|| CommandError::bad(name, text, ALGORITHMS.join(" or ")));
    }
    if let Some(checked) = isr::check(name, text) {
        return checked;
    }
    let info = Sysctls::INFO.iter().find(|info| info.name == name);
    in_range(info.ok_or_else(|| CommandError::unknown("sysctl", name, names()))?, text)
}

/// Returns every sysctl accepted by [`check`], as (name, values, default, description).
pub(crate) fn documented() -> Vec<[String; 4]> {
    let own = Sysctls::INFO.iter().map(|info| {
        let range = format!("integer, {} to {}", info.min, info.max);
        [info.name.to_string(), range, info.default.to_string(), info.sentence.to_string()]
    });
    let algorithm = "Congestion control of new connections.".to_string();
    let algorithm =
        [ALGORITHM.to_string(), format!("string, {}", ALGORITHMS.join(" or ")), "cubic".to_string(), algorithm];
    let isr = isr::names().map(|name| {
        let sentence = isr::sentence(name).unwrap_or_default().to_string();
        let (takes, default) = isr::takes(name).unwrap_or_default();
        [name.to_string(), takes.to_string(), default, sentence]
    });
    let mut all: Vec<[String; 4]> = own.chain([algorithm]).chain(isr).collect();
    all.sort();
    all
}

/// Parses `text` as a number in the range of the sysctl.
pub(crate) fn in_range(info: &SysctlInfo, text: &str) -> Result<i64, CommandError> {
    let SysctlInfo { name, min, max, .. } = *info;
    let number = match text {
        "on" | "true" if (min, max) == (0, 1) => Some(1),
        "off" | "false" if (min, max) == (0, 1) => Some(0),
        text => text.parse().ok(),
    };
    let number = number.filter(|n| (min..=max).contains(n));
    number.ok_or_else(|| CommandError::bad(name, text, format!("a number from {min} to {max}")))
}

/// Checks a number for the sysctl `name`, as [`check`] would return it. Used for configurations
/// that were not parsed from text.
pub(crate) fn check_number(name: &str, value: i64) -> Result<(), CommandError> {
    if name == ALGORITHM {
        let known = usize::try_from(value).is_ok_and(|at| at < ALGORITHMS.len());
        return known.then_some(()).ok_or_else(|| CommandError::bad(name, &value.to_string(), ALGORITHMS.join(" or ")));
    }
    if isr::names().any(|known| known == name) {
        return Ok(()); // checked when netisr is created
    }
    check(name, &value.to_string()).map(drop)
}

/// Sets a value accepted by [`check`].
pub(crate) fn apply(sysctls: &Sysctls, name: &str, value: i64) {
    let name = if name == ALGORITHM { "net.inet.tcp.cc.cubic" } else { name };
    let _ = sysctls.set(name, value); // cannot fail: checked before
}
