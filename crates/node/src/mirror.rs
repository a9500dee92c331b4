//! Mirror of an iface: a TAP device in a network namespace of the kernel, at which the daemons of a
//! routing engine run. The device has the iface's MAC address, MTU, addresses and carrier.

use inet::iface::IfaceId;
use port::PortCounts;
use port::mirror::{MirrorConfig, MirrorDevice, MirrorState};
use std::io;
use std::net::IpAddr;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::{Arc, Mutex, PoisonError};

/// Mirror of an iface.
#[derive(Debug)]
pub(crate) struct Mirror {
    /// The iface and its mirror.
    pub(crate) ifaces: [IfaceId; 2],
    config: MirrorConfig,
    index: u32,
    /// Descriptor that is readable when the kernel reports a change.
    reports: OwnedFd,
    counts: Arc<PortCounts>,
    device: Mutex<Device>,
}

#[derive(Debug)]
struct Device {
    device: MirrorDevice,
    state: MirrorState,
    has_carrier: bool,
    /// Carrier that the device was last set to, which an old kernel may have refused.
    asked_carrier: bool,
    mtu: u16,
    /// Epoch of the stack's links with which the device was last compared; `None` before the first
    /// time.
    epoch: Option<u64>,
    /// Error of the last change of the device.
    fault: Option<String>,
}

/// State of a mirror, for commands.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct MirrorStatus {
    /// The iface.
    pub iface: IfaceId,
    /// The mirror, which is an iface of the host, too.
    pub mirror: IfaceId,
    /// Name of the device.
    pub device: String,
    /// Network namespace of the device.
    pub netns: String,
    /// Index of the device in its namespace.
    pub index: u32,
    /// State of the device.
    pub state: MirrorState,
    /// True if the device has a carrier.
    pub has_carrier: bool,
    /// Frames passed to the device, and frames that it sent.
    pub frames: [u64; 2],
    /// Error of the last change of the device; `None` if it succeeded.
    pub fault: Option<String>,
}

/// Change of a mirror's device by another program.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Followed {
    Same,
    Up,
    Down,
}

/// Addresses with the lengths of their prefixes.
type Addresses = Vec<(IpAddr, u8)>;

impl Mirror {
    /// Creates the mirror of the first of two ifaces.
    ///
    /// # Errors
    /// No descriptors are available.
    pub(crate) fn new(
        ifaces: [IfaceId; 2],
        config: MirrorConfig,
        device: MirrorDevice,
        counts: Arc<PortCounts>,
    ) -> io::Result<Mirror> {
        let (index, reports, mtu) = (device.index(), device.fd().try_clone_to_owned()?, config.mtu);
        let state = MirrorState::Up;
        let device = Device { device, state, has_carrier: true, asked_carrier: true, mtu, epoch: None, fault: None };
        Ok(Mirror { ifaces, config, index, reports, counts, device: Mutex::new(device) })
    }

    /// Returns the descriptor that is readable when the kernel reports a change.
    pub(crate) fn fd(&self) -> BorrowedFd<'_> {
        self.reports.as_fd()
    }

    /// Returns the index of the device in its namespace.
    pub(crate) fn index(&self) -> u32 {
        self.index
    }

    /// Compares the device with its iface, and changes the device where they differ. `wanted`
    /// returns the addresses of the iface and of the router itself; it is called if `epoch` has
    /// changed. Calls `notice` with the reason if a change fails. Returns what another program
    /// has changed.
    pub(crate) fn follow(
        &self,
        epoch: u64,
        has_carrier: bool,
        mtu: u16,
        wanted: impl FnOnce() -> (Addresses, Addresses),
        notice: &mut dyn FnMut(&str),
    ) -> Followed {
        let mut of = self.device.lock().unwrap_or_else(PoisonError::into_inner);
        let before = of.state;
        of.state = of.device.state();
        if of.state == MirrorState::Gone {
            return Followed::Same; // its port has ended, too
        }
        if of.asked_carrier != has_carrier {
            of.asked_carrier = has_carrier;
            match of.device.set_carrier(has_carrier) {
                Ok(()) => of.has_carrier = has_carrier,
                Err(why) => notice(&format!("cannot set the carrier: {why}")),
            }
        }
        if of.epoch != Some(epoch) {
            of.epoch = Some(epoch);
            let _rights = dispatch::sandbox::port_rights();
            let (addresses, own) = wanted();
            let mut results = vec![of.device.set_addresses(&addresses), of.device.set_own_addresses(&own)];
            if of.mtu != mtu {
                let set = of.device.set_mtu(mtu);
                of.mtu = if set.is_ok() { mtu } else { of.mtu };
                results.push(set);
            }
            let fault = results.into_iter().find_map(Result::err);
            if let Some(why) = fault.as_ref().filter(|_| of.fault != fault) {
                notice(why);
            }
            of.fault = fault;
        }
        match of.state {
            now if now == before => Followed::Same,
            MirrorState::Up => Followed::Up,
            _ => Followed::Down,
        }
    }

    pub(crate) fn status(&self) -> MirrorStatus {
        let of = self.device.lock().unwrap_or_else(PoisonError::into_inner);
        let [iface, mirror] = self.ifaces;
        MirrorStatus {
            iface,
            mirror,
            device: self.config.name.clone(),
            netns: self.config.netns.clone(),
            index: self.index,
            state: of.state,
            has_carrier: of.has_carrier,
            frames: [self.counts.tx.frames.get(), self.counts.rx.frames.get()],
            fault: of.fault.clone(),
        }
    }
}
