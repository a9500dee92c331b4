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
//! to this stack ([`netisr::leads_to`]). It cannot do so if the caller has bound the L4 port, or
//! for datagrams sent from an unconnected socket. In both cases, replies may be dispatched to
//! another stack.

mod counts;
mod dispatcher;
mod netisr;
mod shard;
#[cfg(test)]
mod tests;

pub(crate) use counts::{DispatchCounts, Strays, entries};
pub(crate) use dispatcher::Dispatcher;
pub use dispatcher::OpenError;
pub(crate) use netisr::netisr;
pub(crate) use shard::{Shard, Sharded};

use crate::config::HostConfig;
use std::path::{Path, PathBuf};

/// Returns the configurations of the stacks of a split host, called NAME.0 and so on. Each stack
/// has the services and the sysctls of the host, except the sysctls of netisr, and a control socket
/// of its own. Only the first stack answers ARP requests.
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
