//! Stock iperf3 over a TAP device, against one of our hosts and against other user-space network
//! stacks.
//!
//! ```text
//! ours:         iperf3 -c, kernel TCP - TAP - linerate iperf3 -s
//! passt:        iperf3 -c, kernel TCP - TAP - pasta - socket on loopback - iperf3 -s
//! slirp4netns:  iperf3 -c, kernel TCP - TAP - slirp4netns - socket on loopback - iperf3 -s
//! lossy:        iperf3 -c, kernel TCP - TAP - impair, linerate iperf3 -s
//! lossy.kernel: iperf3 -c, kernel TCP - TAP - our router, impair - TAP - kernel TCP, iperf3 -s
//! ```
//!
//! passt and slirp4netns terminate the guest's TCP in user space, as our host does, and pass its
//! bytes to a socket of the kernel; our host is the application itself. Each of the setups runs in
//! a network namespace of its own, in a child that is this program again ([`crate::child`]) and
//! executes the commands `down SECONDS` and `up SECONDS`.

mod client;
mod place;

pub(crate) use place::{KIND, serve};

use super::shell::is_installed;
use crate::child::{self, Child, numbers};
use crate::subject::{Reading, Subject};
use std::cell::RefCell;
use std::rc::Rc;

/// Program at the other end of the TAP device.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Who {
    /// A host of this project.
    Ours,
    /// pasta, passt's mode for namespaces.
    Pasta,
    /// slirp4netns, with MTU 65520 as its manual advises for throughput.
    Slirp4netns,
    /// One of our hosts behind an impairment: 20 ms round-trip time, 1 % frame loss.
    Lossy,
    /// The kernel behind the same impairment.
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

    /// Returns the names of the programs required.
    fn tools(self) -> &'static [&'static str] {
        match self {
            Who::Pasta => &["iperf3", "pasta"],
            Who::Slirp4netns => &["iperf3", "slirp4netns"],
            _ => &["iperf3"],
        }
    }
}

/// Direction of the bytes, as seen by iperf3's client.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Way {
    /// From the other end to the client (`-R`).
    Down,
    /// From the client to the other end.
    Up,
}

/// A child in a namespace with devices of its own.
#[derive(Debug)]
pub struct Place(Child);

impl Place {
    /// Starts the child and waits until it is set up.
    ///
    /// # Errors
    /// A program, a namespace or /dev/net/tun is unavailable; the error states which.
    pub fn start(who: Who) -> anyhow::Result<Place> {
        for tool in who.tools() {
            anyhow::ensure!(is_installed(tool), "{tool} is not installed");
        }
        Place::of(who.name())
    }

    fn of(role: &str) -> anyhow::Result<Place> {
        Ok(Place(Child::start_apart(child::again(KIND, role)?)?))
    }

    /// Runs iperf3 for `seconds`; returns the bytes received, and the nanoseconds that it took.
    ///
    /// # Errors
    /// The error reported by the child or by iperf3.
    pub fn run(&mut self, way: Way, seconds: u32) -> anyhow::Result<(u64, u64)> {
        let way = if way == Way::Down { "down" } else { "up" };
        let [bytes, ns] = numbers(&self.0.ask(&format!("{way} {seconds}"))?)?;
        Ok((bytes, ns))
    }
}

/// Subject that measures one direction at one [`Place`]. An operation is a byte; its ticks are
/// computed from the wall time, since several processes share the work.
#[derive(Debug)]
pub struct Stream {
    id: String,
    place: Rc<RefCell<Place>>,
    way: Way,
    seconds: u32,
    tsc_hz: u64,
}

impl Stream {
    /// Creates a subject; a trial is a run of `seconds` at `place`.
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
