//! Members of a switch: the ports by number, the loops that poll them, and the mapping of names to
//! devices.
//!
//! A device is one member, and each of its queues is polled by one loop, so that two loops never
//! poll the same queue. `packet:x0` and `xdp:x0` are the same device. `xdp(queue=0):x0` and
//! `xdp(queue=1):x0` are two queues of one device, which share the number, the addresses and the
//! settings of the member.

use bridge::{Carrier, Duplex, Link, PortNo};
use dispatch::polling::{Loops, Taken};
use port::os::link;
use port::spec::Kind;
use port::{Caps, OpenError, Port, PortCounts, Spec, SpecError};
use std::fmt;
use std::sync::Arc;

/// Reason why a port was not added.
#[derive(Debug)]
pub enum AddError {
    /// The port specification is invalid.
    Spec(SpecError),
    /// The port could not be opened.
    Open(OpenError),
    /// The port carries IP packets without Ethernet headers, by which a bridge forwards.
    NotEthernet(String),
    /// The port is already polled by a loop.
    Taken(Taken),
    /// The bridge already has the maximum number of ports.
    TooMany(usize),
    /// The switch has no loop with the given number (first field); the second field is its number
    /// of loops.
    NoLoop(usize, usize),
    /// Each queue of a port needs a loop of its own, and no loop is left.
    NoLoopLeft {
        /// Specification of the queue.
        port: String,
        /// Number of loops of the switch.
        loops: usize,
    },
}

impl fmt::Display for AddError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            AddError::Spec(error) => error.fmt(f),
            AddError::Open(error) => error.fmt(f),
            AddError::NotEthernet(port) => {
                write!(f, "{port}: a TUN device has no Ethernet addresses and cannot be in a bridge; use tap:NAME")
            }
            AddError::Taken(error) => error.fmt(f),
            AddError::TooMany(most) => write!(f, "too many ports: a bridge has at most {most}"),
            AddError::NoLoop(number, loops) => write!(f, "no loop {number}: the switch has {loops}, numbered from 0"),
            AddError::NoLoopLeft { port, loops } => write!(
                f,
                "{port}: each queue of a port needs its own loop, and all {loops} loops have a queue; increase --loops"
            ),
        }
    }
}

impl std::error::Error for AddError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            AddError::Spec(error) => error.source(),
            AddError::Open(error) => error.source(),
            AddError::Taken(error) => error.source(),
            _ => None,
        }
    }
}

impl From<SpecError> for AddError {
    fn from(error: SpecError) -> AddError {
        AddError::Spec(error)
    }
}

impl From<OpenError> for AddError {
    fn from(error: OpenError) -> AddError {
        AddError::Open(error)
    }
}

impl From<Taken> for AddError {
    fn from(error: Taken) -> AddError {
        AddError::Taken(error)
    }
}

/// A queue of a member, which one loop polls. Most members have one queue.
#[derive(Debug, Clone)]
pub struct Queue {
    /// Full specification of the port.
    pub spec: String,
    /// Number of the loop that polls the queue.
    pub thread: usize,
    /// Counters of the queue.
    pub counts: Arc<PortCounts>,
}

/// A member of the switch.
#[derive(Debug, Clone)]
pub struct Info {
    /// Name of the member, which is the part of the port specification after the last colon.
    pub name: String,
    /// Capabilities of the port.
    pub caps: Caps,
    /// Simulated network card of a `nic` port; `None` for other ports.
    pub nic: Option<Arc<port::nic::Nic>>,
    /// Queues of the port, at least one.
    pub queues: Vec<Queue>,
    /// Name of the device, unique among the members of the bridge.
    device: String,
    /// (name of the kernel interface that provides the link state, whether its speed is
    /// meaningful). The speed of a TAP device is not meaningful. `None` if there is no kernel
    /// interface.
    interface: Option<(String, bool)>,
}

impl Info {
    /// Returns the full specifications of the member's queues, separated by blanks.
    pub fn spec(&self) -> String {
        let specs: Vec<&str> = self.queues.iter().map(|queue| queue.spec.as_str()).collect();
        specs.join(" ")
    }

    /// Returns the number of the loop that polls the first queue. Other threads send frames for the
    /// member to this loop.
    pub fn thread(&self) -> usize {
        self.queues.first().map_or(0, |queue| queue.thread)
    }

    /// Returns the numbers of the loops that poll the member, as in `0` or `0,1`.
    pub fn loops(&self) -> String {
        let threads: Vec<String> = self.queues.iter().map(|queue| queue.thread.to_string()).collect();
        threads.join(",")
    }

    /// Returns whether `thread` polls one of the member's queues.
    pub fn is_polled_by(&self, thread: usize) -> bool {
        self.queues.iter().any(|queue| queue.thread == thread)
    }

