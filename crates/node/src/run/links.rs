//! Follows the links of a host's ports: paths through a link that is down are not used.

use crate::{Host, PortInfo};
use clock::{Duration, Instant};
use inet::iface::IfaceId;
use lock::Locks;
use port::links::{LinkChanges, LinkWatch, link_at};
use std::collections::HashMap;
use std::os::fd::BorrowedFd;

/// Links of the ports of a host.
#[derive(Debug, Default)]
pub(super) struct Links {
    /// Reports of the kernel; `None` until a port has a device.
    watch: Option<LinkWatch>,
    /// Set if the kernel's reports cannot be received.
    has_failed: bool,
    /// Devices whose links have been read.
    known: Vec<u32>,
    /// True for each iface whose link is up.
    states: HashMap<IfaceId, bool>,
    /// Time of the next check without a report of the kernel.
    next: Instant,
}

/// Interval at which all ports are checked without a report of the kernel, since other links than
/// those of devices have none.
const INTERVAL: Duration = Duration::from_millis(10);

impl Links {
    /// Returns the descriptor that is readable when the kernel reports a change; `None` if no port
    /// has a device.
    pub(super) fn fd(&self) -> Option<BorrowedFd<'_>> {
        self.watch.as_ref().map(LinkWatch::fd)
    }

    /// Reads the reports of the kernel, and takes the paths through links that went down out of all
    /// path sets.
    pub(super) fn follow<L: Locks>(&mut self, host: &Host<L>, now: Instant) {
        let changes = self.watch.as_mut().map(LinkWatch::take).unwrap_or_default();
        if changes == LinkChanges::default() && now < self.next {
            return;
        }
        self.next = now.after(INTERVAL);
        let ports = host.ports();
        self.read(&ports, changes);
        let gone = host.gone();
        let mut states = HashMap::with_capacity(ports.len());
        for port in &ports {
            let is_up = port.counts.link.is_up() && gone.iter().all(|(id, _)| *id != port.iface);
            *states.entry(port.iface).or_insert(true) &= is_up;
        }
        for (id, is_up) in &states {
            if self.states.get(id).copied().unwrap_or(true) != *is_up {
                host.stack.set_link(host.cx(), *id, *is_up);
            }
        }
        self.states = states;
    }

    fn read(&mut self, ports: &[PortInfo], changes: LinkChanges) {
        let devices = || ports.iter().filter_map(|port| Some((port.counts.link.ifindex()?, &port.counts.link)));
        if self.watch.is_none() && !self.has_failed && devices().next().is_some() {
            self.watch = LinkWatch::open().ok();
            self.has_failed = self.watch.is_none();
        }
        if self.watch.is_none() {
            return;
        }
        for changed in changes.links {
            devices().filter(|(index, _)| *index == changed.index).for_each(|(_, link)| link.set_up(changed.is_up));
        }
        if changes.is_incomplete {
            self.known.clear();
        }
        // A change between the opening of a port and the first report about it would be missed.
        for (index, link) in devices() {
            if !self.known.contains(&index) {
                self.known.push(index);
                link.set_up(link_at(index).is_some_and(|link| link.is_up));
            }
        }
        self.known.retain(|index| devices().any(|(of, _)| of == *index));
    }
}
