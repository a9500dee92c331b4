//! Replacement for configuration files in builds without the cargo feature `files`.

use super::{Change, Plan, ReloadError};
use crate::Host;
use crate::config::{ConfigFile, HostConfig, Network, to_toml};
use clock::{Duration, Instant};
use lock::Locks;
use port::Pairs;
use std::path::{Path, PathBuf};
use std::sync::Arc;

pub(super) fn read_for_reload(file: &ConfigFile) -> Result<Network, ReloadError> {
    match *file {}
}

impl<L: Locks> Host<L> {
    pub(crate) fn set_file(&self, file: Arc<ConfigFile>) {
        match *file {}
    }

    pub(super) fn change_unless_unconfirmed(&self, to: &HostConfig, pairs: &Pairs) -> Result<Vec<Change>, ReloadError> {
        self.change_to(to, pairs)
    }

    /// Fails, since the host has no file.
    ///
    /// # Errors
    /// Returns [`ReloadError::NoFile`].
    pub fn planned_reload(&self) -> Result<Plan, ReloadError> {
        Err(ReloadError::NoFile)
    }

    /// Fails, since the host has no file.
    ///
    /// # Errors
    /// Returns [`ReloadError::NoFile`].
    pub fn reload(&self, _: &Pairs) -> Result<Vec<Change>, ReloadError> {
        Err(ReloadError::NoFile)
    }

    /// Fails, since the host has no file.
    ///
    /// # Errors
    /// Returns [`ReloadError::NoFile`].
    pub fn commit_confirmed(&self, _: &Pairs, _: Duration) -> Result<Vec<Change>, ReloadError> {
        Err(ReloadError::NoFile)
    }

    /// Fails, since there is no [`Host::commit_confirmed`].
    ///
    /// # Errors
    /// Returns [`ReloadError::NothingToConfirm`].
    pub fn commit(&self) -> Result<(), ReloadError> {
        Err(ReloadError::NothingToConfirm)
    }

    /// Fails, since this build writes no files.
    ///
    /// # Errors
    /// Returns [`ReloadError::NoFile`].
    pub fn save(&self, _: Option<&Path>) -> Result<(PathBuf, Vec<String>), ReloadError> {
        Err(ReloadError::NoFile)
    }

    /// Returns the configuration of the host as it is now, as the text of a file.
    pub fn running_toml(&self) -> String {
        to_toml(&Network { hosts: vec![self.running_config().config], ..Network::default() })
    }

    pub(crate) fn revert_unconfirmed(&self, _: &Pairs) -> Vec<String> {
        Vec::new()
    }

    pub(crate) fn unconfirmed_until(&self) -> Option<Instant> {
        None
    }
}
