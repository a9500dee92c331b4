//! `ports`: lists the kinds of ports and wrappers, from the table that the parser uses.

use crate::args::PortsArgs;
use crate::exit::{Exit, Fault, print};
use port::spec::{Fallback, Info, Kind, NameRule, OptionInfo};
use serde_json::{Value, json};

/// Lists the kinds with their options.
pub fn list(args: &PortsArgs) -> anyhow::Result<Exit> {
    let names = || Kind::ALL.iter().map(|kind| kind.info().name);
    let wanted = |kind: &Kind| args.kind.as_ref().is_none_or(|only| kind.info().name == only);
    let kinds: Vec<&Info> = Kind::ALL.iter().filter(|kind| wanted(kind)).map(|kind| kind.info()).collect();
    if let (Some(only), true) = (&args.kind, kinds.is_empty()) {
        let nearest = grammar::nearest(only, names()).map(|name| format!(" (did you mean '{name}'?)"));
        let all: Vec<&str> = names().collect();
        let nearest = nearest.unwrap_or_default();
        return Err(Fault::usage(format!("unknown kind of port '{only}'{nearest}; kinds: {}", all.join(", "))));
    }
    let text = if args.json {
        format!("{}\n", Value::Array(kinds.into_iter().map(to_json).collect()))
    } else {
        let head = "kind(option=value,...):NAME; wrappers precede the port: impair(loss=1%):tap:tap0\n";
        kinds.into_iter().fold(head.to_string(), |out, info| out + "\n" + &describe(info))
    };
    print(&text).map(|()| Exit::Fine)
}

fn names(rule: NameRule) -> &'static str {
    match rule {
        NameRule::Any => "any name, optional",
        NameRule::Some => "any name",
        NameRule::Interface => "name of a network interface",
        NameRule::Socket => "path of a UNIX socket",
        NameRule::File => "a file, or - for standard input or output",
    }
}

fn fallback(option: &OptionInfo) -> String {
    match option.fallback {
        Fallback::Is(value) => format!("default {value}"),
        Fallback::Open => "optional".to_string(),
        Fallback::Required => "required".to_string(),
    }
}

fn describe(info: &Info) -> String {
    let form = if info.wrapper { format!("{}:PORT", info.name) } else { format!("{}:NAME", info.name) };
    let mut out = format!("{form:<14} {}\n", info.sentence);
    if !info.wrapper {
        out += &format!("{:<14} NAME: {}\n", "", names(info.names));
    }
    for option in info.options {
        let about = format!("{} ({}; {})", option.sentence, option.form, fallback(option));
        out += &format!("    {:<10} {about}\n", option.name);
    }
    out
}

fn to_json(info: &Info) -> Value {
    let options = info.options.iter().map(|option| {
        let default = if let Fallback::Is(value) = option.fallback { Some(value) } else { None };
        json!({
            "name": option.name, "form": option.form.to_string(), "default": default,
            "required": matches!(option.fallback, Fallback::Required), "about": option.sentence,
        })
    });
    json!({
        "kind": info.name, "wrapper": info.wrapper, "about": info.sentence,
        "options": options.collect::<Vec<_>>(),
    })
}
