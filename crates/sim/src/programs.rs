//! Programs on the hosts of a world: stream servers, and clients started by control commands.

mod host;

pub(crate) use host::HostPrograms;
pub use host::TURN;

use crate::World;
use clock::Duration;
use node::config::ServiceConfig;
use node::run::{Programs, Running};
use std::fmt;

/// Error for a service that cannot be opened.
#[derive(Debug)]
pub struct NotOpened {
    /// Name of the host that has the service.
    pub host: String,
    /// Kind and port of the service.
    pub service: String,
    /// Reason why the service cannot be opened.
    pub why: String,
}

impl fmt::Display for NotOpened {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let NotOpened { host, service, why } = self;
        write!(f, "host {host}: {service}: {why}")
    }
}

impl std::error::Error for NotOpened {}

/// A world whose hosts also run TCP servers, and clients started by control commands.
pub struct WithPrograms<'w> {
    world: &'w World,
    of_hosts: Vec<HostPrograms<'w>>,
}

impl<'w> WithPrograms<'w> {
    /// Opens a program for each TCP service of the hosts.
    ///
    /// # Errors
    /// Returns [`NotOpened`] for the first service that fails.
    pub fn open<P: Programs + 'w>(world: &'w World, programs: &P) -> Result<WithPrograms<'w>, NotOpened> {
        let open = |(at, services): (usize, &Vec<ServiceConfig>)| {
            let host = &world.hosts[at];
            let running = Running::open(programs, host, services);
            let running = running.map_err(|(service, why)| NotOpened {
                host: host.stack.name.clone(),
                service: format!("{} on port {}", service.kind, service.port.0),
                why,
            })?;
            Ok(HostPrograms::new(running))
        };
        let of_hosts = world.programs.iter().enumerate().map(open).collect::<Result<_, _>>()?;
        Ok(WithPrograms { world, of_hosts })
    }

    /// Returns the underlying world.
    pub fn world(&self) -> &'w World {
        self.world
    }

    /// Advances the virtual time like [`World::run_for`]. Each program gets a turn at each event of
    /// its host and when its timers expire.
    ///
    /// # Panics
    /// Panics as [`World::run_for`] does.
    pub fn run_for(&mut self, span: Duration) {
        self.world.run_beside(span, &mut self.of_hosts);
    }
}

impl Drop for WithPrograms<'_> {
    fn drop(&mut self) {
        self.of_hosts.iter_mut().for_each(HostPrograms::end);
    }
}
