//! The transmitting half: writes frames to the device.

use crate::ip_link::{IpLink, Outgoing};
use crate::offload::virtio;
use crate::{Caps, LINK_LEN, PortCounts, TxHalf};
use buf::{Burst, Flags, Frame};
use clock::Instant;
use std::fs::File;
use std::io::{ErrorKind, IoSlice, Write};
use std::sync::Arc;
use wire::eth;

pub(super) struct TapTx {
    file: Arc<File>,
    /// Link of a TUN device; `None` for a TAP device.
    link: Option<Arc<IpLink>>,
    counts: Arc<PortCounts>,
    vnet_hdr: usize,
    longest: usize,
    /// Maximum length of a large segment; 0 if none are accepted.
    largest: usize,
    csum: bool,
    /// True once the device has been deleted.
    gone: bool,
}

/// Result of writing one frame.
enum Sent {
    Yes(usize),
    /// The frame was dropped because it is too long for the device.
    TooLarge,
    /// The frame was dropped because it requests offloads that its headers do not allow.
    Malformed,
    /// The frame was dropped because the device is down, or because a TUN device carries no such
    /// packets.
    Error,
    /// The frame was dropped because the device is gone.
    Gone,
    /// The device accepts no more frames now, and the frame was not sent.
    Full,
}

impl TapTx {
    pub(super) fn new(
        file: Arc<File>,
        link: Option<Arc<IpLink>>,
        counts: Arc<PortCounts>,
        vnet_hdr: usize,
        longest: usize,
        caps: &Caps,
    ) -> TapTx {
        let largest = if caps.tso_max > 0 { caps.tso_max as usize + LINK_LEN } else { 0 };
        TapTx { file, link, counts, vnet_hdr, longest, largest, csum: caps.tx_l4_csum, gone: false }
    }

    fn write(&self, frame: &mut Frame) -> Sent {
        let longest = if frame.flags().has(Flags::GSO) { self.largest } else { self.longest };
        if frame.len() > longest {
            return Sent::TooLarge;
        }
        let skip = match self.link.as_ref().map(|link| link.send(frame.bytes())) {
            None => 0,
            Some(Outgoing::Packet) => eth::HEADER_LEN,
            Some(Outgoing::Handled) => return Sent::Yes(frame.len()),
            Some(Outgoing::Rejected) => return Sent::Error,
        };
        let Some(header) = virtio::prepare(frame, self.csum) else { return Sent::Malformed };
        let (header, packet) = (header.moved_by(-(skip as i16)).emit(), frame.bytes().get(skip..).unwrap_or_default());
        let parts = [IoSlice::new(header.get(..self.vnet_hdr).unwrap_or_default()), IoSlice::new(packet)];
        loop {
            return match (&*self.file).write_vectored(&parts) {
                Ok(_) => Sent::Yes(frame.len()),
                Err(error) if error.kind() == ErrorKind::Interrupted => continue,
                Err(error) if error.kind() == ErrorKind::WouldBlock => Sent::Full,
                Err(error) if error.raw_os_error() == Some(libc::EBADFD) => Sent::Gone,
                Err(_) => Sent::Error,
            };
        }
    }
}

impl TxHalf for TapTx {
    fn tx_burst(&mut self, from: &mut Burst, _now: Instant) -> usize {
        let (mut taken, mut frames, mut bytes) = (0, 0, 0);
        let tx = &self.counts.tx;
        while let Some(frame) = from.as_mut_slice().first_mut() {
            match self.write(frame) {
                Sent::Yes(len) => (frames, bytes) = (frames + 1, bytes + len as u64),
                Sent::TooLarge => tx.too_large.bump(),
                Sent::Malformed => tx.malformed.bump(),
                Sent::Error => tx.errors.bump(),
                Sent::Gone => {
                    tx.errors.bump();
                    self.gone = true;
                }
                Sent::Full => break,
            }
            drop(from.pop());
            taken += 1;
        }
        tx.frames.add(frames);
        tx.bytes.add(bytes);
        tx.bursts.add(u64::from(taken > 0));
        taken
    }

    fn is_gone(&self) -> bool {
        self.gone
    }
}
