//! From the device to a host.
//!
//! How long the next frame is nobody knows before it is read. So each read goes into a buffer of the pool and, behind it, into a
//! large one that is kept ready: a frame of the MTU stays where it is, a large one costs a copy of its first two kilobytes and
//! takes the large buffer along. Without another large buffer it is cut up into small ones instead (`offload::gso`): a reader
//! that never reads must not stop the device.

use crate::offload::gso::Cutter;
use crate::offload::{RxCsum, virtio};
use crate::os::tun::VNET_HDR_LEN;
use crate::{PortCounts, RxHalf};
use buf::{Burst, Flags, Frame, Pool};
use clock::Instant;
use std::fs::File;
use std::io::{self, ErrorKind, IoSliceMut, Read};
use std::os::fd::{AsFd, BorrowedFd};
use std::sync::Arc;
use wire::eth;

pub(super) struct TapRx {
    file: Arc<File>,
    pool: Pool,
    large: Option<Large>,
    /// A large segment that no large buffer could be spared for.
    cutting: Option<Cutter>,
    counts: Arc<PortCounts>,
    vnet_hdr: usize,
    rx_csum: RxCsum,
    gone: Option<io::Error>,
}

/// Where large frames are read into.
struct Large {
    pool: Pool,
    /// The buffer that is kept ready. Always there, but while its frame is cut up.
    spare: Option<Frame>,
}

/// What one read gave.
enum Got {
    Frame(Frame),
    /// A frame that was no good, dropped.
    Malformed,
    /// Nothing more now.
    Empty,
}

impl TapRx {
    pub(super) fn new(
        file: Arc<File>,
        counts: Arc<PortCounts>,
        vnet_hdr: usize,
        pool: Pool,
        large: Option<Pool>,
        rx_csum: RxCsum,
    ) -> TapRx {
        let large = large.map(|pool| Large { spare: pool.get(), pool });
        TapRx { file, pool, large, cutting: None, counts, vnet_hdr, rx_csum, gone: None }
    }

    fn next(&mut self) -> Got {
        if self.cutting.is_some() {
            return self.cut();
        }
        let Some(mut frame) = self.pool.get() else {
            self.counts.rx.no_buffer.bump();
            return Got::Empty;
        };
        let mut header = [0; VNET_HDR_LEN];
        let room = frame.tailroom();
        let mut spare = self.large.as_mut().and_then(|large| large.spare.take());
        let Some(len) = self.read(&mut header, &mut frame, spare.as_mut()) else {
            self.keep(spare);
            return Got::Empty;
        };
        if len > room
            && let Some(mut large) = spare.take()
        {
            fill(&mut large, &frame, len);
            (frame, spare) = (large, self.large.as_ref().and_then(|large| large.pool.get()));
        } else {
            frame.truncate(len);
        }
        let whole = frame.len() == len;
        self.keep(spare);
        if len < eth::HEADER_LEN || !whole || (self.vnet_hdr > 0 && !self.understand(&mut frame, &header)) {
            self.take_back(frame);
            return Got::Malformed;
        }
        if len > room && self.is_spent() {
            return self.split(frame);
        }
        Got::Frame(frame)
    }

