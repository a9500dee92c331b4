//! Internal crate of [linerate](https://docs.rs/linerate): its interface may change in any release.
//!
//! Simulation of many hosts and switches with one virtual clock and one random seed.
//!
//! A [`World`] runs the same hosts and switches as a live network, on a clock that jumps from event
//! to event. Links are pairs of ports with an impairment on each end. Every secret, loss and delay
//! is derived from the world's seed. In each round the hosts, then the switches, are stepped in a
//! fixed order. The same seed therefore gives the same bytes.
//!
//! [`shape`] builds a world from a file that `linerate up` can also run.
#![forbid(unsafe_code)]

mod block_on;
pub mod programs;
pub mod shape;
mod tasks;

use clock::{Clock, Duration, Instant, SimClock};
use inet::iface::IfaceAddr;
use lock::Up;
use node::config::{HostConfig, IfaceConfig, ServiceConfig};
use node::run::Outcome;
use node::service::{LONGEST, Service};
use node::switch::Switch;
use node::{AddPortError, Host};
use port::Pairs;
use programs::HostPrograms;
use std::cell::RefCell;
use std::net::Ipv4Addr;
use std::rc::Rc;
use std::sync::Arc;
pub use tasks::Stalled;
use tasks::Tasks;

/// Index of a host in its [`World`].
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct HostId(usize);

/// One end of a link: a host and its address on the link.
#[derive(Clone, Copy, Debug)]
pub struct End {
    /// Host at this end.
    pub host: HostId,
    /// Address of the host on the link.
    pub addr: Ipv4Addr,
    /// Length of the link's prefix.
    pub len: u8,
}

/// Hosts, switches and links with a common clock.
pub struct World {
    clock: SimClock,
    seed: u64,
    hosts: Vec<Rc<Host<Up>>>,
    switches: Vec<Switch>,
    pairs: Arc<Pairs>,
    links: usize,
    /// Datagram services of each host.
    services: Vec<Vec<Service>>,
    /// Services of each host that are programs ([`programs`]).
    programs: Vec<Vec<ServiceConfig>>,
    buffer: RefCell<Vec<u8>>,
    /// Warnings about parts of the configuration files that are not simulated.
    warnings: Vec<String>,
    tasks: Tasks,
}

/// Maximum number of rounds at one instant. If this limit is reached, a loop produces frames
/// endlessly.
const ROUNDS_MAX: usize = 100_000;

impl World {
    /// Creates an empty world. All random values are derived from `seed`.
    pub fn new(seed: u64) -> World {
        let clock = SimClock::new();
        clock.advance(Duration::from_millis(1));
        World {
            clock,
            seed,
            hosts: Vec::new(),
            switches: Vec::new(),
            pairs: Arc::default(),
            links: 0,
            services: Vec::new(),
            programs: Vec::new(),
            buffer: RefCell::default(),
            warnings: Vec::new(),
            tasks: Tasks::default(),
        }
    }

    /// Adds a host without links.
    ///
    /// # Panics
    /// Panics if the memory of the host's pool cannot be allocated.
    pub fn add_host(&mut self, name: &str) -> HostId {
        let seed = self.seed ^ (self.hosts.len() as u64 + 1).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        let config =
            HostConfig { name: name.to_owned(), seed: Some(seed), pool_buffers: 1024, ..HostConfig::default() };
        match Host::new(&config, Clock::sim(&self.clock)) {
            Ok(host) => self.hosts.push(Rc::new(host)),
            Err(error) => panic!("{name}: {error}"),
        }
        HostId(self.hosts.len() - 1)
    }

    /// Links two hosts. `impairment` has the options of `impair(...)`, as in `loss=1%,delay=10ms`,
    /// or is empty. `wrapper` is a wrapper for the port of `a`, as in `tracer(file=x.pcapng)`, or
    /// is empty.
    ///
    /// # Errors
    /// Returns the errors of [`Host::add_port`].
    pub fn link(&mut self, a: End, b: End, impairment: &str, wrapper: &str) -> Result<(), AddPortError> {
        let name = format!("l{}", self.links);
        self.links += 1;
        for (side, end) in [a, b].into_iter().enumerate() {
            let seed = self.seed.wrapping_mul(31).wrapping_add((2 * self.links + side) as u64) & 0xffff_ffff;
            let mut spec = format!("pair:{name}");
            if !impairment.is_empty() {
                spec = format!("impair({impairment},seed={seed}):{spec}");
            }
            if !wrapper.is_empty() && side == 0 {
                spec = format!("{wrapper}:{spec}");
            }
            let addresses = vec![IfaceAddr { addr: end.addr, len: end.len }];
            let config = IfaceConfig { addresses, ..IfaceConfig::on(&spec) };
            self.hosts[end.host.0].add_port(&config, &self.pairs)?;
        }
        Ok(())
    }

