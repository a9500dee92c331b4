//! `packet:IFNAME`: an interface of the kernel, by packet sockets with rings in shared memory (AF_PACKET, TPACKET_V3).
//!
//! A frame is copied once: from a block of the receiving ring into a buffer of the pool, or from a buffer into a slot of the sending
//! ring. There is no system call while blocks are there, and one per burst that is sent. The kernel keeps frames back until a block is
//! full or `retire` is over: that is the price in delay, and a reader that stays away for `blocks` times `retire` loses frames. A virtio header in front of every frame carries what local senders leave
//! undone: a checksum that they left open is trusted (or closed, by the option `rx_csum`), TCP segments of up to 64 KiB pass uncut both
//! ways, or are cut up here (`lro=off`). The kernel's own stack goes on receiving from the interface: give it no address there, or it
//! answers too. An interface that is down loses what it is sent, and goes on when it comes up; one that is deleted ends the port.

pub mod bare;
mod block;
mod error;
mod rx;
mod tx;

pub use crate::offload::RxCsum;
pub use crate::os::packet::rx::FanoutMode;
pub use error::PacketError;

use crate::offload::large::{self, LARGEST};
use crate::os::packet as os;
use crate::os::packet::rx::RxRing;
use crate::os::packet::tx::TxRing;
use crate::os::tun::VNET_HDR_LEN;
use crate::{Caps, Port, PortCounts};
use buf::Pool;
use clock::Duration;
use rx::PacketRx;
use std::sync::Arc;
use tx::PacketTx;
use wire::{eth, vlan};

/// How the interface is to be used.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct PacketConfig {
    /// Blocks of the receiving ring: 2 to 4096. With few frames a block is used up by each `retire`: a reader that stays away for longer than
    /// `blocks` times `retire` loses some.
    pub blocks: u32,
    /// Bytes of a block, rounded up to whole pages; at least 128 KiB, so that a large segment has room.
    pub block: u32,
    /// After this time a block is given to us though it is not full, in whole milliseconds, at least one.
    pub retire: Duration,
    /// Slots of the sending ring, rounded up to a power of two: 64 to 4096.
    pub tx_ring: u32,
    /// Share the interface's frames with the other ports of this group, in this manner.
    pub fanout: Option<(u16, FanoutMode)>,
    /// Receive what is addressed to other stations too.
    pub promisc: bool,
    /// Give frames to the driver at once, not to the queueing discipline.
    pub qdisc_bypass: bool,
    /// Do not receive what the interface sends.
    pub ignore_outgoing: bool,
    /// Exchange a virtio header with the kernel; without one there are no offloads, and large segments are lost.
    pub vnet_hdr: bool,
    /// Received open checksums: [`RxCsum::Off`] is the same as [`RxCsum::Complete`], as the kernel cannot be asked to close them.
    pub rx_csum: RxCsum,
    /// Leave checksums of sent frames to the kernel; needs `vnet_hdr`.
    pub tx_csum: bool,
    /// Send large segments uncut; needs `tx_csum`.
    pub tso: bool,
    /// Receive large segments uncut; else they are cut up here.
    pub lro: bool,
}

impl Default for PacketConfig {
    fn default() -> PacketConfig {
        PacketConfig {
            blocks: 64,
            block: 128 << 10,
            retire: Duration::from_millis(1),
            tx_ring: 512,
            fanout: None,
            promisc: true,
            qdisc_bypass: true,
            ignore_outgoing: true,
            vnet_hdr: true,
            rx_csum: RxCsum::default(),
            tx_csum: true,
            tso: true,
            lro: true,
        }
    }
}

/// Bytes of frame around a packet: an Ethernet header and one VLAN tag.
const AROUND: usize = eth::HEADER_LEN + vlan::TAG_LEN;

/// The smallest block: the largest frame has room, and what the kernel puts around it.
const BLOCK_MIN: u32 = 128 << 10;

/// The most memory that the blocks of a ring may take.
const RING_MAX: u64 = 1 << 30;

/// Slots of the sending ring have this many bytes or more: a frame of the usual MTU and what stands around it.
const SLOT_MIN: usize = 2048;
/// A longer frame gets no slot but a system call of its own.
const SLOT_MAX: usize = 16_384;

