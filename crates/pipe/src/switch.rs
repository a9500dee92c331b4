//! `switch`: an Ethernet switch over ports of one process: learns sources, forwards to where they are, floods what it does not know.
//!
//! A [`Bridge`] decides; here is what it has not: ports, a loop, sleep. What arrives leaves, or ends for a reason, or in [`Counts`].

use bridge::{Bridge, BridgeConfig, FdbConfig};
use buf::Burst;
use clock::Instant;
use port::{Port, RxHalf, TxHalf};
use std::io;
use std::time;

/// Frames taken from a port before another has its turn.
const BURST: usize = 64;
/// Between two looks at a port that nothing announces.
const LOOK: time::Duration = time::Duration::from_micros(50);
/// The longest sleep, so that a request to stop is seen.
const NAP: time::Duration = time::Duration::from_millis(50);
/// Turns in which a port that is over may still take what waits for it.
const PATIENCE: usize = 2000;

/// What a port did.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Counts {
    /// What came through it, and what was given to it: each of those ends as one of the next two, or waits.
    pub bridge: bridge::Counts,
    /// Taken by the port.
    pub sent: u64,
    /// Dropped: the port was full, or over, at the end.
    pub late: u64,
}

struct Member {
    name: String,
    rx: Box<dyn RxHalf>,
    tx: Box<dyn TxHalf>,
    sent: u64,
    late: u64,
}

impl Member {
    fn is_over(&self) -> bool {
        self.rx.is_gone() || self.rx.is_silent()
    }

    fn flush(&mut self, out: &mut Burst, now: Instant) {
        self.tx.poll(now);
        if !out.is_empty() {
            self.sent += self.tx.tx_burst(out, now) as u64;
        }
    }
}

/// A switch.
pub struct Switch {
    members: Vec<Member>,
    bridge: Bridge,
    burst: Burst,
    /// What leaves through each port.
    out: Vec<Burst>,
}

impl Switch {
    /// Over `ports`, with such a table.
    pub fn new(ports: Vec<Port>, fdb: FdbConfig) -> Switch {
        let mut bridge = Bridge::new(BridgeConfig { fdb });
        let out = ports.iter().map(|_| Burst::new()).collect();
        // Who asked for more than `bridge::MAX_PORTS` was told.
        let member = |port: Port| {
            bridge.add(bridge::Member::default())?;
            Some(Member { name: port.spec, rx: port.rx, tx: port.tx, sent: 0, late: 0 })
        };
        Switch { members: ports.into_iter().map_while(member).collect(), bridge, burst: Burst::new(), out }
    }

    /// One burst from each port; says how many frames came.
    pub fn turn(&mut self, now: Instant) -> usize {
        let mut came = 0;
        self.bridge.poll(now);
        for (from, number) in (0..self.members.len()).zip(0..) {
            let Some(member) = self.members.get_mut(from) else { continue };
            came += member.rx.rx_burst(&mut self.burst, BURST, now);
            self.bridge.input(number, &mut self.burst, now, &mut self.out);
            // Before the next burst: what was staged has room then.
            self.flush(now);
        }
        came
    }

    fn flush(&mut self, now: Instant) {
        self.members.iter_mut().zip(&mut self.out).for_each(|(member, out)| member.flush(out, now));
    }

    /// Nothing can come any more.
    pub fn is_over(&self) -> bool {
        self.members.iter().all(Member::is_over)
    }

    /// Sleeps until something may have come.
    ///
    /// # Errors
    /// The system's.
    pub fn wait(&self, now: Instant) -> io::Result<()> {
        let mut timeout = NAP;
        let mut fds = Vec::new();
        for (member, out) in self.members.iter().zip(&self.out) {
            if !out.is_empty() || member.tx.held() > 0 {
                timeout = timeout.min(LOOK);
            }
            let events = [member.rx.next_event(), member.tx.next_event()];
            timeout = events.into_iter().flatten().fold(timeout, |timeout, at| timeout.min(at.since(now)));
            match member.rx.wait_fd() {
                _ if member.is_over() => {}
                Some(fd) => fds.push(fd),
                None => timeout = timeout.min(LOOK),
            }
        }
        dispatch::wait_readable(&fds, Some(timeout)).map(|_| ())
    }

    /// Until `stop` says so, or all ports are over.
    ///
    /// # Errors
    /// The system's.
    pub fn run(&mut self, clock: &clock::Clock, stop: impl Fn() -> bool) -> io::Result<()> {
        while !stop() {
            if self.turn(clock.now()) == 0 {
                if self.is_over() {
                    break;
                }
                self.wait(clock.now())?;
            }
        }
        self.drain(clock)
    }

    /// What still waits to be sent, as long as there is hope.
    fn drain(&mut self, clock: &clock::Clock) -> io::Result<()> {
        for _ in 0..PATIENCE {
            self.flush(clock.now());
            if self.members.iter().zip(&self.out).all(|(member, out)| out.is_empty() && member.tx.held() == 0) {
                break;
            }
            dispatch::wait_readable(&[], Some(LOOK))?;
        }
        for (member, out) in self.members.iter_mut().zip(&mut self.out) {
            member.late += out.len() as u64;
            out.clear();
        }
        Ok(())
    }

    /// Each port's name and counts.
    pub fn counts(&self) -> impl Iterator<Item = (&str, Counts)> {
        let of = |(member, bridge): (&Member, bridge::Counts)| Counts { bridge, sent: member.sent, late: member.late };
        self.members.iter().zip(self.bridge.counts()).map(move |pair| (pair.0.name.as_str(), of(pair)))
    }

    /// What decides.
    pub fn bridge(&self) -> &Bridge {
        &self.bridge
    }

    /// What was wrong with what came in, with the port's name in front.
    pub fn remarks(&self) -> impl Iterator<Item = String> {
        let of = |member: &Member| {
            let name = member.name.clone();
            member.rx.remarks().into_iter().map(move |remark| format!("{name}: {remark}"))
        };
        self.members.iter().flat_map(of)
    }

    /// A table for people.
    pub fn report(&self) -> String {
        let mut out = format!(
            "{:>10} {:>10} {:>10} {:>8} {:>10} {:>10} {:>8}  port",
            "received", "forwarded", "flooded", "dropped", "given", "sent", "late"
        );
        for (name, c) in self.counts() {
            let b = c.bridge;
            out += &format!(
                "\n{:>10} {:>10} {:>10} {:>8} {:>10} {:>10} {:>8}  {name}",
                b.received, b.forwarded, b.flooded, b.dropped, b.given, c.sent, c.late
            );
        }
        for entry in self.bridge.drops().nonzero() {
            out += &format!("\n{:>10} {}: {}", entry.value, entry.name, entry.sentence);
        }
        let (fdb, counts) = (self.bridge.fdb(), self.bridge.fdb().counts());
        out + &format!("\n{} addresses known, {} moved, {} not learned: no place", fdb.len(), counts.moved, counts.full)
    }
}

#[cfg(test)]
mod tests;
