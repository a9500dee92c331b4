//! Ports on devices of the Linux kernel: TAP and TUN devices, packet sockets and AF_XDP sockets.

pub use crate::os::xdp::KERNEL_HEADROOM;

use super::env::{Env, narrow};
use crate::Port;
use crate::os::{netlink, tun};
use crate::packet::{self, FanoutMode, PacketConfig, PacketError};
use crate::spec::{Kind, Layer, Spec};
use crate::tap::{self, RxCsum, TapConfig, TapError};
use crate::xdp::{self, Attach, CopyMode, Hook, Wakeup, XdpConfig, XdpError};
use std::fmt;

/// Reason why a port on a device of the kernel could not be opened.
#[derive(Debug)]
#[non_exhaustive]
pub enum DeviceError {
    /// The TAP or TUN device could not be opened.
    Tap(TapError),
    /// The packet sockets could not be opened.
    Packet(PacketError),
    /// The AF_XDP socket could not be opened.
    Xdp(XdpError),
    /// The port is not on a device of the kernel.
    NotADevice(Kind),
}

impl fmt::Display for DeviceError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            DeviceError::Tap(error) => error.fmt(f),
            DeviceError::Packet(error) => error.fmt(f),
            DeviceError::Xdp(error) => error.fmt(f),
            DeviceError::NotADevice(kind) => write!(f, "{kind} is not a device of the kernel"),
        }
    }
}

impl std::error::Error for DeviceError {}

pub(super) fn open(spec: &Spec, env: &Env<'_>) -> Result<Port, DeviceError> {
    let (layer, name) = (&spec.port, spec.name.as_str());
    match layer.kind {
        Kind::Tap => env.pairs.queues().open(name, &tap_config(layer), &env.pool).map_err(DeviceError::Tap),
        Kind::Tun => tap::open_tun(name, env.mac, &tap_config(layer), &env.pool).map_err(DeviceError::Tap),
        Kind::Packet => packet::open(name, &packet_config(layer), &env.pool).map_err(DeviceError::Packet),
        Kind::Xdp => xdp::open(name, &xdp_config(layer), &env.pool).map_err(DeviceError::Xdp),
        kind => Err(DeviceError::NotADevice(kind)),
    }
}

/// Returns the MTU of an interface in bytes; `None` if there is no such interface.
pub(super) fn mtu(name: &str) -> Option<u16> {
    tun::mtu(name).ok().map(|mtu| u16::try_from(mtu).unwrap_or(u16::MAX))
}

/// Returns whether the driver of an interface supports AF_XDP without copying.
pub(super) fn has_zero_copy(name: &str) -> bool {
    netlink::xdp_features(name).is_ok_and(netlink::XdpFeatures::zero_copy)
}

fn rx_csum(layer: &Layer) -> RxCsum {
    match layer.word("rx_csum") {
        "off" => RxCsum::Off,
        "complete" => RxCsum::Complete,
        _ => RxCsum::Trust,
    }
}

fn tap_config(layer: &Layer) -> TapConfig {
    TapConfig {
        vnet_hdr: layer.switch("vnet_hdr"),
        rx_csum: rx_csum(layer),
        tx_csum: layer.switch("tx_csum"),
        tso: layer.switch("tso"),
        lro: layer.switch("lro"),
        mtu: layer.get_count("mtu").map(narrow),
        mac: layer.get_mac("mac"),
        up: layer.switch("up"),
        any_length: false,
        queues: narrow(layer.count("queues")),
    }
}

fn packet_config(layer: &Layer) -> PacketConfig {
    let mode = match layer.word("fanout_mode") {
        "lb" => FanoutMode::Lb,
        "cpu" => FanoutMode::Cpu,
        "rollover" => FanoutMode::Rollover,
        _ => FanoutMode::Hash,
    };
    let count = |option| u32::try_from(layer.count(option)).unwrap_or(u32::MAX);
    PacketConfig {
        rx_ring: count("rx_ring"),
        tx_ring: count("tx_ring"),
        fanout: Some(narrow(layer.count("fanout"))).filter(|group| *group > 0).map(|group| (group, mode)),
        promisc: layer.switch("promisc"),
        qdisc_bypass: layer.switch("qdisc_bypass"),
        ignore_outgoing: layer.switch("ignore_outgoing"),
        vnet_hdr: layer.switch("vnet_hdr"),
        rx_csum: rx_csum(layer),
        tx_csum: layer.switch("tx_csum"),
        tso: layer.switch("tso"),
        lro: layer.switch("lro"),
    }
}

fn xdp_config(layer: &Layer) -> XdpConfig {
    XdpConfig {
        queue: u32::from(narrow(layer.count("queue"))),
        mode: match layer.word("mode") {
            "copy" => CopyMode::Copy,
            "zerocopy" => CopyMode::ZeroCopy,
            _ => CopyMode::Auto,
        },
        attach: match layer.word("attach") {
            "skb" => Attach::Only(Hook::Generic),
            "native" => Attach::Only(Hook::Native),
            _ => Attach::Auto,
        },
        wakeup: if layer.switch("need_wakeup") { Wakeup::Asked } else { Wakeup::Always },
        ring: u32::from(narrow(layer.count("ring"))),
        rx_csum: rx_csum(layer),
    }
}
