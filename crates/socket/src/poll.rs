//! Readiness of descriptors: `poll(2)` for a small set of descriptors, and [`Poller`] for a large
//! one. A `Poller` is notified when one of its descriptors becomes readable.

use crate::{Calls, Errno, Fd};
use inet::udp::ReadySet;
use lock::Locks;
use std::sync::Arc;

/// Readiness events of a descriptor, requested or reported.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Events {
    /// Receiving would not block.
    pub readable: bool,
    /// Sending would not block (but may fail). Always reported for UDP sockets.
    pub writable: bool,
    /// An error is pending.
    pub error: bool,
    /// Both directions have ended; on a datagram socket, reading was shut down.
    pub hangup: bool,
    /// The peer of a stream has closed its sending side (`POLLRDHUP`).
    pub peer_closed: bool,
    /// Urgent data was announced and has not been read yet (`POLLPRI`).
    pub urgent: bool,
    /// The descriptor does not exist.
    pub invalid: bool,
}

impl Events {
    fn any(self) -> bool {
        self.readable || self.writable || self.error || self.hangup || self.peer_closed || self.urgent || self.invalid
    }
}

/// A descriptor to poll, with its requested and its reported events.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct PollFd {
    /// Descriptor to check.
    pub fd: Fd,
    /// Requested events. Only `readable` and `writable` need to be requested; all other events are
    /// always reported.
    pub requested: Events,
    /// Events reported by [`Calls::poll`].
    pub reported: Events,
}

/// Set of watched descriptors with edge-triggered notifications. A datagram socket causes a
/// notification each time it becomes readable. A stream causes one for each event (data, space in
/// the send buffer, end of file, a connection to accept), unless a notification of this socket is
/// already queued.
#[derive(Debug)]
pub struct Poller<L: Locks>(Arc<ReadySet<L>>);

/// Maximum time between two checks whether the host is being stopped.
const SLICE: clock::Duration = clock::Duration::from_millis(500);

impl<L: Locks> Default for Poller<L> {
    fn default() -> Self {
        // On a stack with locks of type `Up`, this Arc never leaves the thread of its poller.
        #[allow(clippy::arc_with_non_send_sync)]
        Poller(Arc::new(ReadySet::default()))
    }
}

impl<L: Locks> Poller<L> {
    /// Moves up to `most` notified descriptors into `into`. Each notification is reported only
    /// once, so the caller must then read the descriptor until `EAGAIN`.
    pub fn ready(&self, calls: &Calls<'_, L>, most: usize, into: &mut Vec<usize>) {
        self.0.pop_many(calls.cx(), most, into);
    }

    /// Returns the next notified descriptor of a shared stack. If there is none, sleeps until a
    /// notification arrives; returns `None` after `timeout`, or if the host is stopped.
    pub fn wait(&self, calls: &Calls<'_, L>, timeout: Option<clock::Duration>) -> Option<Fd> {
        let next = || match self.0.pop(calls.cx()) {
            None => calls.stack().is_stopped().then_some(None),
            found => Some(found),
        };
        self.0.signal.wait_for(timeout, next).flatten().map(Fd)
    }

    /// Calls `found` until it returns a value, and waits for notifications in between, at most for
    /// `timeout`. A thread that runs its host itself runs it while it waits, and at least one round
    /// in each call; any other thread sleeps. Returns `None` after the timeout.
    ///
    /// # Errors
    /// `EINTR` if the host is being stopped, `EDEADLK` if a simulated host cannot wait.
    pub fn wait_until<T>(
        &self,
        calls: &Calls<'_, L>,
        timeout: Option<clock::Duration>,
        mut found: impl FnMut() -> Option<T>,
    ) -> Result<Option<T>, Errno> {
        if let Some(driver) = calls.driver {
            return match calls.wait_driving(driver, timeout, found, || None) {
                Err(Errno::EAGAIN) => Ok(None),
                done => done.map(Some),
            };
        }
        let mut next = || found().map(Ok).or_else(|| calls.stack().is_stopped().then_some(Err(Errno::EINTR)));
        let mut left = timeout;
        let done = loop {
            // A set without sockets is not notified when its host stops.
            let slice = left.map_or(SLICE, |left| left.min(SLICE));
            if let Some(done) = self.0.signal.wait_for(Some(slice), &mut next) {
                break done.map(Some);
            }
            left = left.map(|left| left - slice);
            if left.is_some_and(|left| left.is_zero()) {
                break Ok(None);
            }
        };
        calls.stack().lap(calls.cx()); // keeps the time asleep out of the cost statistics
        done
    }
}

impl<L: Locks> Calls<'_, L> {
    /// Starts to watch `fd`: notifies `poller` whenever `fd` becomes readable. If `fd` is readable
    /// already, notifies it at once.
    ///
    /// # Errors
    /// `EBADF`.
    pub fn watch(&self, poller: &Poller<L>, fd: Fd) -> Result<(), Errno> {
        self.set_watch(fd, Some(poller.0.clone()))
    }

    fn set_watch(&self, fd: Fd, set: Option<Arc<ReadySet<L>>>) -> Result<(), Errno> {
        match fd.sock() {
            None => Ok(self.stack.udp_watch(self.cx(), fd.0, set)?),
            Some(id) => Ok(self.stack.tcp_watch(self.cx(), id, set)?),
        }
    }

    /// Registers a task to be woken at the next event of a socket. The task must then retry its own
    /// call before it waits, so that it misses no event.
    ///
    /// # Errors
    /// `EBADF`.
    pub fn wake_task(&self, fd: Fd, waker: &std::task::Waker) -> Result<(), Errno> {
        let signal = match fd.sock() {
            Some(id) => self.stack.with_sock(self.cx(), id, |sock| sock.signal()),
            None => self.stack.with_pcb(self.cx(), fd.0, |pcb| pcb.signal()),
        };
        signal.ok_or(Errno::EBADF)?.wake_task(waker);
        Ok(())
    }

    /// Stops the notifications for `fd` that [`Calls::watch`] started.
    ///
    /// # Errors
    /// `EBADF`.
    pub fn unwatch(&self, fd: Fd) -> Result<(), Errno> {
        self.set_watch(fd, None)
    }

    /// Polls without waiting: stores the events of each descriptor in `reported`, and returns the
    /// number of descriptors that have any.
    pub fn poll(&self, fds: &mut [PollFd]) -> usize {
        for entry in fds.iter_mut() {
            if let Some(id) = entry.fd.sock() {
                entry.reported = self.poll_stream(id, entry.requested);
                continue;
            }
            let state = self.stack.with_pcb(self.cx(), entry.fd.0, |pcb| Events {
                readable: entry.requested.readable && pcb.is_readable(),
                writable: entry.requested.writable,
                error: pcb.has_error(),
                hangup: pcb.is_shut_for_reading(),
                ..Events::default()
            });
            entry.reported = state.unwrap_or(Events { invalid: true, ..Events::default() });
        }
        fds.iter().filter(|entry| entry.reported.any()).count()
    }

    fn poll_stream(&self, id: usize, requested: Events) -> Events {
        let state = self.stack.with_sock(self.cx(), id, |sock| Events {
            readable: requested.readable && sock.is_readable(),
            writable: requested.writable && sock.is_writable(),
            error: sock.has_error(),
            hangup: sock.is_hung_up(),
            peer_closed: sock.has_peer_closed(),
            urgent: sock.is_urgent(),
            invalid: false,
        });
        state.unwrap_or(Events { invalid: true, ..Events::default() })
    }
}
