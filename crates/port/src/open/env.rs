//! The pool, registries and addresses that are needed to open a port, in addition to its spec.

use super::pairs::Pairs;
use buf::Pool;
use wire::Mac;

/// Pool, registries and addresses that are needed to open a port, in addition to its spec.
#[derive(Clone, Debug)]
pub struct Env<'a> {
    /// Pool for received frames.
    pub pool: Pool,
    /// Registry of this process's pairs, wires and multi-queue TAP devices.
    pub pairs: &'a Pairs,
    /// MAC address of the host, used as destination of the frames of a generator or a
    /// TUN device.
    pub mac: Mac,
    /// Number of the generator. By default, generator `i` sends from (i+1).0.0.2 to (i+1).0.0.1,
    /// with the source MAC address 12:23:34:45:56:i.
    pub unit: u16,
}

/// Converts a count to 16 bits. The form of the option limits the count to this range.
pub(super) fn narrow(count: u64) -> u16 {
    u16::try_from(count).unwrap_or(u16::MAX)
}
