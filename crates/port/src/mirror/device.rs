//! The device of a mirror, through sockets in its network namespace.

use super::{MirrorConfig, MirrorError, MirrorState};
use crate::Port;
use crate::offload::RxCsum;
use crate::os::link;
use crate::os::netlink::{LinkWatch, Netlink, NetlinkError};
use crate::os::netns::Namespace;
use crate::os::tun;
use crate::tap::{self, TapConfig, TapError};
use buf::Pool;
use std::fs::{self, File};
use std::io;
use std::net::IpAddr;
use std::os::fd::BorrowedFd;
use std::sync::Weak;

/// Loopback device of a network namespace, with the addresses of the router itself.
const LOOPBACK: &str = "lo";

/// Device of a mirror, which is deleted when its port is dropped.
#[derive(Debug)]
pub struct MirrorDevice {
    name: String,
    index: u32,
    tun: Weak<File>,
    kernel: Netlink,
    watch: LinkWatch,
    state: MirrorState,
    addresses: Vec<(IpAddr, u8)>,
    own_addresses: Vec<(IpAddr, u8)>,
}

/// Opens a mirror: creates its device, which is up and has a carrier and no addresses. The port
/// receives what the kernel sends by the device, complete packets of at most the MTU.
///
/// # Errors
/// [`MirrorError`]
pub fn open(config: &MirrorConfig, pool: &Pool) -> Result<(Port, MirrorDevice), MirrorError> {
    within(&config.netns, || open_here(config, pool))?
}

/// Runs `act` in a network namespace: a name as of `ip netns`, or a path.
///
/// # Errors
/// [`MirrorError::Namespace`], [`MirrorError::Enter`]
pub fn within<R>(netns: &str, act: impl FnOnce() -> R) -> Result<R, MirrorError> {
    let path = if netns.contains('/') { netns.to_string() } else { format!("/run/netns/{netns}") };
    let failed = |why| MirrorError::Namespace { netns: netns.to_string(), why };
    let namespace = Namespace::open(path.as_ref()).map_err(failed)?;
    match Namespace::of_this_thread().and_then(|here| here.is(&namespace)) {
        Ok(true) => Ok(act()),
        _ => namespace.within(act).map_err(|why| MirrorError::Enter { netns: netns.to_string(), why }),
    }
}

fn open_here(config: &MirrorConfig, pool: &Pool) -> Result<(Port, MirrorDevice), MirrorError> {
    let MirrorConfig { name, netns, .. } = config;
    let failed = |why: String| MirrorError::Device { name: name.clone(), netns: netns.clone(), why };
    let kernel_failed = |error: NetlinkError| failed(error.to_string());
    let mut kernel = Netlink::open().map_err(kernel_failed)?;
    let watch = LinkWatch::open().map_err(kernel_failed)?;
    if kernel.device(name).is_ok() {
        return Err(MirrorError::Exists { name: name.clone(), netns: netns.clone() });
    }
    let tap = TapConfig {
        vnet_hdr: false,
        rx_csum: RxCsum::Off,
        tx_csum: false,
        tso: false,
        lro: false,
        any_length: true, // datagrams that were put together
        mtu: Some(config.mtu),
        mac: Some(config.mac),
        ..TapConfig::default()
    };
    let (port, tun) = tap::open_queue(name, &tap, pool, 0).map_err(|error| match error {
        TapError::Busy { .. } | TapError::NotTap { .. } => {
            MirrorError::Exists { name: name.clone(), netns: netns.clone() }
        }
        error => failed(error.to_string()),
    })?;
    port.counts.link.set_foreign(config.speed);
    let index = kernel.ifindex(name).map_err(kernel_failed)?;
    // The link-local address is the port's, router advertisements are for the daemons, and the
    // removal of an address removes no other one. Not every kernel has all of these settings.
    let _ = kernel.set_no_link_local(name);
    let settings =
        [("ipv6", "accept_ra", "0"), ("ipv6", "keep_addr_on_down", "1"), ("ipv4", "promote_secondaries", "1")];
    for (family, key, value) in settings {
        let _ = fs::write(format!("/proc/sys/net/{family}/conf/{name}/{key}"), value);
    }
    if let Some(speed) = config.speed {
        let _ = link::set_speed(name, u32::try_from(speed / 1_000_000).unwrap_or(u32::MAX));
    }
    kernel.set_up(LOOPBACK).and_then(|()| kernel.set_up(name)).map_err(kernel_failed)?;
    let (name, state) = (name.clone(), MirrorState::Up);
    let (addresses, own_addresses) = Default::default();
    Ok((port, MirrorDevice { name, index, tun, kernel, watch, state, addresses, own_addresses }))
}

