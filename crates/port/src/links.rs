//! Links of the kernel's devices: whether they are up.

#[cfg(target_os = "linux")]
pub use crate::os::netlink::{DeviceLink, LinkChanges, LinkWatch};
#[cfg(not(target_os = "linux"))]
pub use other::{DeviceLink, LinkChanges, LinkWatch};

#[cfg(not(target_os = "linux"))]
mod other {
    use std::io;
    use std::os::fd::BorrowedFd;

    /// State of a device's link.
    #[derive(Clone, Copy, PartialEq, Eq, Debug)]
    pub struct DeviceLink {
        /// Index of the device.
        pub index: u32,
        /// True if the link is up.
        pub is_up: bool,
        /// True if the device is set up.
        pub is_set_up: bool,
    }

    /// Changes since the last call.
    #[derive(Clone, PartialEq, Eq, Debug, Default)]
    pub struct LinkChanges {
        /// Links in the order of their changes.
        pub links: Vec<DeviceLink>,
        /// True if changes were lost.
        pub is_incomplete: bool,
        /// True if a device was removed.
        pub has_removed: bool,
    }

    /// Watch of links, which does not exist on this system.
    #[derive(Debug)]
    pub enum LinkWatch {}

    impl LinkWatch {
        /// Fails on this system.
        ///
        /// # Errors
        /// Always [`io::ErrorKind::Unsupported`].
        pub fn open() -> io::Result<LinkWatch> {
            Err(io::ErrorKind::Unsupported.into())
        }

        /// Returns the descriptor.
        pub fn fd(&self) -> BorrowedFd<'_> {
            match *self {}
        }

        /// Returns the changes since the last call.
        pub fn take(&mut self) -> LinkChanges {
            match *self {}
        }

        /// Returns the state of a link.
        ///
        /// # Errors
        /// None on this system.
        pub fn link_at(&mut self, _: u32) -> io::Result<Option<DeviceLink>> {
            match *self {}
        }
    }
}
