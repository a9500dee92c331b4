//! Programs on the hosts of a world: stream servers, and clients started by control commands.

use crate::World;
use clock::{Duration, Instant};
use node::config::ServiceConfig;
use node::run::{Programs, Running};

/// Virtual time that one turn of a program takes. If it took none, a stream over a link of
/// unlimited rate would prevent the time from advancing.
pub const TURN: Duration = Duration::from_micros(10);

/// The programs of one host.
pub(crate) struct OfHost<'w> {
    running: Running<'w>,
    /// Earliest time of the next turn.
    free_at: Instant,
}

impl OfHost<'_> {
    /// Runs the programs of host number `at` once, unless the virtual time of their last turn has
    /// not passed yet. Returns the amount of work done.
    pub(crate) fn turn(&mut self, world: &World, at: usize) -> usize {
        let now = world.now();
        if now < self.free_at {
            return 0;
        }
        let done = self.running.turn(&world.hosts[at]);
        if done > 0 {
            self.free_at = now.after(TURN);
        }
        done
    }

    /// Returns the time of the next turn, assuming that no packets arrive.
    pub(crate) fn next(&self, now: Instant) -> Option<Instant> {
        let busy = Some(self.free_at).filter(|free_at| *free_at > now);
        let timer = self.running.next_timer().map(|timer| timer.max(self.free_at));
        busy.into_iter().chain(timer).min()
    }
}

/// Error for a service that cannot be opened.
#[derive(Debug, thiserror::Error)]
#[error("host {host}: {service}: {why}")]
pub struct NotOpened {
    /// Name of the host.
    pub host: String,
    /// Kind and port of the service.
    pub service: String,
    /// Reason for the failure.
    pub why: String,
}

/// A world whose hosts also run TCP servers, and clients started by control commands.
pub struct WithPrograms<'w> {
    world: &'w World,
    of_hosts: Vec<OfHost<'w>>,
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
            Ok(OfHost { running, free_at: Instant::ZERO })
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
        self.of_hosts.iter_mut().for_each(|of_host| of_host.running.end());
    }
}
