//! `xdp:IFNAME`: frames of one queue of a device, received through an AF_XDP socket before the
//! kernel builds packets from them.
//!
//! A small program on the device passes the queue's frames to the socket; frames of other queues go
//! to the kernel. The socket's memory is the pool's memory. Ports that share a pool therefore
//! exchange frames without a copy. If the driver supports zero copy, frames are not copied between
//! device and pool either. Buffers that the kernel has, to be filled or to be sent, are counted as
//! held ([`RxHalf::held`](crate::RxHalf::held), [`TxHalf::held`](crate::TxHalf::held)) and as in
//! use in the pool. Removing the device ends the port.
//!
//! Frames arrive unchanged, without metadata. A virtual device (`veth`) passes on frames whose
//! checksum the sender's kernel left open. An open checksum is recognized because its field
//! contains the pseudo header's sum. It is trusted or completed, as selected by the option
//! `rx_csum`. A VLAN tag that the device or the kernel has removed is lost. A frame that is longer
//! than a page is received and sent in several buffers, and joined in the first buffer on receipt;
//! this requires Linux 6.6.

pub mod bare;
mod error;
mod rx;
mod tx;

pub use crate::offload::RxCsum;
pub use crate::os::bpf::Hook;
pub use crate::os::xdp::{CopyMode, Wakeup};
pub use error::XdpError;

use crate::os::bpf::{Extent, Redirect};
use crate::os::netlink::{self, Netlink};
use crate::os::xdp::frames::{self, FrameRx, FrameTx, Geometry};
use crate::os::xdp::{Ask, Failure, STEP_BIND};
use crate::os::{bpf, tun};
use crate::{Caps, LINK_LEN, Port, PortCounts};
use buf::Pool;
use rx::XdpRx;
use std::io;
use std::os::fd::BorrowedFd;
use std::sync::Arc;
use tx::XdpTx;

/// Choice of the hook at which the XDP program runs.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Attach {
    /// In the driver, or in the kernel's receive path if the driver does not support XDP.
    #[default]
    Auto,
    /// Only at the given hook.
    Only(Hook),
}

/// Configuration of an AF_XDP port.
#[derive(Clone, Copy, Debug)]
pub struct XdpConfig {
    /// Number of the device's queue.
    pub queue: u32,
    /// Choice between copying frames in the kernel and zero copy.
    pub mode: CopyMode,
    /// Choice of the hook at which the XDP program runs.
    pub attach: Attach,
    /// When the kernel is notified of frames to send.
    pub wakeup: Wakeup,
    /// Number of entries in each ring, rounded up to a power of two: 64 to 4096.
    pub ring: u32,
    /// Handling of open checksums in frames of a virtual device. With [`RxCsum::Off`], frames stay
    /// unchanged.
    pub rx_csum: RxCsum,
}

impl Default for XdpConfig {
    fn default() -> XdpConfig {
        let (mode, attach, wakeup) = (CopyMode::default(), Attach::default(), Wakeup::default());
        XdpConfig { queue: 0, mode, attach, wakeup, ring: 2048, rx_csum: RxCsum::default() }
    }
}

/// Divisor of the number of buffers in the pool. The quotient is the number of empty buffers that a
/// port gives to the kernel: one eighth, because several ports may share a pool.
const SHARE: usize = 8;

/// Layout of a pool's buffers for the kernel.
struct Fit {
    geometry: Geometry,
    /// Length of the longest frame with this MTU, in bytes.
    longest: usize,
    /// Number of buffers (one or several) that a frame of this length needs.
    extent: Extent,
}

/// Opens a port on the device `name`.
///
/// # Errors
/// See [`XdpError`]: a privilege or a part of the kernel is missing, there is no interface with
/// this name, the queue is in use, or the pool's buffers are not suitable.
pub fn open(name: &str, config: &XdpConfig, pool: &Pool) -> Result<Port, XdpError> {
    let DeviceInfo { ifindex, present, is_virtual } = find(name)?;
    let mtu = tun::mtu(name).map_err(|error| XdpError::new(name, config.queue, ("SIOCGIFMTU", error)))?;
    let fit = fit(name, mtu as usize, config.mode, pool)?;
    let mut warnings = Vec::new();
    let ask = ask(ifindex, config, &fit);
    let (rx, tx, zero_copy) = frames::open(pool, fit.geometry, &ask).map_err(|failure| match failure {
        Some((STEP_BIND, error)) if ask.multi && error.raw_os_error() == Some(libc::EINVAL) => {
            XdpError::TooLong { name: name.to_string(), longest: fit.longest }
        }
        Some(failure) => XdpError::new(name, config.queue, failure),
        None => XdpError::BadPool { name: name.to_string() },
    })?;
    if config.mode == CopyMode::Auto && !zero_copy {
        let able = netlink::xdp_features(name).is_ok_and(netlink::XdpFeatures::zero_copy);
        let why = match (able, fit.geometry.unaligned) {
            (true, true) => "the pool's buffers cross page boundaries: set pool.stride=power2",
            (true, false) => "the driver does not support zero copy for frames of this length",
            (false, _) => "the driver does not support zero copy",
        };
        warnings.push(format!("xdp:{name}: the kernel copies each frame ({why})"));
    }
    let redirect =
        attach(name, config, rx.socket(), &mut warnings, |hook| Redirect::attach(ifindex, hook, present, fit.extent))?;
    let most = (pool.stats().buffers / SHARE).clamp(1, ask.places as usize);
    let open_csum = if is_virtual { config.rx_csum } else { RxCsum::Off };
    Ok(assemble(name, rx, tx, Parts { redirect, warnings, most, longest: fit.longest, mtu, open_csum }))
}

