//! Runs hosts with their ports, services and control sockets until they are stopped. Each host has
//! its own thread.
//!
//! This module reads the real clock and passes the time as an argument to the code that it calls.
//! [`up_with`] runs the hosts of a file from start to end, [`build`] creates one host from its
//! configuration, and [`Runner`] is the loop around a host that the caller owns.

mod build;
mod links;
mod outcome;
mod programs;
mod up;

pub(crate) use build::build_sharded;
pub(crate) use build::check_iface;
pub use build::{BuildError, build, build_with_own};
pub use outcome::Outcome;
pub use programs::{Program, Programs, Running};
pub use up::{Event, Unconfigured, UpError, await_addresses, end, farewell, up_network, up_with};

use crate::control::HostServer;
use crate::figures::Source;
use crate::fpm::FpmServer;
use crate::log::{LogEvent, Monitor};
use crate::service::{self, Service};
use crate::{Host, Step, config};
use clock::{Duration, Instant};
use links::Links;
use lock::Locks;
use port::Pairs;
use socket::Errno;
use std::os::fd::BorrowedFd;

/// Interval at which a busy host checks its control socket and the state of its ports.
const LOOK: Duration = Duration::from_millis(1);
/// Interval at which an idle host checks its control socket and the state of its ports.
const IDLE: Duration = Duration::from_millis(100);
/// Maximum time for which an idle host applies the routes of a routing engine before its next
/// round.
const FPM_TURN: Duration = Duration::from_micros(500);
/// Part of the time that a host which receives frames gives to the routes of a routing engine: one
/// in this many.
const FPM_SHARE: u32 = 25;
/// Time that must be available for these routes before some are applied.
const FPM_CREDIT: Duration = Duration::from_micros(20);
/// Time for which an idle host keeps running after its last port has ended, for delayed frames and
/// late replies.
const LINGER: Duration = Duration::from_millis(300);

/// Loop around a host: serves the host's UDP services and control socket between its rounds.
#[derive(Debug)]
pub struct Runner<L: Locks> {
    /// Control socket; `None` if the host has none.
    pub control: Option<HostServer<L>>,
    services: Vec<Service>,
    buffer: Vec<u8>,
    links: Links,
    gone: Vec<inet::iface::IfaceId>,
    /// Ifaces for which a duplicate MAC address has already been reported.
    duplicates: Vec<inet::iface::IfaceId>,
    /// Set if a port failed (its device was removed, or its file is truncated) instead of ending
    /// normally.
    lost: bool,
    /// Set if the host keeps running after all its ports have ended.
    stay: bool,
    /// Start of the idle time after all ports have ended; `None` while a port is open.
    over: Option<Instant>,
    look: Instant,
    /// Monitor of events for logs; `None` if they are not logged.
    monitor: Option<Monitor>,
    events: Vec<LogEvent>,
    /// Time of the last round, and the time that the routes of a routing engine may take.
    fpm_credit: (Instant, Duration),
}

impl<L: Locks> Runner<L> {
    /// Creates the loop around a host. The loop itself runs the UDP services among `services`.
    ///
    /// # Errors
    /// Returns the service for which no socket could be opened, and the reason.
    pub fn new(
        host: &Host<L>,
        services: &[config::ServiceConfig],
        control: Option<HostServer<L>>,
    ) -> Result<Runner<L>, (config::ServiceConfig, Errno)> {
        let calls = host.shared_calls();
        let open = |config: &config::ServiceConfig| Service::open(&calls, *config).map_err(|why| (*config, why));
        let datagrams = services.iter().filter(|service| service.kind.is_datagrams());
        let services = datagrams.map(open).collect::<Result<Vec<_>, _>>()?;
        let buffer = vec![0; if services.is_empty() { 0 } else { service::LONGEST }];
        let (gone, look) = (Vec::new(), Instant::ZERO);
        Ok(Runner {
            control,
            services,
            buffer,
            links: Links::of(host),
            gone,
            duplicates: Vec::new(),
            lost: false,
            stay: false,
            over: None,
            look,
            monitor: None,
            events: Vec::new(),
            fpm_credit: (Instant::ZERO, Duration::ZERO),
        })
    }

    /// Sets whether the host keeps running after all its ports have ended.
    pub fn stay(mut self, stay: bool) -> Runner<L> {
        self.stay = stay;
        self
    }

    /// Sets whether events for logs are collected ([`Runner::take_events`]).
    pub fn logging(mut self, on: bool) -> Runner<L> {
        self.monitor = on.then(Monitor::default);
        self
    }

    /// Returns the events since the last call.
    pub fn take_events(&mut self) -> Vec<LogEvent> {
        std::mem::take(&mut self.events)
    }

    /// Returns whether all ports have ended and their frames have been processed.
    pub fn is_over(&self, now: Instant) -> bool {
        !self.stay && self.over.is_some_and(|since| now.since(since) >= LINGER)
    }

    /// Returns whether a port failed instead of ending normally.
    pub fn has_lost_a_port(&self) -> bool {
        self.lost
    }

    /// Runs one round of the host and its services, and sleeps if there was nothing to do. Serves
    /// the control socket every millisecond. Calls `notice` with a message for each port that has
    /// ended.
    pub fn round(&mut self, host: &Host<L>, pairs: &Pairs, notice: &mut dyn FnMut(String)) {
        self.round_with(host, pairs, notice, IDLE, &[], || 0);
    }

