//! `sysctl` of a switch: settings and state of polling, and the cost of forwarding.

use super::context::member;
use crate::sysctl::Variables;
use bridge::Running;
use dispatch::polling::{Counts, Gauges, Mode, Sysctls};
use grammar::CommandError;
use node::switch::Switch;
use node::sysctl::{describe, in_range};
use port::nic;
use serde_json::Value;
use stats::Described;
use std::sync::Arc;

/// Sysctl with the polling mode, which is set by name.
const MODE: &str = "kern.polling.mode";
const EACH_BURST: &str = "kern.polling.each_burst";
const BURST_MAX: &str = "kern.polling.burst_max";
const MODES: &str = "adaptive, clock, wakeup, or their numbers from 0 to 2";
/// Function that sets a sysctl to a value given as text.
type Set = fn(&Switch, &str) -> Result<(), CommandError>;

/// A sysctl of a switch that is not a setting of polling.
struct Variable {
    name: &'static str,
    about: &'static str,
    value: fn(&Switch) -> Value,
    /// Sets the value; `None` if the sysctl is read-only.
    set: Option<Set>,
}

/// Sysctls with the names of FreeBSD 4: the cost of forwarding, and alternative names of settings.
const VARIABLES: &[Variable] = &[
    Variable {
        name: "kern.polling.enable",
        about: "1 if a clock or work wakes loops (mode clock), 0 if only descriptors wake them (mode wakeup).",
        value: |switch| u64::from(switch.sysctls.mode() != Mode::Wakeup).into(),
        set: Some(|switch, text| {
            let mode = if on_off("kern.polling.enable", text)? { Mode::Clock } else { Mode::Wakeup };
            let _ = switch.sysctls.set(MODE, mode.number()); // cannot fail: in range
            Ok(())
        }),
    },
    Variable {
        name: "net.link.ether.bdg_fw_avg",
        about: "Mean number of CPU ticks per frame in the bridge, over the measured frames.",
        value: |switch| (switch.average().value().unwrap_or(0.0).round() as u64).into(),
        set: None,
    },
    Variable {
        name: "net.link.ether.bdg_fw_count",
        about: "Number of measured frames: those of one burst in 16.",
        value: |switch| switch.average().frames.into(),
        set: None,
    },
    Variable {
        name: "net.link.ether.bdg_fw_ticks",
        about: "CPU ticks spent on the measured frames.",
        value: |switch| switch.average().ticks.into(),
        set: None,
    },
    Variable {
        name: "net.link.ether.bridge",
        about: "1 if the bridge forwards, otherwise 0. Same as ifconfig's up and down.",
        value: |switch| {
            u64::from(switch.thread(0).is_some_and(|thread| thread.bridge.running() != Running::Down)).into()
        },
        set: Some(|switch, text| {
            let running = if on_off("net.link.ether.bridge", text)? { Running::Up } else { Running::Down };
            switch.set_running(running);
            Ok(())
        }),
    },
    Variable {
        name: CLUSTERS,
        about: "Cluster of each member, as in p1:0,p2:0,p3:1; frames are forwarded only within a cluster.",
        value: |switch| clusters(switch).into(),
        set: Some(set_clusters),
    },
];

const CLUSTERS: &str = "net.link.ether.bridge_cfg";

/// Sysctls that read a gauge, summed over all loops, with the name of the gauge.
const GAUGES: &[(&str, &str)] = &[
    ("kern.polling.burst", "burst"),
    ("kern.polling.handlers", "handlers"),
    ("kern.polling.idlepoll_sleeping", "idlepoll_sleeping"),
    ("kern.polling.load", "load"),
    ("kern.polling.pending_polls", "pending_polls"),
    ("kern.polling.residual_burst", "residual_burst"),
];

/// Sysctls that read a polling counter, summed over all loops; the names are FreeBSD's.
const COUNTERS: &[&str] = &["kern.polling.lost_polls", "kern.polling.short_ticks", "kern.polling.stalled"];

fn variable(name: &str) -> Option<&'static Variable> {
    VARIABLES.iter().find(|variable| variable.name == name)
}

fn on_off(name: &str, text: &str) -> Result<bool, CommandError> {
    match text {
        "1" => Ok(true),
        "0" => Ok(false),
        other => Err(CommandError::bad(name, other, "0 or 1")),
    }
}

/// Returns the cluster number of each member, as in `p1:0,p2:1`.
fn clusters(switch: &Switch) -> String {
    let cluster =
        |number| switch.thread(0).and_then(|thread| Some(thread.bridge.member(number)?.cluster)).unwrap_or_default();
    let members = switch.members();
    let all: Vec<String> = members.iter().map(|(number, info)| format!("{}:{}", info.name, cluster(*number))).collect();
    all.join(",")
}

/// Sets the cluster numbers of the listed members; other members keep their numbers. The whole
/// list is parsed before any part of it is applied.
fn set_clusters(switch: &Switch, text: &str) -> Result<(), CommandError> {
    let of = |item: &str| {
        let bad = || CommandError::bad(CLUSTERS, item, "a list such as p1:0,p2:0,p3:1");
        let (name, cluster) = item.split_once(':').ok_or_else(bad)?;
        let cluster = cluster.parse::<u16>().ok().filter(|cluster| *cluster < u16::MAX).ok_or_else(bad)?;
        Ok((member(switch, name)?.0, cluster))
    };
    let all: Vec<_> = text.split(',').map(of).collect::<Result<_, CommandError>>()?;
    for (number, cluster) in all {
        switch.set_member(number, |member| member.cluster = cluster);
    }
    Ok(())
}

