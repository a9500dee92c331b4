//! Stock iperf3 over a TAP device, against a host of ours and against programs with the same task.
//!
//! ```text
//! ours:         iperf3 -c, kernel TCP - TAP - linerate iperf3 -s
//! passt:        iperf3 -c, kernel TCP - TAP - pasta - socket on loopback - iperf3 -s
//! slirp4netns:  iperf3 -c, kernel TCP - TAP - slirp4netns - socket on loopback - iperf3 -s
//! lossy:        iperf3 -c, kernel TCP - TAP - impair, linerate iperf3 -s
//! lossy.kernel: iperf3 -c, kernel TCP - TAP - a router of ours, impair - TAP - kernel TCP, iperf3 -s
//! ```
//!
//! passt and slirp4netns end the guest's TCP in user space, as we do, and hand its bytes to a socket of the kernel; we are the
//! application ourselves. Each stands in a network namespace of its own, in a child that is this program again
//! ([`crate::child`]) and obeys lines: `down SECONDS`, `up SECONDS`.

mod client;
mod place;

pub(crate) use place::{KIND, serve};

use super::shell::is_installed;
use crate::child::{self, Child, numbers};
use crate::subject::{Reading, Subject};
use std::cell::RefCell;
use std::rc::Rc;

/// Who is at the other end of the TAP device.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Who {
    /// A host of ours.
    Ours,
    /// passt's face for namespaces.
    Pasta,
    /// slirp4netns, its MTU 65520 as its manual advises for throughput.
    Slirp4netns,
    /// A host of ours behind 20 ms of round trip that lose 1 % of the frames.
    Lossy,
    /// The kernel behind the same.
    LossyKernel,
}

impl Who {
    const ALL: [Who; 5] = [Who::Ours, Who::Pasta, Who::Slirp4netns, Who::Lossy, Who::LossyKernel];

    fn name(self) -> &'static str {
        match self {
            Who::Ours => "ours",
            Who::Pasta => "pasta",
            Who::Slirp4netns => "slirp4netns",
            Who::Lossy => "lossy",
            Who::LossyKernel => "lossy.kernel",
        }
    }

    /// Programs that it takes.
    fn tools(self) -> &'static [&'static str] {
        match self {
            Who::Pasta => &["iperf3", "pasta"],
            Who::Slirp4netns => &["iperf3", "slirp4netns"],
            _ => &["iperf3"],
        }
    }
}

/// Which way the bytes go, as iperf3's client sees it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Way {
    /// From the other end to the client (`-R`).
    Down,
    /// From the client.
    Up,
}

/// A child that stands in a namespace with devices of its own.
#[derive(Debug)]
pub struct Place(Child);

impl Place {
    /// Starts it and waits until it is set up.
    ///
    /// # Errors
    /// What is missing, in a sentence: a program, a namespace, /dev/net/tun.
    pub fn start(who: Who) -> anyhow::Result<Place> {
        for tool in who.tools() {
            anyhow::ensure!(is_installed(tool), "{tool} is not installed");
        }
        Place::of(who.name())
    }

    fn of(role: &str) -> anyhow::Result<Place> {
        Ok(Place(Child::start_apart(child::again(KIND, role)?)?))
    }

    /// One run of so many seconds: bytes received, and the nanoseconds they took.
    ///
    /// # Errors
    /// What the child or iperf3 said.
    pub fn run(&mut self, way: Way, seconds: u32) -> anyhow::Result<(u64, u64)> {
        let way = if way == Way::Down { "down" } else { "up" };
        let [bytes, ns] = numbers(&self.0.ask(&format!("{way} {seconds}"))?)?;
        Ok((bytes, ns))
    }
}

/// One direction at one place: an operation is a byte, its ticks are those of the time it took, whoever computed.
#[derive(Debug)]
pub struct Stream {
    id: String,
    place: Rc<RefCell<Place>>,
    way: Way,
    seconds: u32,
    tsc_hz: u64,
}

impl Stream {
    /// Runs of `seconds` at `place`.
    pub fn new(id: &str, place: &Rc<RefCell<Place>>, way: Way, seconds: u32, tsc_hz: u64) -> Stream {
        Stream { id: id.to_owned(), place: Rc::clone(place), way, seconds, tsc_hz }
    }
}

impl Subject for Stream {
    fn id(&self) -> &str {
        &self.id
    }

    fn trial(&mut self) -> anyhow::Result<Reading> {
        let (ops, ns) = self.place.borrow_mut().run(self.way, self.seconds)?;
        let ticks = (u128::from(ns) * u128::from(self.tsc_hz) / 1_000_000_000) as u64;
        Ok(Reading { ops, ticks, wall_ns: ns, cpu_ns: ns })
    }
}

#[cfg(test)]
mod tests;
