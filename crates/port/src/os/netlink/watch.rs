//! Changes of the links of devices, as the kernel reports them.

use super::message::{Reader, Reply};
use super::{Netlink, NetlinkError, failure};
use crate::os::set_option;
use crate::os::unix::receive;
use std::io::ErrorKind;
use std::os::fd::{AsFd, BorrowedFd};

/// State of a device's link: it is up if the device is up and has a carrier.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct DeviceLink {
    /// Index of the device.
    pub index: u32,
    /// True if the link is up.
    pub is_up: bool,
    /// True if the device is set up, with or without a carrier.
    pub is_set_up: bool,
}

/// Socket at which the kernel reports changes of links in the network namespace of the thread that
/// opened it.
#[derive(Debug)]
pub struct LinkWatch {
    kernel: Netlink,
    /// Socket for questions, whose answers are not among the reports.
    questions: Netlink,
    buffer: Vec<u8>,
}

/// Changes since the last call.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct LinkChanges {
    /// Links in the order of their changes. A device that was removed or moved to another network
    /// namespace has no further change.
    pub links: Vec<DeviceLink>,
    /// True if changes were lost, so that all links must be read again.
    pub is_incomplete: bool,
    /// True if a device was removed, or moved to another network namespace.
    pub has_removed: bool,
}

impl LinkWatch {
    /// Opens the socket.
    ///
    /// # Errors
    /// The kernel has no netlink support, or no descriptors are available.
    pub fn open() -> Result<LinkWatch, NetlinkError> {
        let mut kernel = Netlink::open()?;
        // With its first request, the socket gets an address, without which it receives no reports.
        let _ = kernel.device("lo"); // a namespace without it can have other devices
        set_option(kernel.socket.as_fd(), libc::SOL_NETLINK, libc::NETLINK_ADD_MEMBERSHIP, &libc::RTNLGRP_LINK)
            .map_err(|error| failure("watch links", &error))?;
        Ok(LinkWatch { kernel, questions: Netlink::open()?, buffer: vec![0; 32 * 1024] })
    }

    /// Returns the descriptor, which is readable when there are changes.
    pub fn fd(&self) -> BorrowedFd<'_> {
        self.kernel.socket.as_fd()
    }

    /// Returns the changes since the last call, without waiting.
    pub fn take(&mut self) -> LinkChanges {
        let mut changes = LinkChanges::default();
        loop {
            let len = match receive(self.kernel.socket.as_fd(), &mut self.buffer) {
                Ok(len) => len,
                Err(error) if error.kind() == ErrorKind::WouldBlock => break,
                Err(error) if error.kind() == ErrorKind::Interrupted => continue,
                // The buffer was full. The kernel reports nothing more until it is empty.
                Err(error) if error.raw_os_error() == Some(libc::ENOBUFS) => {
                    changes.is_incomplete = true;
                    continue;
                }
                Err(_) => {
                    changes.is_incomplete = true;
                    break;
                }
            };
            let Some(datagram) = self.buffer.get(..len) else {
                changes.is_incomplete = true;
                continue;
            };
            // Bridges report their ports with a family of their own.
            for message in Reader::new(datagram) {
                changes.has_removed |= message.ty == libc::RTM_DELLINK;
                changes.links.extend(link_in(&message).filter(|_| message.is_of_link()));
            }
        }
        if changes.is_incomplete {
            changes.links.clear(); // they are older than what can be read now
        }
        changes
    }

    /// Returns the state of the link of the device with index `index`; `None` if there is no such
    /// device in this network namespace.
    ///
    /// # Errors
    /// Errors of the system; the state is unknown then.
    pub fn link_at(&mut self, index: u32) -> Result<Option<DeviceLink>, NetlinkError> {
        match self.questions.link_at(index) {
            Ok(link) => Ok(Some(link)),
            Err(error) if error.errno == libc::ENODEV => Ok(None),
            Err(error) => Err(error),
        }
    }
}

impl Netlink {
    /// Returns the index and the state of the link of device `dev`.
    ///
    /// # Errors
    /// ENODEV if there is no device with this name.
    pub fn device(&mut self, dev: &str) -> Result<DeviceLink, NetlinkError> {
        let mut message = super::Message::new(libc::RTM_GETLINK, 0);
        message.ifinfo(0, 0, 0);
        message.text(libc::IFLA_IFNAME, dev);
        self.link_of(message, || format!("find {dev}"))
    }

    /// Returns the state of the link of the device with index `index`.
    ///
    /// # Errors
    /// ENODEV if there is no device with this index.
    pub fn link_at(&mut self, index: u32) -> Result<DeviceLink, NetlinkError> {
        let mut message = super::Message::new(libc::RTM_GETLINK, 0);
        message.ifinfo(index, 0, 0);
        self.link_of(message, || format!("find device {index}"))
    }

    fn link_of(&mut self, message: super::Message, doing: impl Fn() -> String) -> Result<DeviceLink, NetlinkError> {
        let mut found = None;
        self.exchange(message, &doing, |reply| {
            if reply.ty == libc::RTM_NEWLINK {
                found = link_in(reply);
            }
        })?;
        found.ok_or_else(|| NetlinkError { doing: doing(), errno: libc::ENODEV, why: None })
    }
}

/// Returns the state of the device in a message: a link is up if the device is up and has a carrier
/// (netdevice(7)).
fn link_in(message: &Reply<'_>) -> Option<DeviceLink> {
    let (index, flags) = message.ifindex().zip(message.link_flags())?;
    let (up, both) = (libc::IFF_UP as u32, (libc::IFF_UP | libc::IFF_RUNNING) as u32);
    Some(DeviceLink { index, is_up: flags & both == both, is_set_up: flags & up != 0 })
}
