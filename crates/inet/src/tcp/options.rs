//! What is set on sockets, kept once for all that are set alike.
//!
//! A server that accepts 100,000 connections sets the same two options on each; 160 bytes for each would be most of what a socket
//! takes besides its connection. Sets are shared and never change: who sets an option gets another set.

use super::{NO_OPTIONS, Options, Tcp};
use ::tcp::Config;
use lock::{Cx, Locks};
use std::sync::Arc;

/// Sets that are remembered, newest last: what a program sets on one socket after another is among a few.
const REMEMBERED: usize = 8;

impl<L: Locks> Tcp<L> {
    /// A set of these options, the one that other sockets have if there is such; `None` if nothing is set.
    pub(super) fn shared_options(&self, cx: Cx, options: Options) -> Option<Arc<Options>> {
        let mut sets = self.options.lock(cx);
        if let Some(set) = sets.iter().rfind(|set| ***set == options) {
            return Some(Arc::clone(set));
        }
        if options == NO_OPTIONS {
            return None;
        }
        if sets.len() >= REMEMBERED {
            sets.remove(0);
        }
        let set = Arc::new(options);
        sets.push(Arc::clone(&set));
        Some(set)
    }

    /// What an accepted connection has of its listener's options: all but O_NONBLOCK, as in Linux.
    pub(super) fn inherited_options(&self, cx: Cx, listener: Option<&Arc<Options>>) -> Option<Arc<Options>> {
        match listener {
            Some(set) if set.nonblocking => {
                self.shared_options(cx, Options { nonblocking: false, ..Options::clone(set) })
            }
            set => set.cloned(),
        }
    }
}

/// The configuration as a socket's options change it.
pub(super) fn configured(base: Arc<Config>, options: &Options) -> Arc<Config> {
    let maxseg = options.maxseg.filter(|mss| *mss < base.mss);
    if maxseg.is_none() && options.recv_space.is_none() && options.congestion.is_none() {
        return base;
    }
    let mut config = Config::clone(&base);
    config.mss = maxseg.unwrap_or(config.mss).max(config.min_mss);
    if let Some(space) = options.recv_space {
        // It is what the window is scaled for, too (as Linux): more, asked for later, is not shown to the peer.
        (config.recv_space, config.recv_space_max) = (space, space);
    }
    config.algorithm = options.congestion.unwrap_or(config.algorithm);
    Arc::new(config)
}

#[cfg(test)]
mod tests {
    use super::*;
    use clock::Instant;
    use lock::{How, Up};

    #[test]
    fn sockets_that_are_set_alike_share_a_set() {
        let tcp = Tcp::<Up>::new(wire::hash::Key::seeded(1), ::tcp::siphash::Key(1, 2), 0);
        let cx = Cx::enter(How::Register, Instant::ZERO);
        let with =
            |ttl: u8| tcp.shared_options(cx, Options { ttl: Some(ttl), nonblocking: true, ..NO_OPTIONS.clone() });
        let (first, other) = (with(1).unwrap(), with(2).unwrap());
        assert!(Arc::ptr_eq(&first, &with(1).unwrap()) && !Arc::ptr_eq(&first, &other));
        (10..50).for_each(|ttl| assert!(with(ttl).is_some_and(|set| set.ttl == Some(ttl))));
        assert_eq!(tcp.options.lock(cx).len(), REMEMBERED);
        assert_eq!(with(1).as_deref(), Some(&*first), "forgotten, and made again");
        assert!(tcp.shared_options(cx, NO_OPTIONS.clone()).is_none());
        let child = tcp.inherited_options(cx, Some(&first)).unwrap();
        assert_eq!(*child, Options { nonblocking: false, ..Options::clone(&first) });
    }
}
