//! The two ends of a connection, for what is derived from them by a secret: numbers, ports, cookies, places in tables.

use crate::siphash::Key;
use wire::L4Port;

/// What IPv4 addresses begin with, where they are mapped into IPv6's (RFC 4291 2.5.5.2).
const MAPPED: u128 = 0xffff;

/// Addresses of either family as 128 bits (IPv4 mapped; nothing else here looks inside) and ports.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default)]
pub struct Ends {
    /// Our address.
    pub local: u128,
    /// The peer's.
    pub remote: u128,
    /// Our port.
    pub local_port: L4Port,
    /// The peer's.
    pub remote_port: L4Port,
}

impl Ends {
    /// As words to be hashed.
    pub(crate) fn words(&self) -> [u64; 5] {
        let [l, r] = [self.local, self.remote];
        let ports = u64::from(self.local_port.0) << 16 | u64::from(self.remote_port.0);
        [(l >> 64) as u64, l as u64, (r >> 64) as u64, r as u64, ports]
    }

    /// What strangers see and must not guess.
    pub(crate) fn sip24(&self, key: Key) -> u64 {
        self.short_words().map_or_else(|| key.sip24(&self.words()), |words| key.sip24(&words))
    }

    /// The words of two IPv4 addresses: 10 rounds instead of 16. A message's length is part of its hash, so that they are not taken
    /// for the beginning of another's.
    fn short_words(&self) -> Option<[u64; 2]> {
        let [l, r] = [self.local, self.remote];
        let ports = u64::from(self.local_port.0) << 16 | u64::from(self.remote_port.0);
        let short = l >> 32 == MAPPED && r >> 32 == MAPPED;
        short.then_some([(l as u64) << 32 | u64::from(r as u32), ports])
    }

    /// The ends as the peer sees them.
    #[must_use]
    pub fn reversed(&self) -> Ends {
        Ends { local: self.remote, remote: self.local, local_port: self.remote_port, remote_port: self.local_port }
    }
}
