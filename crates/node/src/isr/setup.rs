//! Creation of netisr from the configuration of a host.

use super::error::IsrError;
use super::protocols::{ARP, ETHER, IP, IP6, Received, named, packet};
use super::sysctl;
use crate::config::HostConfig;
use dispatch::netisr::{Config, Mode, Netisr, Protocol};
use std::sync::Arc;
use wire::hash::Key;
use wire::{flow, rss};

/// Maximum number of workstreams of a host. Each workstream may have a thread, and at most 64
/// threads of a process can run stacks.
pub const WORKSTREAMS_MAX: usize = 32;

/// Creates the netisr that `config` describes.
pub(super) fn make(config: &HostConfig) -> Result<Arc<Netisr<Received>>, IsrError> {
    let key = config.seed.map_or_else(Key::random, Key::seeded);
    let protocols = vec![
        named(IP)
            .by_cpu(|received: &Received| rss::four(packet(received)).map(rss::bucket))
            .by_flow(move |received| flow::four(key, packet(received))),
        named(ARP),
        // As in FreeBSD, ether is always direct, regardless of the global policy.
        Protocol { dispatch: Some(Mode::Direct), ..named(ETHER) },
        named(IP6)
            .by_cpu(|received: &Received| rss::six(packet(received)).map(rss::bucket))
            .by_flow(move |received| flow::six(key, packet(received))),
    ];
    set_up(config, base(config, config.isr.workstreams), protocols)
}

/// Returns the configuration of netisr from `config`, with `workstreams` workstreams.
pub(crate) fn base(config: &HostConfig, workstreams: usize) -> Config {
    let isr = &config.isr;
    Config {
        workstreams,
        max_workstreams: WORKSTREAMS_MAX,
        max_qlimit: isr.max_qlimit,
        default_qlimit: Config::default().default_qlimit.min(isr.max_qlimit),
        bound: isr.bind,
        cpus: if isr.bind { (0..workstreams).map(dispatch::core_at).collect() } else { Vec::new() },
        looks: isr.looks,
        ..Config::default()
    }
}

/// Creates netisr with `protocols`, and applies the configured sysctls.
pub(crate) fn set_up(
    config: &HostConfig,
    base: Config,
    protocols: Vec<Protocol<Received>>,
) -> Result<Arc<Netisr<Received>>, IsrError> {
    let netisr = Netisr::new(base, protocols)?;
    config.sysctl.iter().try_for_each(|(name, value)| sysctl::set(Some(&netisr), name, *value))?;
    Ok(netisr)
}
