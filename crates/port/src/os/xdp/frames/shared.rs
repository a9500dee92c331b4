//! State that both halves of a socket share, and the release of its memory.

use super::super::{Ask, CHUNK_MAX, CopyMode, Failure, Memory, Queue, STEP_BIND, open, waiting_error};
use buf::Away;
use buf::mem::{Pages, Region};
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

/// State shared by both halves. Field order: the socket is closed before the parked buffers are
/// freed.
pub(super) struct Shared {
    pub(super) socket: OwnedFd,
    pub(super) gone: AtomicBool,
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
    /// Creates the state of an open socket. `device` is set if the device accesses the memory
    /// itself.
    pub(super) fn new(socket: OwnedFd, device: Option<Ask>) -> Shared {
        let parked = Mutex::new(Parked { accounts: Vec::new(), device });
        Shared { socket, gone: AtomicBool::new(false), parked }
    }

    /// Keeps the buffers that the kernel still has until the socket is closed.
    pub(super) fn park(&self, away: Away) {
        self.parked.lock().unwrap_or_else(PoisonError::into_inner).accounts.push(away);
    }

    /// Checks, by a system call, whether the device is gone, and records the result.
    pub(super) fn look(&self) -> Option<io::Error> {
        let error = waiting_error(self.socket.as_fd())?;
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

/// Delay between attempts to open a queue that is being released; [`TRIES`] is the maximum number
/// of further attempts.
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
    !matches!(answer, Err((STEP_BIND, error)) if error.raw_os_error() == Some(libc::EBUSY))
}

/// Opens a socket. Retries while the queue is in use, because the kernel frees a queue some time
/// after its socket was closed.
///
/// # Safety
/// The conditions of [`open`].
pub(in crate::os::xdp) unsafe fn open_patiently(memory: &Memory, ask: &Ask) -> Result<Queue, Failure> {
    let mut tries = 0;
    loop {
        // SAFETY: guaranteed by the caller.
        match unsafe { open(memory, ask) } {
            Err((STEP_BIND, error)) if error.raw_os_error() == Some(libc::EBUSY) && tries < TRIES => {
                tries += 1;
                std::thread::sleep(NAP);
            }
            answer => return answer,
        }
    }
}
