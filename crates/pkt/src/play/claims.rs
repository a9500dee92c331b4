//! Checks in a script that do not concern packets: fields of TCP_INFO, and counter changes.

use super::{Player, START};
use crate::code;
use crate::counted::{counters, meant};
use socket::Fd;
use std::collections::BTreeMap;

impl Player<'_> {
    pub(super) fn assert(&self, text: &str) -> Result<(), String> {
        let mut state = self.state.borrow_mut();
        let ends = state.current.and_then(|at| state.conns.get(at)).map(|conn| conn.ends);
        let calls = self.calls();
        let mine = |fd: &&Fd| {
            let local = calls.local_addr(**fd).map(|addr| addr.port()).ok();
            let peer = calls.peer_addr(**fd).map(|addr| addr.port()).ok();
            ends.is_some_and(|ends| local == Some(ends.local_port) && peer == Some(ends.remote_port))
        };
        let info = |fd: &Fd| calls.tcp_info(*fd).ok();
        let found = state.fds.values().rev().find(mine).and_then(info);
        let info = found.or_else(|| state.fds.values().rev().find_map(info));
        code::run(text, &info.ok_or("no socket with TCP_INFO")?, &mut state.vars)
    }

    /// Checks that the counter changes since the last check are exactly as stated, and that no
    /// unexpected packet is queued.
    pub(super) fn check_counters(&self, at: usize, stated: &[(String, i64)]) -> Result<(), String> {
        let mut state = self.state.borrow_mut();
        let version = self.settings.version;
        let now = counters(&self.host.stack, version);
        let mut changes = BTreeMap::new();
        for (name, value) in &now {
            let change = value.wrapping_sub(state.counters.get(name).copied().unwrap_or(0)) as i64;
            if change != 0 {
                changes.insert(name.clone(), change);
            }
        }
        if let Some((name, _)) = stated.iter().find(|(name, _)| !now.contains_key(&meant(name, version))) {
            return Err(format!("unknown counter '{name}'"));
        }
        state.counters = now;
        let expected: BTreeMap<String, i64> =
            stated.iter().map(|(name, change)| (meant(name, version), *change)).collect();
        if let Some((at, packet)) = self.host.output() {
            let line = wire::dissect::packet_line(&packet);
            return Err(format!("unexpected packet at {:?}\n  actual:   {line}", at.since(START)));
        }
        if expected == changes {
            return Ok(());
        }
        let line = |changes: &BTreeMap<String, i64>| {
            let words: Vec<String> = changes.iter().map(|(name, change)| format!("{name} +{change}")).collect();
            format!("counters {}", words.join(" "))
        };
        if self.rules.any_counters {
            state.restated.push((at, line(&changes)));
            return Ok(());
        }
        Err(format!("wrong counter changes\n  expected: {}\n  actual:   {}", line(&expected), line(&changes)))
    }
}