/// Returns a polling counter, summed over all loops.
fn counter(switch: &Switch, name: &str) -> u64 {
    let mut all = 0;
    switch.each_thread(|thread| {
        thread.polling.counts.visit(&mut |prefix, field, _, value| {
            all += if name.strip_prefix(prefix).is_some_and(|rest| rest.strip_prefix('.') == Some(field)) {
                value
            } else {
                0
            };
        });
    });
    all
}

/// Returns the simulated network cards of the `nic` ports. A `nic` setting applies to all of
/// them.
fn cards(switch: &Switch) -> impl Iterator<Item = Arc<nic::Nic>> {
    switch.members().into_iter().filter_map(|(_, info)| info.nic)
}

/// Returns the value of the card setting `name`: a single value if all cards agree, otherwise
/// the value of each card.
fn of_cards(switch: &Switch, name: &str) -> Value {
    let mut values: Vec<String> = cards(switch).filter_map(|card| card.settings.get(name).ok()).collect();
    values.dedup();
    values.join(" ").into()
}

impl Variables for Switch {
    fn names(&self) -> Vec<String> {
        let sysctls = Sysctls::INFO.iter().map(|info| info.name);
        let others = VARIABLES.iter().map(|variable| variable.name);
        let fixed = others.chain(GAUGES.iter().map(|(name, _)| *name)).chain(COUNTERS.iter().copied());
        let mut all: Vec<String> = sysctls.chain(fixed).map(str::to_string).collect();
        if cards(self).next().is_some() {
            all.extend(nic::Settings::INFO.iter().map(|info| format!("nic.{}", info.option.name)));
        }
        all.sort_unstable();
        all
    }

    fn sentence(&self, name: &str) -> String {
        if let Some(word) = name.strip_prefix("nic.") {
            let info = nic::Settings::INFO.iter().find(|info| info.option.name == word);
            return info.map(|info| info.option.sentence.to_string()).unwrap_or_default();
        }
        if let Some(info) = Sysctls::INFO.iter().find(|info| info.name == name) {
            return describe(info);
        }
        if let Some(variable) = variable(name) {
            let read_only = if variable.set.is_none() { " Read only." } else { "" };
            return format!("{}{read_only}", variable.about);
        }
        if COUNTERS.contains(&name) {
            let mut said = String::new();
            Counts::default().visit(&mut |prefix, field, sentence, _| {
                if name == format!("{prefix}.{field}") {
                    said = format!("{sentence} Sum over all loops. Read only.");
                }
            });
            return said;
        }
        let level = GAUGES.iter().find(|(level, _)| *level == name).map(|(_, level)| *level);
        let gauges = Gauges::default();
        let said = gauges.list().into_iter().find(|(of, ..)| Some(*of) == level);
        said.map(|(_, sentence, _)| format!("{sentence} Sum over all loops. Read only.")).unwrap_or_default()
    }

    fn value(&self, name: &str) -> Value {
        if name.starts_with("nic.") {
            return of_cards(self, name);
        }
        if name == MODE {
            return self.sysctls.mode().name().into();
        }
        if let Some(variable) = variable(name) {
            return (variable.value)(self);
        }
        if COUNTERS.contains(&name) {
            return counter(self, name).into();
        }
        if let Some((_, level)) = GAUGES.iter().find(|(known, _)| *known == name) {
            let gauges = (0..self.threads()).filter_map(|number| Some(self.thread(number)?.polling.gauges()));
            let of = |gauges: Arc<Gauges>| gauges.list().iter().find(|(of, ..)| of == level).map(|of| of.2);
            return gauges.filter_map(of).sum::<u64>().into();
        }
        self.sysctls.get(name).into()
    }

    fn set(&self, name: &str, text: &str) -> Result<(), CommandError> {
        if name.starts_with("nic.") {
            if cards(self).next().is_none() {
                return Err(CommandError::failed(format!(
                    "{name}: applies only to nic ports, and the switch has none"
                )));
            }
            return cards(self).try_for_each(|card| card.settings.set(name, text).map_err(CommandError::failed));
        }
        let read_only = || CommandError::failed(format!("{name}: read only"));
        if let Some(variable) = variable(name) {
            return variable.set.ok_or_else(read_only)?(self, text);
        }
        if COUNTERS.contains(&name) || GAUGES.iter().any(|(gauge, _)| *gauge == name) {
            return Err(read_only());
        }
        let info = Sysctls::INFO.iter().find(|info| info.name == name);
        let names = self.names();
        let info = info.ok_or_else(|| CommandError::unknown("sysctl", name, names.iter().map(String::as_str)))?;
        let value = match text.parse::<Mode>() {
            Ok(mode) if name == MODE => mode.number(),
            Err(_) if name == MODE && text.parse::<i64>().is_err() => {
                return Err(CommandError::bad(name, text, MODES));
            }
            _ => in_range(info, text)?,
        };
        // As in polling(4), each_burst is limited to 1 to burst_max.
        let most = self.sysctls.burst_max.get();
        match name {
            EACH_BURST if value > most => {
                return Err(CommandError::bad(name, text, format!("at most kern.polling.burst_max, which is {most}")));
            }
            BURST_MAX if value < self.sysctls.each_burst.get() => _ = self.sysctls.set(EACH_BURST, value),
            _ => {}
        }
        let _ = self.sysctls.set(name, value); // cannot fail: in range
        Ok(())
    }
}
