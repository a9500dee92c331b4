//! The file from which hosts and switches were started, which they can read again.

use super::{Network, load_network};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};

/// File from which hosts and switches were started.
#[derive(Clone, Debug)]
pub struct ConfigFile {
    path: PathBuf,
    /// Keys and sysctls of the command line, which every host gets.
    set: Vec<(String, String)>,
    /// The network as it was started.
    started: Network,
    saving: Arc<Mutex<()>>,
}

impl ConfigFile {
    /// Reads the file at `path`. Every host also gets the keys and sysctls `set`.
    ///
    /// # Errors
    /// Returns a message with file, line and cause.
    pub fn load(path: &Path, set: &[(String, String)]) -> Result<ConfigFile, String> {
        let file = ConfigFile {
            path: path.to_path_buf(),
            set: set.to_vec(),
            started: Network::default(),
            saving: Arc::default(),
        };
        let started = file.read()?;
        Ok(ConfigFile { started, ..file })
    }

    /// Returns the path of the file.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Returns the network as it was started.
    pub fn started(&self) -> &Network {
        &self.started
    }

    /// Reads and checks the file as it is now.
    ///
    /// # Errors
    /// Returns a message with file, line and cause.
    pub fn read(&self) -> Result<Network, String> {
        let mut network = load_network(&self.path).map_err(|why| why.to_string())?;
        for host in &mut network.hosts {
            self.set.iter().try_for_each(|(key, value)| host.set(key, value))?;
            host.check()?;
        }
        Ok(network)
    }

    /// Returns the lock that is held while the file is replaced, since each host saves its own
    /// part.
    pub(crate) fn saving(&self) -> &Mutex<()> {
        &self.saving
    }
}
