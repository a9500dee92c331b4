//! Who owns the bytes.
//!
//! A [`Frame`] is a 16-byte value that owns one buffer of a [`Pool`]; moving it moves ownership, dropping it returns
//! the buffer. A [`Held`] keeps payload that must live twice; [`Away`] keeps account of buffers that a device has. Frames travel in a [`Burst`] between the edges and cross threads in a [`ring`]. Nothing here knows what a
//! header is. This crate is an unsafe room: each block says why it is sound.

mod away;
mod burst;
mod frame;
mod held;
pub mod mem;
mod pool;
pub mod ring;
mod unwind;

pub use away::{Away, Place};
pub use burst::{BURST_MAX, Burst, Drain};
pub use frame::{Flags, Frame, evict, prefetch, prefetch_next};
pub use held::Held;
pub use pool::{Kind, Layout, Pool, PoolConfig, PoolError, PoolLocks, PoolStats, Stride};
pub use unwind::unwound;
