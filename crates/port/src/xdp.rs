//! `xdp:IFNAME`: frames of one queue of a device, taken before the kernel makes packets of them, by an AF_XDP socket.
//!
//! A small program on the device hands the queue's frames to the socket; what comes on other queues stays the kernel's. The
//! socket's memory is the pool's: between ports that share a pool a frame is not copied, and where the driver can (zero copy),
//! not even between device and pool. Buffers that the kernel has, to be filled or being sent, are held
//! ([`RxHalf::held`](crate::RxHalf::held), [`TxHalf::held`](crate::TxHalf::held)) and in use to the pool. A device that goes away
//! ends the port.
//!
//! Frames come as they are: a checksum that the peer's kernel left open (`veth`) is open here, and a VLAN tag that a device or
//! kernel took off is not there. Have the peer close checksums (`ethtool -K PEER tx off`, [`crate::os::tun::close_tx_checksums`]).

pub mod bare;
mod error;
mod rx;
mod tx;

pub use crate::os::bpf::Hook;
pub use crate::os::xdp::{CopyMode, Wakeup};
pub use error::XdpError;

use crate::os::bpf::Redirect;
use crate::os::xdp::frames::{self, FrameRx, FrameTx, Geometry};
use crate::os::xdp::{Ask, Failure};
use crate::os::{bpf, netlink::Netlink, tun};
use crate::{Caps, Port, PortCounts};
use buf::{Layout, Pool};
use rx::XdpRx;
use std::io;
use std::os::fd::BorrowedFd;
use std::sync::Arc;
use tx::XdpTx;
use wire::{eth, vlan};

/// Where the program is to look at frames.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Attach {
    /// In the driver; if that cannot, in the kernel's receive path.
    #[default]
    Auto,
    /// There, or not at all.
    Only(Hook),
}

/// How the port is to be.
#[derive(Clone, Copy, Debug)]
pub struct XdpConfig {
    /// The device's queue.
    pub queue: u32,
    /// Copied or not.
    pub mode: CopyMode,
    /// Where frames are taken.
    pub attach: Attach,
    /// When the kernel is told of frames to send.
    pub wakeup: Wakeup,
    /// Places in each ring, made a power of two: 64 to 4096.
    pub ring: u32,
}

impl Default for XdpConfig {
    fn default() -> XdpConfig {
        let (mode, attach, wakeup) = (CopyMode::default(), Attach::default(), Wakeup::default());
        XdpConfig { queue: 0, mode, attach, wakeup, ring: 2048 }
    }
}

/// Bytes of frame around a packet: an Ethernet header and one VLAN tag.
const AROUND: usize = eth::HEADER_LEN + vlan::TAG_LEN;

/// One in so many of the pool's buffers waits in the kernel to be filled: several ports live on one pool.
const SHARE: usize = 8;

/// A pool's buffers as the kernel is to see them.
struct Fit {
    geometry: Geometry,
    /// The longest frame that can be received.
    longest: usize,
}

/// Opens a port on the device `name`.
///
/// # Errors
/// See [`XdpError`]: a missing privilege or part of the kernel, no such device, a queue in use, buffers that do not fit.
pub fn open(name: &str, config: &XdpConfig, pool: &Pool) -> Result<Port, XdpError> {
    let (ifindex, present) = find(name)?;
    let mtu = tun::mtu(name).map_err(|error| XdpError::new(name, config.queue, ("SIOCGIFMTU", error)))?;
    let (layout, fit) = fit(name, mtu as usize, config.mode, pool)?;
    let mut remarks = Vec::new();
    let ask = ask(ifindex, config, &fit);
    let (rx, tx, zero_copy) = frames::open(pool, fit.geometry, &ask).map_err(|failure| match failure {
        Some(failure) => XdpError::new(name, config.queue, failure),
        None => XdpError::BadPool { name: name.to_string() },
    })?;
    if config.mode == CopyMode::Auto && !zero_copy {
        let why = if fit.geometry.unaligned {
            "the pool's buffers cross pages: see mode=zerocopy"
        } else {
            "the driver cannot do without"
        };
        remarks.push(format!("xdp:{name}: the kernel copies each frame ({why})"));
    }
    let redirect = attach(name, config, rx.socket(), &mut remarks, |hook| Redirect::attach(ifindex, hook, present))?;
    let most = (pool.stats().buffers / SHARE).clamp(1, ask.places as usize);
    let longest = fit.longest.min(mtu as usize + AROUND).min(layout.stride);
    Ok(assemble(name, rx, tx, Parts { redirect, remarks, most, longest, mtu }))
}

