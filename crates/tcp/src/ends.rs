//! Addresses and ports of a connection, as input to the keyed hashes that yield sequence numbers,
//! ports, cookies and table indices.

use crate::siphash::Key;
use wire::L4Port;

/// Prefix of IPv4-mapped IPv6 addresses (RFC 4291 2.5.5.2).
const MAPPED: u128 = 0xffff;

/// Addresses and ports of a connection. Addresses are 128 bits, with IPv4 mapped into IPv6; this
/// crate does not interpret them further.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default)]
pub struct Ends {
    /// Local address.
    pub local: u128,
    /// Remote address.
    pub remote: u128,
    /// Local port.
    pub local_port: L4Port,
    /// Remote port.
    pub remote_port: L4Port,
}

impl Ends {
    /// Returns addresses and ports as words to hash.
    pub(crate) fn words(&self) -> [u64; 5] {
        let [l, r] = [self.local, self.remote];
        let ports = u64::from(self.local_port.0) << 16 | u64::from(self.remote_port.0);
        [(l >> 64) as u64, l as u64, (r >> 64) as u64, r as u64, ports]
    }

    /// Computes the SipHash-2-4 of addresses and ports, for values that peers receive and must not
    /// be able to predict.
    pub(crate) fn sip24(&self, key: Key) -> u64 {
        self.short_words().map_or_else(|| key.sip24(&self.words()), |words| key.sip24(&words))
    }

    /// Returns addresses and ports as two words, if both addresses are IPv4. SipHash-2-4 then needs
    /// 10 rounds instead of 16. The message length is part of the hash, so these words cannot
    /// collide with the beginning of a longer message.
    fn short_words(&self) -> Option<[u64; 2]> {
        let [l, r] = [self.local, self.remote];
        let ports = u64::from(self.local_port.0) << 16 | u64::from(self.remote_port.0);
        let short = l >> 32 == MAPPED && r >> 32 == MAPPED;
        short.then_some([(l as u64) << 32 | u64::from(r as u32), ports])
    }

    /// Returns whether the remote address is the unspecified one of its family.
    pub(crate) fn is_remote_unspecified(&self) -> bool {
        self.remote == 0 || self.remote == MAPPED << 32
    }

    /// Returns the addresses and ports as the peer sees them: local and remote exchanged.
    #[must_use]
    pub fn reversed(&self) -> Ends {
        Ends { local: self.remote, remote: self.local, local_port: self.remote_port, remote_port: self.local_port }
    }
}
