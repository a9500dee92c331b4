//! Switches of a topology file: ports, spanning tree, and commands that run before the switch
//! starts.
//!
//! ```toml
//! [[switch]]
//! name = "s1"
//! ports = ["pair:as1", "pair:s1s2", "pair:s1s3"]
//! stp = "rstp"
//! priority = 4096
//! commands = ["ifconfig s1 edge as1"]
//! ```

use super::{HostConfig, MetricsConfig};
use bridge::StpVersion;
use port::Spec;
use std::path::PathBuf;
use wire::Mac;

/// Configuration of a switch.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct SwitchFile {
    /// Name of the switch.
    pub name: String,
    /// Full specifications of the ports of the switch.
    pub ports: Vec<String>,
    /// Spanning tree protocol on all ports; `None` for no spanning tree.
    pub stp: Option<StpVersion>,
    /// Bridge priority in the spanning tree, in effect from the first BPDU on; `None` for the
    /// default.
    pub priority: Option<u16>,
    /// Control commands that run before the switch starts, in the form that `linerate bridge --do`
    /// accepts.
    pub commands: Vec<String>,
    /// MAC address; `None` for a random one.
    pub mac: Option<Mac>,
    /// Path of the control socket; `None` if no path is configured.
    pub control: Option<PathBuf>,
}

/// Contents of a topology file: hosts, the switches between them, and the metrics of the process.
#[derive(Clone, Debug, Default)]
pub struct Network {
    /// Hosts, at least one.
    pub hosts: Vec<HostConfig>,
    /// Switches between the hosts.
    pub switches: Vec<SwitchFile>,
    /// Metrics of the process.
    pub metrics: MetricsConfig,
}

impl Network {
    /// Returns the number of stacks and switches. Each has a thread of its own.
    pub fn parts(&self) -> usize {
        self.hosts.iter().map(|host| host.stacks.max(1)).sum::<usize>() + self.switches.len()
    }
}

impl SwitchFile {
    /// Checks the number and the specifications of the ports, and that their names are different.
    ///
    /// # Errors
    /// Returns an error message.
    pub fn check(&self) -> Result<(), String> {
        let name = &self.name;
        if self.ports.len() < 2 {
            return Err(format!("switch {name}: ports: at least 2 are required"));
        }
        if self.ports.len() > bridge::MAX_PORTS {
            return Err(format!("switch {name}: ports: at most {} are possible", bridge::MAX_PORTS));
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
