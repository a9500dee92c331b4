//! Mirrors of a host's ifaces: opened with their ifaces, followed, closed.

use super::{AddPortError, Host};
use crate::mirror::{Followed, Mirror, MirrorStatus, Wanted};
use inet::iface::{IfaceId, IfaceKind, LOOPBACK};
use inet::punt;
use lock::Locks;
use port::mirror::MirrorConfig;
use std::net::IpAddr;
use std::sync::{Arc, PoisonError};
use wire::control::ControlClass;

/// Packets of a class: the rate limit, and what was passed and not passed.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct PuntStatus {
    /// The class.
    pub class: ControlClass,
    /// Limit in packets per second; 0 if there is none.
    pub rate: i64,
    /// Packets passed to mirrors.
    pub passed: u64,
    /// Packets not passed because of the rate.
    pub policed: u64,
}

impl<L: Locks> Host<L> {
    /// Opens the mirror of an iface: the device `device` in the network namespace that the
    /// configuration gives. Does nothing on a host with virtual time.
    pub(super) fn open_mirror(&self, id: IfaceId, device: &str) -> Result<(), AddPortError> {
        let Some(iface) = self.stack.iface(id).filter(|_| !self.is_simulated()) else { return Ok(()) };
        let failed = |why: String| AddPortError::Config { iface: iface.name.clone(), why: format!("mirror: {why}") };
        let speed = self.ports().iter().find(|port| port.iface == id).and_then(|port| port.counts.link.speed());
        let config = MirrorConfig {
            name: device.to_string(),
            netns: self.netns(),
            mac: iface.mac,
            mtu: u16::try_from(iface.mtu()).unwrap_or(u16::MAX),
            speed,
        };
        let (port, device) = {
            let _rights = dispatch::sandbox::port_rights();
            port::mirror::open(&config, &self.stack.pool).map_err(|why| failed(why.to_string()))?
        };
        let name = format!("{}-mirror", iface.name);
        let mirror = self.stack.add_mirror(id, &name).ok_or(AddPortError::TooMany)?;
        let counts = port.counts.clone();
        let followed = Mirror::new(id, mirror, config, device, counts).map_err(|why| failed(why.to_string()));
        let parts = self.connect(mirror, &name, vec![port], self.stack.pool.clone(), None);
        self.serve(parts);
        match followed {
            Ok(followed) => self.mirrors.lock().unwrap_or_else(PoisonError::into_inner).push(Arc::new(followed)),
            Err(why) => {
                self.remove_port(mirror);
                return Err(why);
            }
        }
        Ok(())
    }

    /// Closes the mirror of an iface, or the mirror `id` itself.
    pub(super) fn close_mirror(&self, id: IfaceId) {
        let mut mirrors = self.mirrors.lock().unwrap_or_else(PoisonError::into_inner);
        let closed: Vec<_> = mirrors.extract_if(.., |of| [of.iface, of.mirror].contains(&id)).collect();
        drop(mirrors);
        for closed in closed.iter().filter(|closed| closed.iface == id) {
            self.remove_port(closed.mirror);
        }
    }

    /// Returns the network namespace of the mirrors.
    pub(super) fn netns(&self) -> String {
        self.origin.base.lock().unwrap_or_else(PoisonError::into_inner).netns.clone()
    }

    /// Returns whether an iface is the mirror of another one.
    pub(crate) fn is_mirror(&self, id: IfaceId) -> bool {
        self.stack.iface(id).is_some_and(|iface| iface.kind == IfaceKind::Mirror)
    }

    /// Returns whether ifaces of the configuration have mirrors, so that a routing engine runs in
    /// their namespace.
    pub(super) fn has_mirrors(&self) -> bool {
        self.origin.base.lock().unwrap_or_else(PoisonError::into_inner).has_mirrors()
    }

    /// Returns the mirrors of the host.
    pub(crate) fn mirrors(&self) -> Vec<Arc<Mirror>> {
        self.mirrors.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Makes the devices of the mirrors like their ifaces, and the ifaces up or down like the
    /// devices. Returns messages for the user.
    #[must_use]
    pub(crate) fn follow_mirrors(&self) -> Vec<String> {
        let mirrors = self.mirrors();
        let (now, mut notices) = (self.clock.now(), Vec::new());
        let first = mirrors.iter().position(|mirror| mirror.exists());
        for (at, mirror) in mirrors.iter().enumerate() {
            let Some(iface) = self.stack.iface(mirror.iface) else { continue };
            let (cx, has_own) = (self.cx(), Some(at) == first);
            let addresses = || {
                let v4 = iface.addrs(cx).into_iter().map(|own| (IpAddr::V4(own.addr), own.len));
                let v6 = iface.addrs6(cx).into_iter().filter(|own| own.state.is_valid());
                let own = if has_own { self.own_addresses() } else { Vec::new() };
                [v4.chain(v6.map(|own| (own.addr.into(), own.len))).collect(), own]
            };
            let wanted = Wanted {
                epoch: self.stack.links_epoch(),
                has_carrier: iface.is_up() && iface.has_link(),
                mtu: u16::try_from(iface.mtu()).unwrap_or(u16::MAX),
                has_own,
            };
            let followed = mirror.follow(now, &wanted, addresses, &mut |why| {
                notices.push(format!("{}: {}: mirror: {why}", self.stack.name, iface.name));
            });
            match followed {
                Followed::Same => {}
                Followed::Up => self.stack.set_up(cx, iface.id, true),
                Followed::Down => self.stack.set_up(cx, iface.id, false),
            }
        }
        notices
    }

    /// Returns the addresses of the router itself, on `lo0`.
    fn own_addresses(&self) -> Vec<(IpAddr, u8)> {
        let Some(lo) = self.stack.iface(LOOPBACK) else { return Vec::new() };
        let v4 = lo.addrs(self.cx()).into_iter().map(|own| (IpAddr::V4(own.addr), own.len));
        let v6 = lo.addrs6(self.cx()).into_iter().map(|own| (IpAddr::V6(own.addr), own.len));
        v4.chain(v6).filter(|(addr, _)| !addr.is_loopback()).collect()
    }

    /// Returns the state of each mirror.
    pub fn mirror_status(&self) -> Vec<MirrorStatus> {
        self.mirrors().iter().map(|mirror| mirror.status()).collect()
    }

    /// Returns the rate limits and counters of packets for mirrors, by class.
    pub fn punt_status(&self) -> Vec<PuntStatus> {
        let rate = |class| punt::rate(&self.stack.sysctls, class).get();
        let counts = self.stack.punted().into_iter();
        counts.map(|(class, [passed, policed])| PuntStatus { class, rate: rate(class), passed, policed }).collect()
    }
}
