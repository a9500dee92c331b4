//! Payload that must live twice: kept here until it is acknowledged, and lent out to travel meanwhile.
//!
//! A [`Held`] owns a buffer and can lend it to one [`Frame`] at a time. Both read the payload and neither writes it; the bytes in
//! front of it are the borrower's alone, for headers. So a sender copies its bytes once, into the buffer that travels.
//! Whichever of the two ends last returns the buffer. While the loan is out a second one must be a copy
//! ([`Held::bytes`]).
//!
//! The state stands in front of the buffer, in a cache line that nobody else uses. With one owner nothing is atomic but the
//! kind of the load; giving a loan back is one locked instruction.
#![allow(unsafe_code)] // an unsafe room: who may return the buffer is decided by the state word

use crate::Frame;
use std::fmt;
use std::mem::ManuallyDrop;
use std::ptr::NonNull;
use std::sync::atomic::{AtomicU16, AtomicU32, Ordering};

/// The state in front of a buffer that is, or was, lent.
#[repr(C)]
pub(crate) struct Loan {
    state: AtomicU32,
    /// Where the payload begins in the buffer: what lies before it is the borrower's.
    payload: AtomicU32,
    /// Of a frame flagged `GSO`: whoever has the frame, on loan or not, has this word.
    gso_size: AtomicU16,
}

/// Bytes in front of each buffer that the pool leaves for a [`Loan`].
pub(crate) const LOAN_ROOM: usize = 64;

const HELD: u32 = 1;
const LENT: u32 = 2;

impl Loan {
    /// # Safety
    /// `buf` is a buffer of a pool: [`LOAN_ROOM`] bytes in front of it are the pool's, zeroed or written here.
    #[inline(always)]
    unsafe fn of<'a>(buf: NonNull<u8>) -> &'a Loan {
        // SAFETY: in bounds and aligned (buffers are aligned to 64 bytes); atomics may be shared.
        unsafe { buf.sub(LOAN_ROOM).cast::<Loan>().as_ref() }
    }
}

/// Where the payload of a lent frame's buffer begins.
///
/// # Safety
/// `buf` is the buffer of a lent frame.
pub(crate) unsafe fn payload_start(buf: NonNull<u8>) -> usize {
    // SAFETY: as the caller says.
    unsafe { Loan::of(buf) }.payload.load(Ordering::Relaxed) as usize
}

/// The word for a large segment's `gso_size`.
///
/// # Safety
/// `buf` is the buffer of a frame.
#[inline(always)]
pub(crate) unsafe fn gso_size<'a>(buf: NonNull<u8>) -> &'a AtomicU16 {
    // SAFETY: as the caller says.
    unsafe { &Loan::of(buf).gso_size }
}

/// Ends a loan; true if the buffer is the caller's to return. `alone`: on the thread that owns the pool, where the holder is
/// too; without a locked instruction then (20 of the 850 ticks of a segment). A holder that was carried to another thread all
/// the same, and ends at this very moment, loses the buffer to nobody: it stays out.
///
/// # Safety
/// `buf` is the buffer of a lent frame that is gone after this.
pub(crate) unsafe fn give_back(buf: NonNull<u8>, alone: bool) -> bool {
    // SAFETY: as the caller says.
    let state = &unsafe { Loan::of(buf) }.state;
    if alone {
        let before = state.load(Ordering::Relaxed);
        state.store(before & !LENT, Ordering::Relaxed);
        return before & HELD == 0;
    }
    state.fetch_and(!LENT, Ordering::AcqRel) & HELD == 0
}

/// A payload in a buffer of a pool, kept to be sent, and sent again.
pub struct Held(ManuallyDrop<Frame>);

impl Held {
    /// Keeps the payload of `frame`, which nobody else has.
    ///
    /// # Errors
    /// The frame, if it is itself on loan.
    #[inline]
    pub fn new(frame: Frame) -> Result<Held, Frame> {
        if frame.is_lent() {
            return Err(frame);
        }
        // SAFETY: a buffer of a pool, ours alone.
        unsafe { Loan::of(frame.buffer()) }.state.store(HELD, Ordering::Relaxed);
        Ok(Held(ManuallyDrop::new(frame)))
    }

    /// The payload.
    #[inline]
    pub fn bytes(&self) -> &[u8] {
        self.0.bytes()
    }

    /// Its length in bytes.
    #[inline]
    pub fn len(&self) -> usize {
        self.0.len()
    }

    /// No bytes?
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Is it out?
    #[inline]
    pub fn is_lent(&self) -> bool {
        // SAFETY: a buffer of a pool. Acquire: what the borrower did is over when it says so.
        unsafe { Loan::of(self.0.buffer()) }.state.load(Ordering::Acquire) & LENT != 0
    }

    /// A frame of the same payload with the headroom in front of it; `None` while the last is still out.
    #[inline]
    pub fn lend(&mut self) -> Option<Frame> {
        if self.is_lent() {
            return None;
        }
        let buf = self.0.buffer();
        // SAFETY: not lent, so nobody else looks at the state.
        let loan = unsafe { Loan::of(buf) };
        loan.payload.store(self.0.offset() as u32, Ordering::Relaxed);
        loan.state.store(HELD | LENT, Ordering::Relaxed);
        // SAFETY: the state now says that two own the buffer; the frame knows that it is the borrower.
        Some(unsafe { self.0.borrower() })
    }

    /// Bytes free behind, none while it is out.
    #[inline]
    pub fn tailroom(&self) -> usize {
        if self.is_lent() { 0 } else { self.0.tailroom() }
    }

    /// Grows by `n` bytes behind and gives them to be written; `None` without room, or while it is out.
    #[inline]
    pub fn append(&mut self, n: usize) -> Option<&mut [u8]> {
        if self.is_lent() { None } else { self.0.append(n) }
    }
}

impl Drop for Held {
    #[inline]
    fn drop(&mut self) {
        // SAFETY: a buffer of a pool.
        let loan = unsafe { Loan::of(self.0.buffer()) };
        let alone =
            loan.state.load(Ordering::Acquire) == HELD || loan.state.fetch_and(!HELD, Ordering::AcqRel) & LENT == 0;
        if alone {
            // SAFETY: dropped once, here; nobody else has the buffer.
            unsafe { ManuallyDrop::drop(&mut self.0) }
        }
    }
}

impl fmt::Debug for Held {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Held({} bytes{})", self.len(), if self.is_lent() { ", lent" } else { "" })
    }
}

#[cfg(all(test, not(loom)))]
mod tests;
