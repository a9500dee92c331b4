//! Configuration of a pool, and errors of its creation.

use crate::frame::POOLS_MAX;
use crate::mem::Pages;
use std::fmt;
use std::str::FromStr;

/// Storage of a pool's free buffers (the sysctl `pool.kind`).
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Kind {
    /// Array of pointers, last in first out.
    #[default]
    Stack,
    /// List linked through the free buffers themselves.
    Freelist,
    /// Per-thread buckets and a shared depot, with a constructor and a destructor, as in BSD's UMA.
    Zone,
    /// No storage: the system's allocator allocates and frees each buffer.
    Malloc,
}

impl Stride {
    /// Returns the smallest stride of this kind, in bytes, that is at least `bytes`. It is a whole
    /// number of cache lines.
    pub(super) fn over(self, bytes: usize) -> usize {
        match self {
            Stride::Odd => (bytes.div_ceil(64) | 1) * 64,
            Stride::PowerOfTwo => bytes.next_power_of_two().max(64),
        }
    }
}

impl FromStr for Kind {
    type Err = String;
    fn from_str(word: &str) -> Result<Kind, String> {
        match word {
            "stack" => Ok(Kind::Stack),
            "freelist" => Ok(Kind::Freelist),
            "zone" => Ok(Kind::Zone),
            "malloc" => Ok(Kind::Malloc),
            other => Err(format!("unknown pool kind '{other}': expected stack, freelist, zone or malloc")),
        }
    }
}

impl FromStr for Stride {
    type Err = String;
    fn from_str(word: &str) -> Result<Stride, String> {
        match word {
            "odd" => Ok(Stride::Odd),
            "power2" => Ok(Stride::PowerOfTwo),
            other => Err(format!("unknown stride '{other}': expected odd or power2")),
        }
    }
}

impl fmt::Display for Stride {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Stride::Odd => "odd",
            Stride::PowerOfTwo => "power2",
        })
    }
}

impl fmt::Display for Kind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Kind::Stack => "stack",
            Kind::Freelist => "freelist",
            Kind::Zone => "zone",
            Kind::Malloc => "malloc",
        })
    }
}

/// Protection of a pool's free list against concurrent access.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum PoolLocks {
    /// One thread owns the list; other threads return buffers through a second list.
    #[default]
    Owner,
    /// A light mutex, and (with [`Kind::Stack`]) a cache of buffers for each thread.
    Light,
    /// A semaphore object around every get and put.
    Heavy,
}

/// Distance between the starts of two buffers.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Stride {
    /// An odd number of cache lines: equal offsets of different buffers then fall into different
    /// cache sets.
    #[default]
    Odd,
    /// A power of two: a buffer of up to one page then does not cross a page boundary, which
    /// devices with direct memory access require. The distance includes 64 bytes for the state of a
    /// [`Held`](crate::Held): with a headroom of 128 bytes, a payload of 1856 bytes results in a
    /// distance of 2048 bytes.
    PowerOfTwo,
}

/// Configuration of a pool.
#[derive(Clone, Debug)]
pub struct PoolConfig {
    /// Data structure for the free buffers.
    pub kind: Kind,
    /// Protection of the free list against concurrent access.
    pub locks: PoolLocks,
    /// Number of buffers.
    pub buffers: usize,
    /// Number of payload bytes in a buffer, not including the headroom.
    pub data: usize,
    /// Number of bytes reserved for headers in front of the payload.
    pub headroom: u16,
    /// Page size of the memory.
    pub pages: Pages,
    /// Distance between the starts of two buffers.
    pub stride: Stride,
    /// If true, the next buffer's first cache lines are prefetched when a buffer is taken.
    pub prefetch: bool,
}

impl Default for PoolConfig {
    fn default() -> PoolConfig {
        PoolConfig {
            kind: Kind::Stack,
            locks: PoolLocks::Owner,
            buffers: 4096,
            data: 2048,
            headroom: 128,
            pages: Pages::Small,
            stride: Stride::Odd,
            prefetch: false,
        }
    }
}

/// Reason why a pool could not be created.
#[derive(Debug)]
pub enum PoolError {
    /// A size is out of range: 1 to 16 Mi buffers, 1 byte to 1 MiB of payload, and at most 16 KiB
    /// of headroom are allowed.
    BadConfig(&'static str),
    /// The system could not map the memory.
    NoMemory(std::io::Error),
    /// The process already has 2048 pools.
    TooMany,
}

impl fmt::Display for PoolError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            PoolError::BadConfig(why) => write!(f, "pool: {why}"),
            PoolError::NoMemory(why) => write!(f, "pool: cannot allocate memory: {why}"),
            PoolError::TooMany => write!(f, "pool: this process already has {POOLS_MAX} pools"),
        }
    }
}

impl std::error::Error for PoolError {}
