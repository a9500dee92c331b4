//! Ethernet bridges.

use crate::{Counter, Error};
use bridge::{Entry, Kind, PortNo, StpVersion, VlanSet};
use clock::{Clock, Duration};
use node::config::SwitchFile;
use node::control::NoCommands;
use node::switch::Switch;
use node::switch::run::Until;
use port::Spec;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;
use wire::Mac;
use wire::eth::EtherType;

/// An Ethernet bridge that runs in a thread of its own. It learns source addresses, forwards frames
/// to the port of their destination, and floods frames for unknown destinations.
///
/// A `Bridge` is a handle: clones refer to the same bridge. It ends when the last one is dropped.
///
/// ```
/// use linerate::{Bridge, Host};
///
/// let bridge = Bridge::builder().port("pair:one").port("pair:two").build()?;
/// let a = Host::builder().port("pair:one").addr("10.0.0.1/24").build()?;
/// let b = Host::builder().port("pair:two").addr("10.0.0.2/24").build()?;
/// # Ok::<(), linerate::Error>(())
/// ```
#[derive(Clone)]
pub struct Bridge(Arc<Running>);

struct Running {
    switch: Arc<Switch>,
    stop: Arc<AtomicBool>,
    thread: Mutex<Option<JoinHandle<std::io::Result<()>>>>,
}

impl Drop for Running {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
        let thread = self.thread.lock().unwrap_or_else(PoisonError::into_inner).take();
        if let Some(thread) = thread.filter(|thread| thread.thread().id() != std::thread::current().id()) {
            let _ = thread.join(); // a panic of the thread was already reported
        }
    }
}

/// Configuration of a [`Bridge`].
#[derive(Clone, Debug, Default)]
#[must_use = "a builder does nothing until it is built"]
pub struct BridgeBuilder {
    file: SwitchFile,
    changes: Vec<Change>,
}

/// A change of the bridge after its ports were added.
#[derive(Clone, Debug)]
enum Change {
    Filtering,
    Untagged {
        port: String,
        vlan: u16,
    },
    Tagged {
        port: String,
        vlans: String,
    },
    #[cfg(feature = "commands")]
    Ifconfig(String),
}

impl Change {
    fn apply(&self, switch: &Switch) -> Result<(), Error> {
        match self {
            Change::Filtering => switch.set_vlan_filtering(Some(EtherType::VLAN)),
            Change::Untagged { port, vlan } => {
                let number = member(switch, port)?;
                if !(1..=4094).contains(vlan) {
                    return Err(Error::Value { what: "VLAN", value: vlan.to_string(), expected: "1 to 4094".into() });
                }
                switch.change_vlans(number, |of| of.set_untagged(*vlan));
            }
            Change::Tagged { port, vlans } => {
                let number = member(switch, port)?;
                let vlans: VlanSet = vlans.parse().map_err(|why| Error::Value {
                    what: "VLANs",
                    value: vlans.clone(),
                    expected: format!("a list such as 1,10-20 ({why})"),
                })?;
                switch.change_vlans(number, |of| of.set_tagged(&vlans));
            }
            #[cfg(feature = "commands")]
            Change::Ifconfig(parameters) => {
                let line = format!("ifconfig {} {parameters}", switch.name);
                command(switch, &line.split_whitespace().collect::<Vec<_>>())?;
            }
        }
        Ok(())
    }
}

fn member(switch: &Switch, name: &str) -> Result<PortNo, Error> {
    switch.member(name).map(|(number, _)| number).ok_or_else(|| {
        let names: Vec<String> = switch.members().into_iter().map(|(_, info)| info.name).collect();
        Error::Value { what: "port", value: name.to_owned(), expected: format!("one of {}", names.join(", ")) }
    })
}

#[cfg(feature = "commands")]
fn command(switch: &Switch, words: &[&str]) -> Result<String, Error> {
    commands::bridge::run(switch, words, false).map_err(|why| Error::rejected(words.join(" "), why))
}

/// Address of a station that a bridge knows.
#[derive(Clone, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub struct BridgeAddr {
    /// MAC address of the station.
    pub mac: Mac,
    /// VLAN of the station; 0 without VLAN filtering.
    pub vlan: u16,
    /// Name of the port behind which the station is.
    pub port: String,
}

impl BridgeBuilder {
    /// Sets the name, `bridge0` by default.
    pub fn name(mut self, name: &str) -> BridgeBuilder {
        self.file.name = name.to_owned();
        self
    }

    /// Adds a port, such as `tap:tap0` or `pair:cable` ([`port`](crate::port) lists the kinds).
    pub fn port(mut self, spec: &str) -> BridgeBuilder {
        self.file.ports.push(spec.to_owned());
        self
    }

    /// Turns filtering by 802.1Q tags on.
    pub fn vlan_filtering(self) -> BridgeBuilder {
        self.with(Change::Filtering)
    }

    /// Assigns the untagged frames of the port called `port` to a VLAN, 1 to 4094.
    pub fn untagged(self, port: &str, vlan: u16) -> BridgeBuilder {
        self.with(Change::Untagged { port: port.to_owned(), vlan })
    }

    /// Makes the port called `port` a tagged member of the VLANs `vlans`, a list such as
    /// `10,20-29`. Frames of these VLANs have tags on the port.
    pub fn tagged(self, port: &str, vlans: &str) -> BridgeBuilder {
        self.with(Change::Tagged { port: port.to_owned(), vlans: vlans.to_owned() })
    }

