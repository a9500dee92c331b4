//! Sizes of the buffers that a port needs, derived from the port's spec before it is opened.

use super::OpenError;
use super::devices::{self, KERNEL_HEADROOM};
use super::env::narrow;
use crate::LINK_LEN;
use crate::spec::{Kind, Spec};
use buf::{Pool, PoolConfig, PoolLocks, Stride};

/// Largest MTU of common Ethernet devices, in bytes. The MTU of the loopback is larger, but few of
/// its packets are longer than this value. A port with buffers for large segments (`lro`) receives
/// such packets into these buffers.
const MTU_USUAL: u16 = 9_216;

/// Returns the number of bytes that a buffer needs after its headroom for frames of the port
/// `spec`. It depends on the MTU of the device, or on the option `mtu`. `None` if any buffer is
/// long enough, or if the device does not exist yet.
pub fn buffer_len(spec: &Spec) -> Option<usize> {
    let device = || devices::mtu(&spec.name);
    let set = || spec.port.get_count("mtu").map(super::narrow);
    let (mtu, kernel) = match spec.port.kind {
        Kind::Tap | Kind::Tun => (set().or_else(device)?, 0),
        Kind::Packet => {
            let has_large = spec.port.switch("lro") && spec.port.switch("vnet_hdr");
            (device().filter(|mtu| *mtu <= MTU_USUAL || !has_large)?, 0)
        }
        Kind::Xdp => (device()?, KERNEL_HEADROOM),
        Kind::Nic | Kind::Unix => (narrow(spec.port.count("mtu")), 0),
        _ => return None,
    };
    Some(usize::from(mtu) + LINK_LEN + kernel)
}

/// Returns whether the device will access the pool's buffers directly (zero copy). This is the case
/// if the option `mode=zerocopy` requests it, or if the driver supports it with `mode=auto`. No
/// buffer may then cross a page boundary.
pub fn is_zero_copy(spec: &Spec) -> bool {
    spec.port.kind == Kind::Xdp
        && match spec.port.word("mode") {
            "zerocopy" => true,
            "auto" => devices::has_zero_copy(&spec.name),
            _ => false,
        }
}

/// Returns the stride of a pool for ports with these specs: the distance between its buffers.
pub fn stride_for<'a>(specs: impl IntoIterator<Item = &'a Spec>) -> Stride {
    if specs.into_iter().any(is_zero_copy) { Stride::PowerOfTwo } else { Stride::Odd }
}

/// Enlarges the buffers in `config` to the longest frame of these ports, if they are shorter.
pub fn fit_pool<'a>(config: &mut PoolConfig, specs: impl IntoIterator<Item = &'a Spec>) {
    let longest = specs.into_iter().filter_map(buffer_len).max();
    config.data = config.data.max(longest.unwrap_or_default());
}

/// Returns the pool for a port that is added to a running host or bridge. This is `pool` if its
/// buffers fit the port. Otherwise it is a new pool with longer buffers, or with buffers that do
/// not cross page boundaries, and with the other properties of `config`, from which `pool` was
/// created.
///
/// # Errors
/// [`OpenError::Pool`] if there is no memory for a new pool.
pub fn pool_for(spec: &Spec, pool: &Pool, config: &PoolConfig) -> Result<Pool, OpenError> {
    let stride = if is_zero_copy(spec) { Stride::PowerOfTwo } else { config.stride };
    let data = config.data.max(buffer_len(spec).unwrap_or_default());
    if (stride, data) == (config.stride, config.data) {
        return Ok(pool.clone());
    }
    // `Light` locks, because the halves of the port belong to different threads.
    let config = PoolConfig { data, stride, locks: PoolLocks::Light, ..config.clone() };
    Pool::new(&config).map_err(|error| OpenError::Pool { spec: spec.to_string(), error })
}
