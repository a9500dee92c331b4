//! One thread that runs several hosts.

#[cfg(feature = "tokio")]
mod tokio;

use crate::{Error, LocalHost};
use clock::{Duration, Instant};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

/// Longest sleep of a driver that other hosts of its thread may wake.
const IDLE: Duration = Duration::from_millis(100);

/// Runs several [`LocalHost`]s on one thread.
///
/// ```
/// use linerate::{Driver, Host};
/// use linerate::net::UdpSocket;
///
/// let a = Host::builder().port("pair:drive").addr("10.0.0.1/24").build_local()?;
/// let b = Host::builder().port("pair:drive").addr("10.0.0.2/24").build_local()?;
/// let driver = Driver::new([a.clone(), b.clone()]);
///
/// let (from, to) = (UdpSocket::bind(&a, "10.0.0.1:0")?, UdpSocket::bind(&b, "10.0.0.2:9")?);
/// to.set_nonblocking(true)?;
/// from.send_to(b"hello", "10.0.0.2:9")?;
/// let received = driver.run_until(std::time::Duration::from_secs(5), || to.recv(&mut [0; 16]).ok());
/// assert_eq!(received, Some(5));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug)]
pub struct Driver {
    hosts: Vec<LocalHost>,
}

/// Result of a round over all hosts.
struct Round {
    frames: usize,
    next: Instant,
}

impl Driver {
    /// Creates a driver of `hosts`. Hosts of a simulation are not run, since their world runs them.
    pub fn new(hosts: impl IntoIterator<Item = LocalHost>) -> Driver {
        Driver { hosts: hosts.into_iter().filter(|host| !host.node().is_simulated()).collect() }
    }

    /// Runs one round of each host: receives a burst from each port, and runs timers. Returns the
    /// number of frames received.
    pub fn step(&self) -> usize {
        self.round().frames
    }

    fn round(&self) -> Round {
        let mut round = Round { frames: 0, next: Instant::NEVER };
        for host in &self.hosts {
            let step = host.node().step();
            round.frames += step.frames;
            round.next = round.next.min(step.next.unwrap_or(Instant::NEVER));
        }
        round
    }

    /// Runs the hosts for `time`.
    pub fn run_for(&self, time: Duration) {
        let _: Option<()> = self.run_until(time, || None);
    }

    /// Runs the hosts until `done` returns a value, which is checked after each round, or until
    /// `timeout` has passed.
    pub fn run_until<T>(&self, timeout: Duration, mut done: impl FnMut() -> Option<T>) -> Option<T> {
        let Some(first) = self.hosts.first() else { return done() };
        let end = first.node().clock.now().after(timeout);
        loop {
            let round = self.round();
            if let Some(found) = done() {
                return Some(found);
            }
            let now = first.node().clock.now();
            if now >= end {
                return None;
            }
            // `done` may have sent frames to another host, so the driver sleeps only if a second
            // round receives none.
            if round.frames == 0 {
                let again = self.round();
                if let Some(found) = done() {
                    return Some(found);
                }
                if again.frames == 0 {
                    self.sleep(first, again.next.min(end).min(now.after(IDLE)));
                }
            }
        }
    }

    /// Sleeps until a port of any host is readable, or until `until`.
    fn sleep(&self, first: &LocalHost, until: Instant) {
        let others: Vec<OwnedFd> = self.hosts.iter().skip(1).flat_map(|host| host.node().port_fds()).collect();
        let fds: Vec<BorrowedFd<'_>> = others.iter().map(AsFd::as_fd).collect();
        let limit = |until: Instant, host: &LocalHost| host.node().prepare_sleep(until, &mut |_| ());
        first.node().wait_for_any(self.hosts.iter().skip(1).fold(until, limit), &fds);
    }
}

impl LocalHost {
    /// Runs the host until its addresses can be used, as
    /// [`Host::wait_configured`](crate::Host::wait_configured) does. Has no effect in a simulation.
    ///
    /// # Errors
    /// Returns [`Error::Rejected`] if no router or DHCP server replied.
    pub fn wait_configured(&self) -> Result<(), Error> {
        if self.node().is_simulated() {
            return Ok(());
        }
        let round = || self.run_for(Duration::from_millis(1));
        let done = node::run::await_addresses(self.node(), &mut |_| (), round);
        done.map_err(|why| Error::rejected("configuration", why))
    }

    /// Runs the host for `time`, for example to answer others while this thread has nothing to do.
    /// Has no effect in a simulation.
    pub fn run_for(&self, time: Duration) {
        Driver::new([self.clone()]).run_for(time);
    }
}
