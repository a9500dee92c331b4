//! The receiving half: gives buffers to the kernel and takes frames from it.

use super::super::ring::{Consumer, Producer};
use super::super::{Statistics, statistics, wake_rx};
use super::geometry::Geometry;
use super::shared::Shared;
use buf::{Away, Burst, Frame, Place, Pool};
use std::io;
use std::os::fd::{AsFd, BorrowedFd};
use std::sync::Arc;
use std::sync::atomic::Ordering;

/// The receiving half of a socket.
pub struct FrameRx {
    // Field order: the rings are unmapped before the socket can be closed.
    fill: Producer<u64>,
    rx: Consumer<libc::xdp_desc>,
    away: Away,
    geometry: Geometry,
    joined: Joined,
    shared: Arc<Shared>,
}

/// State of a frame in several buffers that has not arrived completely.
enum Joined {
    /// No frame has been started.
    None,
    /// The pieces received so far, joined in the buffer of the first piece.
    Begun(Frame),
    /// The frame cannot be received; its remaining pieces are dropped.
    Spoilt,
}

/// Result of one pass over the ring.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Received {
    /// Number of frames received.
    pub frames: usize,
    /// Number of bytes in these frames.
    pub bytes: usize,
    /// Number of descriptors that were dropped because they refer to a buffer that the kernel does
    /// not own, or to more bytes than a buffer has.
    pub malformed: usize,
}

impl FrameRx {
    pub(super) fn new(
        fill: Producer<u64>,
        rx: Consumer<libc::xdp_desc>,
        away: Away,
        geometry: Geometry,
        shared: Arc<Shared>,
    ) -> FrameRx {
        FrameRx { fill, rx, away, geometry, joined: Joined::None, shared }
    }

    /// Appends up to `most` received frames to `into`, but no more than fit.
    #[inline]
    pub fn receive(&mut self, into: &mut Burst, most: usize) -> Received {
        let mut got = Received::default();
        let most = most.min(into.room());
        while got.frames < most {
            let Some(desc) = self.rx.read() else { break };
            let (slot, data) = self.geometry.place(desc.addr);
            let piece = self.away.take(Place { slot, data, len: desc.len as usize });
            let more = desc.options & libc::XDP_PKT_CONTD != 0;
            let frame = match (&self.joined, more) {
                (Joined::None, false) => piece,
                _ => match self.join(piece, more) {
                    None => continue,
                    Some(frame) => frame,
                },
            };
            match frame {
                Some(frame) => {
                    let (len, mut lost) = (frame.len(), 0);
                    into.put(frame, || lost = 1); // `most` is limited to the free slots of `into`
                    got.malformed += lost;
                    (got.frames, got.bytes) = (got.frames + 1 - lost, got.bytes + len);
                }
                None => got.malformed += 1,
            }
        }
        self.rx.release();
        got
    }

    /// Adds a piece to the current frame, or starts a frame. With the last piece, returns the
    /// frame, or `Some(None)` if the frame could not be received.
    #[cold]
    fn join(&mut self, piece: Option<Frame>, more: bool) -> Option<Option<Frame>> {
        let joined = match (std::mem::replace(&mut self.joined, Joined::None), piece) {
            (Joined::None, Some(first)) => Joined::Begun(first),
            (Joined::Begun(mut frame), Some(piece)) => match frame.extend(piece.bytes()) {
                Some(()) => Joined::Begun(frame),
                None => Joined::Spoilt,
            },
            (Joined::Spoilt, _) | (_, None) => Joined::Spoilt,
        };
        match joined {
            Joined::Begun(frame) if !more => Some(Some(frame)),
            _ if !more => Some(None),
            joined => {
                self.joined = joined;
                None
            }
        }
    }

    /// Gives the kernel as many buffers from `empty` as the ring has free entries. The others
    /// remain in `empty`.
    #[inline]
    pub fn refill(&mut self, empty: &mut Burst) {
        let room = self.fill.room(empty.len() as u32);
        for _ in 0..room {
            let Some(frame) = empty.pop() else { break };
            // A buffer of another pool cannot be used. It is freed here.
            let Ok(place) = self.away.give(frame) else { continue };
            self.fill.write(self.geometry.address(place.slot, 0));
        }
        self.fill.publish();
        if self.fill.wants_wakeup() {
            wake_rx(self.shared.socket.as_fd());
        }
    }

    /// Returns the number of buffers that the kernel has: empty buffers, and received frames that
    /// have not been taken.
    #[inline]
    pub fn away(&self) -> usize {
        self.away.len()
    }

    /// Returns the pool whose memory the socket uses.
    pub fn pool(&self) -> &Pool {
        self.away.pool()
    }

    /// Returns the socket, which becomes readable when frames arrive.
    pub fn socket(&self) -> BorrowedFd<'_> {
        self.shared.socket.as_fd()
    }

    /// Returns the kernel's counters.
    ///
    /// # Errors
    /// The system's errors.
    pub fn statistics(&self) -> io::Result<Statistics> {
        statistics(self.socket())
    }

    /// Returns whether an earlier call has detected that the device is gone. Makes no system call.
    pub fn is_gone(&self) -> bool {
        self.shared.gone.load(Ordering::Relaxed)
    }

    /// Checks, by a system call, whether the device is gone. Returns the reason when this is
    /// detected for the first time.
    pub fn look(&self) -> Option<io::Error> {
        self.shared.look()
    }
}

impl Drop for FrameRx {
    fn drop(&mut self) {
        self.shared.park(self.away.hand_over());
    }
}
