//! `packet:IFNAME`: a kernel interface, accessed by packet sockets with rings in shared memory
//! (AF_PACKET, TPACKET_V2).
//!
//! A frame is copied once: from a slot of the receiving ring into a buffer of the pool, or from a
//! buffer into a slot of the sending ring. Receiving needs no system call while frames are waiting;
//! sending needs one per burst. A frame is received as soon as the kernel has put it into its slot.
//! If more than `rx_ring` frames arrive between two polls, frames are lost.
//!
//! A virtio header in front of every frame carries the offload requests of local senders. An open
//! checksum is trusted, or completed, as the option `rx_csum` selects. TCP segments of up to 64 KiB
//! pass unsplit in both directions, or are split here (`lro=off`). Such a segment is longer than a
//! slot, so it is read from the socket by a separate call.
//!
//! The kernel's own stack also receives from the interface: give it no address there, or it replies
//! too. An interface that is down drops what is sent to it, and resumes when it comes up. Deleting
//! the interface ends the port.

pub mod bare;
mod error;
mod rx;
pub(crate) mod slot;
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
use rx::PacketRx;
use std::sync::Arc;
use tx::PacketTx;
use wire::{eth, vlan};

/// Configuration of a packet port.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct PacketConfig {
    /// Slots of the receiving ring, rounded up to a power of two: 64 to 65,536. Each holds a frame
    /// of the MTU.
    pub rx_ring: u32,
    /// Slots of the sending ring, rounded up to a power of two: 64 to 4096.
    pub tx_ring: u32,
    /// Number and mode of the fanout group, whose ports share the interface's frames; `None`: no
    /// group.
    pub fanout: Option<(u16, FanoutMode)>,
    /// Also receive frames addressed to other stations.
    pub promisc: bool,
    /// Pass frames directly to the driver, bypassing the queueing discipline.
    pub qdisc_bypass: bool,
    /// Ignore frames that the interface sends.
    pub ignore_outgoing: bool,
    /// Exchange a virtio header with the kernel; without it there are no offloads, and large
    /// segments are lost.
    pub vnet_hdr: bool,
    /// Treatment of received open checksums. [`RxCsum::Off`] has the same effect as
    /// [`RxCsum::Complete`], as the kernel cannot complete them.
    pub rx_csum: RxCsum,
    /// Leave checksums of sent frames to the kernel; needs `vnet_hdr`.
    pub tx_csum: bool,
    /// Send large segments unsplit; needs `tx_csum`.
    pub tso: bool,
    /// Receive large segments unsplit; otherwise they are split here.
    pub lro: bool,
}

impl Default for PacketConfig {
    fn default() -> PacketConfig {
        PacketConfig {
            rx_ring: 4096,
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

/// Maximum memory of a ring in bytes.
const RING_MAX: u64 = 1 << 30;

/// Minimum bytes of a slot: a frame of 1500 bytes MTU, and its headers.
const SLOT_MIN: usize = 2048;
/// Maximum bytes of a slot; a longer frame needs a separate system call.
const SLOT_MAX: usize = 16_384;
/// Maximum bytes of a slot if longer frames cannot be read separately: enough for the largest
/// packet.
const SLOT_LONGEST: usize = 131_072;

impl PacketConfig {
    /// Returns the configuration of the receiving socket, for frames of `longest` bytes.
    fn rx(&self, longest: usize) -> os::rx::Config {
        let most = if self.vnet_hdr { SLOT_MAX } else { SLOT_LONGEST };
        let slot = (os::rx::FRONT + longest).next_power_of_two().clamp(SLOT_MIN, most);
        os::rx::Config {
            slots: self.rx_ring.clamp(64, 65_536).next_power_of_two(),
            slot: slot as u32, // within SLOT_LONGEST
            queue_long: self.vnet_hdr,
            vnet_hdr: self.vnet_hdr,
            promisc: self.promisc,
            ignore_outgoing: self.ignore_outgoing,
            fanout: self.fanout,
        }
    }

    /// Returns the configuration of the sending socket, for frames of `longest` bytes.
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

/// Opens a port on interface `name`.
///
/// # Errors
/// See [`PacketError`]: no such interface, no permission, a ring too large, buffers shorter than
/// the MTU, a fanout group with another mode.
pub fn open(name: &str, config: &PacketConfig, pool: &Pool) -> Result<Port, PacketError> {
    open_with(name, config, pool, large::LARGE_BUFFERS)
}

fn open_with(name: &str, config: &PacketConfig, pool: &Pool, large_buffers: usize) -> Result<Port, PacketError> {
    let failed = |(step, error)| PacketError::new(name, config, step, error);
    let (iface, ring) = open_rx(name, config)?;
    let mtu = u16::try_from(iface.mtu).unwrap_or(u16::MAX);
    let (need, have) = (usize::from(mtu) + AROUND, pool.size() - pool.headroom());
    // Without `lro` one large buffer is enough, for the segment being split.
    let buffers = if config.lro { large_buffers } else { 1 };
    let large = config.vnet_hdr.then(|| large::pool(buffers)).transpose();
    let large = large.map_err(|error| failed(("allocate buffers for large segments", error)))?;
    if need > have && !(config.lro && large.is_some()) {
        return Err(PacketError::SmallBuffers { name: name.to_string(), need, have });
    }
    let csum = config.vnet_hdr && config.tx_csum;
    let caps = Caps {
        mtu,
        tx_ip_csum: false, // done in software where requested
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

/// Looks up the interface and opens the receiving ring.
fn open_rx(name: &str, config: &PacketConfig) -> Result<(os::Iface, RxRing), PacketError> {
    let failed = |(step, error)| PacketError::new(name, config, step, error);
    let iface = os::iface(name).map_err(failed)?;
    if !iface.ethernet {
        return Err(PacketError::NotEthernet { name: name.to_string() });
    }
    let ask = config.rx(iface.mtu.min(u16::MAX.into()) as usize + AROUND);
    let bytes = u64::from(ask.slots) * u64::from(ask.slot);
    if bytes > RING_MAX {
        return Err(PacketError::Memory { name: name.to_string(), bytes });
    }
    Ok((iface, RxRing::open(iface.index, &ask).map_err(failed)?))
}

#[cfg(test)]
mod tests;