impl PacketConfig {
    /// How the receiving socket is to be.
    fn rx(&self) -> os::rx::Config {
        let page = 4096;
        let retire_ms = u32::try_from(self.retire.as_nanos().div_ceil(1_000_000)).unwrap_or(u32::MAX).clamp(1, 10_000);
        os::rx::Config {
            blocks: self.blocks.clamp(2, 4096),
            block: self.block.clamp(BLOCK_MIN, RING_MAX as u32).next_multiple_of(page),
            retire_ms,
            vnet_hdr: self.vnet_hdr,
            promisc: self.promisc,
            ignore_outgoing: self.ignore_outgoing,
            fanout: self.fanout,
        }
    }

    /// How the sending socket is to be, for frames of `longest` bytes.
    fn tx(&self, longest: usize) -> os::tx::Config {
        let slot = (os::tx::DATA + VNET_HDR_LEN + longest).next_power_of_two().clamp(SLOT_MIN, SLOT_MAX);
        os::tx::Config {
            slots: self.tx_ring.clamp(64, 4096).next_power_of_two(),
            slot: slot as u32, // within SLOT_MAX
            vnet_hdr: self.vnet_hdr,
            qdisc_bypass: self.qdisc_bypass,
        }
    }
}

/// Opens interface `name`.
///
/// # Errors
/// See [`PacketError`]: no such interface, no permission, a ring too large, buffers smaller than the MTU, a fanout group of another kind.
pub fn open(name: &str, config: &PacketConfig, pool: &Pool) -> Result<Port, PacketError> {
    open_with(name, config, pool, large::LARGE_BUFFERS)
}

fn open_with(name: &str, config: &PacketConfig, pool: &Pool, large_buffers: usize) -> Result<Port, PacketError> {
    let failed = |(step, error)| PacketError::new(name, config, step, error);
    let (iface, ring) = open_rx(name, config)?;
    let mtu = u16::try_from(iface.mtu).unwrap_or(u16::MAX);
    let (need, have) = (usize::from(mtu) + AROUND, pool.size() - pool.headroom());
    // Without `lro` one large buffer is enough: a segment is in it while it is cut up.
    let buffers = if config.lro { large_buffers } else { 1 };
    let large = config.vnet_hdr.then(|| large::pool(buffers)).transpose();
    let large = large.map_err(|error| failed(("buffers for large segments", error)))?;
    if need > have && !(config.lro && large.is_some()) {
        return Err(PacketError::SmallBuffers { name: name.to_string(), need, have });
    }
    let csum = config.vnet_hdr && config.tx_csum;
    let caps = Caps {
        mtu,
        tx_ip_csum: false, // a frame that asks for it gets it, in software
        tx_l4_csum: csum,
        rx_csum: true,
        tso_max: if csum && config.tso { LARGEST as u32 } else { 0 },
        lro: config.vnet_hdr && config.lro,
    };
    let out = TxRing::open(iface.index, &config.tx(need)).map_err(failed)?;
    let plain = os::tx::open_plain(iface.index, config.vnet_hdr).map_err(failed)?;
    let counts = Arc::new(PortCounts::default());
    let tx = PacketTx::new(name, out, plain, counts.clone(), config.vnet_hdr, need, &caps);
    let rx = PacketRx::new(name, ring, counts.clone(), config, pool.clone(), large);
    Ok(Port {
        spec: format!("packet:{name}"),
        name: name.to_string(),
        caps,
        rx: Box::new(rx),
        tx: Box::new(tx),
        counts,
        nic: None,
    })
}

/// Looks the interface up and opens the receiving ring.
fn open_rx(name: &str, config: &PacketConfig) -> Result<(os::Iface, RxRing), PacketError> {
    let failed = |(step, error)| PacketError::new(name, config, step, error);
    let (iface, ask) = (os::iface(name).map_err(failed)?, config.rx());
    if !iface.ethernet {
        return Err(PacketError::NotEthernet { name: name.to_string() });
    }
    let bytes = u64::from(ask.blocks) * u64::from(ask.block);
    if bytes > RING_MAX {
        return Err(PacketError::Memory { name: name.to_string(), bytes });
    }
    Ok((iface, RxRing::open(iface.index, &ask).map_err(failed)?))
}

#[cfg(test)]
mod tests;
