//! Systems other than Linux, which have no mirrors.

use super::{MirrorConfig, MirrorError, MirrorState};
use crate::Port;
use buf::Pool;
use std::io;
use std::net::IpAddr;
use std::os::fd::BorrowedFd;

/// Device of a mirror, which does not exist on this system.
#[derive(Debug)]
pub enum MirrorDevice {}

/// Fails on this system.
///
/// # Errors
/// Always [`MirrorError::NeedsLinux`].
pub fn open(_: &MirrorConfig, _: &Pool) -> Result<(Port, MirrorDevice), MirrorError> {
    Err(MirrorError::NeedsLinux)
}

/// Fails on this system.
///
/// # Errors
/// Always [`MirrorError::NeedsLinux`].
pub fn within<R>(_: &str, _: impl FnOnce() -> R) -> Result<R, MirrorError> {
    Err(MirrorError::NeedsLinux)
}

impl MirrorDevice {
    /// Returns the index of the device in its namespace.
    pub fn index(&self) -> u32 {
        match *self {}
    }

    /// Returns the descriptor.
    pub fn fd(&self) -> BorrowedFd<'_> {
        match *self {}
    }

    /// Returns the state of the device.
    pub fn state(&mut self) -> MirrorState {
        match *self {}
    }

    /// Sets the carrier of the device.
    ///
    /// # Errors
    /// None on this system.
    pub fn set_carrier(&self, _: bool) -> io::Result<()> {
        match *self {}
    }

    /// Sets the MTU of the device.
    ///
    /// # Errors
    /// None on this system.
    pub fn set_mtu(&mut self, _: u16) -> Result<(), String> {
        match *self {}
    }

    /// Sets the addresses of the device.
    ///
    /// # Errors
    /// None on this system.
    pub fn set_addresses(&mut self, _: &[(IpAddr, u8)]) -> Result<(), String> {
        match *self {}
    }

    /// Sets the addresses of the namespace itself.
    ///
    /// # Errors
    /// None on this system.
    pub fn set_own_addresses(&mut self, _: &[(IpAddr, u8)]) -> Result<(), String> {
        match *self {}
    }
}
