//! `ip monitor`: lines of `ip -o link`, `ip -o addr`, `ip route` and `ip neigh` that appear or vanish, as they
//! do. The lists are compared a few times a second: a change that is undone at once is not seen.

use super::{PATIENCE, fault, printable};
use crate::exit::{Exit, Fault, print};
use anyhow::Context;
use node::control::Client;
use std::time::Duration;

/// Time between two looks.
const LOOK: Duration = Duration::from_millis(100);
/// What can be watched: name, and the command that lists it.
const OBJECTS: &[(&str, &str)] =
    &[("link", "ip -o link"), ("address", "ip -o addr"), ("route", "ip route"), ("neigh", "ip neigh")];

/// An object that is watched, and its lines as they were.
struct Watched {
    words: Vec<String>,
    lines: Vec<String>,
}

type Object = (&'static str, &'static str);

/// Returns the objects of `ip monitor [all|link|address|route|neigh]...`; `None` for other commands.
pub(super) fn asked(words: &[String]) -> Option<anyhow::Result<Vec<Object>>> {
    let (ip, rest) = words.split_first()?;
    let (monitor, rest) = rest.split_first()?;
    if ip != "ip" || !(monitor.len() >= 2 && "monitor".starts_with(monitor.as_str())) {
        return None;
    }
    if rest.is_empty() || rest == ["all"] {
        return Some(Ok(OBJECTS.to_vec()));
    }
    let named = |word: &String| {
        let found = OBJECTS.iter().find(|(name, _)| !word.is_empty() && name.starts_with(word.as_str())).copied();
        found.ok_or_else(|| {
            Fault::usage(format!("ip monitor: unknown object '{word}': expected all, link, address, route or neigh"))
        })
    };
    Some(rest.iter().map(named).collect())
}

/// Prints changes until Ctrl-C, or until the host ends.
pub(super) fn run(client: &mut Client, objects: &[Object]) -> anyhow::Result<Exit> {
    dispatch::install_stop_handler().context("cannot catch Ctrl-C")?;
    let mut list = |words: &[String]| -> anyhow::Result<Vec<String>> {
        let answer = client.request(words, false, PATIENCE).map_err(fault)?;
        anyhow::ensure!(answer.ok, "{}", answer.text.trim_end());
        Ok(answer.text.lines().map(|line| printable(line.trim_end()).into_owned()).collect())
    };
    let mut all = Vec::new();
    for (_, words) in objects {
        let words: Vec<String> = words.split(' ').map(str::to_string).collect();
        let lines = list(&words)?;
        all.push(Watched { words, lines });
    }
    while !dispatch::stop_requested() {
        std::thread::sleep(LOOK);
        let mut out = String::new();
        for Watched { words, lines } in &mut all {
            let now = list(words)?;
            // A line that changed is shown as it is now; its beginning names what it is about.
            let about =
                |line: &str| line.split(" state ").next().unwrap_or_default().split('<').next().map(str::to_string);
            let changed = |old: &String| now.iter().any(|new| about(new) == about(old));
            let gone = lines.iter().filter(|old| !now.contains(old) && !changed(old));
            gone.for_each(|line| out += &format!("Deleted {line}\n"));
            now.iter().filter(|new| !lines.contains(new)).for_each(|line| out += &format!("{line}\n"));
            *lines = now;
        }
        if !out.is_empty() {
            print(&out)?;
        }
    }
    Ok(Exit::Fine)
}
