//! Origin of a route: the host's configuration, or a routing engine.

use clock::Instant;
use fib::{Note, Stored};
use std::fmt;

/// Routing protocol of a route, numbered as in rtnetlink(7) (`rtm_protocol`). Its `Display` is the
/// name that `ip route` prints, or the number.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Default)]
pub struct Protocol(pub u8);

/// Names of protocols. Sources: rtnetlink(7), and FRR's `etc/iproute2/rt_protos.d`.
const NAMES: [(u8, &str); 18] = [
    (2, "kernel"),
    (3, "boot"),
    (4, "static"),
    (11, "zebra"),
    (42, "babel"),
    (186, "bgp"),
    (187, "isis"),
    (188, "ospf"),
    (189, "rip"),
    (190, "ripng"),
    (191, "nhrp"),
    (192, "eigrp"),
    (193, "ldp"),
    (194, "sharp"),
    (195, "pbr"),
    (196, "zstatic"),
    (197, "openfabric"),
    (198, "srte"),
];

impl Protocol {
    /// Protocol of routes that the kernel of the routing engine has itself, such as those of its
    /// addresses.
    pub const KERNEL: Protocol = Protocol(2);

    /// Returns the protocol with a name or number.
    pub fn parse(text: &str) -> Option<Protocol> {
        let named = NAMES.iter().find(|(_, name)| *name == text).map(|(number, _)| *number);
        named.or_else(|| text.parse().ok()).map(Protocol)
    }
}

impl fmt::Display for Protocol {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match NAMES.iter().find(|(number, _)| *number == self.0) {
            Some((_, name)) => f.pad(name),
            None => self.0.fmt(f),
        }
    }
}

/// Origin of a route: this host's own configuration, or a routing engine.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Origin {
    /// Protocol of a route from a routing engine; 0 for an own route.
    pub protocol: Protocol,
    /// Connection of the routing engine that last announced the route, from 1; 0 for an own route.
    pub generation: u8,
    /// Time of the last change, in seconds of the host's clock; 0 for an own route.
    pub since: u32,
}

impl Origin {
    /// Origin of the host's own routes.
    pub const OWN: Origin = Origin { protocol: Protocol(0), generation: 0, since: 0 };

    /// Returns the origin of a route that a routing engine announces at `now`.
    pub fn engine(protocol: Protocol, generation: u8, now: Instant) -> Origin {
        Origin { protocol, generation, since: (now.nanos() / 1_000_000_000) as u32 }
    }

    /// Returns whether this is the origin of the host's own routes.
    pub fn is_own(self) -> bool {
        self.generation == 0
    }

    pub(super) fn note(self) -> Note {
        Note([u32::from(self.protocol.0) | u32::from(self.generation) << 8, self.since])
    }

    pub(super) fn of(Note([word, since]): Note) -> Origin {
        Origin { protocol: Protocol(word as u8), generation: (word >> 8) as u8, since }
    }
}

/// Numbers of the routes of a routing engine, by protocol and by generation.
#[derive(Debug)]
pub(super) struct Tally {
    pub(super) protocols: [u32; 256],
    pub(super) generations: [u32; 256],
}

impl Default for Tally {
    fn default() -> Tally {
        Tally { protocols: [0; 256], generations: [0; 256] }
    }
}

impl Tally {
    pub(super) fn count(&mut self, stored: Stored, change: impl Fn(u32, u32) -> u32) {
        let Origin { protocol, generation, .. } = Origin::of(stored.note);
        for (counts, at) in [(&mut self.protocols, protocol.0), (&mut self.generations, generation)] {
            counts.iter_mut().skip(at.into()).take(1).for_each(|count| *count = change(*count, 1));
        }
    }
}
