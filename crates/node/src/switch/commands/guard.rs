//! Protection of segments: storm control, muting, address limits, rules.

use super::super::Switch;
use super::{listing, member};
use crate::commands::parse;
use bridge::{Action, Bridge, Buckets, Direction, Mute, PortNo, Rate, Rule, Rules, Storm};
use clock::Duration;
use grammar::{CommandError, Words};
use serde_json::{Value, json};

/// Parameters of `ifconfig` handled here.
pub(super) const WORDS: &[&str] = &["storm", "mute", "ifmaxaddr", "maxaddr", "timeout", "rule"];

/// Applies an `ifconfig` parameter, enabled or disabled.
pub(super) fn change(switch: &Switch, name: &str, on: bool, words: &mut Words<'_>) -> Result<(), CommandError> {
    match name {
        "storm" => storm(switch, on, words),
        "mute" => mute(switch, on, words),
        "timeout" => {
            let seconds = parse::number(name, words.next("seconds")?, 1, 126_144_000)? as u64;
            switch.each_lane(|lane| lane.bridge.fdb_mut().set_timeout(Duration::from_secs(seconds)));
            Ok(())
        }
        "ifmaxaddr" => {
            let (number, _) = member(switch, words.next("a member")?)?;
            let most = parse::number(name, words.next("a number; 0: no limit")?, 0, i64::from(u32::MAX) - 1)?;
            let most = (most > 0).then_some(most as u32);
            switch.each_lane(|lane| lane.bridge.fdb_mut().set_limit(number, most));
            Ok(())
        }
        "maxaddr" => {
            let capacity = switch.lane(0).map_or(0, |lane| lane.bridge.fdb().capacity());
            let most = parse::number(name, words.next("a number of addresses")?, 1, i64::from(u32::MAX))? as usize;
            if most > capacity {
                let why = format!("maxaddr {most}: the table was made for {capacity} (--table)");
                return Err(CommandError::failed(why));
            }
            switch.each_lane(|lane| lane.bridge.fdb_mut().set_most(most));
            Ok(())
        }
        _ => rule(switch, on, words),
    }
}

/// Runs `storm IF broadcast|multicast|unknown RATE [BURST]` and `-storm IF`.
fn storm(switch: &Switch, on: bool, words: &mut Words<'_>) -> Result<(), CommandError> {
    let (number, _) = member(switch, words.next("a member")?)?;
    if !on {
        switch.each_lane(|lane| lane.bridge.set_storm(number, Storm::default()));
        return Ok(());
    }
    let class = words.next("broadcast, multicast or unknown")?;
    let pick: fn(&mut Storm) -> &mut Option<Rate> = match class {
        "broadcast" => |storm| &mut storm.broadcast,
        "multicast" => |storm| &mut storm.multicast,
        "unknown" => |storm| &mut storm.unknown,
        other => return Err(CommandError::bad("storm", other, "broadcast, multicast or unknown")),
    };
    let per_second = parse::number("rate", words.next("frames a second")?, 0, 1_000_000_000)? as u32;
    let burst = match words.peek().and_then(|word| word.parse::<u32>().ok()) {
        Some(burst) => {
            words.take();
            burst
        }
        None => (per_second / 10).max(1),
    };
    let mut storm = switch.lane(0).and_then(|lane| lane.bridge.storm_control(number)).unwrap_or_default();
    *pick(&mut storm) = Some(Rate { per_second, burst });
    let buckets = Buckets::from(storm);
    switch.each_lane(|lane| lane.bridge.set_storm(number, buckets.clone()));
    Ok(())
}

/// Runs `mute MOVES SECONDS` and `-mute`.
fn mute(switch: &Switch, on: bool, words: &mut Words<'_>) -> Result<(), CommandError> {
    let mute = match on {
        true => {
            let moves = parse::number("moves", words.next("moves of one address that are borne")?, 1, 254)? as u8;
            let lasts = parse::number("seconds", words.next("for how many seconds")?, 1, 86_400)? as u64;
            Some(Mute { moves, lasts: Duration::from_secs(lasts), ..Mute::default() })
        }
        false => None,
    };
    switch.each_lane(|lane| lane.bridge.set_mute(mute));
    Ok(())
}

