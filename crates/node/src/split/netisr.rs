//! Netisr of a split host: the queues of its stacks, and the choice of the stack for each flow.

use super::counts::Strays;
use crate::config::HostConfig;
use crate::isr::{self, ETHER, IP, IP6, IsrError, Received};
use dispatch::netisr::{Config, Mode, Netisr, Policy};
use std::net::SocketAddr;
use std::sync::Arc;
use wire::Proto;
use wire::flow::whose;
use wire::hash::Key;

/// Returns the netisr of a split host. It has one workstream per stack, which the stack's thread
/// runs. The dispatcher only fills the queues.
///
/// # Errors
/// Returns an [`IsrError`] for an invalid sysctl.
pub(crate) fn netisr(config: &HostConfig, key: Key, strays: &Arc<Strays>) -> Result<Arc<Netisr<Received>>, IsrError> {
    let by = || {
        let strays = strays.clone();
        move |received: &Received| strays.with(|fragments| whose::flow(key, isr::packet(received), fragments))
    };
    let peer = move |received: &Received| whose::peer(key, isr::packet(received)).map(|hash| hash as usize);
    let protocols = vec![
        isr::named(IP).by_cpu(peer).by_flow(by()),
        isr::named(isr::ARP),
        isr::named(ETHER),
        isr::named(IP6).by_cpu(peer).by_flow(by()),
    ];
    let only = Some(Mode::Deferred);
    let base = Config { mode: Mode::Deferred, only, ..isr::base(config, config.stacks) };
    isr::set_up(config, base, protocols)
}

/// Returns a function that determines whether frames from a remote endpoint are dispatched to stack
/// `at`. Its arguments are (protocol, local endpoint, remote endpoint).
pub(crate) fn leads_to(
    netisr: Arc<Netisr<Received>>,
    key: Key,
    at: usize,
) -> impl Fn(Proto, SocketAddr, SocketAddr) -> bool + Send + Sync + 'static {
    move |proto, here, there| {
        let Ok([ip, ..]) = isr::ids(&netisr) else { return true };
        let hash = match netisr.policy(ip) {
            Policy::Flow => whose::of_ends(key, there, here, proto),
            Policy::Cpu => whose::of_peer(key, there.ip(), here.ip()),
            Policy::Source => return true, // the ingress port selects the stack, not the L4 ports
        };
        hash as usize % netisr.workstreams().max(1) == at
    }
}
