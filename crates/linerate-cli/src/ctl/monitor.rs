//! `ip monitor`: prints lines of `ip -o link`, `ip -o addr`, `ip route` and `ip neigh` as they
//! appear and disappear. The lists are compared ten times a second: a change that is undone at once
//! is missed.

use crate::control::{PATIENCE, fault, printable};
use crate::exit::{Exit, Fault, print};
use anyhow::Context;
use node::control::Client;
use std::collections::HashSet;
use std::time::Duration;

/// Interval between two comparisons.
const LOOK: Duration = Duration::from_millis(100);
/// Objects that can be watched: the name, and the command that lists them.
const OBJECTS: &[(&str, &str)] =
    &[("link", "ip -o link"), ("address", "ip -o addr"), ("route", "ip route"), ("neigh", "ip neigh")];

/// A watched object and its lines at the last comparison.
struct Watched {
    words: Vec<String>,
    lines: Vec<String>,
}

type Object = (&'static str, &'static str);

/// A parsed `ip monitor`: the address family option, if given, and the objects to watch.
pub(super) struct Objects {
    family: Option<&'static str>,
    objects: Vec<Object>,
}

/// Parses `ip [-4|-6] [-o] monitor [all|link|address|route|neigh]...`; `None` for other commands.
pub(super) fn requested(words: &[String]) -> Option<anyhow::Result<Objects>> {
    let (ip, rest) = words.split_first()?;
    let (mut family, mut options) = (None, 0);
    for word in rest {
        match word.as_str() {
            "-4" => family = Some("-4"),
            "-6" => family = Some("-6"),
            "-o" | "-oneline" => {} // output is always in this form
            _ => break,
        }
        options += 1;
    }
    let (monitor, rest) = rest.get(options..)?.split_first()?;
    if ip != "ip" || !(monitor.len() >= 2 && "monitor".starts_with(monitor.as_str())) {
        return None;
    }
    let watch = |objects| Objects { family, objects };
    if rest.is_empty() || rest == ["all"] {
        return Some(Ok(watch(OBJECTS.to_vec())));
    }
    let named = |word: &String| {
        let found = OBJECTS.iter().find(|(name, _)| !word.is_empty() && name.starts_with(word.as_str())).copied();
        found.ok_or_else(|| {
            Fault::usage(format!("ip monitor: unknown object '{word}': expected all, link, address, route or neigh"))
        })
    };
    Some(rest.iter().map(named).collect::<anyhow::Result<_>>().map(watch))
}

/// Prints changes until Ctrl-C or until the host exits.
pub(super) fn run(client: &mut Client, requested: &Objects) -> anyhow::Result<Exit> {
    dispatch::install_stop_handler().context("cannot catch Ctrl-C")?;
    let mut list = |words: &[String]| -> anyhow::Result<Vec<String>> {
        let answer = client.request(words, false, PATIENCE).map_err(fault)?;
        anyhow::ensure!(answer.ok, "{}", answer.text.trim_end());
        Ok(answer.text.lines().map(|line| printable(line.trim_end()).into_owned()).collect())
    };
    let mut all = Vec::new();
    for (_, words) in &requested.objects {
        let mut words: Vec<String> = words.split(' ').map(str::to_string).collect();
        if let Some(family) = requested.family {
            words.insert(1, family.to_string());
        }
        let lines = list(&words)?;
        all.push(Watched { words, lines });
    }
    while !dispatch::stop_requested() {
        std::thread::sleep(LOOK);
        let mut out = String::new();
        for Watched { words, lines } in &mut all {
            let now = list(words)?;
            if now != *lines {
                out += &changes(lines, &now);
                *lines = now;
            }
        }
        if !out.is_empty() {
            print(&out)?;
        }
    }
    Ok(Exit::Fine)
}

/// Returns the lines that disappeared, marked as deleted, and the new ones. A changed line is
/// reported in its new form only.
fn changes(before: &[String], now: &[String]) -> String {
    let [old, new, named] = [
        before.iter().map(String::as_str).collect::<HashSet<_>>(),
        now.iter().map(String::as_str).collect(),
        now.iter().map(|line| about(line)).collect(),
    ];
    let gone = before.iter().filter(|line| !new.contains(line.as_str()) && !named.contains(about(line)));
    let come = now.iter().filter(|line| !old.contains(line.as_str()));
    gone.map(|line| format!("Deleted {line}\n")).chain(come.map(|line| format!("{line}\n"))).collect()
}

/// Returns the beginning of a line, which identifies its object.
fn about(line: &str) -> &str {
    let before_state = line.split(" state ").next().unwrap_or_default();
    before_state.split('<').next().unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::{changes, requested};

    #[test]
    fn options_stand_before_the_object() {
        let parsed = |text: &str| {
            let words: Vec<String> = text.split(' ').map(str::to_string).collect();
            requested(&words)
                .map(|parsed| parsed.map(|watch| (watch.family, watch.objects.len())).map_err(|why| why.to_string()))
        };
        for (text, family, objects) in
            [("ip monitor", None, 4), ("ip -o mon all", None, 4), ("ip -6 -o monitor route neigh", Some("-6"), 2)]
        {
            assert_eq!(parsed(text), Some(Ok((family, objects))), "{text}");
        }
        assert!(parsed("ip monitor rule").unwrap().unwrap_err().contains("unknown object 'rule'"));
        assert!(parsed("ip addr").is_none() && parsed("ip -s monitor").is_none() && parsed("ss monitor").is_none());
    }

    #[test]
    fn added_deleted_and_changed_lines_are_printed() {
        let lines = |text: &str| text.lines().map(str::to_string).collect::<Vec<_>>();
        let before = lines("1: a: <UP> mtu 1500 state UP\n2: b: <UP> state UP\n10.0.0.1 dev a");
        let now = lines("1: a: <> mtu 1500 state DOWN\n10.0.0.1 dev a\n10.0.0.2 dev a");
        let expected = "Deleted 2: b: <UP> state UP\n1: a: <> mtu 1500 state DOWN\n10.0.0.2 dev a\n";
        assert_eq!(changes(&before, &now), expected);
        assert_eq!(changes(&now, &now), "");
    }
}
