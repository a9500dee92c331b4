//! Assignment of ports to loops, so that two loops never poll the same port.

use std::collections::BTreeMap;
use std::fmt;

/// Error: another loop already polls the port (EEXIST, as from FreeBSD's ether_poll_register).
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Taken {
    /// Name of the port that is already polled.
    pub port: String,
    /// Number of the loop that polls the port.
    pub by: usize,
}

impl fmt::Display for Taken {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Taken { port, by } = self;
        write!(f, "{port}: already polled by loop {by}; a port can be polled by one loop only (EEXIST)")
    }
}

impl std::error::Error for Taken {}

/// The ports that are polled, and the loop that polls each of them.
#[derive(Clone, Debug, Default)]
pub struct Loops {
    ports: BTreeMap<String, usize>,
}

impl Loops {
    /// Assigns the port to loop `to`.
    ///
    /// # Errors
    /// [`Taken`] if a loop already polls the port.
    pub fn register(&mut self, port: &str, to: usize) -> Result<(), Taken> {
        if let Some(by) = self.ports.get(port) {
            return Err(Taken { port: port.to_string(), by: *by });
        }
        self.ports.insert(port.to_string(), to);
        Ok(())
    }

    /// Removes the port from its loop. Returns the number of that loop.
    pub fn deregister(&mut self, port: &str) -> Option<usize> {
        self.ports.remove(port)
    }

    /// Returns the number of the loop that polls the port.
    pub fn of(&self, port: &str) -> Option<usize> {
        self.ports.get(port).copied()
    }

    /// Returns the ports and the numbers of their loops, sorted by port name.
    pub fn list(&self) -> impl Iterator<Item = (&str, usize)> {
        self.ports.iter().map(|(port, to)| (port.as_str(), *to))
    }

    /// Returns the number of the loop with the fewest ports, among the loops 0 to `loops` - 1.
    pub fn lightest(&self, loops: usize) -> usize {
        let load = |number: &usize| self.ports.values().filter(|to| *to == number).count();
        (0..loops.max(1)).min_by_key(load).unwrap_or(0)
    }
}
