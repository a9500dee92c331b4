//! The two ends of a connection, for what is derived from them by a secret: numbers, ports, cookies, places in tables.

use wire::L4Port;

/// Addresses of either family as 128 bits (IPv4 as the host maps it; nothing here looks inside) and ports.
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

    /// The ends as the peer sees them.
    #[must_use]
    pub fn reversed(&self) -> Ends {
        Ends { local: self.remote, remote: self.local, local_port: self.remote_port, remote_port: self.local_port }
    }
}
