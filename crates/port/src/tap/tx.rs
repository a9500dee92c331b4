//! From a host to the device.

use super::vnet;
use crate::offload::{self, gso};
use crate::{Caps, PortCounts, TxHalf};
use buf::{Burst, Flags, Frame};
use clock::Instant;
use std::fs::File;
use std::io::{ErrorKind, IoSlice, Write};
use std::sync::Arc;
use wire::tcp;

pub(super) struct TapTx {
    file: Arc<File>,
    counts: Arc<PortCounts>,
    vnet_hdr: usize,
    longest: usize,
    /// The longest large segment; 0: none.
    largest: usize,
    csum: bool,
}

/// What became of one frame.
enum Sent {
    Yes(usize),
    /// Dropped: too long for the device.
    TooLarge,
    /// Dropped: asks for work that its headers do not allow.
    Malformed,
    /// Dropped: the device failed.
    Error,
    /// The device takes no more now.
    Full,
}

impl TapTx {
    pub(super) fn new(file: Arc<File>, counts: Arc<PortCounts>, vnet_hdr: usize, longest: usize, caps: &Caps) -> TapTx {
        let largest = if caps.tso_max > 0 { caps.tso_max as usize + super::AROUND } else { 0 };
        TapTx { file, counts, vnet_hdr, longest, largest, csum: caps.tx_l4_csum }
    }

    fn write(&self, frame: &mut Frame) -> Sent {
        let longest = if frame.flags().has(Flags::GSO) { self.largest } else { self.longest };
        if frame.len() > longest {
            return Sent::TooLarge;
        }
        let Some(header) = self.prepare(frame) else { return Sent::Malformed };
        let header = header.emit();
        let parts = [IoSlice::new(header.get(..self.vnet_hdr).unwrap_or_default()), IoSlice::new(frame.bytes())];
        loop {
            return match (&*self.file).write_vectored(&parts) {
                Ok(_) => Sent::Yes(frame.len()),
                Err(error) if error.kind() == ErrorKind::Interrupted => continue,
                Err(error) if error.kind() == ErrorKind::WouldBlock => Sent::Full,
                Err(_) => Sent::Error,
            };
        }
    }

    /// Does the checksum work that is ours, and says in the header what is the kernel's.
    fn prepare(&self, frame: &mut Frame) -> Option<vnet::Header> {
        let l4 = frame.flags().has(Flags::TX_L4_CSUM);
        let large = frame.gso_size();
        if large.is_some() && !l4 {
            return None; // the kernel cuts up what has an open checksum only
        }
        if !self.csum || !l4 {
            offload::complete(frame)?;
            return Some(vnet::Header::NONE);
        }
        if frame.flags().has(Flags::TX_IP_CSUM) {
            offload::fill_ip(frame.bytes_mut())?;
            frame.set_flags(frame.flags().without(Flags::TX_IP_CSUM));
        }
        let place = offload::l4_place(frame.bytes())?;
        // What lies behind the packet would be summed too: Ethernet padding is cut off.
        frame.truncate(place.end);
        let header = vnet::Header {
            flags: vnet::NEEDS_CSUM,
            csum_start: place.start as u16, // a frame's headers lie within its first 64 KiB
            csum_offset: (place.field - place.start) as u16,
            ..vnet::Header::NONE
        };
        let Some(gso_size) = large else { return Some(header) };
        let (l4, text) = gso::places(frame)?;
        if frame.len() - text <= usize::from(gso_size) {
            return Some(header); // one piece
        }
        let reduced = frame.bytes().get(l4 + 13).is_some_and(|flags| tcp::Flags(*flags).contains(tcp::Flags::CWR));
        let gso_type = if reduced { vnet::GSO_TCPV4 | vnet::GSO_ECN } else { vnet::GSO_TCPV4 };
        Some(vnet::Header { gso_type, gso_size, hdr_len: text as u16, ..header })
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
}
