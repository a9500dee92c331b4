//! Internal crate of [linerate](https://docs.rs/linerate): its interface may change in any release.
//!
//! Ownership of packet memory.
//!
//! A [`Frame`] is a 16-byte value that owns one buffer of a [`Pool`]; moving it moves ownership,
//! and dropping it returns the buffer. A [`Held`] keeps payload for retransmission while a frame
//! with the same buffer is being sent; [`Away`] records the buffers that are in use by a device.
//! Frames are moved in a [`Burst`] and pass between threads in a [`ring`]. This crate does not
//! parse headers. It contains `unsafe` code: each block states why it is sound.

#![deny(missing_docs)]

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
