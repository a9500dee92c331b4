//! Baseline for AF_XDP ports: a loop that receives frames, swaps the two MAC addresses and sends
//! the frames back. There are two versions: one uses only the rings, the other a port. The result
//! `xdp.forward` compares the two.

use super::{DeviceInfo, SHARE, XdpConfig, XdpError, attach, find};
use crate::os::bpf::{Extent, Redirect};
use crate::os::xdp::bare::Circle;
use crate::os::xdp::swap_macs;
use crate::os::xdp::{Ask, CHUNK_MIN, CopyMode, KERNEL_HEADROOM};
use crate::{LINK_LEN, Port, os::tun};
use buf::Burst;
use clock::Instant;

/// Maximum number of frames that either loop moves per turn.
pub const TURN: usize = 64;

/// The loop that uses only the rings, without frames and pool. It has as many buffers as a default
/// pool, and gives the kernel the same share of them as a port does.
pub struct BareSwap {
    circle: Circle,
    _redirect: Redirect,
}

impl BareSwap {
    /// Opens the queue in the same way as a port.
    ///
    /// # Errors
    /// The same errors as those of a port.
    pub fn open(name: &str, config: &XdpConfig) -> Result<BareSwap, XdpError> {
        let DeviceInfo { ifindex, present, .. } = find(name)?;
        let mtu = tun::mtu(name).map_err(|error| XdpError::new(name, config.queue, ("SIOCGIFMTU", error)))?;
        let (need, have) = (mtu as usize + LINK_LEN, CHUNK_MIN - KERNEL_HEADROOM);
        if need > have {
            return Err(XdpError::SmallBuffers { name: name.to_string(), need, have });
        }
        let places = config.ring.clamp(64, 4096).next_power_of_two();
        // In copy mode, the loop has the same mode as a port whose pool has buffers that cross
        // pages.
        let mode = if config.mode == CopyMode::Auto { CopyMode::Copy } else { config.mode };
        let ask = Ask { ifindex, queue: config.queue, places, mode, wakeup: config.wakeup, multi: false };
        let fill = (4096 / SHARE).min(places as usize);
        let circle = Circle::open(&ask, fill).map_err(|failure| XdpError::new(name, config.queue, failure))?;
        let put = |hook| Redirect::attach(ifindex, hook, present, Extent::Whole);
        let redirect = attach(name, config, circle.socket(), &mut Vec::new(), put)?;
        Ok(BareSwap { circle, _redirect: redirect })
    }

    /// Runs one turn. Returns the number of frames moved.
    pub fn turn(&mut self) -> usize {
        self.circle.turn(TURN)
    }
}

/// Runs the loop over the rings while `go_on` returns true. `go_on` is called before each turn,
/// with the number of frames moved so far. Returns the total number.
///
/// # Errors
/// The same errors as those of a port.
pub fn bare_swap(name: &str, config: &XdpConfig, mut go_on: impl FnMut(u64) -> bool) -> Result<u64, XdpError> {
    let mut bare = BareSwap::open(name, config)?;
    let mut moved = 0;
    while go_on(moved) {
        moved += bare.turn() as u64;
    }
    Ok(moved)
}

/// Runs one turn of the loop over a port. Frames that the port does not accept remain in `burst`.
/// Returns the number of frames received.
pub fn port_turn(port: &mut Port, burst: &mut Burst, now: Instant) -> usize {
    let waiting = burst.len();
    let came = port.rx.rx_burst(burst, TURN.saturating_sub(waiting), now);
    burst.as_mut_slice().iter_mut().skip(waiting).for_each(|frame| swap_macs(frame.bytes_mut()));
    port.tx.tx_burst(burst, now);
    came
}