/// Runs `rule IF in|out pass|drop EXPRESSION`, which appends a rule, and `-rule IF in|out`, which
/// removes all.
fn rule(switch: &Switch, on: bool, words: &mut Words<'_>) -> Result<(), CommandError> {
    let (number, _) = member(switch, words.next("a member")?)?;
    let direction = match words.next("in or out")? {
        "in" => Direction::In,
        "out" => Direction::Out,
        other => return Err(CommandError::bad("direction", other, "in or out")),
    };
    if !on {
        switch.each_lane(|lane| lane.bridge.set_rules(number, direction, None));
        return Ok(());
    }
    let action = match words.next("pass or drop")? {
        "pass" => Action::Pass,
        "drop" => Action::Drop,
        other => return Err(CommandError::bad("action", other, "pass or drop")),
    };
    let mut text = Vec::new();
    while let Some(word) = words.take() {
        text.push(word);
    }
    let rule = Rule::new(&text.join(" "), action).map_err(CommandError::failed)?;
    let mut fits = true;
    switch.each_lane(|lane| {
        let there = lane.bridge.rules(number, direction);
        let mut rules: Vec<Rule> =
            there.map(|rules| rules.rules().map(|(rule, _)| rule.clone()).collect()).unwrap_or_default();
        rules.push(rule.clone());
        match Rules::new(rules, Action::Pass) {
            Some(rules) => lane.bridge.set_rules(number, direction, Some(rules)),
            None => fits = false,
        }
    });
    if fits { Ok(()) } else { Err(CommandError::failed(format!("a port has {} rules at most", bridge::MAX_RULES))) }
}

/// Lists each rule with its matches.
pub(super) fn rules(switch: &Switch, json: bool) -> String {
    struct Row {
        name: String,
        direction: &'static str,
        action: &'static str,
        text: String,
        matched: u64,
    }
    let mut rows: Vec<Row> = Vec::new();
    for (number, info) in switch.members() {
        for (direction, word) in [(Direction::In, "in"), (Direction::Out, "out")] {
            let mut of_port: Vec<Row> = Vec::new();
            switch.each_lane(|lane| {
                let Some(rules) = lane.bridge.rules(number, direction) else { return };
                for (at, (rule, matched)) in rules.rules().enumerate() {
                    let action = action(rule.action);
                    match of_port.get_mut(at) {
                        Some(row) => row.matched += matched,
                        None => of_port.push(Row {
                            name: info.name.clone(),
                            direction: word,
                            action,
                            text: rule.text.clone(),
                            matched,
                        }),
                    }
                }
            });
            rows.append(&mut of_port);
        }
    }
    let row = |row: &Row| json!({ "ifname": row.name, "direction": row.direction, "action": row.action, "filter": row.text, "matched": row.matched });
    let line = |row: &Row| format!("{:>12}  {} {} {} {}\n", row.matched, row.name, row.direction, row.action, row.text);
    listing(json, || rows.iter().map(row).collect(), || rows.iter().map(line).collect())
}

/// Returns the configured storm control rates with the names of their classes.
fn rates(storm: &Storm) -> impl Iterator<Item = (&'static str, Rate)> {
    let all = [("broadcast", storm.broadcast), ("multicast", storm.multicast), ("unknown", storm.unknown)];
    all.into_iter().filter_map(|(class, rate)| Some((class, rate?)))
}

/// Returns ` mute MOVES SECONDS`, or an empty string if muting is off.
pub(super) fn describe(bridge: &Bridge) -> String {
    bridge.mute().map(|mute| format!(" mute {} {}", mute.moves, mute.lasts.as_secs())).unwrap_or_default()
}

/// Returns the protection settings of a member, one per line.
pub(super) fn describe_port(bridge: &Bridge, number: PortNo) -> String {
    let mut out = String::new();
    for (class, rate) in rates(&bridge.storm_control(number).unwrap_or_default()) {
        out += &format!("\t        storm {class} {} {}\n", rate.per_second, rate.burst);
    }
    for (direction, word) in [(Direction::In, "in"), (Direction::Out, "out")] {
        let rules = bridge.rules(number, direction).into_iter().flat_map(Rules::rules);
        for (rule, _) in rules {
            out += &format!("\t        rule {word} {} {}\n", action(rule.action), rule.text);
        }
    }
    if bridge.muted(number).is_some() {
        out += "\t        muted: addresses moved as in a loop\n";
    }
    out
}

fn action(action: Action) -> &'static str {
    if action == Action::Pass { "pass" } else { "drop" }
}

pub(super) fn to_json(bridge: &Bridge) -> Value {
    let mute = |mute: Mute| json!({ "moves": mute.moves, "seconds": mute.lasts.as_secs() });
    bridge.mute().map_or(Value::Null, mute)
}

pub(super) fn port_json(bridge: &Bridge, number: PortNo) -> Value {
    let storm = bridge.storm_control(number).unwrap_or_default();
    let rate =
        |(class, rate): (&str, Rate)| (class.to_string(), json!({ "rate": rate.per_second, "burst": rate.burst }));
    json!({ "storm": rates(&storm).map(rate).collect::<serde_json::Map<_, _>>(),
            "ifmaxaddr": bridge.fdb().limit(number), "muted": bridge.muted(number).is_some() })
}
