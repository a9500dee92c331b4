//! Exchange of a pool's frames with the kernel. The pool's memory is also the socket's memory, so
//! frames are not copied here.
//!
//! A buffer is given to the kernel to be filled, or as a frame to be sent. Until the kernel returns
//! it, it is recorded by the half that gave it ([`buf::Away`]). Buffers that the kernel still has
//! when both halves have been dropped are freed after the rings are unmapped and the socket is
//! closed, because the kernel then no longer accesses the memory. A device that accesses the memory
//! itself (zero copy) releases it later, in a worker of the kernel. The last drop waits for that;
//! if the release takes too long, the buffers are leaked.
//!
//! Each socket registers the pool's memory separately. Sockets can share a registration
//! (`XDP_SHARED_UMEM`), but then all have the copy mode of the first socket and end with it. The
//! only advantage would be that the memory is counted once towards RLIMIT_MEMLOCK.

mod geometry;
mod rx;
mod shared;
mod tx;

pub use geometry::Geometry;
pub use rx::{FrameRx, Received};
pub(super) use shared::open_patiently;
pub use tx::{FrameTx, Kicked, More};

use super::{Ask, Failure};
use buf::{Away, Pool};
use shared::Shared;
use std::sync::Arc;

/// Opens a socket over the memory of `pool` with the layout `geometry`. Also returns whether the
/// device accesses the memory itself (zero copy).
///
/// # Errors
/// The failed step and its error; `None` if the pool has no memory of its own.
pub fn open(pool: &Pool, geometry: Geometry, ask: &Ask) -> Result<(FrameRx, FrameTx, bool), Option<Failure>> {
    let (rx_away, tx_away) = (Away::new(pool).ok_or(None)?, Away::new(pool).ok_or(None)?);
    let memory = geometry.memory(&rx_away.layout());
    // SAFETY: the records of the halves keep the pool, and so its memory, until socket and rings
    // are gone (`Shared`, `Parked`). The rings contain only buffers that are in a record.
    let queue = unsafe { open_patiently(&memory, ask) }.map_err(Some)?;
    let shared = Arc::new(Shared::new(queue.socket, queue.zero_copy.then_some(*ask)));
    let rx = FrameRx::new(queue.fill, queue.rx, rx_away, geometry, shared.clone());
    let tx = FrameTx::new(queue.tx, queue.done, tx_away, geometry, ask, shared);
    Ok((rx, tx, queue.zero_copy))
}
