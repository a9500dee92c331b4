//! Ports that come and go: a place keeps its number, and may be empty.

use super::state::Extra;
use super::{Bridge, Counts, Member};
use crate::{Entry, Key, MAX_PORTS, PortNo};
use clock::Instant;

/// The cluster of an empty place.
pub(super) const NO_CLUSTER: u16 = u16::MAX;

/// In an empty place: nothing is learned there, nothing goes there, as no port is in its cluster.
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
    /// Makes `member` the port of that number, counting from nothing; false if no bridge has such a number.
    pub fn join(&mut self, port: PortNo, member: Member) -> bool {
        if usize::from(port) >= MAX_PORTS {
            return false;
        }
        while self.members.len() <= usize::from(port) {
            self.members.push((NOBODY, Counts::default()));
            self.extras.push(Extra::default());
        }
        self.settle(port);
        self.set_member(port, member);
        true
    }

    /// Takes the port out, and forgets what was learned there.
    pub fn remove(&mut self, port: PortNo, now: Instant) {
        self.settle(port);
        self.set_member(port, NOBODY);
        self.forget(|entry| entry.port == port, now);
    }

    /// Is there a port of that number?
    pub(super) fn has(&self, port: PortNo) -> bool {
        self.member(port).is_some_and(|member| *member != NOBODY)
    }

    /// Forgets what is learned and is `which`, and does not hear of it either from who saw it before; says how many.
    pub fn forget(&mut self, which: impl FnMut(&Entry) -> bool, now: Instant) -> usize {
        self.forgot = now;
        self.fdb.flush(which, now)
    }

    /// The same of an address, whatever its kind; was it known?
    pub fn forget_address(&mut self, key: Key, now: Instant) -> bool {
        self.forgot = now;
        self.fdb.remove(key)
    }

    /// What the port did so far is somebody else's: of who was there before.
    fn settle(&mut self, port: PortNo) {
        if let Some((_, counts)) = self.members.get_mut(usize::from(port)) {
            self.gone.received += counts.received;
            self.gone.given += counts.given;
            self.gone.local += counts.local;
            *counts = Counts::default();
        }
        self.forget_extra(port);
    }

    /// What a port did.
    pub fn counts_of(&self, port: PortNo) -> Option<Counts> {
        self.members.get(usize::from(port)).map(|(_, counts)| *counts)
    }
}
