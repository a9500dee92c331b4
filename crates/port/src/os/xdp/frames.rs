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

mod rx;
mod tx;

pub use rx::{FrameRx, Received};
pub use tx::{FrameTx, Kicked, More};

use super::{Ask, CHUNK_MAX, CHUNK_MIN, CopyMode, Failure, KERNEL_HEADROOM, Memory, Queue};
use buf::mem::{Pages, Region};
use buf::{Away, Layout, Pool};
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

/// Layout of the pool's buffers, as registered with the kernel.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Geometry {
    /// Number of bytes that the kernel uses of each buffer, from the start of its stride.
    pub chunk: usize,
    /// Number of bytes that are left free in addition to the kernel's own headroom, so that a
    /// received frame has the pool's headroom.
    pub headroom: usize,
    /// True if buffers may begin anywhere, not only at multiples of `chunk`. Some of them then
    /// cross a page boundary.
    pub unaligned: bool,
}

impl Geometry {
    /// Returns the geometry of a pool with `layout` and buffers of `size` bytes, whose frames have
    /// `headroom` bytes of headroom. Returns `None` if the buffers are too short for the kernel.
    pub fn of(layout: &Layout, size: usize, headroom: usize) -> Option<Geometry> {
        let unaligned = !layout.stride.is_power_of_two();
        let chunk = if unaligned { (layout.front + size).min(CHUNK_MAX) } else { layout.stride.min(CHUNK_MAX) };
        let headroom = (layout.front + headroom).saturating_sub(KERNEL_HEADROOM);
        let geometry = Geometry { chunk, headroom, unaligned };
        (chunk >= CHUNK_MIN && chunk > KERNEL_HEADROOM + headroom).then_some(geometry)
    }

    /// Returns the maximum length of a frame received in one buffer, in bytes.
    pub fn longest(&self, layout: &Layout, size: usize) -> usize {
        self.chunk.min(layout.front + size).saturating_sub(KERNEL_HEADROOM + self.headroom)
    }

    /// Returns the maximum length, in bytes, of a frame whose pieces are joined in the buffer of
    /// the first piece.
    pub fn longest_joined(&self, layout: &Layout, size: usize) -> usize {
        (layout.front + size).saturating_sub(KERNEL_HEADROOM + self.headroom)
    }

    fn memory(&self, layout: &Layout) -> Memory {
        let Geometry { chunk, headroom, unaligned } = *self;
        // In aligned mode, the memory consists of whole chunks only.
        let len = if unaligned { layout.len } else { layout.len / chunk * chunk };
        Memory { base: layout.base, len, chunk, headroom, unaligned }
    }

    /// Returns the address for a descriptor. In unaligned mode the upper bits contain the offset.
    #[inline(always)]
    fn address(&self, slot: usize, data: usize) -> u64 {
        if self.unaligned {
            (data as u64) << libc::XSK_UNALIGNED_BUF_OFFSET_SHIFT | slot as u64
        } else {
            (slot + data) as u64
        }
    }

    /// Splits a descriptor's address into the start of the buffer's stride and the offset in it.
    #[inline(always)]
    fn place(&self, address: u64) -> (usize, usize) {
        if self.unaligned {
            let slot = address & libc::XSK_UNALIGNED_BUF_ADDR_MASK;
            return (slot as usize, (address >> libc::XSK_UNALIGNED_BUF_OFFSET_SHIFT) as usize);
        }
        let within = self.chunk as u64 - 1;
        ((address & !within) as usize, (address & within) as usize)
    }
}

/// State shared by both halves. Field order: the socket is closed before the parked buffers are
/// freed.
struct Shared {
    socket: OwnedFd,
    gone: AtomicBool,
    parked: Mutex<Parked>,
}

/// Buffers that the kernel still had when a half was dropped.
struct Parked {
    accounts: Vec<Away>,
    /// Set if the device accesses the memory itself. The buffers may then be freed only after the
    /// device's queue has become free.
    device: Option<Ask>,
}

impl Shared {
    fn park(&self, away: Away) {
        self.parked.lock().unwrap_or_else(PoisonError::into_inner).accounts.push(away);
    }

    /// Checks, by a system call, whether the device is gone, and records the result.
    fn look(&self) -> Option<io::Error> {
        let error = super::waiting_error(self.socket.as_fd())?;
        self.gone.store(true, Ordering::Relaxed);
        Some(error)
    }
}

impl Drop for Parked {
    fn drop(&mut self) {
        if self.device.is_some_and(|device| !is_released(&device)) {
            self.accounts.iter_mut().for_each(Away::abandon);
        }
    }
}

/// Delay between attempts to open a queue that is being released. The next constant is the number
/// of attempts.
const NAP: Duration = Duration::from_millis(5);
const TRIES: usize = 40;

/// Waits until the queue of a closed socket is free, which means that its device has released the
/// memory.
fn is_released(ask: &Ask) -> bool {
    let ask = Ask { mode: CopyMode::Copy, places: 64, ..*ask };
    let Ok(region) = Region::map(CHUNK_MAX, Pages::Small) else { return false };
    let memory = Memory { base: region.base(), len: CHUNK_MAX, chunk: CHUNK_MAX, headroom: 0, unaligned: false };
    // SAFETY: the kernel is given no buffers of the region, and the socket is closed before the
    // region is unmapped.
    let answer = unsafe { open_patiently(&memory, &ask) };
    !matches!(answer, Err((super::STEP_BIND, error)) if error.raw_os_error() == Some(libc::EBUSY))
}

/// Opens a socket. Retries while the queue is in use, because the kernel frees a queue some time
/// after its socket was closed.
///
/// # Safety
/// The conditions of [`super::open`].
pub(super) unsafe fn open_patiently(memory: &Memory, ask: &Ask) -> Result<Queue, Failure> {
    let mut tries = 0;
    loop {
        // SAFETY: guaranteed by the caller.
        match unsafe { super::open(memory, ask) } {
            Err((super::STEP_BIND, error)) if error.raw_os_error() == Some(libc::EBUSY) && tries < TRIES => {
                tries += 1;
                std::thread::sleep(NAP);
            }
            answer => return answer,
        }
    }
}

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
    let device = queue.zero_copy.then_some(*ask);
    let parked = Mutex::new(Parked { accounts: Vec::new(), device });
    let shared = Arc::new(Shared { socket: queue.socket, gone: AtomicBool::new(false), parked });
    let rx = FrameRx::new(queue.fill, queue.rx, rx_away, geometry, shared.clone());
    let tx = FrameTx::new(queue.tx, queue.done, tx_away, geometry, ask, shared);
    Ok((rx, tx, queue.zero_copy))
}
