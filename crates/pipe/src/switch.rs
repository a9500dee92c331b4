//! `switch`: an Ethernet switch over ports of one process: learns sources, forwards to where they are, floods what it does not know.
//!
//! The table is bounded and ages (IEEE 802.1Q 8.8); group addresses are not learned, 01-80-C2-00-00-0X is not forwarded (8.6.3). A frame
//! that goes to one port moves as it is; flooding copies. What arrives leaves, or ends under a name in [`Counts`].

use buf::{Burst, Frame};
use clock::{Duration, Instant};
use port::{Port, RxHalf, TxHalf};
use std::collections::HashMap;
use std::io;
use std::time;
use wire::{Mac, eth};

/// How long an entry lasts that is not seen again (IEEE 802.1Q table 8-6).
pub const AGE: Duration = Duration::from_secs(300);
/// Entries of the table.
pub const ENTRIES: usize = 8192;
/// Frames taken from a port before another has its turn.
const BURST: usize = 64;
/// Between two looks at a port that nothing announces.
const LOOK: time::Duration = time::Duration::from_micros(50);
/// The longest sleep, so that a request to stop is seen.
const NAP: time::Duration = time::Duration::from_millis(50);
/// Turns in which a port that is over may still take what waits for it.
const PATIENCE: usize = 2000;

/// What a frame ends as.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Verdict {
    /// Through this port.
    To(usize),
    /// Through all others.
    Flood,
    /// Nowhere: its destination is where it came from.
    Same,
    /// Nowhere: a group that no switch forwards.
    Reserved,
    /// Nowhere: its source is a group, or it is no frame.
    Bad,
}

/// Where addresses were seen.
#[derive(Debug)]
pub struct Fdb {
    /// Keyed by chance: addresses are a stranger's.
    table: HashMap<Mac, (usize, Instant)>,
    entries: usize,
    age: Duration,
    swept: Instant,
    full: u64,
    moved: u64,
}

impl Fdb {
    /// A table of so many entries, which last so long.
    pub fn new(entries: usize, age: Duration) -> Fdb {
        Fdb { table: HashMap::new(), entries, age, swept: Instant::ZERO, full: 0, moved: 0 }
    }

    /// Learns the source of a frame that came through port `from`, and says where it goes.
    pub fn decide(&mut self, from: usize, frame: &[u8], now: Instant) -> Verdict {
        let Ok(header) = eth::Header::parse(frame) else { return Verdict::Bad };
        if header.src.is_multicast() {
            return Verdict::Bad;
        }
        if header.dst.is_link_local_group() {
            return Verdict::Reserved;
        }
        self.learn(header.src, from, now);
        if header.dst.is_multicast() {
            return Verdict::Flood;
        }
        match self.lookup(header.dst, now) {
            Some(to) if to == from => Verdict::Same,
            Some(to) => Verdict::To(to),
            None => Verdict::Flood,
        }
    }

    fn lookup(&self, mac: Mac, now: Instant) -> Option<usize> {
        let (port, seen) = self.table.get(&mac)?;
        (now.since(*seen) < self.age).then_some(*port)
    }

    fn learn(&mut self, mac: Mac, from: usize, now: Instant) {
        if let Some((port, seen)) = self.table.get_mut(&mac) {
            self.moved += u64::from(*port != from);
            (*port, *seen) = (from, now);
            return;
        }
        // Sweeping costs as much as the table has entries: no more than once a second.
        if self.table.len() >= self.entries && now.since(self.swept) >= Duration::from_secs(1) {
            self.swept = now;
            let age = self.age;
            self.table.retain(|_, (_, seen)| now.since(*seen) < age);
        }
        if self.table.len() < self.entries {
            self.table.insert(mac, (from, now));
        } else {
            self.full += 1;
        }
    }

    /// Addresses it knows; how often there was no place for one; how often one moved.
    pub fn counts(&self) -> (usize, u64, u64) {
        (self.table.len(), self.full, self.moved)
    }
}

/// What a port did.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Counts {
    /// Frames received: each ends as one of the next six.
    pub received: u64,
    /// Sent through one other port.
    pub forwarded: u64,
    /// Through all others.
    pub flooded: u64,
    /// Destination is here.
    pub same: u64,
    /// A group that no switch forwards.
    pub reserved: u64,
    /// The source is a group, or it is no frame.
    pub bad: u64,
    /// Frames given to this port: each ends as one of the next three, or waits.
    pub given: u64,
    /// Taken by the port.
    pub sent: u64,
    /// Dropped: the port was full, or over.
    pub full: u64,
    /// Dropped: no buffer for a copy.
    pub no_buffer: u64,
}