    /// Runs the rapid spanning tree protocol (IEEE 802.1D-2004) on all ports.
    pub fn rstp(mut self) -> BridgeBuilder {
        self.file.stp = Some(StpVersion::Rstp);
        self
    }

    /// Sets parameters as `ifconfig bridge0 PARAMETERS` does, such as `edge a` or `-learn a`
    /// (feature `commands`).
    #[cfg(feature = "commands")]
    pub fn ifconfig(self, parameters: &str) -> BridgeBuilder {
        self.with(Change::Ifconfig(parameters.to_owned()))
    }

    fn with(mut self, change: Change) -> BridgeBuilder {
        self.changes.push(change);
        self
    }

    /// Builds the bridge and starts its thread.
    ///
    /// # Errors
    /// Returns [`Error::Bridge`] for a port that could not be opened, [`Error::Value`] for a name
    /// of a port or a VLAN that is not valid, [`Error::Rejected`] for parameters of `ifconfig`, and
    /// [`Error::Thread`].
    pub fn build(self) -> Result<Bridge, Error> {
        let mut file = self.file;
        if file.name.is_empty() {
            file.name = "bridge0".to_owned();
        }
        let clock = Clock::live(clock::Strategy::default());
        let switch = Arc::new(Switch::of_file::<NoCommands>(&file, crate::port::pairs(), clock, None)?);
        self.changes.iter().try_for_each(|change| change.apply(&switch))?;
        let stop = Arc::new(AtomicBool::new(false));
        let (theirs, over) = (switch.clone(), stop.clone());
        let work = move |_pinned| theirs.run(None, Until::Stopped, || over.load(Ordering::Relaxed));
        let thread = dispatch::spawn_worker(&file.name, None, work)
            .map_err(|why| Error::Thread { host: file.name.clone(), why })?;
        Ok(Bridge(Arc::new(Running { switch, stop, thread: Mutex::new(Some(thread)) })))
    }
}

impl Bridge {
    /// Returns a builder for a bridge without ports.
    pub fn builder() -> BridgeBuilder {
        BridgeBuilder::default()
    }

    /// Returns the name of the bridge.
    pub fn name(&self) -> &str {
        &self.0.switch.name
    }

    /// Returns the names of the ports.
    pub fn ports(&self) -> Vec<String> {
        self.0.switch.members().into_iter().map(|(_, info)| info.name).collect()
    }

    /// Adds a port while the bridge runs.
    ///
    /// # Errors
    /// Returns an [`Error`] if the specification is not valid or the port cannot be opened.
    pub fn add_port(&self, spec: &str) -> Result<(), Error> {
        let parsed = Spec::parse(spec).map_err(|why| Error::Value {
            what: "port",
            value: spec.to_owned(),
            expected: format!("a port specification: {why}"),
        })?;
        self.0.switch.add(&parsed, None).map(drop).map_err(|why| Error::Member { port: spec.to_owned(), why })
    }

    /// Removes a port and closes it. Returns `false` if there is no port of that name.
    pub fn remove_port(&self, name: &str) -> bool {
        let found = self.0.switch.member(name);
        found.map(|(number, _)| self.0.switch.remove(number)).is_some()
    }

    /// Returns the known addresses of stations, in the order of their VLANs.
    pub fn addrs(&self) -> Vec<BridgeAddr> {
        let stations = self.0.switch.addresses().into_iter().filter(|(entry, ..)| entry.kind != Kind::Local);
        let addr =
            |(entry, port, _): (Entry, String, u64)| BridgeAddr { mac: entry.key.mac(), vlan: entry.key.vid(), port };
        stations.map(addr).collect()
    }

    /// Runs a control command, such as `["ifconfig", "bridge0", "addr"]`, and returns its output
    /// (feature `commands`).
    ///
    /// # Errors
    /// Returns [`Error::Rejected`] if the command is invalid or fails.
    #[cfg(feature = "commands")]
    pub fn command(&self, words: &[&str]) -> Result<String, Error> {
        command(&self.0.switch, words)
    }

    /// Returns counters of the frames received, forwarded, dropped and delivered to the bridge
    /// itself, summed over all ports.
    pub fn counters(&self) -> Vec<Counter> {
        let audit = self.0.switch.audit();
        let counter = |name: &str, about, value| Counter { name: name.to_owned(), about, value };
        vec![
            counter("bridge.received", "Frames received from ports.", audit.bridge.received),
            counter("bridge.forwarded", "Frames passed to ports, each copy counted.", audit.bridge.given),
            counter("bridge.dropped", "Frames dropped, for all reasons.", audit.bridge.dropped),
            counter("bridge.local", "Frames for the bridge itself.", audit.bridge.local),
        ]
    }

    /// Waits until the bridge holds no frames, at most `timeout`. Returns whether it holds none,
    /// and every frame is accounted for.
    pub fn wait_idle(&self, timeout: Duration) -> bool {
        let (clock, switch) = (&self.0.switch.clock, &self.0.switch);
        let end = clock.now().after(timeout);
        loop {
            let audit = switch.audit();
            let is_idle = audit.holds() && audit.held == 0;
            if is_idle || clock.now() >= end {
                return is_idle;
            }
            std::thread::sleep(Duration::from_millis(1));
        }
    }
}

impl std::fmt::Debug for Bridge {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Bridge").field("name", &self.name()).field("ports", &self.ports()).finish()
    }
}
