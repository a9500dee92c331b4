//! Configurations with which a host and its ifaces were created.

#[cfg(feature = "files")]
use crate::config::ConfigFile;
use crate::config::{HostConfig, IfaceConfig};
#[cfg(feature = "files")]
use clock::Instant;
use inet::iface::IfaceId;
use std::sync::Mutex;
#[cfg(feature = "files")]
use std::sync::{Arc, OnceLock};

/// Configurations that a host keeps to compare its configuration with another one.
pub(crate) struct Origin {
    /// Configuration of the host itself; its ifaces, routes, neighbors and name servers are those
    /// of the start.
    pub(crate) base: Mutex<HostConfig>,
    /// Configuration with which each iface was added.
    pub(crate) ifaces: Mutex<Vec<Added>>,
    /// File that the host reloads; unset if the host was not started from one.
    #[cfg(feature = "files")]
    pub(crate) file: OnceLock<Arc<ConfigFile>>,
    /// Configuration that returns at this time unless the present one is confirmed.
    #[cfg(feature = "files")]
    pub(crate) unconfirmed: Mutex<Option<(HostConfig, Instant)>>,
}

/// An iface and the configuration with which it was added.
#[derive(Clone)]
pub(crate) struct Added {
    pub(crate) iface: IfaceId,
    pub(crate) config: IfaceConfig,
    /// MTU that resulted from the configuration.
    pub(crate) mtu: u16,
    /// True if the iface accepts router advertisements by the sysctl, not by its configuration.
    pub(crate) is_rtadv_implied: bool,
}

impl Origin {
    pub(crate) fn new(config: &HostConfig) -> Origin {
        Origin {
            base: Mutex::new(config.clone()),
            ifaces: Mutex::default(),
            #[cfg(feature = "files")]
            file: OnceLock::new(),
            #[cfg(feature = "files")]
            unconfirmed: Mutex::default(),
        }
    }
}
