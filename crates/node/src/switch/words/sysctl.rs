//! `sysctl`: the knobs of polling, where it stands, and what forwarding costs.

use super::super::Switch;
use crate::words::WordError;
use crate::words::sysctl::{Variables, in_range, said_of};
use dispatch::polling::{Gauges, Knobs, Mode};
use port::nic;
use serde_json::Value;
use std::sync::Arc;

/// What a loop's mode is, by word.
const MODE: &str = "kern.polling.mode";
const MODES: &str = "adaptive, clock, wakeup, or their numbers from 0 to 2";
/// FreeBSD 4's names for what the bridge's part of a frame's way costs.
const COSTS: &[(&str, &str)] = &[
    ("net.link.ether.bdg_fw_avg", "Ticks a frame in the bridge, of those measured."),
    ("net.link.ether.bdg_fw_count", "Frames measured: of one burst in 16."),
    ("net.link.ether.bdg_fw_ticks", "Ticks that those took."),
];
/// Where polling stands, by the name of the level.
const LEVELS: &[(&str, &str)] = &[
    ("kern.polling.burst", "burst"),
    ("kern.polling.handlers", "handlers"),
    ("kern.polling.idlepoll_sleeping", "idlepoll_sleeping"),
    ("kern.polling.load", "load"),
    ("kern.polling.pending_polls", "pending_polls"),
    ("kern.polling.residual_burst", "residual_burst"),
];

impl Switch {
    /// The cards of `nic` ports: one word sets all of them.
    fn cards(&self) -> impl Iterator<Item = Arc<nic::Nic>> {
        self.members().into_iter().filter_map(|(_, info)| info.nic)
    }

    /// What they have it set to: one value, or each card's.
    fn of_cards(&self, name: &str) -> Value {
        let mut values: Vec<String> = self.cards().filter_map(|card| card.knobs.get(name).ok()).collect();
        values.dedup();
        values.join(" ").into()
    }
}

impl Variables for Switch {
    fn names(&self) -> Vec<String> {
        let knobs = Knobs::INFO.iter().map(|info| info.name);
        let fixed = COSTS.iter().chain(LEVELS).map(|(name, _)| *name);
        let mut all: Vec<String> = knobs.chain(fixed).map(str::to_string).collect();
        if self.cards().next().is_some() {
            all.extend(nic::Knobs::INFO.iter().map(|info| format!("nic.{}", info.option.name)));
        }
        all.sort_unstable();
        all
    }

    fn sentence(&self, name: &str) -> String {
        if let Some(word) = name.strip_prefix("nic.") {
            let info = nic::Knobs::INFO.iter().find(|info| info.option.name == word);
            return info.map(|info| info.option.sentence.to_string()).unwrap_or_default();
        }
        if let Some(info) = Knobs::INFO.iter().find(|info| info.name == name) {
            return said_of(info);
        }
        if let Some((_, sentence)) = COSTS.iter().find(|(cost, _)| *cost == name) {
            return format!("{sentence} Read only.");
        }
        let level = LEVELS.iter().find(|(level, _)| *level == name).map(|(_, level)| *level);
        let gauges = Gauges::default();
        let said = gauges.list().into_iter().find(|(of, ..)| Some(*of) == level);
        said.map(|(_, sentence, _)| format!("{sentence} Of all loops together. Read only.")).unwrap_or_default()
    }

    fn value(&self, name: &str) -> Value {
        if name.starts_with("nic.") {
            return self.of_cards(name);
        }
        if name == MODE {
            return self.knobs.mode().name().into();
        }
        if let Some((_, level)) = LEVELS.iter().find(|(known, _)| *known == name) {
            let gauges = (0..self.lanes()).filter_map(|number| Some(self.lane(number)?.polling.gauges()));
            let of = |gauges: Arc<Gauges>| gauges.list().iter().find(|(of, ..)| of == level).map(|of| of.2);
            return gauges.filter_map(of).sum::<u64>().into();
        }
        if COSTS.iter().any(|(cost, _)| *cost == name) {
            let average = self.average();
            return match name {
                "net.link.ether.bdg_fw_count" => average.frames.into(),
                "net.link.ether.bdg_fw_ticks" => average.ticks.into(),
                _ => (average.value().unwrap_or(0.0).round() as u64).into(),
            };
        }
        self.knobs.get(name).into()
    }

    fn set(&self, name: &str, text: &str) -> Result<(), WordError> {
        if name.starts_with("nic.") && self.cards().next().is_some() {
            return self.cards().try_for_each(|card| card.knobs.set(name, text).map_err(WordError::failed));
        }
        if COSTS.iter().chain(LEVELS).any(|(fixed, _)| *fixed == name) {
            return Err(WordError::failed(format!("{name}: can only be read")));
        }
        let info = Knobs::INFO.iter().find(|info| info.name == name);
        let names = self.names();
        let info = info.ok_or_else(|| WordError::unknown("knob", name, names.iter().map(String::as_str)))?;
        let value = match text.parse::<Mode>() {
            Ok(mode) if name == MODE => mode.number(),
            Err(_) if name == MODE && text.parse::<i64>().is_err() => {
                return Err(WordError::bad(name, text, MODES));
            }
            _ => in_range(info, text)?,
        };
        let _ = self.knobs.set(name, value); // in range
        Ok(())
    }
}
