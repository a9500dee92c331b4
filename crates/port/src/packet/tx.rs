//! The transmitting half: writes frames into slots of the ring, then sends all of them with one
//! system call.
//!
//! Slots `head..tail` are filled and not yet taken by the kernel; the frames in them are counted as
//! held. If the kernel rejects a frame, the frame is removed and counted, and the frames after it
//! move up by one slot. A frame that is too long for a slot, or that the kernel must split, is sent
//! by a separate call after the frames before it. If the interface is down, the held frames are
//! dropped and counted.

use crate::offload::virtio;
use crate::os::packet::is_running;
use crate::os::packet::tx::{Slot, TxRing};
use crate::os::tun::VNET_HDR_LEN;
use crate::{Caps, LINK_LEN, PortCounts, TxHalf};
use buf::{Burst, Flags, Frame};
use clock::{Duration, Instant};
use std::fs::File;
use std::io::{self, ErrorKind, IoSlice, Write};
use std::sync::Arc;
use wire::eth;

/// Time before the next send call if the kernel did not take all frames.
const RETRY: Duration = Duration::from_micros(50);

/// Maximum length of a frame that the kernel copies completely. For a longer frame, it sends most
/// of the data from the slot's page without a copy. This is not worthwhile for short frames,
/// because a frame that passes through a virtual device is copied later in any case, into an
/// additional page.
const LINEAR: usize = 2048;

pub(super) struct PacketTx {
    name: String,
    ring: TxRing,
    plain: File,
    counts: Arc<PortCounts>,
    vnet_hdr: usize,
    longest: usize,
    /// Maximum length of a large segment; 0 if none are accepted.
    largest: usize,
    csum: bool,
    head: usize,
    tail: usize,
    gone: bool,
    now: Instant,
}

/// Result of sending one frame.
enum Put {
    /// The frame was put into the ring.
    Held,
    /// The frame has been sent.
    Sent,
    /// The frame was dropped because it is too long for the interface.
    TooLarge,
    /// The frame was dropped because it is shorter than a header, or requests offloads that its
    /// headers do not allow.
    Malformed,
    /// The frame was dropped because the interface is down or gone.
    Error,
    /// The ring cannot accept the frame now.
    Full,
}

impl PacketTx {
    pub(super) fn new(
        name: &str,
        ring: TxRing,
        plain: File,
        counts: Arc<PortCounts>,
        vnet_hdr: bool,
        longest: usize,
        caps: &Caps,
    ) -> PacketTx {
        PacketTx {
            name: name.to_string(),
            ring,
            plain,
            counts,
            vnet_hdr: if vnet_hdr { VNET_HDR_LEN } else { 0 },
            longest,
            largest: if caps.tso_max > 0 { caps.tso_max as usize + LINK_LEN } else { 0 },
            csum: caps.tx_l4_csum,
            head: 0,
            tail: 0,
            gone: false,
            now: Instant::ZERO,
        }
    }

    #[inline]
    fn put(&mut self, frame: &mut Frame) -> Put {
        if self.gone {
            return Put::Error;
        }
        let longest = if frame.flags().has(Flags::GSO) { self.largest } else { self.longest };
        if frame.len() > longest {
            return Put::TooLarge;
        }
        let work = frame.flags().any(Flags::TX_WORK);
        let header = if work { virtio::prepare(frame, self.csum) } else { Some(virtio::Header::NONE) };
        let Some(mut header) = header.filter(|_| frame.len() >= eth::HEADER_LEN) else { return Put::Malformed };
        if header.gso_type != virtio::GSO_NONE || self.vnet_hdr + frame.len() > self.ring.longest() {
            return self.send_alone(&header, frame);
        }
        if !self.has_room() {
            self.kick();
            if !self.has_room() {
                return if self.gone { Put::Error } else { Put::Full };
            }
        }
        if frame.len() <= LINEAR {
            header.hdr_len = frame.len() as u16;
        }
        self.fill(&header, frame.bytes()).map_or(Put::Malformed, |()| Put::Held)
    }

    #[inline]
    fn has_room(&self) -> bool {
        self.held() < self.ring.slots() && self.ring.state(self.tail) == Slot::Free
    }

    #[inline]
    fn fill(&mut self, header: &virtio::Header, bytes: &[u8]) -> Option<()> {
        let len = self.vnet_hdr + bytes.len();
        let (front, rest) = self.ring.data(self.tail).get_mut(..len)?.split_at_mut_checked(self.vnet_hdr)?;
        front.copy_from_slice(header.emit().get(..self.vnet_hdr)?);
        rest.copy_from_slice(bytes);
        self.ring.request(self.tail, len);
        self.tail = self.tail.wrapping_add(1);
        Some(())
    }

