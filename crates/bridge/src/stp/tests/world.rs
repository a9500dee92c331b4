//! Networks of bridges on virtual time, with delayed links, shared segments and failures. After
//! every event, the forwarding ports are checked for loops.

use super::*;
use crate::PortState;
use std::cmp::Reverse;
use std::collections::BinaryHeap;
use wire::Mac;
use wire::bpdu::BridgeId;

/// Random numbers from a seed (splitmix64).
pub struct Rng(pub u64);

impl Rng {
    pub fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    pub fn below(&mut self, n: usize) -> usize {
        (self.next() % n as u64) as usize
    }
}

pub struct Bridge {
    pub stp: Stp,
    pub alive: bool,
    /// State of each port, and the segment to which it is connected.
    pub ports: Vec<(PortState, usize)>,
    pub flushes: usize,
    pub short_ageings: usize,
    due: Instant,
}

pub struct Segment {
    pub ends: Vec<(usize, PortNo)>,
    /// True if the ports have carrier.
    pub carrier: bool,
    /// True if the segment passes frames.
    pub passes: bool,
    /// Bridge whose frames are lost on the segment; `None` if there is no such bridge.
    pub deaf_to: Option<usize>,
    pub duplex: Duplex,
    pub delay: Duration,
}

pub struct World {
    pub now: Instant,
    pub bridges: Vec<Bridge>,
    pub segments: Vec<Segment>,
    pub loops: Vec<Instant>,
    pub frames: u64,
    /// True if a segment passes frames again, without a link event at its ports.
    pub joined: bool,
    wire: BinaryHeap<Reverse<Travelling>>,
}

/// A frame in transit: arrival time, sequence number, destination bridge and port, bytes.
type Travelling = (Instant, u64, usize, PortNo, Vec<u8>);

pub fn secs(secs: u64) -> Duration {
    Duration::from_secs(secs)
}

impl World {
    pub fn new() -> World {
        World {
            now: Instant::from_millis(10_000),
            bridges: Vec::new(),
            segments: Vec::new(),
            loops: Vec::new(),
            frames: 0,
            joined: false,
            wire: BinaryHeap::new(),
        }
    }

    /// Adds a bridge. Its address ends in its index plus one. Its seconds begin `phase_ms`
    /// milliseconds after those of the network.
    pub fn bridge(&mut self, priority: u16, version: StpVersion, phase_ms: u64) -> usize {
        let n = self.bridges.len();
        let config = StpConfig { address: address(n), priority, version, ..StpConfig::default() };
        let begun = Instant::from_millis(9_000 + phase_ms % 1000);
        let stp = Stp::new(config, begun).unwrap();
        let due = Instant::ZERO;
        self.bridges.push(Bridge { stp, alive: true, ports: Vec::new(), flushes: 0, short_ageings: 0, due });
        n
    }

    /// Connects two bridges by a link, or more bridges by a shared segment.
    pub fn connect(&mut self, bridges: &[usize], duplex: Duplex, delay: Duration) -> usize {
        self.connect_as(bridges, duplex, delay, StpPort::default())
    }

    pub fn connect_as(&mut self, bridges: &[usize], duplex: Duplex, delay: Duration, requested: StpPort) -> usize {
        let segment = self.segments.len();
        let mut ends = Vec::new();
        for bridge in bridges {
            let b = &mut self.bridges[*bridge];
            let no = b.ports.len() as PortNo;
            b.ports.push((PortState::Discarding, segment));
            b.stp.add_port(no, requested, self.now).unwrap();
            ends.push((*bridge, no));
        }
        self.segments.push(Segment { ends, carrier: false, passes: true, deaf_to: None, duplex, delay });
        segment
    }

    pub fn start(&mut self) {
        for segment in 0..self.segments.len() {
            self.set_carrier(segment, true);
        }
    }

    pub fn set_carrier(&mut self, segment: usize, carrier: bool) {
        self.segments[segment].carrier = carrier;
        for (bridge, port) in self.segments[segment].ends.clone() {
            self.settle_link(bridge, port);
        }
        self.check();
    }