    /// Runs one round like [`Runner::round`], together with other work on this thread. `others`
    /// runs after the host's round and returns the amount of work done. The round sleeps only if
    /// this amount is 0, and at most for `patience` or until one of `also` is readable.
    pub fn round_with(
        &mut self,
        host: &Host<L>,
        pairs: &Pairs,
        notice: &mut dyn FnMut(String),
        patience: Duration,
        also: &[BorrowedFd<'_>],
        others: impl FnOnce() -> usize,
    ) {
        let step = host.step();
        let served = self.serve(host) + others() + self.apply_routes(host, &step, notice);
        let requests = self.requests();
        if step.now >= self.look {
            self.look_around(host, pairs, notice);
            self.look = step.now.after(LOOK);
        }
        // A job started by a command has its first turn in the next round.
        if step.frames > 0 || served > 0 || self.requests() != requests {
            self.over = self.over.map(|_| step.now);
            return;
        }
        if patience.is_zero() {
            return;
        }
        let is_writing = self.control.as_ref().is_some_and(|control| control.server.is_writing());
        let most = if is_writing { LOOK } else { IDLE }.min(patience);
        let until = step.now.after(most).min(step.next.unwrap_or(Instant::NEVER));
        let mut fds = self.control.as_ref().map(|control| control.server.fds()).unwrap_or_default();
        fds.extend(also);
        fds.extend(host.figures.get().map(Source::fd));
        fds.extend(self.links.fds());
        if host.fpm().is_some_and(FpmServer::is_pending) {
            return; // the rest waits for its next turn
        }
        fds.extend(host.fpm().map(FpmServer::fd));
        let until = until.min(host.fpm().map_or(Instant::NEVER, FpmServer::due));
        if host.wait_for_any(until, &fds) || is_writing {
            self.look = Instant::ZERO;
        }
    }

    /// Reports the receive warnings of ports that are still open. The warnings of closed ports were
    /// reported when the ports closed.
    pub fn report_warnings(&self, host: &Host<L>, notice: &mut dyn FnMut(String)) {
        let warnings = host.warnings();
        let rest = warnings.iter().filter(|(id, _)| !self.gone.contains(id));
        rest.for_each(|(id, warning)| notice(port_message(host, *id, warning)));
    }

    /// Returns the number of requests that the control socket has received.
    fn requests(&self) -> u64 {
        self.control.as_ref().map_or(0, |control| control.server.counts.requests.get())
    }

    /// Applies the routes of a routing engine: a small share of the time while the host receives
    /// frames. Returns the number of frames of the engine.
    fn apply_routes(&mut self, host: &Host<L>, step: &Step, notice: &mut dyn FnMut(String)) -> usize {
        let Some(fpm) = host.fpm() else { return 0 };
        let (before, credit) = self.fpm_credit;
        let credit = (credit + step.now.since(before) / FPM_SHARE).min(FPM_TURN);
        self.fpm_credit = (step.now, credit);
        let is_idle = step.frames == 0;
        let has_work = fpm.is_pending() || fpm.due() <= step.now || step.now >= self.look;
        if !has_work || !is_idle && credit < FPM_CREDIT {
            return 0;
        }
        let applied = host.serve_fpm(if is_idle { FPM_TURN } else { credit }, notice);
        let took = host.clock.now().since(step.now);
        self.fpm_credit.1 = credit.saturating_sub(took);
        applied
    }

    fn serve(&mut self, host: &Host<L>) -> usize {
        if self.services.is_empty() {
            return 0;
        }
        let calls = host.shared_calls();
        self.services.iter().map(|service| service.serve(&calls, &mut self.buffer)).sum()
    }

    fn look_around(&mut self, host: &Host<L>, pairs: &Pairs, notice: &mut dyn FnMut(String)) {
        if let Some(control) = &mut self.control {
            control.serve(host, pairs);
        }
        self.links.follow(host, host.clock.now(), notice);
        host.serve_figures();
        if let Some(monitor) = &mut self.monitor {
            self.events.extend(monitor.check(host, host.clock.now()));
        }
        for line in host.revert_unconfirmed(pairs) {
            notice(format!("{}: {line}", host.stack.name));
        }
        let gone = host.gone();
        self.gone.retain(|id| gone.iter().any(|(of, _)| of == id)); // others have been opened again
        for (id, why) in gone {
            if !self.gone.contains(&id) {
                self.gone.push(id);
                let warnings = host.warnings();
                let of_it = warnings.iter().filter(|(of, _)| *of == id);
                of_it.for_each(|(_, warning)| notice(port_message(host, id, warning)));
                self.lost |= why.is_some() && !host.is_mirror(id);
                let why = why.unwrap_or_else(|| "end of input".to_string());
                let then = match host.is_over() && !self.stay {
                    true => "no port is left, so the host ends",
                    false => "the host keeps running",
                };
                notice(port_message(host, id, &format!("port closed: {why}; {then}")));
            }
        }
        for id in host.duplicates() {
            if !self.duplicates.contains(&id) {
                self.duplicates.push(id);
                let mac = host.stack.iface(id).map_or(wire::Mac::ZERO, |iface| iface.mac);
                let what = format!("another station uses the MAC address {mac}, or the link has a loop; set --mac");
                notice(port_message(host, id, &what));
            }
        }
        if !host.is_over() {
            self.over = None; // a port can be added
        } else if self.over.is_none() {
            self.over = Some(host.clock.now());
        }
    }
}

/// Returns a message about an iface, prefixed with the names of host and iface.
fn port_message<L: Locks>(host: &Host<L>, id: inet::iface::IfaceId, what: &str) -> String {
    let name = host.stack.iface(id).map_or("?", |iface| &iface.name);
    format!("{}: {name}: {what}", host.stack.name)
}
