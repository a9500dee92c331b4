//! The receiving half: reads frames from the device.
//!
//! The length of a frame is unknown before it is read. Each read therefore uses two buffers: one of
//! the pool, and after it a large buffer that is kept ready. A frame of the MTU fits into the first
//! buffer. The rest of a longer frame is read into the large buffer, and the part in the first
//! buffer is then copied in front of it. If no further large buffer is free, the frame is split
//! into small frames (`offload::large`).

use crate::ip_link::IpLink;
use crate::offload::large::{Cut, Large};
use crate::offload::{RxCsum, virtio};
use crate::os::tun::VNET_HDR_LEN;
use crate::{PortCounts, RxHalf};
use buf::{Burst, Frame, Pool};
use clock::Instant;
use std::fs::File;
use std::io::{self, ErrorKind, IoSliceMut, Read};
use std::os::fd::{AsFd, BorrowedFd};
use std::sync::Arc;
use wire::eth;

pub(super) struct TapRx {
    file: Arc<File>,
    /// Link of a TUN device; `None` for a TAP device.
    link: Option<Arc<IpLink>>,
    pool: Pool,
    large: Large,
    counts: Arc<PortCounts>,
    vnet_hdr: usize,
    rx_csum: RxCsum,
    gone: Option<io::Error>,
}

/// Result of one read.
enum Got {
    Frame(Frame),
    /// The frame was invalid and was dropped.
    Malformed,
    /// No frame is available now.
    Empty,
}

impl TapRx {
    pub(super) fn new(
        file: Arc<File>,
        link: Option<Arc<IpLink>>,
        counts: Arc<PortCounts>,
        vnet_hdr: usize,
        pool: Pool,
        large: Option<Pool>,
        rx_csum: RxCsum,
    ) -> TapRx {
        TapRx { file, link, pool, large: Large::new(large), counts, vnet_hdr, rx_csum, gone: None }
    }

    fn next(&mut self) -> Got {
        if self.large.is_cutting() {
            let cut = self.large.cut(&self.pool);
            return self.cut(cut);
        }
        let Some(mut frame) = self.pool.get() else {
            self.counts.rx.no_buffer.bump();
            return Got::Empty;
        };
        if let Some(answer) = self.link.as_ref().and_then(|link| link.take_answer()) {
            return if frame.extend(&answer).is_some() { Got::Frame(frame) } else { Got::Malformed };
        }
        let mut header = [0; VNET_HDR_LEN];
        let room = frame.tailroom();
        let mut spare = self.large.take();
        let Some(len) = self.read(&mut header, &mut frame, spare.as_mut()) else {
            spare.into_iter().for_each(|spare| self.large.keep(spare));
            return Got::Empty;
        };
        if len > room
            && let Some(mut large) = spare.take()
        {
            fill(&mut large, &frame, len);
            (frame, spare) = (large, self.large.get());
        } else {
            frame.truncate(len);
        }
        let whole = frame.len() == len;
        spare.into_iter().for_each(|spare| self.large.keep(spare));
        if !whole
            || !self.complete_link_header(&mut frame)
            || (self.vnet_hdr > 0 && !self.understand(&mut frame, &header))
        {
            self.large.keep(frame);
            return Got::Malformed;
        }
        if len > room && self.large.is_spent() {
            let cut = self.large.split(frame, &self.pool);
            return self.cut(cut);
        }
        Got::Frame(frame)
    }

    /// Reads one frame. Fills `frame`, then continues in `spare`, at the offset that the rest would
    /// have if `spare` contained the whole frame. Returns the frame's length; for a frame that is
    /// too long for both buffers, returns one more than their capacity.
    fn read(&mut self, header: &mut [u8; VNET_HDR_LEN], frame: &mut Frame, spare: Option<&mut Frame>) -> Option<usize> {
        let room = frame.tailroom();
        let data = frame.append(room)?;
        // The kernel truncates a frame that is too long without reporting it. This additional byte
        // makes the truncation detectable.
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

    #[cold]
    fn cut(&mut self, cut: Cut) -> Got {
        if let Cut::Piece(piece) = cut {
            return Got::Frame(piece);
        }
        self.counts.rx.no_buffer.bump();
        if matches!(cut, Cut::Uncuttable) { Got::Malformed } else { Got::Empty }
    }

    /// Adds the Ethernet header if the device has none. Returns `false` if the frame is invalid.
    fn complete_link_header(&self, frame: &mut Frame) -> bool {
        self.link.as_ref().map_or(frame.len() >= eth::HEADER_LEN, |link| link.add_header(frame))
    }

    /// Applies the virtio header. Returns `false` if the header is invalid.
    fn understand(&self, frame: &mut Frame, header: &[u8; VNET_HDR_LEN]) -> bool {
        let largest = if self.large.is_some() { usize::MAX } else { 0 };
        let header = virtio::Header::parse(header);
        let header = if self.link.is_some() { header.moved_by(eth::HEADER_LEN as i16) } else { header };
        virtio::understand(&header, frame, self.rx_csum, largest).is_some()
    }
}

/// Completes `large`, which contains all of a frame of `len` bytes except the beginning. The
/// beginning is copied from `first`.
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
                    // The push cannot fail, because `most` is limited to the free slots of `into`.
                    into.put(frame, || self.counts.rx.bugs.bump());
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
        let device = || self.file.as_fd();
        self.gone.is_none().then(|| self.link.as_ref().and_then(|link| link.fd()).unwrap_or_else(device))
    }

    fn next_event(&self) -> Option<Instant> {
        self.large.is_cutting().then_some(Instant::ZERO) // at once
    }

    fn is_gone(&self) -> bool {
        self.gone.is_some()
    }

    fn why_gone(&self) -> Option<String> {
        self.gone
            .as_ref()
            .map(|error| format!("the {} device is gone: {error}", if self.link.is_some() { "TUN" } else { "TAP" }))
    }
}
