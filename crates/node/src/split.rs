//! A split host: several stacks that share nothing but addresses and ports, a thread each (`stacks = N`).
//!
//! ```text
//!  ports -> Steerer::turn            flow::whose: whose conversation is it?  -> netisr's queue of that stack    Queued, or QDrops
//!           ARP, ND, IGMP, MLD       a copy to each stack
//!           Seat::take               the stack's thread, between its rounds: its whole queue into Stack::input  Handled
//!  stack -> SeatTx                   a ring of this stack and port -> Steerer::turn -> the same port
//! ```
//! The steerer is a thread of its own, and has the ports; the stacks are ordinary hosts of one thread (`locks = 'up'`) with the same addresses
//! and MAC. A conversation is one stack's from its first frame to its last: TCP connections, the fragments of a datagram, ICMP errors about
//! either (`net.isr.proto.ip.policy=flow`, the default); or all conversations of a peer are (`cpu`), or all that a port brings (`source`).
//! One stack answers ARP, the first; all learn from it (`net.link.ether.inet.answer`). Decision 20 says why it is so.
//!
//! A stack that connects to others chooses L4 ports to which the answers come back to it ([`leads_to`]). Not so: an L4 port that the caller has
//! bound, and datagrams that are sent without a connection; their answers may be another stack's.

mod seat;
mod steerer;
#[cfg(test)]
mod tests;

pub(crate) use seat::{Seat, Seated};
pub use steerer::OpenError;
pub(crate) use steerer::{Steerer, entries};

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
    /// What the steerer of a split host did.
    pub struct Steered at "node.split" {
        /// Frames taken from ports.
        received,
        /// Copies made of frames that are for all stacks.
        copied,
        /// Copies that were not made: the pool was empty.
        not_copied,
        /// Frames refused: as many as may wait for their stack.
        queue_full,
        /// Frames taken from stacks.
        taken,
        /// Frames given to ports.
        sent,
        /// Frames that nobody took any more when the host ended.
        shutdown,
    }
}

/// Later fragments that came before their first: with whom they go is chance. Beside [`Steered`], which the steerer's loop counts.
#[derive(Debug, Default)]
pub(crate) struct Strays(Mutex<Fragments>);

impl Strays {
    fn with<R>(&self, f: impl FnOnce(&mut Fragments) -> R) -> R {
        f(&mut self.0.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// How many.
    pub(crate) fn count(&self) -> u64 {
        self.with(|fragments| fragments.strays)
    }
}

/// Netisr of a split host: a workstream for each stack, whose thread works on it; the steerer puts into queues and does nothing else.
///
/// # Errors
/// [`IsrError`]: a knob asks for what cannot be.
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

/// Says of two ends, the first of which is the host's, whether what the second sends to it is stack `at`'s.
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
            Policy::Source => return true, // where its port is, which routes say
        };
        hash as usize % netisr.workstreams().max(1) == at
    }
}

/// The hosts that a split host is made of: NAME.0 and so on, each with its services, knobs and control socket; the first answers ARP.
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

/// `web.sock` as `web.1.sock`.
fn numbered(path: &Path, at: usize) -> PathBuf {
    match path.extension() {
        Some(extension) => path.with_extension(format!("{at}.{}", extension.display())),
        None => path.with_extension(at.to_string()),
    }
}

/// Counts by one thread.
fn add(counter: &Counter, n: usize) {
    counter.add(n as u64);
}
