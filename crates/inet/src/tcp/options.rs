//! Socket options, stored once for all sockets with the same options.
//!
//! A server that accepts 100,000 connections may set the same two options on each of them. The 160
//! bytes of options would be most of a socket's size without its connection. Option sets are
//! therefore shared and immutable: setting an option selects another set.

use super::{NO_OPTIONS, Options, Tcp};
use ::tcp::Config;
use lock::{Cx, Locks};
use std::sync::Arc;

/// Number of option sets kept for lookup, the newest last. A program that sets several options one
/// after another uses only a few sets.
const REMEMBERED: usize = 8;

impl<L: Locks> Tcp<L> {
    /// Returns a set with these options, which is shared with other sockets if possible; `None` for
    /// the default options.
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

    /// Returns the options that an accepted connection inherits from its listener: all but
    /// O_NONBLOCK, as in Linux.
    pub(super) fn inherited_options(&self, cx: Cx, listener: Option<&Arc<Options>>) -> Option<Arc<Options>> {
        match listener {
            Some(set) if set.nonblocking => {
                self.shared_options(cx, Options { nonblocking: false, ..Options::clone(set) })
            }
            set => set.cloned(),
        }
    }
}

/// Returns `base` modified by a socket's options.
pub(super) fn configured(base: Arc<Config>, options: &Options) -> Arc<Config> {
    let maxseg = options.maxseg.filter(|mss| *mss < base.mss);
    if maxseg.is_none() && options.recv_space.is_none() && options.congestion.is_none() {
        return base;
    }
    let mut config = Config::clone(&base);
    config.mss = maxseg.unwrap_or(config.mss).max(config.min_mss);
    if let Some(space) = options.recv_space {
        // As in Linux, the window scale is derived from this size too. The peer therefore cannot
        // use a larger size that is set later.
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
    fn sockets_with_equal_options_share_a_set() {
        let tcp = Tcp::<Up>::new(wire::hash::Key::seeded(1), ::tcp::siphash::Key(1, 2), 0);
        let cx = Cx::enter(How::Register, Instant::ZERO);
        let with =
            |ttl: u8| tcp.shared_options(cx, Options { ttl: Some(ttl), nonblocking: true, ..NO_OPTIONS.clone() });
        let (first, other) = (with(1).unwrap(), with(2).unwrap());
        assert!(Arc::ptr_eq(&first, &with(1).unwrap()) && !Arc::ptr_eq(&first, &other));
        (10..50).for_each(|ttl| assert!(with(ttl).is_some_and(|set| set.ttl == Some(ttl))));
        assert_eq!(tcp.options.lock(cx).len(), REMEMBERED);
        assert_eq!(with(1).as_deref(), Some(&*first), "an equal set is created again after it was evicted");
        assert!(tcp.shared_options(cx, NO_OPTIONS.clone()).is_none());
        let child = tcp.inherited_options(cx, Some(&first)).unwrap();
        assert_eq!(*child, Options { nonblocking: false, ..Options::clone(&first) });
    }
}
