//! Check of the settings of netisr and of split hosts.

use super::error::IsrError;
use super::feed::Feed;
use super::setup::make;
use super::state::Isr;
use super::sysctl;
use crate::config::HostConfig;
use crate::split;
use lock::Locks;
use std::sync::Arc;
use wire::hash::Key;

/// Checks the settings of a host for netisr and `stacks`. `shared` is set if the host's locks
/// support several threads.
pub(crate) fn check(config: &HostConfig, shared: bool) -> Result<(), IsrError> {
    let isr = &config.isr;
    if config.stacks > 1 {
        let faults = [
            (shared, "choose locks = 'up'"),
            (config.threads > 1, "choose threads = 1"),
            (isr.workstreams > 0, "remove isr.workstreams: there is one workstream per stack"),
            (config.ifaces.is_empty(), "the host has no port"),
            (config.ifaces.iter().any(|iface| iface.tunnel.is_some()), "a tunnel needs stacks = 1"),
        ];
        let fault = faults.iter().find(|(is_so, _)| *is_so);
        fault.map_or(Ok(()), |(_, what)| Err(IsrError::Split { stacks: config.stacks, what }))?;
        return split::netisr(config, Key::seeded(0), &Arc::default()).map(drop);
    }
    if !shared && isr.workstreams > 1 {
        return Err(IsrError::Threads(isr.workstreams));
    }
    if isr.bind && (!shared || isr.workstreams == 0) {
        return Err(IsrError::Bind);
    }
    match isr.workstreams {
        0 => config.sysctl.iter().try_for_each(|(name, value)| sysctl::set(None, name, *value)),
        _ => make(config).map(drop),
    }
}

/// Creates netisr as configured; `None` if no workstreams are configured.
pub(super) fn create<L: Locks>(config: &HostConfig) -> Result<Option<(Isr, Feed)>, IsrError> {
    check(config, L::SHARED)?;
    if config.isr.workstreams == 0 {
        return Ok(None);
    }
    let netisr = make(config)?;
    let feed = Feed::new(&netisr)?;
    Ok(Some((Isr::of_host(netisr), feed)))
}
