//! Frames to the kernel, and their buffers back.

use super::super::ring::{Consumer, Producer};
use super::super::{Ask, Wakeup, wake_tx};
use super::{Geometry, Shared};
use buf::{Away, Burst, Frame, Place, Pool};
use std::os::fd::AsFd;
use std::sync::Arc;
use std::sync::atomic::Ordering;

/// The transmitting half of a socket.
pub struct FrameTx {
    // Unmapped before the socket can be closed: the order of the fields.
    tx: Producer<libc::xdp_desc>,
    done: Consumer<u64>,
    away: Away,
    geometry: Geometry,
    places: usize,
    wakeup: Wakeup,
    shared: Arc<Shared>,
}

/// Whether a frame ends with a buffer.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(u32)]
pub enum More {
    /// It does.
    No = 0,
    /// It goes on in the next one.
    Yes = libc::XDP_PKT_CONTD,
}

/// What became of telling the kernel.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Kicked {
    /// It has taken all there is, or does so by itself.
    All,
    /// It takes no more for now.
    Some,
    /// The device is down.
    Down,
    /// The device has gone.
    Gone,
}

impl FrameTx {
    pub(super) fn new(
        tx: Producer<libc::xdp_desc>,
        done: Consumer<u64>,
        away: Away,
        geometry: Geometry,
        ask: &Ask,
        shared: Arc<Shared>,
    ) -> FrameTx {
        FrameTx { tx, done, away, geometry, places: ask.places as usize, wakeup: ask.wakeup, shared }
    }

    /// Moves buffers that the kernel is done with to `into`, as far as there is room; says how many. What they hold is of
    /// no use.
    #[inline]
    pub fn reclaim(&mut self, into: &mut Burst) -> usize {
        let mut came = 0;
        while into.room() > 0 {
            let Some(address) = self.done.read() else { break };
            let (slot, data) = self.geometry.place(address);
            if let Some(frame) = self.away.take(Place { slot, data, len: 0 }) {
                came += 1;
                into.put(frame, || {}); // a buffer that was sent
            }
        }
        self.done.release();
        came
    }

    /// Places for frames, at least `want` if there are. Not more than can come back at one time.
    #[inline]
    pub fn room(&mut self, want: usize) -> usize {
        let back = self.places.saturating_sub(self.away.len());
        (self.tx.room(want as u32) as usize).min(back)
    }

    /// Can the frame be sent from where it lies?
    #[inline]
    pub fn accepts(&self, frame: &Frame) -> bool {
        let within = if self.geometry.unaligned { 0 } else { self.away.layout().front + frame.headroom() };
        self.away.accepts(frame) && within + frame.len() <= self.geometry.chunk
    }

    /// The longest part of a frame that a buffer of the pool can be given for: longer frames go in several.
    #[inline]
    pub fn part(&self) -> usize {
        self.geometry.chunk.saturating_sub(self.away.layout().front + self.away.pool().headroom())
    }

    /// Puts a frame, or a part of one, into the ring; it goes with the next [`FrameTx::kick`].
    ///
    /// # Errors
    /// The frame, if there is no room, or it cannot be sent from where it lies.
    #[inline]
    pub fn send(&mut self, frame: Frame, more: More) -> Result<(), Frame> {
        if self.room(1) == 0 || !self.accepts(&frame) {
            return Err(frame);
        }
        let Place { slot, data, len } = self.away.give(frame)?;
        self.tx.write(libc::xdp_desc {
            addr: self.geometry.address(slot, data),
            len: len as u32,
            options: more as u32,
        });
        Ok(())
    }

    /// Gives the kernel what is in the ring, and tells it if it wants to be told.
    #[inline]
    pub fn kick(&mut self) -> Kicked {
        self.tx.publish();
        if self.wakeup == Wakeup::Asked && !self.tx.wants_wakeup() {
            return Kicked::All;
        }
        let mut waiting = self.tx.waiting();
        // Each call takes some or is the last, so this ends; copying, a call of an older kernel takes 32.
        while waiting > 0 {
            let answer = wake_tx(self.shared.socket.as_fd()).map_err(|error| error.raw_os_error());
            let left = self.tx.waiting();
            match answer {
                Err(Some(libc::ENETDOWN)) => return Kicked::Down,
                Err(Some(libc::ENXIO | libc::ENODEV | libc::EBADF)) => {
                    self.shared.gone.store(true, Ordering::Relaxed);
                    return Kicked::Gone;
                }
                _ if left >= waiting => return Kicked::Some,
                _ => waiting = left,
            }
        }
        Kicked::All
    }

    /// Frames that the kernel has not yet taken from the ring.
    pub fn waiting(&self) -> usize {
        self.tx.waiting() as usize
    }

    /// Buffers with the kernel, sent or not.
    #[inline]
    pub fn away(&self) -> usize {
        self.away.len()
    }

    /// The pool.
    pub fn pool(&self) -> &Pool {
        self.away.pool()
    }

    /// Has the device gone, as far as is known?
    pub fn is_gone(&self) -> bool {
        self.shared.gone.load(Ordering::Relaxed)
    }
}

impl Drop for FrameTx {
    fn drop(&mut self) {
        self.shared.park(self.away.hand_over());
    }
}
