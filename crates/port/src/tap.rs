//! `tap:NAME`: a TAP device of the kernel. The port receives the frames that the kernel sends to
//! the device, and vice versa.
//!
//! `tun:NAME` ([`open_tun`]) is a TUN device, which carries IP packets without Ethernet headers.
//! The port adds and removes the headers, and answers the host's ARP requests and neighbor
//! solicitations.
//!
//! Each frame takes one read or write, directly into or out of the pool's buffers. With a virtio
//! header, the host and the kernel offload work to each other. A checksum that the kernel left open
//! is trusted or completed, as selected by the option `rx_csum`. A checksum that a host flagged
//! `TX_L4_CSUM` is left to the kernel. TCP segments of up to 64 KiB pass unsplit in both directions
//! (`tso`, `lro`). Deleting the device while it is open ends the port
//! ([`RxHalf::is_gone`](crate::RxHalf::is_gone)) and is counted in `port.rx.errors`.

pub mod bare;
mod error;
mod queues;
mod rx;
mod tx;

pub use crate::offload::RxCsum;
pub use error::TapError;
pub use queues::Queues;

use crate::ip_link::IpLink;
use crate::offload::large::{self, LARGEST};
use crate::os::tun::{self as device, Config, Opened, VNET_HDR_LEN};
use crate::{Caps, LINK_LEN, Port, PortCounts};
use buf::Pool;
use rx::TapRx;
use std::fs::File;
use std::os::fd::AsFd;
use std::sync::{Arc, Weak};
use tx::TapTx;
use wire::{Mac, eth};

/// Configuration of a port on a TAP or TUN device.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct TapConfig {
    /// True to exchange a virtio header with the kernel. Without it there are no offloads.
    pub vnet_hdr: bool,
    /// Handling of open checksums in received frames.
    pub rx_csum: RxCsum,
    /// True to leave checksums of sent frames to the kernel.
    pub tx_csum: bool,
    /// True to send large segments unsplit; requires `tx_csum`.
    pub tso: bool,
    /// True to receive large segments unsplit; requires a value of `rx_csum` other than `off`.
    pub lro: bool,
    /// MTU to set on the device; `None` to keep it.
    pub mtu: Option<u16>,
    /// MAC address to set on the kernel's interface; `None` to keep it. A TUN device has none.
    pub mac: Option<Mac>,
    /// True to bring up the kernel's interface.
    pub up: bool,
    /// True to send frames that are longer than the MTU, too, up to 64 KiB, which the kernel
    /// accepts.
    pub any_length: bool,
    /// Number of queues of the device. If there are several, each call that opens the device
    /// returns a port on another queue ([`Queues`]).
    pub queues: u16,
}

impl Default for TapConfig {
    fn default() -> TapConfig {
        TapConfig {
            vnet_hdr: true,
            rx_csum: RxCsum::default(),
            tx_csum: true,
            tso: true,
            lro: true,
            mtu: None,
            mac: None,
            up: false,
            any_length: false,
            queues: 1,
        }
    }
}

/// Opens the device, and creates it if necessary. A device created here is deleted when the port is
/// dropped. Offloads that the kernel does not support are disabled; the port's [`Caps`] contain the
/// available ones.
///
/// # Errors
/// See [`TapError`]: /dev/net/tun is missing, a permission is missing, the device is in use, or the
/// buffers are smaller than the MTU.
pub fn open(name: &str, config: &TapConfig, pool: &Pool) -> Result<Port, TapError> {
    open_queue(name, config, pool, large::LARGE_BUFFERS).map(|(port, _)| port)
}

/// Opens the TUN device as [`open`] opens a TAP device. `host` is the MAC address of the host that
/// uses the port, until it sends frames with another one.
///
/// # Errors
/// The same errors as [`open`].
pub fn open_tun(name: &str, host: Mac, config: &TapConfig, pool: &Pool) -> Result<Port, TapError> {
    open_device(name, Device::Tun { host }, config, pool, large::LARGE_BUFFERS).map(|(port, _)| port)
}

