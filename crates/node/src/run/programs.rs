//! Programs on a host's sockets that this crate does not know: opened and driven on the thread that runs the host.
//!
//! A service whose kind is not of datagrams ([`ServiceKind::is_datagrams`]) is a program's. [`super::up_with`] is given somebody
//! who has them ([`Programs`]); each gets a turn in every round of its host.
//!
//! [`ServiceKind::is_datagrams`]: crate::config::ServiceKind::is_datagrams

use crate::Host;
use crate::config::ServiceConfig;
use clock::{Duration, Instant};
use lock::Locks;

/// A program, opened.
pub trait Program {
    /// Does what can be done now, without waiting; says how much that was.
    fn turn(&mut self, now: Instant) -> usize;

    /// When it wants a turn although nothing comes in; `None`: never.
    fn next_timer(&self) -> Option<Instant>;

    /// What it has to tell since it was asked last: lines, or nothing.
    fn take_output(&mut self) -> String {
        String::new()
    }

    /// The host goes away: connections are ended.
    fn end(&mut self) {}
}

/// Who has programs.
pub trait Programs: Send + Sync {
    /// Opens the one that `service` names, on `host`.
    ///
    /// # Errors
    /// Why it cannot be had, in a sentence.
    fn open<'h, L: Locks>(&self, host: &'h Host<L>, service: ServiceConfig) -> Result<Box<dyn Program + 'h>, String>;
}

/// Nobody: services are those of datagrams.
#[derive(Clone, Copy, Debug)]
pub struct NoPrograms;

impl Programs for NoPrograms {
    fn open<'h, L: Locks>(&self, _: &'h Host<L>, service: ServiceConfig) -> Result<Box<dyn Program + 'h>, String> {
        Err(format!("{} is not served here; 'linerate up' and 'linerate host' do", service.kind))
    }
}

/// The programs of one host: every loop around a host with services runs them beside its [`Runner`].
///
/// [`Runner`]: super::Runner
#[derive(Default)]
pub struct Running<'h>(Vec<Box<dyn Program + 'h>>);

impl std::fmt::Debug for Running<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_tuple("Running").field(&self.0.len()).finish()
    }
}

impl<'h> Running<'h> {
    /// Opens those of `services` that are programs.
    ///
    /// # Errors
    /// The service that cannot be opened, and why.
    pub fn open<L: Locks, P: Programs>(
        programs: &P,
        host: &'h Host<L>,
        services: &[ServiceConfig],
    ) -> Result<Running<'h>, (ServiceConfig, String)> {
        let own = services.iter().filter(|service| !service.kind.is_datagrams());
        let open = |service: &ServiceConfig| programs.open(host, *service).map_err(|why| (*service, why));
        own.map(open).collect::<Result<Vec<_>, _>>().map(Running)
    }

    /// Gives each a turn; returns how much was done.
    pub fn turn<L: Locks>(&mut self, host: &Host<L>) -> usize {
        let Running(programs) = self;
        if programs.is_empty() {
            return 0;
        }
        let now = host.clock.now();
        programs.iter_mut().map(|program| program.turn(now)).sum()
    }

    /// Returns how long the host may sleep for them, at most `idle`.
    pub fn patience(&self, now: impl FnOnce() -> Instant, idle: Duration) -> Duration {
        let next = self.0.iter().filter_map(|program| program.next_timer()).min();
        next.map_or(idle, |next| next.since(now()).min(idle))
    }

    /// Passes their output to `notice`, line by line.
    pub fn tell(&mut self, notice: &mut dyn FnMut(&str)) {
        for program in &mut self.0 {
            program.take_output().lines().for_each(&mut *notice);
        }
    }

    /// Ends all of them.
    pub fn end(&mut self) {
        self.0.iter_mut().for_each(|program| program.end());
    }
}
