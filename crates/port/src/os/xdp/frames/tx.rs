//! The transmitting half: gives frames to the kernel and takes their buffers back.

use super::super::ring::{Consumer, Producer};
use super::super::{Ask, Wakeup, wake_tx};
use super::geometry::Geometry;
use super::shared::Shared;
use buf::{Away, Burst, Frame, Place, Pool};
use std::os::fd::AsFd;
use std::sync::Arc;
use std::sync::atomic::Ordering;

/// The transmitting half of a socket.
pub struct FrameTx {
    // Field order: the rings are unmapped before the socket can be closed.
    tx: Producer<libc::xdp_desc>,
    done: Consumer<u64>,
    away: Away,
    geometry: Geometry,
    places: usize,
    wakeup: Wakeup,
    shared: Arc<Shared>,
}

/// Flag of a descriptor that states whether the frame continues in the next buffer.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(u32)]
pub enum More {
    /// The frame ends with this buffer.
    No = 0,
    /// The frame continues in the next buffer.
    Yes = libc::XDP_PKT_CONTD,
}

/// Result of notifying the kernel.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Kicked {
    /// The kernel has taken all frames, or will take them without a further call.
    All,
    /// The kernel has taken some of the frames, and no more for now.
    Some,
    /// The device is down.
    Down,
    /// The device is gone.
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

    /// Moves the buffers of sent frames to `into`, as many as fit. The contents of these buffers
    /// are undefined. Returns the number of buffers.
    #[inline]
    pub fn reclaim(&mut self, into: &mut Burst) -> usize {
        let mut came = 0;
        while into.room() > 0 {
            let Some(address) = self.done.read() else { break };
            let (slot, data) = self.geometry.place(address);
            if let Some(frame) = self.away.take(Place { slot, data, len: 0 }) {
                came += 1;
                into.put(frame, || {}); // not counted as lost, because the frame was sent
            }
        }
        self.done.release();
        came
    }

    /// Returns the number of free entries in the ring, limited to the number of buffers that the
    /// completion ring can return. Reads the kernel's index only if fewer than `want` entries are
    /// known to be free.
    #[inline]
    pub fn room(&mut self, want: usize) -> usize {
        let back = self.places.saturating_sub(self.away.len());
        (self.tx.room(want as u32) as usize).min(back)
    }

    /// Returns whether the frame can be sent from its buffer, without a copy.
    #[inline]
    pub fn accepts(&self, frame: &Frame) -> bool {
        let within = if self.geometry.unaligned { 0 } else { self.away.layout().front + frame.headroom() };
        self.away.accepts(frame) && within + frame.len() <= self.geometry.chunk
    }

    /// Returns the maximum number of bytes of a frame that fit in one buffer. Longer frames use
    /// several buffers.
    #[inline]
    pub fn part(&self) -> usize {
        self.geometry.chunk.saturating_sub(self.away.layout().front + self.away.pool().headroom())
    }

    /// Puts a frame, or a part of a frame, into the ring. The next call of [`FrameTx::kick`] sends
    /// it.
    ///
    /// # Errors
    /// Returns the frame if the ring is full, or if the frame cannot be sent from its buffer.
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

    /// Publishes the new entries of the ring to the kernel, and notifies the kernel if necessary.
    #[inline]
    pub fn kick(&mut self) -> Kicked {
        self.tx.publish();
        if self.wakeup == Wakeup::Asked && !self.tx.wants_wakeup() {
            return Kicked::All;
        }
        let mut waiting = self.tx.waiting();
        // Each call takes some frames or is the last, so the loop ends. In copy mode, older kernels
        // take 32 frames per call.
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

    /// Returns the number of frames in the ring that the kernel has not taken yet.
    pub fn waiting(&self) -> usize {
        self.tx.waiting() as usize
    }

    /// Returns the number of buffers that the kernel has, whether or not their frames have been
    /// sent.
    #[inline]
    pub fn away(&self) -> usize {
        self.away.len()
    }

    /// Returns the pool whose memory the socket uses.
    pub fn pool(&self) -> &Pool {
        self.away.pool()
    }

    /// Returns whether an earlier call has detected that the device is gone. Makes no system call.
    pub fn is_gone(&self) -> bool {
        self.shared.gone.load(Ordering::Relaxed)
    }
}

impl Drop for FrameTx {
    fn drop(&mut self) {
        self.shared.park(self.away.hand_over());
    }
}
