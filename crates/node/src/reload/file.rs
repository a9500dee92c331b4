//! Reloads a host from its file, saves it there, and goes back to the preceding configuration.

use super::plan::{changed, different};
use super::{Change, Plan, ReloadError, RunningConfig, locked};
use crate::Host;
use crate::config::keys::METRICS;
use crate::config::{ConfigFile, HostConfig, MetricsConfig, Network, load_network, to_toml};
use clock::{Duration, Instant};
use lock::Locks;
use port::Pairs;
use std::fs::{self, File, OpenOptions};
use std::io::{self, ErrorKind, Write};
use std::os::unix::fs::{OpenOptionsExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// Reads the file as it is now. Only its hosts may differ from those that were started, each
/// with one stack.
///
/// # Errors
/// Returns the errors of [`ConfigFile::read`], and [`ReloadError::Restart`] if a host or switch
/// was added, removed or changed that cannot be changed while it runs, or if the metrics were
/// changed.
pub(super) fn read_for_reload(file: &ConfigFile) -> Result<Network, ReloadError> {
    let network = file.read().map_err(ReloadError::File)?;
    let mut restart = Vec::new();
    let names = |of: &Network| {
        let hosts = of.hosts.iter().map(|host| format!("host {}", host.name));
        hosts.chain(of.switches.iter().map(|switch| format!("switch {}", switch.name))).collect::<Vec<_>>()
    };
    let (before, after) = (names(file.started()), names(&network));
    restart.extend(after.iter().filter(|name| !before.contains(name)).map(|name| format!("{name} was added")));
    restart.extend(before.iter().filter(|name| !after.contains(name)).map(|name| format!("{name} was removed")));
    for switch in &network.switches {
        if file.started().switches.iter().any(|other| other.name == switch.name && other != switch) {
            restart.push(format!("switch {} was changed", switch.name));
        }
    }
    for host in &network.hosts {
        let is_changed = |other: &&HostConfig| {
            other.name == host.name && other.stacks.max(host.stacks) > 1 && text_of(other) != text_of(host)
        };
        if file.started().hosts.iter().find(is_changed).is_some() {
            restart.push(format!("host {} was changed and has several stacks", host.name));
        }
    }
    for (key, before, after) in different(METRICS, &file.started().metrics, &network.metrics) {
        restart.push(changed(&format!("metrics.{key}"), before.as_ref(), after.as_ref()));
    }
    if restart.is_empty() { Ok(network) } else { Err(ReloadError::Restart(restart)) }
}

/// Replaces the configuration of one host in the file. The preceding file is kept with the
/// suffix `.1`.
fn save_host(file: &ConfigFile, config: HostConfig, notes: &[String]) -> Result<(), String> {
    let _saving = locked(file.saving());
    let mut network = load_network(file.path()).map_err(|why| why.to_string())?;
    let name = config.name.clone();
    let host = network.hosts.iter_mut().find(|host| host.name == name);
    let host = host.ok_or_else(|| format!("{}: there is no host '{name}'", file.path().display()))?;
    *host = HostConfig { control: host.control.take(), ..config };
    write(file.path(), &with_notes(&to_toml(&network), notes), Some(".1"))
}

fn text_of(host: &HostConfig) -> String {
    to_toml(&Network { hosts: vec![host.clone()], ..Network::default() })
}

/// Adds what a file cannot contain as comments.
fn with_notes(text: &str, notes: &[String]) -> String {
    let notes = notes.iter().map(|note| format!("# not in this file, since it has no keys for it: {note}\n"));
    notes.collect::<String>() + text
}

/// Writes a file so that it is either the old or the new one, whatever happens. With `keep`, the
/// old one gets this suffix.
fn write(path: &Path, text: &str, keep: Option<&str>) -> Result<(), String> {
    let failed = |what: &Path| {
        let what = what.display().to_string();
        move |why: io::Error| format!("{what}: {why}; the file was not changed")
    };
    let path = match fs::canonicalize(path) {
        Ok(path) => path, // a symbolic link stays
        Err(why) if why.kind() == ErrorKind::NotFound => path.to_path_buf(),
        Err(why) => return Err(failed(path)(why)),
    };
    if fs::metadata(&path).is_ok_and(|meta| !meta.is_file()) {
        return Err(format!("{}: not a regular file; choose another one", path.display()));
    }
    let beside = |suffix: &str| PathBuf::from(format!("{}{suffix}", path.display()));
    let new = beside(".new");
    let written = (|| {
        let mut file = OpenOptions::new().write(true).create(true).truncate(true).mode(0o600).open(&new)?;
        file.write_all(text.as_bytes())?;
        if let Ok(old) = fs::metadata(&path) {
            file.set_permissions(fs::Permissions::from_mode(old.permissions().mode() & 0o777))?;
        }
        file.sync_all()?;
        if let Some(suffix) = keep.filter(|_| path.exists()) {
            let (old, temporary) = (beside(suffix), beside(".old"));
            fs::copy(&path, &temporary)?;
            fs::rename(&temporary, &old)?;
        }
        fs::rename(&new, &path)
    })();
    if written.is_err() {
        // The errors of the removal would hide the cause.
        let _ = fs::remove_file(&new);
        let _ = fs::remove_file(beside(".old"));
    }
    written.map_err(failed(&path))?;
    // The directory has the new name after a crash, too, if it can be synchronized.
    let _ = path.parent().map(File::open).map(|directory| directory.and_then(|directory| directory.sync_all()));
    Ok(())
}

impl<L: Locks> Host<L> {
    /// Sets the file that the host reloads, once.
    pub(crate) fn set_file(&self, file: Arc<ConfigFile>) {
        let _ = self.origin.file.set(file); // a host has one file
    }

    fn file(&self) -> Result<&Arc<ConfigFile>, ReloadError> {
        self.origin.file.get().ok_or(ReloadError::NoFile)
    }

    fn config_in_file(&self) -> Result<HostConfig, ReloadError> {
        let file = self.file()?;
        let network = read_for_reload(file)?;
        let found = network.hosts.into_iter().find(|host| host.name == self.stack.name);
        let stack = || vec![format!("{} is one of several stacks of a host", self.stack.name)];
        found.ok_or_else(|| ReloadError::Restart(stack()))
    }

    /// Returns the difference from the host as it runs to its file.
    ///
    /// # Errors
    /// Returns a [`ReloadError`] if the host has no file, or if the file is not valid.
    pub fn planned_reload(&self) -> Result<Plan, ReloadError> {
        let to = self.config_in_file()?;
        Ok(self.plan_to(&to))
    }

    /// Changes the host to the configuration in its file, all or nothing. Returns the changes.
    ///
    /// # Errors
    /// Returns a [`ReloadError`]; nothing has changed then, unless the error reports
    /// changes that could not be undone.
    pub fn reload(&self, pairs: &Pairs) -> Result<Vec<Change>, ReloadError> {
        let to = self.config_in_file()?;
        self.change_unless_unconfirmed(&to, pairs)
    }

    /// Changes the host as [`Host::change_to`] does, unless a configuration waits for its
    /// confirmation.
    pub(super) fn change_unless_unconfirmed(&self, to: &HostConfig, pairs: &Pairs) -> Result<Vec<Change>, ReloadError> {
        if locked(&self.origin.unconfirmed).is_some() {
            return Err(ReloadError::Unconfirmed);
        }
        self.change_to(to, pairs)
    }

    /// Reloads the file as [`Host::reload`] does. Unless [`Host::commit`] is called within `time`,
    /// the host goes back to the present configuration.
    ///
    /// # Errors
    /// Returns the errors of [`Host::reload`], and [`ReloadError::NothingToChange`] if there is no
    /// change to confirm.
    pub fn commit_confirmed(&self, pairs: &Pairs, time: Duration) -> Result<Vec<Change>, ReloadError> {
        let before = self.running_config().config;
        let changes = self.reload(pairs)?;
        if changes.is_empty() {
            return Err(ReloadError::NothingToChange);
        }
        *locked(&self.origin.unconfirmed) = Some((before, self.clock.now().after(time)));
        Ok(changes)
    }

    /// Confirms the configuration of [`Host::commit_confirmed`].
    ///
    /// # Errors
    /// Returns [`ReloadError::NothingToConfirm`] if none waits for its confirmation.
    pub fn commit(&self) -> Result<(), ReloadError> {
        locked(&self.origin.unconfirmed).take().map(drop).ok_or(ReloadError::NothingToConfirm)
    }

    /// Goes back to the preceding configuration if the present one was not confirmed in time.
    /// Returns a message for each change, and for what failed.
    pub(crate) fn revert_unconfirmed(&self, pairs: &Pairs) -> Vec<String> {
        let now = self.clock.now();
        let due = locked(&self.origin.unconfirmed).take_if(|(_, until)| *until <= now);
        let Some((before, _)) = due else { return Vec::new() };
        match self.change_to(&before, pairs) {
            Ok(changes) => {
                let head = "the configuration was not confirmed: went back to the preceding one".to_string();
                std::iter::once(head).chain(changes.iter().map(Change::to_string)).collect()
            }
            Err(why) => vec![format!("the configuration was not confirmed, and the preceding one failed: {why}")],
        }
    }

    /// Returns the configuration of the host as it is now, as the text of a file, with the metrics
    /// of its own file. Comments contain what a file has no keys for.
    pub fn running_toml(&self) -> String {
        let RunningConfig { mut config, other } = self.running_config();
        let mut metrics = MetricsConfig::default();
        if let Some(file) = self.origin.file.get() {
            metrics = file.started().metrics.clone();
            let own = file.started().hosts.iter().find(|host| host.name == self.stack.name);
            config.control = own.and_then(|host| host.control.clone());
        }
        with_notes(&to_toml(&Network { hosts: vec![config], metrics, ..Network::default() }), &other)
    }

    /// Saves the configuration of the host as it is now to its file, or to `path`. In its own file,
    /// other hosts stay as they are, comments are lost, and the preceding file is kept with the
    /// suffix `.1`. Returns the path, and what a file cannot contain.
    ///
    /// # Errors
    /// Returns an error if the host has no file and `path` is `None`, and errors of the system;
    /// the file is unchanged then.
    pub fn save(&self, path: Option<&Path>) -> Result<(PathBuf, Vec<String>), ReloadError> {
        let RunningConfig { config, other } = self.running_config();
        let is_own = |path: &Path| {
            let own = self.origin.file.get().and_then(|file| fs::canonicalize(file.path()).ok());
            own.is_some() && fs::canonicalize(path).ok() == own
        };
        match path.filter(|path| !is_own(path)) {
            Some(path) => {
                write(path, &self.running_toml(), None).map_err(ReloadError::File)?;
                Ok((path.to_path_buf(), other))
            }
            None => {
                let file = self.file()?;
                save_host(file, config, &other).map_err(ReloadError::File)?;
                Ok((file.path().to_path_buf(), other))
            }
        }
    }

    /// Returns the time until which a configuration waits for its confirmation; `None` if none
    /// does.
    pub fn unconfirmed_until(&self) -> Option<Instant> {
        locked(&self.origin.unconfirmed).as_ref().map(|(_, until)| *until)
    }
}
