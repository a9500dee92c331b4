//! Buffers to the kernel, and frames from it.

use super::super::ring::{Consumer, Producer};
use super::super::{Statistics, statistics, wake_rx};
use super::{Geometry, Shared};
use buf::{Away, Burst, Frame, Place, Pool};
use std::io;
use std::os::fd::{AsFd, BorrowedFd};
use std::sync::Arc;
use std::sync::atomic::Ordering;

/// The receiving half of a socket.
pub struct FrameRx {
    // Unmapped before the socket can be closed: the order of the fields.
    fill: Producer<u64>,
    rx: Consumer<libc::xdp_desc>,
    away: Away,
    geometry: Geometry,
    joined: Joined,
    shared: Arc<Shared>,
}

/// A frame of which not all pieces have come.
enum Joined {
    /// There is none.
    None,
    /// Pieces received so far, in the first one's buffer.
    Begun(Frame),
    /// The rest of a frame that cannot be received.
    Spoilt,
}

/// What one look at the ring gave.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Received {
    /// Frames.
    pub frames: usize,
    /// Their bytes.
    pub bytes: usize,
    /// Descriptors of no buffer that was away, or of more than a buffer holds.
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

    /// Appends up to `most` received frames to `into`, as far as there is room.
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
                    into.put(frame, || lost = 1); // `most` was limited to the room
                    got.malformed += lost;
                    (got.frames, got.bytes) = (got.frames + 1 - lost, got.bytes + len);
                }
                None => got.malformed += 1,
            }
        }
        self.rx.release();
        got
    }

    /// Adds a piece to the frame that has begun, or begins one. At its last piece: the frame, or `None` if it could not be received.
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

    /// Gives the kernel the buffers of `empty`, as many as the ring has room for; the others stay.
    #[inline]
    pub fn refill(&mut self, empty: &mut Burst) {
        let room = self.fill.room(empty.len() as u32);
        for _ in 0..room {
            let Some(frame) = empty.pop() else { break };
            // One of another pool cannot be used, and ends here.
            let Ok(place) = self.away.give(frame) else { continue };
            self.fill.write(self.geometry.address(place.slot, 0));
        }
        self.fill.publish();
        if self.fill.wants_wakeup() {
            wake_rx(self.shared.socket.as_fd());
        }
    }

    /// Buffers with the kernel: empty ones, and those with frames that have not been taken.
    #[inline]
    pub fn away(&self) -> usize {
        self.away.len()
    }

    /// The pool.
    pub fn pool(&self) -> &Pool {
        self.away.pool()
    }

    /// Becomes readable when frames come.
    pub fn socket(&self) -> BorrowedFd<'_> {
        self.shared.socket.as_fd()
    }

    /// What the kernel counted.
    ///
    /// # Errors
    /// The system's.
    pub fn statistics(&self) -> io::Result<Statistics> {
        statistics(self.socket())
    }

    /// Has the device gone, as far as is known?
    pub fn is_gone(&self) -> bool {
        self.shared.gone.load(Ordering::Relaxed)
    }

    /// Looks (a system call) whether the device has gone: says why, the first time that it is seen.
    pub fn look(&self) -> Option<io::Error> {
        self.shared.look()
    }
}

impl Drop for FrameRx {
    fn drop(&mut self) {
        self.shared.park(self.away.hand_over());
    }
}
