//! `sysctl`: settings of the stack, and read-only values that are set when the host is created.
//! Hosts and bridges share this command; [`Variables`] hides the difference between their values.

use crate::host::context::Ctl;
use dispatch::netisr::Settings;
use grammar::{CommandError, Form, Words, parse};
use inet::sysctls::Sysctls;
use lock::Locks;
use node::Host;
use node::isr::{snapshot, sysctl as isr};
use node::sysctl::{ALGORITHM, ALGORITHMS, FIXED, apply, check, describe, names};
use serde_json::{Map, Value};

/// Returns the value of the read-only sysctl `name`; `None` if `name` is not in [`FIXED`].
fn fixed<L: Locks>(host: &Host<L>, name: &str) -> Option<Value> {
    Some(match name {
        "hw.ncpu" => dispatch::cores().into(),
        "kern.burst" => host.burst().into(),
        "kern.clock" => host.clock.strategy().map_or("simulated".to_string(), |s| s.to_string()).into(),
        "kern.context" => host.context().to_string().into(),
        "kern.hostname" => host.stack.name.as_str().into(),
        "kern.locks" => L::NAME.into(),
        "kern.pool.buffers" => host.stack.pool.stats().buffers.into(),
        "kern.pool.kind" => host.stack.pool.stats().kind.to_string().into(),
        "net.isr.bindthreads" => u8::from(netisr(host).bound).into(),
        "net.isr.maxprot" => dispatch::netisr::PROTOCOLS_MAX.into(),
        "net.isr.maxqlimit" => netisr(host).max_qlimit.into(),
        "net.isr.maxthreads" => netisr(host).max_threads.into(),
        "net.isr.numthreads" => netisr(host).threads.into(),
        _ => return None,
    })
}

fn netisr<L: Locks>(host: &Host<L>) -> Settings {
    snapshot(host).settings
}

/// Host or switch whose values `sysctl` reads and sets.
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

/// Syntax forms of `sysctl`.
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

/// Parts of each sysctl that are printed.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Shown {
    NameValue,
    Value,
    Sentence,
}

/// Returns `word` itself if it is the name of a sysctl, otherwise the names of all sysctls below it
/// in the hierarchy.
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
        let fixed = FIXED.iter().find(|(fixed, _)| *fixed == name).map(|(_, about)| format!("{about} Read only."));
        fixed.or_else(|| Sysctls::INFO.iter().find(|info| info.name == name).map(describe)).unwrap_or_default()
    }

    fn value(&self, name: &str) -> Value {
        let host = self.host;
        if name == ALGORITHM {
            return ALGORITHMS.get(usize::from(host.stack.sysctls.tcp_cc_cubic.on())).copied().into();
        }
        let of_isr = || {
            isr::value(name, || snapshot(host)).map(|value| match value {
                isr::Value::Number(number) => number.into(),
                isr::Value::Word(word) => word.into(),
            })
        };
        let fixed = fixed(host, name).or_else(of_isr);
        fixed.unwrap_or_else(|| host.stack.sysctls.get(name).into())
    }

    fn set(&self, name: &str, text: &str) -> Result<(), CommandError> {
        if FIXED.iter().any(|(fixed, _)| *fixed == name) {
            return Err(CommandError::failed(format!("{name}: read only: set when the host is created")));
        }
        let value = check(name, text)?;
        self.host.set_isr_sysctl(name, value).map_err(|why| CommandError::failed(why.to_string()))?;
        apply(&self.host.stack.sysctls, name, value);
        Ok(())
    }
}
