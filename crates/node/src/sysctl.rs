//! Sysctls of a host: their names, descriptions, and checks of their values.
//!
//! These need no running host, so that configurations can be checked. The command `sysctl` reads
//! and sets the values.

use crate::isr::sysctl as isr;
use grammar::CommandError;
use inet::sysctls::Sysctls;
use stats::SysctlInfo;
use std::collections::BTreeMap;

/// BSD's sysctl for the congestion control of new connections, whose values are names. The sysctl
/// `net.inet.tcp.cc.cubic` has the same setting as a number.
pub const ALGORITHM: &str = "net.inet.tcp.cc.algorithm";
/// The number that [`ALGORITHM`] sets.
const CUBIC: &str = "net.inet.tcp.cc.cubic";
pub const ALGORITHMS: &[&str] = &["newreno", "cubic"];

/// Sysctls that can only be read, as (name, description).
pub const FIXED: &[(&str, &str)] = &[
    ("hw.ncpu", "Number of CPU cores available to the process."),
    ("kern.burst", "Maximum number of frames received from a port at once."),
    ("kern.clock", "Source of the time: timespec, timespec-tsc, ns or tsc."),
    ("kern.context", "Method by which code finds the context of the running thread: register, inline or call."),
    ("kern.hostname", "Name of the host."),
    ("kern.locks", "Kind of locks: up (single-threaded), light (compare-and-swap) or heavy (semaphore)."),
    ("kern.pool.buffers", "Number of buffers in the pool."),
    ("kern.pool.kind", "Storage of the pool's free buffers: stack, freelist, zone or malloc."),
    ("net.isr.bindthreads", "1 if each netisr thread is pinned to a CPU core, otherwise 0."),
    ("net.isr.maxprot", "Maximum number of netisr protocols."),
    ("net.isr.maxqlimit", "Maximum value of the queue limits of netisr, in frames."),
    ("net.isr.maxthreads", "Maximum number of netisr workstreams."),
    ("net.isr.numthreads", "Number of netisr workstreams."),
];

/// Returns the names of all sysctls of a host, in order.
pub fn names() -> impl Iterator<Item = &'static str> {
    let mut all: Vec<&'static str> = Sysctls::INFO.iter().map(|info| info.name).collect();
    all.extend(FIXED.iter().map(|(name, _)| *name).chain([ALGORITHM]).chain(isr::names()));
    all.sort_unstable();
    all.into_iter()
}

/// Returns a setting's description, range and default.
pub fn describe(info: &SysctlInfo) -> String {
    format!("{} {} to {}, default {}.", info.sentence, info.min, info.max, info.default)
}

/// Parses `text` as a value of the sysctl `name` and checks it. Also used for configuration files
/// and flags.
pub fn check(name: &str, text: &str) -> Result<i64, CommandError> {
    if name == ALGORITHM {
        let requested = if text == "reno" { "newreno" } else { text }; // Linux's name
        let at = ALGORITHMS.iter().position(|word| *word == requested);
        return at.map(|at| at as i64).ok_or_else(|| CommandError::bad(name, text, ALGORITHMS.join(" or ")));
    }
    if let Some(checked) = isr::check(name, text) {
        return checked;
    }
    let info = Sysctls::INFO.iter().find(|info| info.name == name);
    in_range(info.ok_or_else(|| CommandError::unknown("sysctl", name, names()))?, text)
}

/// Parses `text` as a number in the range of the sysctl.
pub fn in_range(info: &SysctlInfo, text: &str) -> Result<i64, CommandError> {
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

/// Returns sysctls with the same values, in which those with two names have the name that
/// [`Sysctls::INFO`] has.
pub(crate) fn canonical(values: &BTreeMap<String, i64>) -> BTreeMap<String, i64> {
    let name = |name: &String| if name == ALGORITHM { CUBIC.to_string() } else { name.clone() };
    values.iter().map(|(of, value)| (name(of), *value)).collect()
}

/// Returns the word for a value of a sysctl whose values are words; `None` for other sysctls.
pub(crate) fn word_of(name: &str, value: i64) -> Option<&'static str> {
    if check(name, &value.to_string()).is_ok() {
        return None;
    }
    let mut words = ALGORITHMS.iter().chain(isr::WORDS);
    words.find(|word| check(name, word).is_ok_and(|of| of == value)).copied()
}

/// Returns the default of a sysctl that can change while the host runs; `None` for others.
pub(crate) fn default_of(name: &str) -> Option<i64> {
    Sysctls::INFO.iter().find(|info| info.name == name).map(|info| info.default)
}

/// Sets a value accepted by [`check`].
pub fn apply(sysctls: &Sysctls, name: &str, value: i64) {
    let name = if name == ALGORITHM { CUBIC } else { name };
    let _ = sysctls.set(name, value); // cannot fail: checked before
}