    /// Returns the state of the link and of the carrier. If the driver does not report its state,
    /// the link is treated as up.
    pub fn link(&self) -> (Link, Carrier) {
        let carrier = |up: bool| if up { Carrier::Up } else { Carrier::None };
        let (carrier, speed_kbps, duplex) = match (&self.nic, &self.interface) {
            (Some(nic), _) => (carrier(nic.is_up()), nic.settings.bits_a_second().unwrap_or(0) / 1000, Duplex::Full),
            (None, Some((name, has_speed))) => match link::status(name) {
                Ok(status) => {
                    let kbps = status.speed_mbps.filter(|_| *has_speed).map_or(0, |mbps| u64::from(mbps) * 1000);
                    let carrier = if status.admin_up { carrier(status.up) } else { Carrier::Down };
                    (carrier, kbps, if status.half_duplex { Duplex::Half } else { Duplex::Full })
                }
                // The interface of a TAP may be in another network namespace, where this process
                // cannot read its state. If the interface is removed, the port ends.
                Err(_) => (Carrier::Up, 0, Duplex::Full),
            },
            (None, None) => {
                let is_up = self.queues.iter().all(|queue| queue.counts.link.is_up());
                (carrier(is_up), 0, Duplex::Full)
            }
        };
        (if carrier == Carrier::Up { Link::Up { duplex, speed_kbps } } else { Link::Down }, carrier)
    }
}

/// Assignment of a port to a loop and a member.
#[derive(Debug)]
pub(super) struct Slot {
    /// Loop that polls the port.
    pub thread: usize,
    /// Member to which the port adds a queue; `None` if the port becomes a new member.
    pub beside: Option<PortNo>,
    device: String,
    /// Name of the port in the registry of loops.
    key: String,
}

#[derive(Default)]
pub(super) struct Members {
    /// Members by number; `None` for a free slot.
    infos: Vec<Option<Info>>,
    loops: Loops,
}

impl Members {
    /// Assigns the port `name` to loop `thread` and registers it. If `thread` is `None`, selects
    /// the loop with the fewest ports among the `loops` loops.
    pub fn place(&mut self, name: &str, thread: Option<usize>, loops: usize) -> Result<Slot, AddError> {
        if let Some(thread) = thread.filter(|thread| *thread >= loops) {
            return Err(AddError::NoLoop(thread, loops));
        }
        let spec = Spec::parse(name).ok();
        let device = spec.as_ref().and_then(Spec::device).unwrap_or_else(|| name.to_string());
        let numbered = (0..).zip(&self.infos);
        let there = numbered.filter_map(|(number, info)| Some((number, info.as_ref()?)));
        let mut key = device.clone();
        let (mut beside, mut free) = (None, thread);
        if let Some((number, info)) = there.into_iter().find(|(_, info)| info.device == device) {
            let is_beside = |queue: &Queue| {
                let other = Spec::parse(&queue.spec).ok();
                spec.as_ref().zip(other.as_ref()).is_some_and(|(one, other)| one.is_queue_beside(other))
            };
            if !info.queues.iter().all(is_beside) {
                return Err(Taken { port: name.to_string(), by: info.thread() }.into());
            }
            key = format!("{device}#{}", info.queues.len());
            let mut unused = (0..loops).filter(|thread| !info.is_polled_by(*thread));
            free = thread
                .filter(|thread| !info.is_polled_by(*thread))
                .or_else(|| unused.next().filter(|_| thread.is_none()));
            if free.is_none() {
                return Err(AddError::NoLoopLeft { port: name.to_string(), loops });
            }
            beside = Some(number);
        }
        let thread = free.unwrap_or_else(|| self.loops.lightest(loops));
        self.loops.register(&key, thread)?;
        Ok(Slot { thread, beside, device, key })
    }

    /// Releases the slot of a port that could not be opened.
    pub fn give_up(&mut self, slot: &Slot) {
        self.loops.deregister(&slot.key);
    }

    /// Registers a port that was assigned to a loop, and returns its number. Returns an error if
    /// the switch already has `most` ports.
    pub fn slot(&mut self, port: &Port, slot: &Slot, most: usize) -> Result<PortNo, AddError> {
        let queue = Queue { spec: port.spec.clone(), thread: slot.thread, counts: port.counts.clone() };
        if let Some(number) = slot.beside {
            if let Some(Some(info)) = self.infos.get_mut(usize::from(number)) {
                info.queues.push(queue);
            }
            return Ok(number);
        }
        let free = self.infos.iter().position(Option::is_none).unwrap_or(self.infos.len());
        let Some(number) = PortNo::try_from(free).ok().filter(|_| free < most) else {
            self.give_up(slot);
            return Err(AddError::TooMany(most));
        };
        if free == self.infos.len() {
            self.infos.push(None);
        }
        let interface = Spec::parse(&port.spec).ok().and_then(|spec| match spec.port.kind {
            Kind::Tap => Some((port.name.clone(), false)),
            Kind::Packet | Kind::Xdp => Some((port.name.clone(), true)),
            _ => None,
        });
        if let Some(place) = self.infos.get_mut(free) {
            *place = Some(Info {
                name: port.name.clone(),
                caps: port.caps,
                nic: port.nic.clone(),
                queues: vec![queue],
                device: slot.device.clone(),
                interface,
            });
        }
        Ok(number)
    }

    /// Unregisters a member.
    pub fn leave(&mut self, number: PortNo) -> Option<Info> {
        let info = self.infos.get_mut(usize::from(number)).and_then(Option::take)?;
        self.loops.deregister(&info.device);
        (1..info.queues.len()).for_each(|at| _ = self.loops.deregister(&format!("{}#{at}", info.device)));
        Some(info)
    }

    /// Returns the number of slots for members, including free ones.
    pub fn places(&self) -> usize {
        self.infos.len()
    }

    /// Returns the members with their port numbers, in ascending order.
    pub fn list(&self) -> Vec<(PortNo, Info)> {
        let numbered = self.infos.iter().zip(0..);
        numbered.filter_map(|(info, number)| Some((number, info.clone()?))).collect()
    }
}
