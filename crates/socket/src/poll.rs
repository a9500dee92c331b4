//! Readiness: `poll(2)` for a few descriptors, and a [`Poller`] for many, which is notified when
//! one becomes readable.

use crate::{Calls, Errno, Fd};
use inet::udp::ReadySet;
use lock::Locks;
use std::sync::Arc;

/// Readiness events of a descriptor, requested or reported.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Events {
    /// A receive would not wait.
    pub readable: bool,
    /// A send would not wait (it may fail): always so for UDP.
    pub writable: bool,
    /// An error is pending.
    pub error: bool,
    /// Both directions have ended; for a datagram socket, reading was shut down.
    pub hangup: bool,
    /// The peer of a stream has sent everything (`POLLRDHUP`).
    pub peer_closed: bool,
    /// Urgent data is announced and unread (`POLLPRI`).
    pub urgent: bool,
    /// The descriptor does not exist.
    pub invalid: bool,
}

impl Events {
    fn any(self) -> bool {
        self.readable || self.writable || self.error || self.hangup || self.peer_closed || self.urgent || self.invalid
    }
}

/// Descriptor with its requested and reported events.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct PollFd {
    /// Descriptor to check.
    pub fd: Fd,
    /// Requested events: only `readable` and `writable` count, the others are always reported.
    pub asked: Events,
    /// Events reported by [`Calls::poll`].
    pub told: Events,
}

/// Set of watched descriptors, edge-triggered: one notification each time a datagram socket becomes
/// readable, and for each event of a stream (data, room, end of file, a connection to accept),
/// unless one is already queued for that stream.
#[derive(Debug)]
pub struct Poller<L: Locks>(Arc<ReadySet<L>>);

impl<L: Locks> Default for Poller<L> {
    fn default() -> Self {
        // On an `Up` stack, this Arc never leaves the thread of its poller.
        #[allow(clippy::arc_with_non_send_sync)]
        Poller(Arc::new(ReadySet::default()))
    }
}

impl<L: Locks> Poller<L> {
    /// Moves up to `most` descriptors that became readable into `into`. Each is reported once, so
    /// it must be read until `EAGAIN`.
    pub fn ready(&self, calls: &Calls<'_, L>, most: usize, into: &mut Vec<usize>) {
        self.0.pop_many(calls.cx(), most, into);
    }

    /// Returns the next descriptor that became readable, for a shared stack. Sleeps until there is
    /// one; `None` if `timeout` has passed.
    pub fn wait(&self, calls: &Calls<'_, L>, timeout: Option<clock::Duration>) -> Option<Fd> {
        self.0.signal.wait_for(timeout, || self.0.pop(calls.cx())).map(Fd)
    }
}

impl<L: Locks> Calls<'_, L> {
    /// Notifies `poller` whenever `fd` becomes readable, and now if it already is.
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

    /// Wakes a task at the next event of a stream on a shared stack. The caller must retry its call
    /// after this, before it waits.
    ///
    /// # Errors
    /// `EBADF`, `EOPNOTSUPP` (a datagram socket).
    pub fn wake_task(&self, fd: Fd, waker: &std::task::Waker) -> Result<(), Errno> {
        let id = fd.sock().ok_or(Errno::EOPNOTSUPP)?;
        let signal = self.stack.with_sock(self.cx(), id, |sock| sock.signal()).ok_or(Errno::EBADF)?;
        signal.wake_task(waker);
        Ok(())
    }

    /// Stops the notifications for `fd`.
    ///
    /// # Errors
    /// `EBADF`.
    pub fn unwatch(&self, fd: Fd) -> Result<(), Errno> {
        self.set_watch(fd, None)
    }

    /// Polls without waiting: fills in the reported events and returns the number of descriptors
    /// with any.
    pub fn poll(&self, fds: &mut [PollFd]) -> usize {
        for entry in fds.iter_mut() {
            if let Some(id) = entry.fd.sock() {
                entry.told = self.poll_stream(id, entry.asked);
                continue;
            }
            let state = self.stack.with_pcb(self.cx(), entry.fd.0, |pcb| Events {
                readable: entry.asked.readable && pcb.is_readable(),
                writable: entry.asked.writable,
                error: pcb.has_error(),
                hangup: pcb.is_shut_for_reading(),
                ..Events::default()
            });
            entry.told = state.unwrap_or(Events { invalid: true, ..Events::default() });
        }
        fds.iter().filter(|entry| entry.told.any()).count()
    }

    fn poll_stream(&self, id: usize, asked: Events) -> Events {
        let state = self.stack.with_sock(self.cx(), id, |sock| Events {
            readable: asked.readable && sock.is_readable(),
            writable: asked.writable && sock.is_writable(),
            error: sock.has_error(),
            hangup: sock.is_hung_up(),
            peer_closed: sock.has_peer_closed(),
            urgent: sock.is_urgent(),
            invalid: false,
        });
        state.unwrap_or(Events { invalid: true, ..Events::default() })
    }
}
