//! Which loop polls which port: never two loops the same one.

use std::collections::BTreeMap;
use std::fmt;

/// The port has a loop already (EEXIST, as FreeBSD's ether_poll_register has it).
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Taken {
    /// The port.
    pub port: String,
    /// The loop that polls it.
    pub by: usize,
}

impl fmt::Display for Taken {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Taken { port, by } = self;
        write!(
            f,
            "{port}: loop {by} polls it already, and two loops on one port only take frames from each other (EEXIST)"
        )
    }
}

impl std::error::Error for Taken {}

/// Loops and their ports.
#[derive(Clone, Debug, Default)]
pub struct Loops {
    ports: BTreeMap<String, usize>,
}

impl Loops {
    /// From now on loop `to` polls the port.
    ///
    /// # Errors
    /// [`Taken`].
    pub fn register(&mut self, port: &str, to: usize) -> Result<(), Taken> {
        if let Some(by) = self.ports.get(port) {
            return Err(Taken { port: port.to_string(), by: *by });
        }
        self.ports.insert(port.to_string(), to);
        Ok(())
    }

    /// From now on nobody polls the port; says who did.
    pub fn deregister(&mut self, port: &str) -> Option<usize> {
        self.ports.remove(port)
    }

    /// Who polls the port?
    pub fn of(&self, port: &str) -> Option<usize> {
        self.ports.get(port).copied()
    }

    /// Ports and their loops, by name.
    pub fn list(&self) -> impl Iterator<Item = (&str, usize)> {
        self.ports.iter().map(|(port, to)| (port.as_str(), *to))
    }

    /// Of `loops` loops, the one with the fewest ports.
    pub fn lightest(&self, loops: usize) -> usize {
        let load = |number: &usize| self.ports.values().filter(|to| *to == number).count();
        (0..loops.max(1)).min_by_key(load).unwrap_or(0)
    }
}