    /// Sends a frame that does not fit into a slot, after the frames in the ring.
    #[cold]
    fn send_alone(&mut self, header: &virtio::Header, frame: &Frame) -> Put {
        self.kick();
        if self.held() > 0 {
            return Put::Full;
        }
        let header = header.emit();
        let parts = [IoSlice::new(header.get(..self.vnet_hdr).unwrap_or_default()), IoSlice::new(frame.bytes())];
        loop {
            let Err(error) = (&self.plain).write_vectored(&parts) else { return Put::Sent };
            return match (error.kind(), error.raw_os_error()) {
                (ErrorKind::Interrupted, _) => continue,
                (ErrorKind::WouldBlock, _) => Put::Full,
                (_, Some(libc::ENOBUFS)) if is_running(&self.name) => Put::Full,
                (_, Some(libc::EMSGSIZE)) => Put::TooLarge,
                (_, Some(libc::EINVAL)) => Put::Malformed,
                _ => Put::Error,
            };
        }
    }

    /// Makes the kernel send as many of the held frames as it accepts now.
    fn kick(&mut self) {
        while self.head != self.tail {
            let answer = self.ring.send();
            self.collect_errors();
            if self.head == self.tail {
                return;
            }
            match answer {
                Err(error) if self.ring.state(self.head) == Slot::Refused => self.take_out(&error),
                Err(error) if self.is_fatal(&error) => return self.lose(),
                _ => return, // the kernel accepts no more now
            }
        }
    }

    /// Counts the frames that the kernel has sent, and removes rejected frames.
    fn collect_errors(&mut self) {
        let (mut frames, mut bytes) = (0, 0);
        while self.head != self.tail && !matches!(self.ring.state(self.head), Slot::Waiting | Slot::Refused) {
            frames += 1;
            bytes += (self.ring.len_of(self.head).saturating_sub(self.vnet_hdr)) as u64;
            self.head = self.head.wrapping_add(1);
        }
        self.counts.tx.frames.add(frames);
        self.counts.tx.bytes.add(bytes);
        self.counts.tx.held.sub(frames);
    }

    /// Removes the frame that the kernel rejected. The frames after it move up by one slot, because
    /// the kernel resumes at the slot where it stopped.
    #[cold]
    fn take_out(&mut self, error: &io::Error) {
        match error.raw_os_error() {
            Some(libc::EMSGSIZE) => self.counts.tx.too_large.bump(),
            _ => self.counts.tx.malformed.bump(),
        }
        self.counts.tx.held.sub(1);
        let last = self.tail.wrapping_sub(1);
        let mut at = self.head;
        while at != last {
            let behind = at.wrapping_add(1);
            let len = self.ring.len_of(behind);
            let bytes = self.ring.data(behind).get(..len).map(<[u8]>::to_vec).unwrap_or_default();
            if let Some(to) = self.ring.data(at).get_mut(..len) {
                to.copy_from_slice(&bytes);
            }
            self.ring.request(at, len);
            at = behind;
        }
        self.ring.recall(last);
        self.tail = last;
    }

    /// Returns whether sending again would fail too, because the interface is down or gone.
    #[cold]
    fn is_fatal(&mut self, error: &io::Error) -> bool {
        self.gone |= error.raw_os_error() == Some(libc::ENXIO);
        match error.raw_os_error() {
            Some(libc::ENXIO | libc::ENETDOWN) => true,
            // An interface without carrier (a veth without its peer) also returns this error.
            Some(libc::ENOBUFS) => !is_running(&self.name),
            _ => false,
        }
    }

    /// Drops all held frames.
    #[cold]
    fn lose(&mut self) {
        let held = self.held();
        while self.head != self.tail {
            self.tail = self.tail.wrapping_sub(1);
            self.ring.recall(self.tail);
        }
        self.counts.tx.errors.add(held as u64);
        self.counts.tx.held.sub(held as u64);
    }
}

impl TxHalf for PacketTx {
    fn tx_burst(&mut self, from: &mut Burst, now: Instant) -> usize {
        let mut taken = 0;
        self.now = now;
        while let Some(frame) = from.as_mut_slice().first_mut() {
            let len = frame.len() as u64;
            let put = self.put(frame);
            let tx = &self.counts.tx;
            match put {
                Put::Held => tx.held.bump(),
                Put::Sent => {
                    tx.frames.bump();
                    tx.bytes.add(len);
                }
                Put::TooLarge => tx.too_large.bump(),
                Put::Malformed => tx.malformed.bump(),
                Put::Error => tx.errors.bump(),
                Put::Full => break,
            }
            drop(from.pop());
            taken += 1;
        }
        self.kick();
        self.counts.tx.bursts.add(u64::from(taken > 0));
        taken
    }

    fn poll(&mut self, now: Instant) {
        self.now = now;
        self.kick();
    }

    fn next_event(&self) -> Option<Instant> {
        (self.held() > 0).then(|| self.now.after(RETRY))
    }

    fn is_gone(&self) -> bool {
        self.gone
    }

    fn why_gone(&self) -> Option<String> {
        self.gone.then(|| format!("interface {} is gone: deleted, or moved to another namespace", self.name))
    }

    fn held(&self) -> usize {
        self.tail.wrapping_sub(self.head)
    }
}
