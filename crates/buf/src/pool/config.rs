//! What a pool is asked to be like, and why it could not be made.

use crate::frame::POOLS_MAX;
use crate::mem::Pages;
use std::fmt;
use std::str::FromStr;

/// How a pool keeps its free buffers (the knob `pool.kind`).
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Kind {
    /// An array of pointers, last in first out.
    #[default]
    Stack,
    /// A list linked through the free buffers themselves.
    Freelist,
    /// UMA-like: constructor, destructor, per-thread buckets, depot.
    Zone,
    /// The system's allocator, every time.
    Malloc,
}

impl Stride {
    /// The least stride for so many bytes: whole cache lines.
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

/// Who may use a pool's free list, and how they exclude each other.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum PoolLocks {
    /// One thread owns it.
    #[default]
    Owner,
    /// A light mutex, and a cache for each thread in front of it.
    Light,
    /// A semaphore object around every get and put.
    Heavy,
}

/// How far apart buffers lie.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Stride {
    /// An odd number of cache lines: equal offsets of different buffers then fall into different cache sets.
    #[default]
    Odd,
    /// A power of two: no buffer of up to a page crosses from one page into the next, as devices ask that read and write
    /// them by themselves. The room for a [`Held`](crate::Held)'s state counts: 1856 bytes behind a headroom of 128 make 2048.
    PowerOfTwo,
}

/// What a pool is to be like.
#[derive(Clone, Debug)]
pub struct PoolConfig {
    /// The policy.
    pub kind: Kind,
    /// The lock.
    pub locks: PoolLocks,
    /// How many buffers.
    pub buffers: usize,
    /// Bytes of payload a buffer can hold behind the headroom.
    pub data: usize,
    /// Bytes kept free in front, for headers.
    pub headroom: u16,
    /// The pages underneath.
    pub pages: Pages,
    /// How far apart the buffers lie.
    pub stride: Stride,
    /// Ask the cache for the next buffer's first lines while the present one is filled.
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

/// Why a pool could not be made.
#[derive(Debug)]
pub enum PoolError {
    /// No buffers, or buffers of no size, or beyond 4 GiB, or a headroom beyond 16 KiB.
    BadConfig(&'static str),
    /// The system gave no memory.
    NoMemory(std::io::Error),
    /// This process has 2048 pools already.
    TooMany,
}

impl fmt::Display for PoolError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            PoolError::BadConfig(why) => write!(f, "pool: {why}"),
            PoolError::NoMemory(why) => write!(f, "pool: no memory: {why}"),
            PoolError::TooMany => write!(f, "pool: this process has {POOLS_MAX} pools already"),
        }
    }
}

impl std::error::Error for PoolError {}