    fn settle_link(&mut self, bridge: usize, port: PortNo) {
        let segment = &self.segments[self.bridges[bridge].ports[usize::from(port)].1];
        // A link loses its carrier when the bridge at the other end fails; a hub stays up.
        let peers = segment.ends.iter().filter(|(b, _)| self.bridges[*b].alive).count();
        let up = segment.carrier && (segment.ends.len() != 2 || peers == 2 || segment.duplex == Duplex::Half);
        let link = if up { Link::Up { duplex: segment.duplex, speed_kbps: 1_000_000 } } else { Link::Down };
        if self.bridges[bridge].alive {
            self.bridges[bridge].stp.set_link(port, link, self.now);
            self.drain(bridge);
        }
    }

    /// Removes a bridge, or adds it back in its initial state.
    pub fn set_alive(&mut self, bridge: usize, alive: bool) {
        if self.bridges[bridge].alive == alive {
            return;
        }
        self.bridges[bridge].alive = alive;
        if alive {
            let config = *self.bridges[bridge].stp.config();
            let requested: Vec<_> = self.bridges[bridge].stp.ports().map(|port| port.requested).collect();
            let mut stp = Stp::new(config, self.now).unwrap();
            for (no, requested) in requested.into_iter().enumerate() {
                stp.add_port(no as PortNo, requested, self.now).unwrap();
            }
            self.bridges[bridge].stp = stp;
        } else {
            self.bridges[bridge].ports.iter_mut().for_each(|(state, _)| *state = PortState::Discarding);
        }
        let segments: Vec<usize> = self.bridges[bridge].ports.iter().map(|(_, segment)| *segment).collect();
        for segment in segments {
            for (bridge, port) in self.segments[segment].ends.clone() {
                self.settle_link(bridge, port);
            }
        }
        self.check();
    }

    pub fn set_priority(&mut self, bridge: usize, priority: u16) {
        if self.bridges[bridge].alive {
            self.bridges[bridge].stp.set_priority(priority, self.now).unwrap();
            self.drain(bridge);
            self.check();
        }
    }

    /// Carries out the effects of a bridge.
    pub fn drain(&mut self, bridge: usize) {
        let b = &mut self.bridges[bridge];
        b.due = b.stp.poll(self.now).unwrap_or(Instant::NEVER);
        while let Some(effect) = b.stp.next_effect() {
            match effect {
                Effect::State(port, state) => {
                    if std::env::var("STP_TRACE").is_ok() {
                        println!(
                            "{:?} bridge {bridge} port {port} segment {}: {state:?} {:?}",
                            self.now,
                            b.ports[usize::from(port)].1,
                            b.stp.port(port).map(|p| p.role)
                        );
                    }
                    b.ports[usize::from(port)].0 = state;
                }
                Effect::Flush(_) => b.flushes += 1,
                Effect::Ageing(_, age) => b.short_ageings += usize::from(age.is_some()),
                Effect::Transmit(port, bpdu) => {
                    let segment = &self.segments[b.ports[usize::from(port)].1];
                    if !segment.carrier || !segment.passes || segment.deaf_to == Some(bridge) {
                        continue;
                    }
                    let frame = bpdu.emit_frame(address(bridge)).to_vec();
                    for (other, no) in segment.ends.iter().filter(|end| **end != (bridge, port)) {
                        self.frames += 1;
                        let at = self.now.after(segment.delay);
                        self.wire.push(Reverse((at, self.frames, *other, *no, frame.clone())));
                    }
                }
            }
        }
    }

    /// Runs the events up to `end`.
    pub fn run_until(&mut self, end: Instant) {
        loop {
            let due = self.bridges.iter().enumerate().filter(|(_, b)| b.alive).map(|(n, b)| (b.due, n)).min();
            let arrives = self.wire.peek().map(|Reverse((at, ..))| *at);
            let next = due.map(|(at, _)| at).into_iter().chain(arrives).min().filter(|at| *at <= end);
            let Some(next) = next else { break };
            self.now = self.now.max(next);
            if arrives == Some(next) {
                let Some(Reverse((_, _, bridge, port, frame))) = self.wire.pop() else { break };
                if self.bridges[bridge].alive {
                    self.bridges[bridge].stp.on_bpdu(port, &frame, self.now);
                    self.drain(bridge);
                }
            } else if let Some((_, bridge)) = due {
                self.drain(bridge);
            }
            self.check();
        }
        self.now = end;
    }

    pub fn run(&mut self, time: Duration) {
        self.run_until(self.now.after(time));
    }