impl MirrorDevice {
    /// Returns the index of the device in its namespace.
    pub fn index(&self) -> u32 {
        self.index
    }

    /// Returns the descriptor, which is readable when the state may have changed.
    pub fn fd(&self) -> BorrowedFd<'_> {
        self.watch.fd()
    }

    /// Reads the reports of the kernel without waiting, and returns the state of the device.
    pub fn state(&mut self) -> MirrorState {
        let changes = self.watch.take();
        let is_reported = changes.is_incomplete || changes.links.iter().any(|link| link.index == self.index);
        if is_reported || self.tun.strong_count() == 0 || changes.has_removed {
            self.state = match self.watch.link_at(self.index) {
                Ok(Some(link)) if link.is_set_up => MirrorState::Up,
                Ok(Some(_)) => MirrorState::Down,
                Ok(None) => MirrorState::Gone,
                Err(_) => self.state, // it is read again with the next report
            };
        }
        self.state
    }

    /// Sets the carrier of the device.
    ///
    /// # Errors
    /// Errors of TUNSETCARRIER: EBADFD if the device was deleted, EINVAL before Linux 5.0.
    pub fn set_carrier(&self, on: bool) -> io::Result<()> {
        let tun = self.tun.upgrade().ok_or(io::ErrorKind::NotFound)?;
        tun::set_carrier(&tun, on)
    }

    /// Sets the MTU of the device.
    ///
    /// # Errors
    /// The kernel's errors, as a sentence.
    pub fn set_mtu(&mut self, mtu: u16) -> Result<(), String> {
        self.kernel.set_mtu(&self.name, mtu.into()).map_err(|error| error.to_string())
    }

    /// Sets the addresses of the device, each with the length of its prefix. Addresses that other
    /// programs have added stay.
    ///
    /// # Errors
    /// The kernel's errors, as a sentence. The other addresses are set nevertheless.
    pub fn set_addresses(&mut self, wanted: &[(IpAddr, u8)]) -> Result<(), String> {
        set(&mut self.kernel, &self.name, &mut self.addresses, wanted)
    }

    /// Sets the addresses of the namespace itself, on its loopback device, as
    /// [`MirrorDevice::set_addresses`] does. They stay until they are removed.
    ///
    /// # Errors
    /// The same errors as [`MirrorDevice::set_addresses`].
    pub fn set_own_addresses(&mut self, wanted: &[(IpAddr, u8)]) -> Result<(), String> {
        set(&mut self.kernel, LOOPBACK, &mut self.own_addresses, wanted)
    }
}

/// Makes the addresses of `dev` that are in `own`, which this program has added, those in `wanted`.
/// The kernel may have removed some: all are added again.
fn set(kernel: &mut Netlink, dev: &str, own: &mut Vec<(IpAddr, u8)>, wanted: &[(IpAddr, u8)]) -> Result<(), String> {
    let mut result = Ok(());
    let mut note = |error: &NetlinkError, ignored: i32| {
        if error.errno != ignored {
            result = Err(error.to_string());
        }
    };
    for (addr, len) in own.extract_if(.., |of| !wanted.contains(of)) {
        let _ = kernel.remove_addr(dev, addr, len).map_err(|error| note(&error, libc::EADDRNOTAVAIL));
    }
    for (addr, len) in wanted {
        match kernel.add_addr(dev, *addr, *len) {
            Ok(()) if own.contains(&(*addr, *len)) => {}
            Ok(()) => own.push((*addr, *len)),
            // It is on the device already, possibly from another program.
            Err(error) => note(&error, libc::EEXIST),
        }
    }
    result
}
