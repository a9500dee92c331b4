//! A switch as a file has it: its ports, its spanning tree, words said to it before it begins.
//!
//! ```toml
//! [[switch]]
//! name = "s1"
//! ports = ["pair:as1", "pair:s1s2", "pair:s1s3"]
//! stp = "rstp"
//! priority = 4096
//! words = ["ifconfig s1 edge as1"]
//! ```

use super::HostConfig;
use port::Spec;
use std::path::PathBuf;
use wire::Mac;

/// A switch of a file.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct SwitchFile {
    /// Its name.
    pub name: String,
    /// Its ports' whole names.
    pub ports: Vec<String>,
    /// Its spanning tree, of all its ports: `rstp` or `stp`.
    pub stp: Option<String>,
    /// Its priority in the tree, known before it speaks.
    pub priority: Option<u16>,
    /// Words said to it before it begins, as `linerate bridge --do` has them.
    pub words: Vec<String>,
    /// Its address; one of its own if none is given.
    pub mac: Option<Mac>,
    /// Where its control socket is, if it has one.
    pub control: Option<PathBuf>,
}

/// What a file says: hosts, and the switches between them.
#[derive(Clone, Debug, Default)]
pub struct Network {
    /// The hosts, one at least.
    pub hosts: Vec<HostConfig>,
    /// The switches.
    pub switches: Vec<SwitchFile>,
}

impl SwitchFile {
    /// Checks keys against each other.
    ///
    /// # Errors
    /// A sentence.
    pub fn check(&self) -> Result<(), String> {
        let name = &self.name;
        if self.ports.len() < 2 {
            return Err(format!("switch {name}: ports: two at least"));
        }
        if self.ports.len() > bridge::MAX_PORTS {
            return Err(format!("switch {name}: ports: {} at most", bridge::MAX_PORTS));
        }
        let mut names = Vec::new();
        for port in &self.ports {
            let spec = Spec::parse(port).map_err(|why| format!("switch {name}: {why}"))?;
            if names.contains(&spec.name) {
                return Err(format!("switch {name}: there are two ports called '{}'", spec.name));
            }
            names.push(spec.name);
        }
        Ok(())
    }
}
