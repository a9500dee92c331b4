//! Split host: several stacks, one thread each, that share only addresses and ports (`stacks = N`).
//!
//! ```text
//! ports -> Dispatcher::turn   flow::whose: stack of the flow -> netisr queue of that stack
//!                             (counted as Queued, or QDrops)
//!                             ARP, ND, IGMP, MLD: a copy to each stack
//!          Sharded::take      the stack's thread, once a round: the stack's whole queue into
//!                             Stack::input (counted as Handled)
//! stack -> ShardTx            a ring per stack and port -> Dispatcher::turn -> the same port
//! ```
//! The dispatcher (`Dispatcher`) has a thread of its own and owns the ports. The stacks are
//! ordinary hosts of one thread (`locks = 'up'`) with the same addresses and MAC address. By
//! default (`net.isr.proto.ip.policy=flow`), a flow stays with one stack from its first frame to
//! its last. A flow is a TCP connection, the fragments of a datagram, or ICMP errors about either.
//! Alternatively, all flows of a peer go to one stack (`cpu`), or all frames of a port (`source`).
//! The first stack answers ARP requests (`net.link.ether.inet.answer`); all stacks learn from ARP
//! packets. docs/decisions/0020 gives the reasons.
//!
//! When a stack opens a connection, it selects a local L4 port for which the replies are dispatched
//! to this stack ([`leads_to`]). It cannot do so if the caller has bound the L4 port, or for
//! datagrams sent without a connection. Replies to these may go to another stack.

mod dispatcher;
mod shard;
#[cfg(test)]
mod tests;

pub use dispatcher::OpenError;
pub(crate) use dispatcher::{Dispatcher, entries};
pub(crate) use shard::{Shard, Sharded};

use crate::config::HostConfig;
use crate::isr::{self, ETHER, IP, IP6, IsrError, Received};
use dispatch::netisr::{Config, Mode, Netisr, Policy};
use stats::Counter;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};
use wire::Proto;
use wire::flow::whose::{self, Fragments};
use wire::hash::Key;

stats::counters! {
    /// Counters of the dispatcher of a split host.
    pub struct DispatchCounts at "node.split" {
        /// Frames received from ports.
        received,
        /// Copies of frames created for all stacks.
        copied,
        /// Copies not created: the pool was empty.
        not_copied,
        /// Frames dropped: the queue of their stack was full.
        queue_full,
        /// Frames received from stacks.
        taken,
        /// Frames sent to ports.
        sent,
        /// Frames still queued when the host shut down.
        shutdown,
    }
}

/// State of fragmented packets. Counts fragments that arrived before the first fragment of their
/// packet, which may go to the wrong stack. This counter is not part of [`DispatchCounts`], because
/// the dispatcher's loop writes those.
#[derive(Debug, Default)]
pub(crate) struct Strays(Mutex<Fragments>);

impl Strays {
    fn with<R>(&self, f: impl FnOnce(&mut Fragments) -> R) -> R {
        f(&mut self.0.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// Returns the number of fragments that arrived before the first fragment of their packet.
    pub(crate) fn count(&self) -> u64 {
        self.with(|fragments| fragments.strays)
    }
}

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

/// Returns a function of (protocol, local endpoint, remote endpoint). It returns whether frames
/// from that remote endpoint are dispatched to stack `at`.
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
            Policy::Source => return true, // by port, which follows from the route
        };
        hash as usize % netisr.workstreams().max(1) == at
    }
}

/// Returns the configurations of the stacks of a split host, called NAME.0 and so on. Each has its
/// services, sysctls and control socket; only the first one answers ARP requests.
pub(crate) fn parts(config: &HostConfig) -> Vec<HostConfig> {
    let part = |at: usize| {
        let mut part = HostConfig {
            name: format!("{}.{at}", config.name),
            stacks: 1,
            core: config.isr.bind.then(|| dispatch::core_at(at)),
            control: config.control.as_deref().map(|path| numbered(path, at)),
            ..config.clone()
        };
        part.isr.bind = false;
        part.sysctl.retain(|name, _| !name.starts_with("net.isr."));
        if at > 0 {
            part.sysctl.insert("net.link.ether.inet.answer".to_owned(), 0);
        }
        part
    };
    (0..config.stacks).map(part).collect()
}

/// Inserts the number of a stack into a path: `web.sock` becomes `web.1.sock`.
fn numbered(path: &Path, at: usize) -> PathBuf {
    match path.extension() {
        Some(extension) => path.with_extension(format!("{at}.{}", extension.display())),
        None => path.with_extension(at.to_string()),
    }
}

/// Adds to a counter that only one thread changes.
fn add(counter: &Counter, n: usize) {
    counter.add(n as u64);
}
