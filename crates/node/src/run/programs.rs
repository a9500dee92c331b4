//! Programs: applications from outside this crate that use a host's sockets. They are opened and
//! run on the thread that runs their host.
//!
//! A TCP service ([`ServiceKind::is_datagrams`] returns false) is a program. [`super::up_with`]
//! receives a provider of programs ([`Programs`]) as an argument. Each program gets a turn in every
//! round of its host.
//!
//! [`ServiceKind::is_datagrams`]: crate::config::ServiceKind::is_datagrams

use crate::Host;
use crate::config::ServiceConfig;
use crate::control::Commands;
use crate::jobs::{End, Wanted};
use clock::{Duration, Instant};
use lock::Locks;

/// An open program, which its host's thread runs in turns.
pub trait Program {
    /// Runs a turn, which does what is possible without blocking. Returns the amount of work done,
    /// 0 if there was none.
    fn turn(&mut self, now: Instant) -> usize;

    /// Returns the time at which a turn is due even without input; `None` if no timer runs.
    fn next_timer(&self) -> Option<Instant>;

    /// Returns the program's output since the last call, as lines; empty if there is none.
    fn take_output(&mut self) -> String {
        String::new()
    }

    /// Returns the result of a program that has ended; `None` while it runs. A server never ends.
    fn ended(&self) -> Option<Result<(), String>> {
        None
    }

    /// Closes the program's connections before the host shuts down.
    fn end(&mut self) {}
}

/// Provider of programs for the hosts of a process, and of the commands of their control sockets.
pub trait Programs: Clone + Send + Sync {
    /// Commands of the control sockets of hosts and switches.
    type Commands: Commands;

    /// Opens the program for `service` on `host`.
    ///
    /// # Errors
    /// Returns the reason as a sentence.
    fn open<'h, L: Locks>(&self, host: &'h Host<L>, service: ServiceConfig) -> Result<Box<dyn Program + 'h>, String>;

    /// Starts the program given by `words`, for a client of the control socket.
    ///
    /// # Errors
    /// Returns the reason as a sentence.
    fn start<'h, L: Locks>(&self, _: &'h Host<L>, words: &[String]) -> Result<Box<dyn Program + 'h>, String> {
        Err(format!("{} cannot run here", words.first().map_or("a program", String::as_str)))
    }
}

/// Running programs of one host. A loop around a host with TCP services runs them in addition to
/// its [`Runner`].
///
/// [`Runner`]: super::Runner
#[derive(Default)]
pub struct Running<'h> {
    services: Vec<Box<dyn Program + 'h>>,
    /// Programs started by clients of the control socket, with their job numbers.
    requested: Vec<(u32, Box<dyn Program + 'h>)>,
    start: Option<Start<'h>>,
}

type Start<'h> = Box<dyn Fn(&[String]) -> Result<Box<dyn Program + 'h>, String> + 'h>;

impl std::fmt::Debug for Running<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Running").field("services", &self.services.len()).field("asked", &self.requested.len()).finish()
    }
}

impl<'h> Running<'h> {
    /// Opens a program for each TCP service among `services`.
    ///
    /// # Errors
    /// Returns the service that cannot be opened, and the reason.
    pub fn open<L: Locks, P: Programs + 'h>(
        programs: &P,
        host: &'h Host<L>,
        services: &[ServiceConfig],
    ) -> Result<Running<'h>, (ServiceConfig, String)> {
        let own = services.iter().filter(|service| !service.kind.is_datagrams());
        let open = |service: &ServiceConfig| programs.open(host, *service).map_err(|why| (*service, why));
        let services = own.map(open).collect::<Result<Vec<_>, _>>()?;
        host.jobs().run_programs();
        let programs = programs.clone();
        let start: Start<'h> = Box::new(move |words| programs.start(host, words));
        Ok(Running { services, requested: Vec::new(), start: Some(start) })
    }

    /// Runs a turn of each program, and returns the amount of work done.
    pub fn turn<L: Locks>(&mut self, host: &Host<L>) -> usize {
        self.take_wanted(host);
        if self.services.is_empty() && self.requested.is_empty() {
            return 0;
        }
        let now = host.clock.now();
        let requested = self.requested.iter_mut().map(|(_, program)| program);
        let done = self.services.iter_mut().chain(requested).map(|program| program.turn(now)).sum();
        self.requested.retain_mut(|(id, program)| {
            let ended = program.ended().map(|result| result.map_or_else(End::Failed, |()| End::Done));
            let is_over = ended.is_some();
            let goes_on = host.jobs().report(*id, &program.take_output(), ended) && !is_over;
            if !goes_on {
                program.end();
            }
            goes_on
        });
        done
    }

    /// Starts the programs requested by clients.
    fn take_wanted<L: Locks>(&mut self, host: &Host<L>) {
        let Some(start) = &self.start else { return };
        for Wanted { id, words } in host.jobs().take_wanted() {
            match start(&words) {
                Ok(program) => self.requested.push((id, program)),
                Err(why) => drop(host.jobs().report(id, "", Some(End::Failed(why)))),
            }
        }
    }

    /// Returns the earliest time at which a program's turn is due even without input; `None` if no
    /// timer runs.
    pub fn next_timer(&self) -> Option<Instant> {
        let requested = self.requested.iter().map(|(_, program)| program);
        self.services.iter().chain(requested).filter_map(|program| program.next_timer()).min()
    }

    /// Returns the time for which the host may sleep until a program's timer expires, at most
    /// `idle`.
    pub fn patience(&self, now: impl FnOnce() -> Instant, idle: Duration) -> Duration {
        self.next_timer().map_or(idle, |next| next.since(now()).min(idle))
    }

    /// Passes the output of the services to `notice`, line by line.
    pub fn report(&mut self, notice: &mut dyn FnMut(&str)) {
        for program in &mut self.services {
            program.take_output().lines().for_each(&mut *notice);
        }
    }

    /// Ends all programs of the host.
    pub fn end(&mut self) {
        let requested = self.requested.iter_mut().map(|(_, program)| program);
        self.services.iter_mut().chain(requested).for_each(|program| program.end());
    }
}