/// Returns a port on one queue of a TAP device, and a weak reference that is valid as long as the
/// port is open.
pub(crate) fn open_queue(
    name: &str,
    config: &TapConfig,
    pool: &Pool,
    large_buffers: usize,
) -> Result<(Port, Weak<File>), TapError> {
    open_device(name, Device::Tap, config, pool, large_buffers)
}

/// Type of the device.
#[derive(Clone, Copy)]
enum Device {
    Tap,
    Tun { host: Mac },
}

fn open_device(
    name: &str,
    kind: Device,
    config: &TapConfig,
    pool: &Pool,
    large_buffers: usize,
) -> Result<(Port, Weak<File>), TapError> {
    let (port_kind, link_len) = match kind {
        Device::Tap => ("tap", LINK_LEN),
        Device::Tun { .. } => ("tun", eth::HEADER_LEN),
    };
    let vnet_hdr = if config.vnet_hdr { VNET_HDR_LEN } else { 0 };
    let ask = Config { vnet_hdr, rx_csum: config.rx_csum != RxCsum::Off, rx_large: config.lro };
    let opened = match kind {
        Device::Tap if config.queues > 1 => device::open_tap_queue(name, ask),
        Device::Tap => device::open_tap(name, ask),
        Device::Tun { .. } => device::open_tun(name, ask),
    };
    let spec_of = |name: &str| format!("{port_kind}:{name}");
    let Opened { file, name, config: got } =
        opened.map_err(|(step, error)| match TapError::new(spec_of(name), step, error) {
            TapError::NotTap { port } if config.queues > 1 => TapError::NotMultiQueue { port },
            error => error,
        })?;
    let spec = spec_of(&name);
    let failed = |step: &'static str| {
        let spec = spec.clone();
        move |error| TapError::new(spec, step, error)
    };
    if let Some(mtu) = config.mtu {
        device::set_mtu(&name, u32::from(mtu)).map_err(failed("SIOCSIFMTU"))?;
    }
    if let Some(mac) = config.mac {
        device::set_mac(&name, mac).map_err(failed("SIOCSIFHWADDR"))?;
    }
    if config.up {
        device::set_up(&name).map_err(failed("SIOCSIFFLAGS"))?;
    }
    let mtu = device::mtu(&name).map_err(failed("SIOCGIFMTU"))?;
    let mtu = u16::try_from(mtu).unwrap_or(u16::MAX);
    let large = got
        .rx_large
        .then(|| large::pool(large_buffers))
        .transpose()
        .map_err(failed("allocate buffers for large segments"))?;
    let (need, have) = (usize::from(mtu) + link_len, pool.size() - pool.headroom());
    if need > have && large.is_none() {
        return Err(TapError::SmallBuffers { port: spec, need, have });
    }
    let tx_l4_csum = got.vnet_hdr > 0 && config.tx_csum;
    let caps = Caps {
        mtu,
        tx_ip_csum: false, // computed in software on request
        tx_l4_csum,
        rx_csum: got.rx_csum,
        tso_max: if tx_l4_csum && config.tso { LARGEST as u32 } else { 0 },
        lro: got.rx_large,
    };
    let (file, counts) = (Arc::new(file), Arc::new(PortCounts::of_device(&name)));
    let link = match kind {
        Device::Tap => None,
        Device::Tun { host } => Some(Arc::new(IpLink::new(host, Some(file.as_fd())).map_err(failed("epoll"))?)),
    };
    let queue = Arc::downgrade(&file);
    let longest = if config.any_length { LARGEST + link_len } else { need };
    let tx = TapTx::new(file.clone(), link.clone(), counts.clone(), got.vnet_hdr, longest, &caps);
    let rx = TapRx::new(file, link, counts.clone(), got.vnet_hdr, pool.clone(), large, config.rx_csum);
    let port = Port { spec, name, caps, rx: Box::new(rx), tx: Box::new(tx), counts, nic: None };
    Ok((port, queue))
}

#[cfg(test)]
mod tests;
