//! Follows the links of a host's ports: paths through a link that is down are not used, and mirrors
//! follow their ifaces.

use crate::mirror::Mirror;
use crate::{Host, PortInfo};
use clock::{Duration, Instant};
use inet::iface::IfaceId;
use lock::Locks;
use port::PortCounts;
use port::links::{LinkChanges, LinkWatch};
use std::collections::HashMap;
use std::os::fd::BorrowedFd;
use std::sync::Arc;

/// Interval at which all ports are checked without a report of the kernel, since other links than
/// those of devices have none.
const INTERVAL: Duration = Duration::from_millis(10);

/// Links of the ports of a host.
#[derive(Debug, Default)]
pub(super) struct Links {
    /// Reports of the kernel; `None` until a port has a device.
    watch: Option<LinkWatch>,
    /// Set if the kernel's reports cannot be received.
    has_failed: bool,
    /// Ports whose links have been read, by the addresses of their counters.
    known: Vec<usize>,
    /// Mirrors of ifaces, whose devices report changes, too.
    mirrors: Vec<Arc<Mirror>>,
    /// Time of the next check without a report of the kernel.
    next: Instant,
}

impl Links {
    /// Follows the links of a host. Called before the process drops its privileges, which opening
    /// the kernel's reports may need.
    pub(super) fn of<L: Locks>(host: &Host<L>) -> Links {
        let mut links = Links::default();
        links.open(&host.ports());
        links.mirrors = host.mirrors();
        links
    }

    /// Returns the descriptors that are readable when the kernel reports a change.
    pub(super) fn fds(&self) -> impl Iterator<Item = BorrowedFd<'_>> {
        self.watch.iter().map(LinkWatch::fd).chain(self.mirrors.iter().map(|mirror| mirror.fd()))
    }

    /// Reads the reports of the kernel, and takes the paths through links that went down out of all
    /// path sets. Makes the mirrors follow their ifaces; calls `notice` with messages about them.
    pub(super) fn follow<L: Locks>(&mut self, host: &Host<L>, now: Instant, notice: &mut dyn FnMut(String)) {
        let changes = self.watch.as_mut().map(LinkWatch::take).unwrap_or_default();
        let is_reported = !self.mirrors.is_empty() && self.has_report_of_mirror();
        if changes == LinkChanges::default() && !is_reported && now < self.next {
            return;
        }
        self.next = now.after(INTERVAL);
        let ports = host.ports();
        self.open(&ports);
        self.read(&ports, changes);
        let gone = host.gone();
        let mut states: HashMap<IfaceId, bool> = HashMap::with_capacity(ports.len());
        for port in &ports {
            let is_up = port.counts.link.is_up() && gone.iter().all(|(id, _)| *id != port.iface);
            *states.entry(port.iface).or_insert(true) &= is_up;
        }
        for (id, is_up) in states {
            if host.stack.iface(id).is_some_and(|iface| iface.has_link() != is_up) {
                host.stack.set_link(host.cx(), id, is_up);
            }
        }
        self.mirrors = host.mirrors();
        host.follow_mirrors().into_iter().for_each(notice);
    }

    fn has_report_of_mirror(&self) -> bool {
        let fds: Vec<_> = self.mirrors.iter().map(|mirror| mirror.fd()).collect();
        dispatch::wait_readable(&fds, Some(Duration::ZERO)).is_ok_and(|ready| ready.contains(&true))
    }

    fn open(&mut self, ports: &[PortInfo]) {
        let has_device = ports.iter().any(|port| port.counts.link.ifindex().is_some());
        if self.watch.is_none() && !self.has_failed && has_device {
            self.watch = LinkWatch::open().ok();
            self.has_failed = self.watch.is_none();
        }
    }

    fn read(&mut self, ports: &[PortInfo], changes: LinkChanges) {
        let Some(watch) = &mut self.watch else { return };
        let devices = || ports.iter().filter_map(|port| Some((port.counts.link.ifindex()?, &port.counts)));
        for changed in changes.links {
            let of_it = devices().filter(|(index, _)| *index == changed.index);
            of_it.for_each(|(_, counts)| counts.link.set_up(changed.is_up));
        }
        if changes.is_incomplete {
            self.known.clear();
        }
        // A change between the opening of a port and the first report about it would be missed.
        for (index, counts) in devices() {
            if self.known.contains(&address(counts)) {
                continue;
            }
            // A device in another network namespace cannot be followed, and counts as up. After an
            // error of the system, the link is read again later.
            if let Ok(link) = watch.link_at(index) {
                counts.link.set_up(link.is_none_or(|link| link.is_up));
                self.known.push(address(counts));
            }
        }
        self.known.retain(|known| devices().any(|(_, counts)| address(counts) == *known));
    }
}

/// Returns a number that differs for each open port.
fn address(counts: &Arc<PortCounts>) -> usize {
    Arc::as_ptr(counts).addr()
}