    /// Records the current time if the forwarding ports form a loop.
    fn check(&mut self) {
        let mut sets = Sets::new(self.bridges.len() + self.segments.len());
        let looped = self.forwarding().any(|(bridge, segment)| !sets.join(bridge, segment));
        if looped {
            if self.loops.is_empty() && std::env::var("STP_TRACE").is_ok() {
                println!("{:?} LOOP", self.now);
                self.print();
            }
            self.loops.push(self.now);
        }
    }

    /// Returns the bridge and the segment of each forwarding port; segments are numbered after the
    /// bridges.
    fn forwarding(&self) -> impl Iterator<Item = (usize, usize)> {
        let all = self.bridges.iter().enumerate().filter(|(_, b)| b.alive);
        let all = all.flat_map(|(n, b)| b.ports.iter().map(move |port| (n, port)));
        all.filter(|(_, (state, segment))| {
            *state == PortState::Forwarding && self.segments[*segment].carrier && self.segments[*segment].passes
        })
        .map(|(n, (_, segment))| (n, self.bridges.len() + segment))
    }

    /// Checks that each connected set of bridges has one tree, with the best bridge as its root.
    pub fn spans(&self) -> Result<(), String> {
        let n = self.bridges.len();
        let mut wired = Sets::new(n + self.segments.len());
        for (at, segment) in self.segments.iter().enumerate().filter(|(_, s)| s.carrier && s.passes) {
            for (bridge, _) in segment.ends.iter().filter(|(b, _)| self.bridges[*b].alive) {
                wired.join(*bridge, n + at);
            }
        }
        let mut tree = Sets::new(n + self.segments.len());
        for (bridge, segment) in self.forwarding() {
            if !tree.join(bridge, segment) {
                return Err("a loop".into());
            }
        }
        for a in (0..n).filter(|a| self.bridges[*a].alive) {
            let together: Vec<usize> =
                (0..n).filter(|b| self.bridges[*b].alive && wired.find(*b) == wired.find(a)).collect();
            let best = together.iter().map(|b| self.bridges[*b].stp.view().bridge).min().unwrap();
            let root: BridgeId = self.bridges[a].stp.view().root;
            if root != best {
                return Err(format!("bridge {a} has root {root}, not {best}"));
            }
            if let Some(apart) = together.iter().find(|b| tree.find(**b) != tree.find(a)) {
                return Err(format!("{a} and {apart} are apart"));
            }
        }
        Ok(())
    }

    /// Runs for the time `long`. Returns the time after which one tree spanned the network
    /// permanently. The resolution is 1 ms at first, then 10 ms, and 100 ms after a second.
    pub fn settles_in(&mut self, long: Duration) -> Result<Duration, String> {
        let begun = self.now;
        let mut last_bad = Duration::ZERO;
        let mut verdict = Ok(());
        while self.now.since(begun) < long {
            let step_ms = [(50, 1), (1000, 10)].iter().find(|(till, _)| self.now.since(begun).as_millis() < *till);
            self.run(Duration::from_millis(step_ms.map_or(100, |(_, step)| *step)));
            verdict = self.spans();
            if verdict.is_err() {
                last_bad = self.now.since(begun);
            }
        }
        verdict.map(|()| last_bad)
    }

    pub fn unsettled(&self) -> u64 {
        self.bridges.iter().map(|b| b.stp.view().unsettled).sum()
    }

    pub fn print(&self) {
        for (n, b) in self.bridges.iter().enumerate() {
            println!("bridge {n} alive {} {:?}", b.alive, b.stp.view());
            for port in b.stp.ports() {
                println!(
                    "  port {} segment {} {:?} {:?} {:?}",
                    port.port,
                    b.ports[usize::from(port.port)].1,
                    port.role,
                    port.state,
                    port.designated
                );
            }
        }
    }
}

pub fn address(bridge: usize) -> Mac {
    Mac([2, 0, 0, 0, 0, bridge as u8 + 1])
}

/// Disjoint sets (union-find).
struct Sets(Vec<usize>);

impl Sets {
    fn new(n: usize) -> Sets {
        Sets((0..n).collect())
    }

    fn find(&self, mut of: usize) -> usize {
        while self.0[of] != of {
            of = self.0[of];
        }
        of
    }

    /// Merges two sets. Returns `false` if they are the same set.
    fn join(&mut self, a: usize, b: usize) -> bool {
        let (a, b) = (self.find(a), self.find(b));
        self.0[a] = b;
        a != b
    }
}
