//! `show nic`: the simulated network cards of `nic` ports, with their numbers of doorbells,
//! write-backs and register accesses per frame.

use grammar::CommandError;
use port::nic::Nic;
use serde_json::{Map, Value, json};
use stats::Described;
use std::sync::Arc;

/// Returns the state of the simulated network cards `cards`, each with the name of its port, as
/// text or JSON.
pub(crate) fn shown(cards: &[(String, Arc<Nic>)], json: bool) -> Result<String, CommandError> {
    if cards.is_empty() {
        return Err(CommandError::failed("there is no nic port"));
    }
    if !json {
        return Ok(cards.iter().map(|(name, nic)| format!("{name}:\n{}", nic.show())).collect());
    }
    let row = |(name, nic): &(String, Arc<Nic>)| {
        let mut counters = Map::new();
        nic.counts.visit(&mut |prefix, field, _, value| {
            counters.insert(format!("{prefix}.{field}"), value.into());
        });
        let figures = nic.counts.report();
        let figures = figures.iter().map(|figure| (figure.name.to_string(), figure.per_frame.into()));
        json!({ "ifname": name, "link": if nic.is_up() { "up" } else { "down" }, "missed": nic.missed(),
                "interrupts": nic.interrupts(), "per_frame": figures.collect::<Map<String, Value>>(), "counters": counters })
    };
    Ok(format!("{}\n", cards.iter().map(row).collect::<Value>()))
}