struct Member {
    name: String,
    rx: Box<dyn RxHalf>,
    tx: Box<dyn TxHalf>,
    out: Burst,
    counts: Counts,
}

impl Member {
    fn is_over(&self) -> bool {
        self.rx.is_gone() || self.rx.is_silent()
    }

    fn give(&mut self, frame: Frame) {
        self.counts.given += 1;
        if self.out.push(frame).is_err() {
            self.counts.full += 1;
        }
    }

    fn flush(&mut self, now: Instant) {
        self.tx.poll(now);
        if !self.out.is_empty() {
            self.counts.sent += self.tx.tx_burst(&mut self.out, now) as u64;
        }
    }
}

/// A switch.
pub struct Switch {
    members: Vec<Member>,
    fdb: Fdb,
    burst: Burst,
}

impl Switch {
    /// Over `ports`, with `fdb`.
    pub fn new(ports: Vec<Port>, fdb: Fdb) -> Switch {
        let member = |port: Port| Member {
            name: port.spec,
            rx: port.rx,
            tx: port.tx,
            out: Burst::new(),
            counts: Counts::default(),
        };
        Switch { members: ports.into_iter().map(member).collect(), fdb, burst: Burst::new() }
    }

    /// One burst from each port; says how many frames came.
    pub fn turn(&mut self, now: Instant) -> usize {
        let mut came = 0;
        for from in 0..self.members.len() {
            let Some(member) = self.members.get_mut(from) else { continue };
            let got = member.rx.rx_burst(&mut self.burst, BURST, now);
            member.counts.received += got as u64;
            came += got;
            let mut burst = std::mem::take(&mut self.burst);
            burst.drain().for_each(|frame| self.forward(from, frame, now));
            self.burst = burst;
            // Before the next burst: what was staged has room then.
            self.members.iter_mut().for_each(|member| member.flush(now));
        }
        came
    }

    fn forward(&mut self, from: usize, frame: Frame, now: Instant) {
        let verdict = self.fdb.decide(from, frame.bytes(), now);
        let Some(counts) = self.members.get_mut(from).map(|member| &mut member.counts) else { return };
        match verdict {
            Verdict::To(_) => counts.forwarded += 1,
            Verdict::Flood => counts.flooded += 1,
            Verdict::Same => counts.same += 1,
            Verdict::Reserved => counts.reserved += 1,
            Verdict::Bad => counts.bad += 1,
        }
        match verdict {
            Verdict::To(to) => self.members.get_mut(to).map_or((), |member| member.give(frame)),
            Verdict::Flood => self.flood(from, frame),
            Verdict::Same | Verdict::Reserved | Verdict::Bad => {}
        }
    }

    fn flood(&mut self, from: usize, frame: Frame) {
        let others = self.members.iter_mut().enumerate().filter(|(at, _)| *at != from).map(|(_, member)| member);
        for member in others {
            match frame.try_clone() {
                Some(copy) => member.give(copy),
                None => {
                    member.counts.given += 1;
                    member.counts.no_buffer += 1;
                }
            }
        }
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
        for member in &self.members {
            if !member.out.is_empty() || member.tx.held() > 0 {
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
            self.members.iter_mut().for_each(|member| member.flush(clock.now()));
            if self.members.iter().all(|member| member.out.is_empty() && member.tx.held() == 0) {
                break;
            }
            dispatch::wait_readable(&[], Some(LOOK))?;
        }
        for member in &mut self.members {
            member.counts.full += member.out.len() as u64;
            member.out.clear();
        }
        Ok(())
    }

    /// Each port's name and counts.
    pub fn counts(&self) -> impl Iterator<Item = (&str, Counts)> {
        self.members.iter().map(|member| (member.name.as_str(), member.counts))
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
            "{:>10} {:>10} {:>10} {:>8} {:>8} {:>8} {:>10} {:>10} {:>8} {:>9}  port",
            "received", "forwarded", "flooded", "same", "reserved", "bad", "given", "sent", "full", "no_buffer"
        );
        for (name, c) in self.counts() {
            out += &format!(
                "\n{:>10} {:>10} {:>10} {:>8} {:>8} {:>8} {:>10} {:>10} {:>8} {:>9}  {name}",
                c.received, c.forwarded, c.flooded, c.same, c.reserved, c.bad, c.given, c.sent, c.full, c.no_buffer
            );
        }
        let (known, full, moved) = self.fdb.counts();
        out + &format!("\n{known} addresses known, {moved} moved, {full} not learned: no place")
    }
}

#[cfg(test)]
mod tests;