/// Arguments for creating the halves.
struct Parts {
    redirect: Redirect,
    warnings: Vec<String>,
    most: usize,
    longest: usize,
    mtu: u32,
    open_csum: RxCsum,
}

fn assemble(name: &str, rx: FrameRx, tx: FrameTx, parts: Parts) -> Port {
    let counts = Arc::new(PortCounts::of_device(name));
    let (mtu, rx_csum) = (u16::try_from(parts.mtu).unwrap_or(u16::MAX), parts.open_csum != RxCsum::Off);
    let caps = Caps { mtu, rx_csum, ..Caps::PLAIN };
    let redirect = Arc::new(parts.redirect);
    let tx = XdpTx::new(tx, counts.clone(), parts.longest, redirect.clone());
    let rx = XdpRx::new(rx, counts.clone(), parts.most, parts.open_csum, parts.warnings, redirect);
    let (name, spec) = (name.to_string(), format!("xdp:{name}"));
    Port { name, spec, caps, rx: Box::new(rx), tx: Box::new(tx), counts, nic: None }
}

/// Properties of a device before it is opened.
struct DeviceInfo {
    ifindex: u32,
    /// Number of the XDP program that is attached to the device, if any.
    present: Option<u32>,
    /// True if the device is virtual, that is without hardware.
    is_virtual: bool,
}

fn find(name: &str) -> Result<DeviceInfo, XdpError> {
    let found = Netlink::open().and_then(|mut netlink| {
        let (ifindex, present) = (netlink.ifindex(name)?, netlink.xdp_program(name)?);
        Ok(DeviceInfo { ifindex, present, is_virtual: netlink.kind(name)?.is_some() })
    });
    found.map_err(|error| {
        let name = name.to_string();
        match error.errno {
            libc::ENODEV => XdpError::NoInterface { name },
            errno => XdpError::Os { name, step: "look up the interface", error: io::Error::from_raw_os_error(errno) },
        }
    })
}

/// Checks that the pool's buffers are suitable for frames with this MTU, and computes their layout.
fn fit(name: &str, mtu: usize, mode: CopyMode, pool: &Pool) -> Result<Fit, XdpError> {
    let name = || name.to_string();
    let layout = pool.layout().ok_or_else(|| XdpError::BadPool { name: name() })?;
    let need = mtu + LINK_LEN;
    let short = |have| XdpError::SmallBuffers { name: name(), need, have };
    let geometry = Geometry::of(&layout, pool.size(), pool.headroom()).ok_or_else(|| short(0))?;
    let joined = geometry.longest_joined(&layout, pool.size());
    if need > joined {
        return Err(short(joined));
    }
    if mode == CopyMode::ZeroCopy && geometry.unaligned {
        return Err(XdpError::AcrossPages { name: name(), stride: layout.stride });
    }
    let extent = if need > geometry.longest(&layout, pool.size()) { Extent::Pieces } else { Extent::Whole };
    Ok(Fit { geometry, longest: need, extent })
}

fn ask(ifindex: u32, config: &XdpConfig, fit: &Fit) -> Ask {
    let places = config.ring.clamp(64, 4096).next_power_of_two();
    // Zero copy is not requested if buffers cross pages, because a device cannot continue a buffer
    // from one page to the next.
    let mode = if fit.geometry.unaligned { CopyMode::Copy } else { config.mode };
    Ask { ifindex, queue: config.queue, places, mode, wakeup: config.wakeup, multi: fit.extent == Extent::Pieces }
}

/// Attaches the program to the device by calling `put`, and inserts the socket into the program's
/// map.
fn attach(
    name: &str,
    config: &XdpConfig,
    socket: BorrowedFd<'_>,
    warnings: &mut Vec<String>,
    put: impl Fn(Hook) -> Result<Redirect, Failure>,
) -> Result<Redirect, XdpError> {
    let failed = |failure: Failure| XdpError::new(name, config.queue, failure);
    let redirect = match config.attach {
        Attach::Only(hook) => put(hook),
        Attach::Auto => match put(Hook::Native) {
            Err((bpf::STEP_ATTACH, error)) if !error::is_taken(&error) => {
                warnings.push(format!(
                    "xdp:{name}: the driver does not accept the program ({error}): using the kernel's receive path"
                ));
                put(Hook::Generic)
            }
            answer => answer,
        },
    };
    let redirect = redirect.map_err(failed)?;
    redirect.insert(config.queue, socket).map_err(|error| failed((bpf::STEP_INSERT, error)))?;
    Ok(redirect)
}

#[cfg(test)]
mod tests;
