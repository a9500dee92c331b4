//! The frames of a pool, exchanged with the kernel: the pool's memory is the socket's, and no frame is copied here.
//!
//! A buffer goes to the kernel to be filled, or as a frame to be sent, and is on the account of the half that gave it until the
//! kernel gives it back ([`buf::Away`]). What is still away when both halves have been dropped comes home then: the
//! rings are unmapped and the socket is closed first, after which the kernel touches the memory no more. A device that
//! reads and writes the memory itself (zero copy) lets go of it later, by a worker of the kernel's: that is waited for, and
//! if it does not come to pass, those buffers stay out for good.
//!
//! Each socket registers the pool's memory for itself. Sockets can share a registration (`XDP_SHARED_UMEM`), but then all have the
//! mode of the first and end after it; all that it saves is that the memory counts once towards RLIMIT_MEMLOCK.

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

/// How the pool's buffers are told to the kernel.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Geometry {
    /// Bytes of a buffer that the kernel uses, from the beginning of its stride on.
    pub chunk: usize,
    /// Bytes left free beyond the kernel's own headroom, so that a received frame has the pool's.
    pub headroom: usize,
    /// Buffers begin anywhere, and not at multiples of `chunk`: some cross from one page into the next.
    pub unaligned: bool,
}

impl Geometry {
    /// For the pool whose buffers lie as `layout` says, hold `size` bytes and are given with `headroom` bytes free in front.
    /// `None`: too short for the kernel.
    pub fn of(layout: &Layout, size: usize, headroom: usize) -> Option<Geometry> {
        let unaligned = !layout.stride.is_power_of_two();
        let chunk = if unaligned { (layout.front + size).min(CHUNK_MAX) } else { layout.stride.min(CHUNK_MAX) };
        let headroom = (layout.front + headroom).saturating_sub(KERNEL_HEADROOM);
        let geometry = Geometry { chunk, headroom, unaligned };
        (chunk >= CHUNK_MIN && chunk > KERNEL_HEADROOM + headroom).then_some(geometry)
    }

    /// The longest frame that can be received in one piece, in bytes.
    pub fn longest(&self, layout: &Layout, size: usize) -> usize {
        self.chunk.min(layout.front + size).saturating_sub(KERNEL_HEADROOM + self.headroom)
    }

    /// The longest frame that a buffer has room for when its pieces are put together in the first one's.
    pub fn longest_joined(&self, layout: &Layout, size: usize) -> usize {
        (layout.front + size).saturating_sub(KERNEL_HEADROOM + self.headroom)
    }

    fn memory(&self, layout: &Layout) -> Memory {
        let Geometry { chunk, headroom, unaligned } = *self;
        // Aligned memory has whole pieces only.
        let len = if unaligned { layout.len } else { layout.len / chunk * chunk };
        Memory { base: layout.base, len, chunk, headroom, unaligned }
    }

    /// A descriptor's address. The offset stands in its upper part where that part is its own.
    #[inline(always)]
    fn address(&self, slot: usize, data: usize) -> u64 {
        if self.unaligned {
            (data as u64) << libc::XSK_UNALIGNED_BUF_OFFSET_SHIFT | slot as u64
        } else {
            (slot + data) as u64
        }
    }

    /// The same the other way round: the beginning of the stride, and the offset in it.
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

/// What both halves have. The socket is closed before what was parked comes home: the order of the fields.
struct Shared {
    socket: OwnedFd,
    gone: AtomicBool,
    parked: Mutex<Parked>,
}

/// What was away when a half was dropped.
struct Parked {
    accounts: Vec<Away>,
    /// The device reads and writes the memory itself, until its queue is free again.
    device: Option<Ask>,
}

impl Shared {
    fn park(&self, away: Away) {
        self.parked.lock().unwrap_or_else(PoisonError::into_inner).accounts.push(away);
    }

    /// Has the device gone? A look is a system call; what it said is remembered.
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

/// Between two tries to have a queue that is just being given up, and how many.
const NAP: Duration = Duration::from_millis(5);
const TRIES: usize = 40;

/// Waits until the queue of a socket that was closed is free: then its device has let go of the memory.
fn is_released(ask: &Ask) -> bool {
    let ask = Ask { mode: CopyMode::Copy, places: 64, ..*ask };
    let Ok(region) = Region::map(CHUNK_MAX, Pages::Small) else { return false };
    let memory = Memory { base: region.base(), len: CHUNK_MAX, chunk: CHUNK_MAX, headroom: 0, unaligned: false };
    // SAFETY: nothing is given to the kernel but the region's name; the socket is closed before the region goes.
    let answer = unsafe { open_patiently(&memory, &ask) };
    !matches!(answer, Err((super::STEP_BIND, error)) if error.raw_os_error() == Some(libc::EBUSY))
}

/// Opens a socket; should its queue be in use, it may be on its way to be free (the kernel frees it some time after a
/// socket was closed).
///
/// # Safety
/// As for [`super::open`].
pub(super) unsafe fn open_patiently(memory: &Memory, ask: &Ask) -> Result<Queue, Failure> {
    let mut tries = 0;
    loop {
        // SAFETY: as the caller says.
        match unsafe { super::open(memory, ask) } {
            Err((super::STEP_BIND, error)) if error.raw_os_error() == Some(libc::EBUSY) && tries < TRIES => {
                tries += 1;
                std::thread::sleep(NAP);
            }
            answer => return answer,
        }
    }
}

/// Opens a socket over the memory of `pool`, which is laid out as `geometry` says; `None` in the place of an error: the pool
/// has no memory of its own. Says whether the device reads and writes that memory itself.
///
/// # Errors
/// The step that failed, and why.
pub fn open(pool: &Pool, geometry: Geometry, ask: &Ask) -> Result<(FrameRx, FrameTx, bool), Option<Failure>> {
    let (rx_away, tx_away) = (Away::new(pool).ok_or(None)?, Away::new(pool).ok_or(None)?);
    let memory = geometry.memory(&rx_away.layout());
    // SAFETY: the accounts keep the pool, and so its memory, until socket and rings are gone (`Shared`, `Parked`); the rings
    // are given only buffers that an account has as away.
    let queue = unsafe { open_patiently(&memory, ask) }.map_err(Some)?;
    let device = queue.zero_copy.then_some(*ask);
    let parked = Mutex::new(Parked { accounts: Vec::new(), device });
    let shared = Arc::new(Shared { socket: queue.socket, gone: AtomicBool::new(false), parked });
    let rx = FrameRx::new(queue.fill, queue.rx, rx_away, geometry, shared.clone());
    let tx = FrameTx::new(queue.tx, queue.done, tx_away, geometry, ask, shared);
    Ok((rx, tx, queue.zero_copy))
}
