//! `ip link` and `netstat -i` of a bridge: the bridge and its ports, in the same format as a host's
//! ifaces.

use super::super::Switch;
use super::listing;
use crate::commands::ip::OPTIONS;
use crate::commands::link::{Link, Passed, Style};
use bridge::{Carrier, Running};
use grammar::{CommandError, Words};
use serde_json::Value;

pub(super) fn run(switch: &Switch, mut json: bool, mut words: Words<'_>) -> Result<String, CommandError> {
    let mut style = Style::default();
    while let Some(option) = words.peek().filter(|word| word.starts_with('-')) {
        match option {
            "-j" | "-json" => json = true,
            "-s" | "-stats" | "-statistics" => style.statistics = true,
            "-br" | "-brief" => style.brief = true,
            "-o" | "-oneline" => style.oneline = true,
            "-4" | "-6" | "-p" | "-pretty" | "-d" | "-details" => {}
            other => return Err(CommandError::unknown("option", other, OPTIONS.iter().copied())),
        }
        words.take();
    }
    match words.next("link")? {
        "link" | "l" | "li" | "lin" => {}
        object @ ("addr" | "address" | "a" | "route" | "r" | "neigh" | "n") => {
            let why = format!(
                "{object}: a bridge has no IP addresses: 'ip link', 'bridge link' and 'bridge fdb' list what it has"
            );
            return Err(CommandError::failed(why));
        }
        other => return Err(CommandError::unknown("object", other, ["link"].into_iter())),
    }
    if words.skip("set") {
        return set(switch, words);
    }
    let _ = ["show", "list", "ls", "sh", "s"].iter().any(|verb| words.skip(verb));
    words.skip("dev");
    let mut links = links(switch);
    if let Some(name) = words.take() {
        if !links.iter().any(|link| link.name == name) {
            return Err(CommandError::unknown("link", name, links.iter().map(|link| link.name.as_str())));
        }
        links.retain(|link| link.name == name);
    }
    words.end()?;
    let text = || links.iter().map(|link| link.text(style)).collect();
    Ok(listing(json, || Value::Array(links.iter().map(|link| link.json(style)).collect()), text))
}

/// Runs `set [dev] BRIDGE up|down`.
fn set(switch: &Switch, mut words: Words<'_>) -> Result<String, CommandError> {
    words.skip("dev");
    let name = words.next("the bridge's name")?;
    if name != switch.name {
        let why = format!("{name}: only the bridge is set up or down here; a port's device is set where it is");
        return Err(CommandError::failed(why));
    }
    let word = words.next("up or down")?;
    words.end()?;
    switch.set_running(match word {
        "up" => Running::Up,
        "down" => Running::Down,
        other => return Err(CommandError::unknown("word", other, ["up", "down"].into_iter())),
    });
    Ok(String::new())
}

/// Runs `netstat -i`.
pub(super) fn netstat(switch: &Switch, json: bool, mut words: Words<'_>) -> Result<String, CommandError> {
    while let Some(word) = words.take() {
        if !matches!(word, "-i" | "-n" | "-in" | "-ni") {
            return Err(CommandError::unknown("option", word, ["-i"].into_iter()));
        }
    }
    let links = links(switch);
    let rows = || Value::Array(links.iter().map(|link| link.netstat_json(&[])).collect());
    Ok(listing(json, rows, || Link::netstat_head() + &links.iter().map(Link::netstat).collect::<String>()))
}

/// Returns the bridge, then its ports.
fn links(switch: &Switch) -> Vec<Link> {
    let members = switch.members();
    let is_up = switch.lane(0).is_some_and(|lane| lane.bridge.running() != Running::Down);
    let mtu = members.iter().map(|(_, info)| info.caps.mtu).min().unwrap_or(1500);
    let mut all = Passed::default();
    let ports: Vec<Link> = members
        .iter()
        .map(|(number, info)| {
            let mut passed = Passed::default();
            info.queues.iter().for_each(|queue| passed.add(Passed::through(&queue.counts)));
            all.add(passed);
            let (flags, state) = match info.link().1 {
                Carrier::Up => (vec!["BROADCAST", "MULTICAST", "UP", "LOWER_UP"], "UP"),
                Carrier::None => (vec!["NO-CARRIER", "BROADCAST", "MULTICAST", "UP"], "DOWN"),
                Carrier::Down | Carrier::Gone => (vec!["BROADCAST", "MULTICAST"], "DOWN"),
            };
            Link {
                index: usize::from(*number) + 2,
                name: info.name.clone(),
                flags,
                mtu: info.caps.mtu.into(),
                master: Some(switch.name.clone()),
                state,
                kind: "ether",
                addresses: None,
                is_tunnel: false,
                info: None,
                passed,
            }
        })
        .collect();
    let (flags, state) = match is_up {
        true => (vec!["BROADCAST", "MULTICAST", "UP", "LOWER_UP"], "UP"),
        false => (vec!["BROADCAST", "MULTICAST"], "DOWN"),
    };
    let bridge = Link {
        index: 1,
        name: switch.name.clone(),
        flags,
        mtu: mtu.into(),
        master: None,
        state,
        kind: "ether",
        addresses: Some((switch.mac.to_string(), wire::Mac::BROADCAST.to_string())),
        is_tunnel: false,
        info: None,
        passed: all,
    };
    std::iter::once(bridge).chain(ports).collect()
}