    /// Reads one frame: into `frame`, which is filled up, and from its end on into `spare`, as if all of it were there. Says how
    /// long it is; a frame too long for both is one byte longer than they are.
    fn read(&mut self, header: &mut [u8; VNET_HDR_LEN], frame: &mut Frame, spare: Option<&mut Frame>) -> Option<usize> {
        let room = frame.tailroom();
        let data = frame.append(room)?;
        // The kernel cuts a frame that is too long without a word: the byte behind the buffers tells.
        let mut beyond = [0];
        let behind = match spare {
            Some(spare) => {
                let all = spare.tailroom();
                spare.append(all)?.get_mut(room..)?
            }
            None => &mut [],
        };
        let most = room + behind.len();
        loop {
            let mut parts = [
                IoSliceMut::new(header.get_mut(..self.vnet_hdr).unwrap_or_default()),
                IoSliceMut::new(&mut *data),
                IoSliceMut::new(&mut *behind),
                IoSliceMut::new(&mut beyond),
            ];
            match (&*self.file).read_vectored(&mut parts) {
                Ok(len) => return Some(len.saturating_sub(self.vnet_hdr).min(most + 1)),
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) => {
                    if error.kind() != ErrorKind::WouldBlock {
                        self.counts.rx.errors.bump();
                        self.gone = Some(error);
                    }
                    return None;
                }
            }
        }
    }

    /// Keeps a large buffer ready.
    fn keep(&mut self, spare: Option<Frame>) {
        if let (Some(large), Some(mut spare)) = (&mut self.large, spare) {
            spare.truncate(0);
            spare.set_flags(Flags::default()); // it may have been a frame
            large.spare = Some(spare);
        }
    }

    /// Has the last large buffer been used?
    fn is_spent(&self) -> bool {
        self.large.as_ref().is_some_and(|large| large.spare.is_none())
    }

    /// Ends a frame. If it has the last large buffer, that is the one kept ready again.
    fn take_back(&mut self, frame: Frame) {
        if self.is_spent() {
            self.keep(Some(frame));
        }
    }

    /// A frame in the last large buffer, which is needed for the next.
    #[cold]
    fn split(&mut self, frame: Frame) -> Got {
        match Cutter::new(frame) {
            Ok(cutter) => {
                self.cutting = Some(cutter);
                self.cut()
            }
            Err(frame) => {
                // No segment that could be cut: a packet of a large MTU.
                self.take_back(frame);
                self.counts.rx.no_buffer.bump();
                Got::Malformed
            }
        }
    }

    #[cold]
    fn cut(&mut self) -> Got {
        let Some(mut cutter) = self.cutting.take() else { return Got::Empty };
        let piece = cutter.cut(&self.pool);
        if piece.is_some() && !cutter.is_done() {
            self.cutting = Some(cutter);
        } else {
            self.keep(Some(cutter.into_frame()));
        }
        match piece {
            Some(piece) => Got::Frame(piece),
            None => {
                self.counts.rx.no_buffer.bump();
                Got::Empty
            }
        }
    }

    /// Does and notes what the virtio header says; `false`: it makes no sense.
    fn understand(&self, frame: &mut Frame, header: &[u8; VNET_HDR_LEN]) -> bool {
        let largest = if self.large.is_some() { usize::MAX } else { 0 };
        virtio::understand(&virtio::Header::parse(header), frame, self.rx_csum, largest).is_some()
    }
}

/// Makes `large`, into which all but the beginning was read, a frame of `len` bytes that begins with `first`.
fn fill(large: &mut Frame, first: &Frame, len: usize) {
    large.truncate(len);
    if let Some(front) = large.bytes_mut().get_mut(..first.len()) {
        front.copy_from_slice(first.bytes());
    }
}

impl RxHalf for TapRx {
    fn rx_burst(&mut self, into: &mut Burst, most: usize, _now: Instant) -> usize {
        let (mut frames, mut bytes) = (0, 0);
        let most = if self.gone.is_some() { 0 } else { most.min(into.room()) };
        while frames < most {
            match self.next() {
                Got::Frame(frame) => {
                    frames += 1;
                    bytes += frame.len() as u64;
                    // `most` was limited to the room: the push cannot fail.
                    drop(into.push(frame));
                }
                Got::Malformed => self.counts.rx.malformed.bump(),
                Got::Empty => break,
            }
        }
        self.counts.rx.frames.add(frames as u64);
        self.counts.rx.bytes.add(bytes);
        self.counts.rx.idle.add(u64::from(frames == 0));
        frames
    }

    fn wait_fd(&self) -> Option<BorrowedFd<'_>> {
        self.gone.is_none().then(|| self.file.as_fd())
    }

    fn next_event(&self) -> Option<Instant> {
        self.cutting.as_ref().map(|_| Instant::ZERO) // at once
    }

    fn is_gone(&self) -> bool {
        self.gone.is_some()
    }

    fn why_gone(&self) -> Option<String> {
        self.gone.as_ref().map(|error| format!("the TAP device is gone: {error}"))
    }
}
