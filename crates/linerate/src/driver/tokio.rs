//! A driver as a task of a tokio runtime.

use super::{Driver, IDLE};
use crate::LocalHost;
use ::tokio::io::Interest;
use ::tokio::io::unix::AsyncFd;
use ::tokio::time::{Instant as Deadline, Sleep, sleep_until};
use clock::Instant;
use std::convert::Infallible;
use std::io;
use std::os::fd::{AsRawFd, OwnedFd, RawFd};
use std::pin::Pin;
use std::task::{Context, Poll};

/// Consecutive turns without a frame after which the task sleeps. In a turn, each host runs one
/// round. Other tasks run between turns. While the driver is awake, frames that they send cost no
/// system call.
const IDLE_TURNS: u32 = 4;

impl Driver {
    /// Runs the hosts as a task of a current-thread runtime, so that other tasks of the runtime can
    /// use their sockets ([`net::tokio`](crate::net::tokio)). The future never completes; it may be
    /// dropped at any time. It needs the runtime's I/O and time drivers (`enable_all`).
    ///
    /// # Errors
    /// An error of the system, if the descriptor of a port cannot be registered.
    pub async fn run(&self) -> io::Result<Infallible> {
        let timer = Box::pin(sleep_until(Deadline::now()));
        Turns { driver: self, ports: Vec::new(), timer, idle_turns: 0 }.await
    }
}

/// Descriptor of a port, registered with the runtime.
struct PortFd {
    /// Number of the port's own descriptor, of which `fd` is a duplicate.
    raw: RawFd,
    fd: AsyncFd<OwnedFd>,
}

/// Registers a descriptor with the runtime.
#[expect(deprecated, reason = "an OwnedFd stays the same open descriptor, which is what the unsafe successor requires")]
fn register(fd: OwnedFd) -> io::Result<AsyncFd<OwnedFd>> {
    AsyncFd::with_interest(fd, Interest::READABLE)
}

struct Turns<'d> {
    driver: &'d Driver,
    ports: Vec<PortFd>,
    timer: Pin<Box<Sleep>>,
    /// Number of turns since the last frame.
    idle_turns: u32,
}

impl Turns<'_> {
    /// Prepares the sleep of all hosts, and registers the descriptors of their ports. Returns the
    /// time until which the task may sleep.
    fn prepare(&mut self, until: Instant) -> io::Result<Instant> {
        let (mut at, mut failed, ports) = (0, None, &mut self.ports);
        let mut each = |fd: std::os::fd::BorrowedFd<'_>| {
            let raw = fd.as_raw_fd();
            if ports.get(at).is_none_or(|port| port.raw != raw) {
                ports.truncate(at);
                match fd.try_clone_to_owned().and_then(register) {
                    Ok(fd) => ports.push(PortFd { raw, fd }),
                    Err(error) => failed = Some(error),
                }
            }
            at += 1;
        };
        let prepare = |until, host: &LocalHost| host.node().prepare_sleep(until, &mut each);
        let limit = self.driver.hosts.iter().fold(until, prepare);
        let used = at;
        self.ports.truncate(used);
        failed.map_or(Ok(limit), Err)
    }

    /// Returns whether any port became readable, and registers the task with those that are not.
    fn is_any_readable(&self, cx: &mut Context<'_>) -> io::Result<bool> {
        let mut any = false;
        for port in &self.ports {
            if let Poll::Ready(ready) = port.fd.poll_read_ready(cx) {
                ready?.clear_ready();
                any = true;
            }
        }
        Ok(any)
    }
}

impl Future for Turns<'_> {
    type Output = io::Result<Infallible>;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<Infallible>> {
        let turns = &mut *self;
        let Some(first) = turns.driver.hosts.first() else { return Poll::Pending };
        let round = turns.driver.round();
        turns.idle_turns = if round.frames > 0 { 0 } else { turns.idle_turns.saturating_add(1) };
        if turns.idle_turns < IDLE_TURNS {
            cx.waker().wake_by_ref();
            return Poll::Pending;
        }
        let limit = turns.prepare(round.next)?;
        // The step below runs a round after the registration, so that it receives the frames of a
        // port that became readable before.
        let is_readable = turns.is_any_readable(cx)?;
        if turns.driver.step() > 0 || is_readable {
            turns.idle_turns = 0;
            cx.waker().wake_by_ref();
            return Poll::Pending;
        }
        turns.driver.hosts.iter().for_each(|host| host.wake_driver_with(cx.waker()));
        let wait = limit.since(first.node().clock.now()).min(IDLE);
        turns.timer.as_mut().reset(Deadline::now() + wait);
        if turns.timer.as_mut().poll(cx).is_ready() {
            cx.waker().wake_by_ref();
        }
        Poll::Pending
    }
}
