//! Baseline for packet ports: moves frames from the ring of one interface to that of another, swaps
//! their addresses, and does nothing else.
//!
//! The baseline has no frames, pool, bursts or counters. Slots are read and written in place, with
//! one system call per turn, on sockets configured like those of a port. `linerate bench bridge`
//! compares the port with this baseline (`packet.forward`).

use super::slot::{Extent, Packet};
use super::{PacketConfig, PacketError, open_rx};
use crate::LINK_LEN;
use crate::os::packet as os;
use crate::os::packet::rx::RxRing;
use crate::os::packet::tx::{Slot, TxRing};
use crate::os::tun::VNET_HDR_LEN;
use wire::eth;

/// Maximum number of frames per turn.
const BURST: usize = 64;

/// A receive ring, and the transmit ring to which its frames are copied.
#[derive(Debug)]
pub struct Bare {
    rx: RxRing,
    tx: TxRing,
    vnet_hdr: bool,
    tail: usize,
}

impl Bare {
    /// Opens rings that pass frames from interface `from` to interface `to`, which may be the same.
    ///
    /// # Errors
    /// The same errors as [`super::open`].
    pub fn open(from: &str, to: &str, config: &PacketConfig) -> Result<Bare, PacketError> {
        let failed = |(step, error)| PacketError::new(to, config, step, error);
        let (_, rx) = open_rx(from, config)?;
        let out = os::iface(to).map_err(failed)?;
        let tx = TxRing::open(out.index, &config.tx(out.mtu as usize + LINK_LEN)).map_err(failed)?;
        Ok(Bare { rx, tx, vnet_hdr: config.vnet_hdr, tail: 0 })
    }

    /// Forwards up to 64 of the waiting frames to the other interface. Returns their number. Frames
    /// that are too long for a slot, or for which no slot is free, are dropped.
    pub fn step(&mut self) -> usize {
        let mut frames = 0;
        for _ in 0..BURST {
            let Some(packet) = self.rx.next().map(Packet::parse) else { break };
            if self.tx.state(self.tail) != Slot::Free {
                drop(self.tx.send());
            }
            if let Some(packet) = packet.filter(|packet| packet.extent() == Extent::Whole) {
                let mut vnet = packet.vnet;
                let [_, _, h0, h1, ..] = &mut vnet; // the kernel copies the whole frame, as for the port
                [*h0, *h1] = (packet.bytes.len() as u16).to_ne_bytes();
                let front = if self.vnet_hdr { VNET_HDR_LEN } else { 0 };
                let len = front + packet.bytes.len();
                if self.tx.state(self.tail) == Slot::Free
                    && fill(self.tx.data(self.tail), vnet.get(..front).unwrap_or_default(), packet.bytes).is_some()
                {
                    self.tx.request(self.tail, len);
                    self.tail = self.tail.wrapping_add(1);
                    frames += 1;
                }
            }
            self.rx.release();
        }
        if frames > 0 {
            drop(self.tx.send());
        }
        frames
    }
}

/// Writes the frame, with its two MAC addresses swapped, into a slot.
fn fill(slot: &mut [u8], vnet: &[u8], bytes: &[u8]) -> Option<()> {
    let (front, rest) = slot.get_mut(..vnet.len() + bytes.len())?.split_at_mut_checked(vnet.len())?;
    front.copy_from_slice(vnet);
    rest.copy_from_slice(bytes);
    let (dst, src) = rest.get_mut(..eth::HEADER_LEN - 2)?.split_at_mut_checked(6)?;
    dst.swap_with_slice(src);
    Some(())
}