/// What the halves are made with.
struct Parts {
    redirect: Redirect,
    remarks: Vec<String>,
    most: usize,
    longest: usize,
    mtu: u32,
}

fn assemble(name: &str, rx: FrameRx, tx: FrameTx, parts: Parts) -> Port {
    let counts = Arc::new(PortCounts::default());
    let caps = Caps { mtu: u16::try_from(parts.mtu).unwrap_or(u16::MAX), ..Caps::PLAIN };
    let redirect = Arc::new(parts.redirect);
    let tx = XdpTx::new(tx, counts.clone(), parts.longest, redirect.clone());
    let rx = XdpRx::new(rx, counts.clone(), parts.most, parts.remarks, redirect);
    let (name, spec) = (name.to_string(), format!("xdp:{name}"));
    Port { name, spec, caps, rx: Box::new(rx), tx: Box::new(tx), counts, nic: None }
}

/// The device's number, and that of the program on it.
fn find(name: &str) -> Result<(u32, Option<u32>), XdpError> {
    let found = Netlink::open().and_then(|mut netlink| Ok((netlink.ifindex(name)?, netlink.xdp_program(name)?)));
    found.map_err(|error| {
        let name = name.to_string();
        match error.errno {
            libc::ENODEV => XdpError::NoInterface { name },
            errno => XdpError::Os { name, step: "find the interface", error: io::Error::from_raw_os_error(errno) },
        }
    })
}

/// Do the pool's buffers fit, for frames of this MTU?
fn fit(name: &str, mtu: usize, mode: CopyMode, pool: &Pool) -> Result<(Layout, Fit), XdpError> {
    let name = || name.to_string();
    let layout = pool.layout().ok_or_else(|| XdpError::BadPool { name: name() })?;
    let need = mtu + AROUND;
    let short = |have| XdpError::SmallBuffers { name: name(), need, have };
    let geometry = Geometry::of(&layout, pool.size(), pool.headroom()).ok_or_else(|| short(0))?;
    let longest = geometry.longest(&layout, pool.size());
    if need > longest {
        return Err(short(longest));
    }
    if mode == CopyMode::ZeroCopy && geometry.unaligned {
        return Err(XdpError::AcrossPages { name: name(), stride: layout.stride });
    }
    Ok((layout, Fit { geometry, longest }))
}

fn ask(ifindex: u32, config: &XdpConfig, fit: &Fit) -> Ask {
    let places = config.ring.clamp(64, 4096).next_power_of_two();
    // A device cannot follow a buffer from one page into the next, so it is not asked to.
    let mode = if fit.geometry.unaligned { CopyMode::Copy } else { config.mode };
    Ask { ifindex, queue: config.queue, places, mode, wakeup: config.wakeup }
}

/// Puts the program on the device by `put`, and the socket into its map.
fn attach(
    name: &str,
    config: &XdpConfig,
    socket: BorrowedFd<'_>,
    remarks: &mut Vec<String>,
    put: impl Fn(Hook) -> Result<Redirect, Failure>,
) -> Result<Redirect, XdpError> {
    let failed = |failure: Failure| XdpError::new(name, config.queue, failure);
    let redirect = match config.attach {
        Attach::Only(hook) => put(hook),
        Attach::Auto => match put(Hook::Native) {
            Err((bpf::STEP_ATTACH, error)) if !error::is_taken(&error) => {
                remarks
                    .push(format!("xdp:{name}: the driver takes no program ({error}): the kernel's receive path does"));
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