    /// Returns a host, to configure it or make calls on it.
    pub fn host(&self, id: HostId) -> &Host<Up> {
        &self.hosts[id.0]
    }

    /// Returns a handle of a host, on which tasks can open sockets.
    pub fn handle(&self, id: HostId) -> Rc<Host<Up>> {
        self.hosts[id.0].clone()
    }

    /// Runs a control command on a host and returns its output.
    ///
    /// # Errors
    /// Returns a message if the command is unknown or failed.
    #[cfg(feature = "commands")]
    pub fn say(&self, host: HostId, words: &[&str]) -> Result<String, String> {
        commands::host::run(self.host(host), &self.pairs, words, false).map_err(|why| why.to_string())
    }

    /// Returns the current virtual time.
    pub fn now(&self) -> Instant {
        self.clock.now()
    }

    /// Advances the virtual time by `span`; every event is processed at its own instant.
    ///
    /// # Panics
    /// Panics if frames are produced endlessly at one instant, for example by a broadcast in a loop
    /// of switches.
    pub fn run_for(&self, span: Duration) {
        self.run_beside(span, &mut []);
    }

    /// Advances the virtual time by `span`, running the programs of each host.
    fn run_beside(&self, span: Duration, programs: &mut [HostPrograms<'_>]) {
        let end = self.now().after(span);
        loop {
            let next = self.run_until_idle(programs);
            match next {
                Some(next) if next <= end => self.clock.advance_to(next.max(self.now().after(Duration::from_nanos(1)))),
                _ => break,
            }
        }
        self.clock.advance_to(end);
        self.run_until_idle(programs);
    }

    /// Steps all hosts and switches until nothing changes at this instant. Returns the time of the
    /// next event.
    fn run_until_idle(&self, programs: &mut [HostPrograms<'_>]) -> Option<Instant> {
        let mut quiet = 0;
        for _ in 0..ROUNDS_MAX {
            let steps: Vec<_> = self.hosts.iter().map(|host| host.step()).collect();
            let switched: Vec<_> = self.switches.iter().map(Switch::step).collect();
            let served = self.serve() + self.tasks.run();
            let turns = programs.iter_mut().zip(&self.hosts).map(|(program, host)| program.turn(host, self.now()));
            let served = served + turns.sum::<usize>();
            let rests = steps.iter().all(|step| step.frames == 0) && switched.iter().all(|step| step.frames == 0);
            quiet = if served == 0 && rests { quiet + 1 } else { 0 };
            // Two rounds without activity are required, because a link may release frames in the
            // first of them for a host that was stepped earlier in the same round.
            if quiet == 2 {
                let timers = steps.iter().filter_map(|step| step.next).chain(switched.iter().map(|step| step.next));
                let now = self.now();
                let timers = timers.chain(programs.iter().filter_map(|program| program.next(now)));
                return timers.chain(self.hosts.iter().filter_map(|host| host.next_arrival())).min();
            }
        }
        panic!(
            "the world does not become idle at {:?}: frames are produced, or a task wakes itself, without end",
            self.now()
        );
    }

    /// Runs each service of each host once. Returns the number of datagrams processed.
    fn serve(&self) -> usize {
        let World { hosts, services, buffer, .. } = self;
        let (mut served, buffer) = (0, &mut *buffer.borrow_mut());
        for (host, services) in hosts.iter().zip(services).filter(|(_, services)| !services.is_empty()) {
            buffer.resize(LONGEST, 0);
            let calls = host.shared_calls();
            served += services.iter().map(|service| service.serve(&calls, buffer)).sum::<usize>();
        }
        served
    }

    /// Returns the hosts, in the order in which they were added.
    pub fn hosts(&self) -> impl Iterator<Item = HostId> + use<> {
        (0..self.hosts.len()).map(HostId)
    }

    /// Returns the switch called `name`, to configure or query it.
    pub fn switch_named(&self, name: &str) -> Option<&Switch> {
        self.switches.iter().find(|switch| switch.name == name)
    }

    /// Ends the simulation: drops queued frames, and returns the audit results of each host and
    /// then of each switch.
    pub fn end(self) -> Vec<Outcome> {
        self.tasks.clear();
        self.hosts.iter().map(|host| node::run::end(host)).chain(self.switches.iter().map(Switch::outcome)).collect()
    }

    /// Returns the hosts and switches that have unaccounted frames, with their number; empty unless
    /// there is a bug.
    pub fn imbalances(&self) -> Vec<(String, i64)> {
        let of_host = |host: &Rc<Host<Up>>| (host.stack.name.clone(), host.audit().imbalance());
        let of_switch = |switch: &Switch| (switch.name.clone(), switch.audit().imbalance().iter().sum());
        let all = self.hosts.iter().map(of_host).chain(self.switches.iter().map(of_switch));
        all.filter(|(_, imbalance)| *imbalance != 0).collect()
    }
}
