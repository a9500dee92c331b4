//! Addition and removal of ports. Port numbers are stable, so the slot of a removed port remains
//! unused.

use super::state::Extra;
use super::{Bridge, Counts, Member};
use crate::{Entry, Key, MAX_PORTS, PortNo};
use clock::Instant;

/// Value of [`Member::cluster`] in an unused slot, which has no port.
pub(super) const NO_CLUSTER: u16 = u16::MAX;

/// Settings in an unused slot. Nothing is learned or forwarded there, because no port is in its
/// cluster.
const NOBODY: Member = Member {
    learn: false,
    discover: false,
    multicast: false,
    broadcast: false,
    sticky: false,
    private: true,
    span: false,
    cluster: NO_CLUSTER,
    carrier: true,
};

impl Bridge {
    /// Makes `member` the port with number `port`, counted from zero. Returns `false` if the number
    /// exceeds the maximum ([`crate::MAX_PORTS`]).
    pub fn join(&mut self, port: PortNo, member: Member) -> bool {
        if usize::from(port) >= MAX_PORTS {
            return false;
        }
        while self.members.len() <= usize::from(port) {
            self.members.push((NOBODY, Counts::default()));
            self.extras.push(Extra::default());
        }
        self.update(port);
        self.set_member(port, member);
        true
    }

    /// Removes a port and flushes the addresses learned there.
    pub fn remove(&mut self, port: PortNo, now: Instant) {
        self.update(port);
        self.set_member(port, NOBODY);
        self.forget(|entry| entry.port == port, now);
    }

    /// Returns whether port `port` exists.
    pub(super) fn has(&self, port: PortNo) -> bool {
        self.member(port).is_some_and(|member| *member != NOBODY)
    }

    /// Flushes the entries that match `which`. Afterwards, events from other replicas about
    /// addresses seen before the flush are ignored. Returns the number of entries flushed.
    pub fn forget(&mut self, which: impl FnMut(&Entry) -> bool, now: Instant) -> usize {
        self.forgot = now;
        self.fdb.flush(which, now)
    }

    /// Removes an address, whatever the kind of its entry. Afterwards, events from other replicas
    /// about addresses seen before the removal are ignored. Returns whether the address was known.
    pub fn forget_address(&mut self, key: Key, now: Instant) -> bool {
        self.forgot = now;
        self.fdb.remove(key)
    }

    /// Adds the counters of a port to the totals of removed ports, and resets the port's counters
    /// and rarely read state.
    fn update(&mut self, port: PortNo) {
        if let Some((_, counts)) = self.members.get_mut(usize::from(port)) {
            self.gone.received += counts.received;
            self.gone.given += counts.given;
            self.gone.local += counts.local;
            *counts = Counts::default();
        }
        self.forget_extra(port);
    }

    /// Returns the counters of a port.
    pub fn counts_of(&self, port: PortNo) -> Option<Counts> {
        self.members.get(usize::from(port)).map(|(_, counts)| *counts)
    }
}
