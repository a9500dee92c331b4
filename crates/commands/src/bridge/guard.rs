//! Protection of network segments: storm control, muting of members (temporary blocking after
//! addresses have moved as in a loop), address limits, and filter rules.

use super::context::{Control, DONE, Parameter, listing};
use bridge::{Action, Bridge, Buckets, Direction, Mute, PortNo, Rate, Rule, Rules, Storm};
use clock::Duration;
use grammar::{Args, CommandError, Form};
use node::switch::Switch;
use serde_json::{Value, json};

/// Parameters of `ifconfig` in this module.
pub(super) const FORMS: &[Parameter] = &[
    Form {
        grammar: "ifmaxaddr IF 0-4294967294",
        about: "Limit the number of addresses learned at a member; 0 means no limit.",
        run: |of, args| {
            let (number, most) = (of.member(args)?, args.int::<u32>("ifmaxaddr"));
            of.switch.each_thread(|thread| thread.bridge.fdb_mut().set_limit(number, (most > 0).then_some(most)));
            DONE
        },
    },
    Form { grammar: "maxaddr 1-4294967295", about: "Limit the number of addresses in the table.", run: max_addresses },
    Form {
        grammar: "timeout SECONDS:1-126144000",
        about: "Set the time after which a learned address expires.",
        run: |of, args| {
            let timeout = Duration::from_secs(args.int::<u64>("SECONDS"));
            of.switch.each_thread(|thread| thread.bridge.fdb_mut().set_timeout(timeout));
            DONE
        },
    },
    Form {
        grammar: "storm IF CLASS:broadcast|multicast|unknown RATE:0-1000000000 [BURST:0-4294967295]",
        about: "Limit received frames of a class to RATE frames per second; the default BURST is a tenth of RATE.",
        run: storm,
    },
    Form {
        grammar: "-storm IF",
        about: "Remove the limits set with storm.",
        run: |of, args| {
            let number = of.member(args)?;
            of.switch.each_thread(|thread| thread.bridge.set_storm(number, Storm::default()));
            DONE
        },
    },
    Form {
        grammar: "mute MOVES:1-254 SECONDS:1-86400",
        about: "If an address has moved more than MOVES times in 10 s, mute the member that it left for SECONDS.",
        run: |of, args| {
            let moves = args.int::<u8>("MOVES");
            let lasts = Duration::from_secs(args.int::<u64>("SECONDS"));
            mute(of, Some(Mute { moves, lasts, ..Mute::default() }))
        },
    },
    Form { grammar: "-mute", about: "Turn muting off.", run: |of, _| mute(of, None) },
    Form {
        grammar: "rule IF DIRECTION:in|out ACTION:pass|drop [FILTER...]",
        about: "Append a rule. The first rule whose pcap-filter(7) matches applies; if none matches, frames pass.",
        run: rule,
    },
    Form {
        grammar: "-rule IF DIRECTION:in|out",
        about: "Remove all rules of a direction.",
        run: |of, args| {
            let (number, direction) = (of.member(args)?, direction(args));
            of.switch.each_thread(|thread| thread.bridge.set_rules(number, direction, None));
            DONE
        },
    },
];

fn max_addresses(of: &Control<'_>, args: &Args<'_>) -> Result<String, CommandError> {
    let capacity = of.switch.thread(0).map_or(0, |thread| thread.bridge.fdb().capacity());
    let most = args.int::<usize>("maxaddr");
    if most > capacity {
        let why = format!("maxaddr {most}: the table has space for {capacity} addresses (--table)");
        return Err(CommandError::failed(why));
    }
    of.switch.each_thread(|thread| thread.bridge.fdb_mut().set_most(most));
    DONE
}

fn storm(of: &Control<'_>, args: &Args<'_>) -> Result<String, CommandError> {
    let (switch, number) = (of.switch, of.member(args)?);
    let per_second = args.int::<u32>("RATE");
    let burst = args.number("BURST").map_or((per_second / 10).max(1), |burst| burst as u32);
    let rate = Some(Rate { per_second, burst });
    let mut storm = switch.thread(0).and_then(|thread| thread.bridge.storm_control(number)).unwrap_or_default();
    match args.text("CLASS") {
        "broadcast" => storm.broadcast = rate,
        "multicast" => storm.multicast = rate,
        _ => storm.unknown = rate,
    }
    let buckets = Buckets::from(storm);
    switch.each_thread(|thread| thread.bridge.set_storm(number, buckets.clone()));
    DONE
}

fn mute(of: &Control<'_>, mute: Option<Mute>) -> Result<String, CommandError> {
    of.switch.each_thread(|thread| thread.bridge.set_mute(mute));
    DONE
}

fn direction(args: &Args<'_>) -> Direction {
    if args.get("DIRECTION") == Some("in") { Direction::In } else { Direction::Out }
}

fn rule(of: &Control<'_>, args: &Args<'_>) -> Result<String, CommandError> {
    let (switch, number, direction) = (of.switch, of.member(args)?, direction(args));
    let action = if args.get("ACTION") == Some("pass") { Action::Pass } else { Action::Drop };
    let rule = Rule::new(&args.rest().join(" "), action).map_err(CommandError::failed)?;
    let mut fits = true;
    switch.each_thread(|thread| {
        let there = thread.bridge.rules(number, direction);
        let mut rules: Vec<Rule> =
            there.map(|rules| rules.rules().map(|(rule, _)| rule.clone()).collect()).unwrap_or_default();
        rules.push(rule.clone());
        match Rules::new(rules, Action::Pass) {
            Some(rules) => thread.bridge.set_rules(number, direction, Some(rules)),
            None => fits = false,
        }
    });
    if fits { DONE } else { Err(CommandError::failed(format!("a port has at most {} rules", bridge::MAX_RULES))) }
}

/// Returns the filter rules of each member with their numbers of matches.
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
            switch.each_thread(|thread| {
                let Some(rules) = thread.bridge.rules(number, direction) else { return };
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

/// Returns the configured rates of storm control, with the names of their frame classes.
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
