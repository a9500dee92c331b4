//! Buffers for large TCP segments that a device gives uncut.

use buf::{Pool, PoolConfig, PoolLocks};
use std::io::{self, ErrorKind};

/// Large buffers of one device: more than fill the largest receive buffer of a connection. Memory is theirs once they are used.
pub const LARGE_BUFFERS: usize = 128;

/// The largest IP packet.
pub const LARGEST: usize = 65_535;

/// The largest packet, and what stands around it.
const LARGE_DATA: usize = LARGEST + 1 + 64;

/// Buffers for large segments. Frames of theirs end on any thread.
pub fn pool(buffers: usize) -> io::Result<Pool> {
    let config = PoolConfig { buffers, data: LARGE_DATA, locks: PoolLocks::Light, ..PoolConfig::default() };
    Pool::new(&config).map_err(|error| io::Error::new(ErrorKind::OutOfMemory, error.to_string()))
}
