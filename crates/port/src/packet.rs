//! `packet:IFNAME`: a kernel interface, accessed by packet sockets with rings in shared memory
//! (AF_PACKET, TPACKET_V2).
//!
//! A frame is copied once: from a slot of the receive ring into a buffer of the pool, or from a
//! buffer into a slot of the transmit ring. Receiving needs no system call while frames are
//! waiting; sending needs one per burst. A frame can be received as soon as the kernel has put it
//! into its slot. If more than `rx_ring` frames arrive between two polls, frames are lost.
//!
//! A virtio header in front of every frame contains the offload requests of local senders. An open
//! checksum is trusted or completed, as selected by the option `rx_csum`. TCP segments of up to 64
//! KiB pass unsplit in both directions, or are split on receipt (`lro=off`). A large segment does
//! not fit into a slot, so it is read from the socket by a separate call.
//!
//! The kernel's own stack also receives from the interface. Do not assign an address to the
//! interface in the kernel, or both stacks reply. An interface that is down drops frames sent to
//! it, and resumes when it comes up. Deleting the interface ends the port.

pub mod bare;
mod config;
mod error;
mod rx;
pub(crate) mod slot;
mod tx;

pub use crate::offload::RxCsum;
pub use crate::os::packet::rx::FanoutMode;
pub use config::PacketConfig;
pub use error::PacketError;

use crate::offload::large::{self, LARGEST};
use crate::os::packet as os;
use crate::os::packet::rx::RxRing;
use crate::os::packet::tx::TxRing;
use crate::{Caps, LINK_LEN, Port, PortCounts};
use buf::Pool;
use rx::PacketRx;
use std::sync::Arc;
use tx::PacketTx;

/// Maximum size of a ring in bytes.
const RING_MAX: u64 = 1 << 30;

/// Opens a port on interface `name`.
///
/// # Errors
/// See [`PacketError`]: there is no interface with this name, a permission is missing, a ring is
/// too large, the buffers are shorter than the MTU, or the fanout group has another mode.
pub fn open(name: &str, config: &PacketConfig, pool: &Pool) -> Result<Port, PacketError> {
    open_with(name, config, pool, large::LARGE_BUFFERS)
}

fn open_with(name: &str, config: &PacketConfig, pool: &Pool, large_buffers: usize) -> Result<Port, PacketError> {
    let failed = |(step, error)| PacketError::new(name, config, step, error);
    let (iface, ring) = open_rx(name, config)?;
    let mtu = u16::try_from(iface.mtu).unwrap_or(u16::MAX);
    let (need, have) = (usize::from(mtu) + LINK_LEN, pool.size() - pool.headroom());
    // Without `lro`, one large buffer is enough, because only the segment that is being split needs
    // it.
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
    let counts = Arc::new(PortCounts::of_device(name));
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
    let ask = config.rx(iface.mtu.min(u16::MAX.into()) as usize + LINK_LEN);
    let bytes = u64::from(ask.slots) * u64::from(ask.slot);
    if bytes > RING_MAX {
        return Err(PacketError::Memory { name: name.to_string(), bytes });
    }
    Ok((iface, RxRing::open(iface.index, &ask).map_err(failed)?))
}

#[cfg(test)]
mod tests;
