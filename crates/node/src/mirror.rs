//! Mirror of an iface: a TAP device in a network namespace of the kernel, at which the daemons of a
//! routing engine run. The device has the iface's MAC address, MTU, addresses and carrier.

use clock::{Duration, Instant};
use inet::iface::IfaceId;
use port::PortCounts;
use port::mirror::{MirrorConfig, MirrorDevice, MirrorState};
use std::io;
use std::net::IpAddr;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// Time after which a change of a device that failed is tried again.
const RETRY: Duration = Duration::from_secs(1);

/// Mirror of an iface.
#[derive(Debug)]
pub(crate) struct Mirror {
    pub(crate) iface: IfaceId,
    /// The iface of the stack that stands for the device.
    pub(crate) mirror: IfaceId,
    config: MirrorConfig,
    index: u32,
    /// Descriptor that is readable when the kernel reports a change.
    reports: OwnedFd,
    counts: Arc<PortCounts>,
    device: Mutex<DeviceState>,
}

#[derive(Debug)]
struct DeviceState {
    device: MirrorDevice,
    state: MirrorState,
    has_carrier: bool,
    /// Carrier that the device was last set to, which an old kernel may have refused.
    requested_carrier: bool,
    mtu: u16,
    /// Epoch of the stack's links with which the device was last compared; `None` before the first
    /// time.
    epoch: Option<u64>,
    /// Set if it also sets the addresses of the router itself.
    has_own: bool,
    /// Addresses that the device and the namespace have; `None` if they must be set again.
    addresses: Option<[Addresses; 2]>,
    /// Error of the last change of the device.
    fault: Option<String>,
    /// Time at which a change that failed is tried again.
    retry: Instant,
}

/// Required properties of the device of a mirror.
#[derive(Debug)]
pub(crate) struct Wanted {
    /// Epoch of the stack's links; the addresses are the same while it is the same.
    pub(crate) epoch: u64,
    pub(crate) has_carrier: bool,
    pub(crate) mtu: u16,
    /// Set for one mirror of a host, which also sets the addresses of the router itself.
    pub(crate) has_own: bool,
}

/// State of a mirror, for commands.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct MirrorStatus {
    /// The iface.
    pub iface: IfaceId,
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
pub(crate) type Addresses = Vec<(IpAddr, u8)>;

impl Mirror {
    /// Creates the mirror of `iface`, which the iface `mirror` stands for.
    ///
    /// # Errors
    /// No descriptors are available.
    pub(crate) fn new(
        iface: IfaceId,
        mirror: IfaceId,
        config: MirrorConfig,
        device: MirrorDevice,
        counts: Arc<PortCounts>,
    ) -> io::Result<Mirror> {
        let (index, reports, mtu) = (device.index(), device.fd().try_clone_to_owned()?, config.mtu);
        let state = MirrorState::Up;
        let device = DeviceState {
            device,
            state,
            has_carrier: true,
            requested_carrier: true,
            mtu,
            epoch: None,
            has_own: false,
            addresses: None,
            fault: None,
            retry: Instant::ZERO,
        };
        Ok(Mirror { iface, mirror, config, index, reports, counts, device: Mutex::new(device) })
    }

    /// Returns the descriptor that is readable when the kernel reports a change.
    pub(crate) fn fd(&self) -> BorrowedFd<'_> {
        self.reports.as_fd()
    }

    /// Returns the index of the device in its namespace.
    pub(crate) fn index(&self) -> u32 {
        self.index
    }

    /// Returns whether the device exists.
    pub(crate) fn exists(&self) -> bool {
        self.device().state != MirrorState::Gone
    }

    fn device(&self) -> MutexGuard<'_, DeviceState> {
        self.device.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Applies carrier, MTU and addresses to the device. `addresses` returns those of the iface and
    /// those of the router itself. A change of MTU or addresses that fails is tried again after a
    /// while, one of the carrier is not, since an old kernel never accepts it; `notice` is called
    /// with the reason once. Returns what another program has changed.
    pub(crate) fn follow(
        &self,
        now: Instant,
        wanted: &Wanted,
        addresses: impl FnOnce() -> [Addresses; 2],
        notice: &mut dyn FnMut(&str),
    ) -> Followed {
        let mut of = self.device();
        let before = of.state;
        of.state = of.device.state();
        self.counts.link.set_up(of.state == MirrorState::Up);
        if of.state == MirrorState::Gone {
            if before != MirrorState::Gone {
                let _rights = dispatch::sandbox::port_rights();
                let _ = of.device.set_own_addresses(&[]); // another mirror sets them now
            }
            return Followed::Same; // its port has ended, too
        }
        if of.requested_carrier != wanted.has_carrier {
            of.requested_carrier = wanted.has_carrier;
            match of.device.set_carrier(wanted.has_carrier) {
                Ok(()) => of.has_carrier = wanted.has_carrier,
                Err(why) => notice(&format!("cannot set the carrier: {why}")),
            }
        }
        if of.state != before {
            of.addresses = None; // the kernel removes some when the device goes down
        }
        let is_due = of.fault.is_some() && now >= of.retry;
        let is_same = of.epoch == Some(wanted.epoch) && of.has_own == wanted.has_own;
        if !is_same || of.addresses.is_none() || is_due {
            (of.epoch, of.has_own) = (Some(wanted.epoch), wanted.has_own);
            let fault = of.set(wanted.mtu, addresses()).err();
            if let Some(why) = fault.as_ref().filter(|_| of.fault != fault) {
                notice(why);
            }
            (of.fault, of.retry) = (fault, now.after(RETRY));
        }
        match of.state {
            state if state == before => Followed::Same,
            MirrorState::Up => Followed::Up,
            _ => Followed::Down,
        }
    }

    pub(crate) fn status(&self) -> MirrorStatus {
        let of = self.device();
        MirrorStatus {
            iface: self.iface,
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

impl DeviceState {
    /// Sets the MTU and the addresses, the MTU first, since the kernel removes IPv6 from a device
    /// with a small one.
    fn set(&mut self, mtu: u16, addresses: [Addresses; 2]) -> Result<(), String> {
        if self.mtu == mtu && self.addresses.as_ref() == Some(&addresses) && self.fault.is_none() {
            return Ok(());
        }
        let _rights = dispatch::sandbox::port_rights();
        let mut done = Ok(());
        if self.mtu != mtu {
            done = self.device.set_mtu(mtu);
            self.mtu = if done.is_ok() { mtu } else { self.mtu };
        }
        let [of_iface, own] = &addresses;
        let done = done.and(self.device.set_addresses(of_iface)).and(self.device.set_own_addresses(own));
        self.addresses = Some(addresses);
        done
    }
}

/// Removes the router's own addresses from the namespace. The device ends with its port.
impl Drop for Mirror {
    fn drop(&mut self) {
        let _rights = dispatch::sandbox::port_rights();
        let _ = self.device().device.set_own_addresses(&[]); // the namespace may be gone
    }
}
