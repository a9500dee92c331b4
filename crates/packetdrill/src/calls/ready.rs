//! Implements poll(2) and epoll(7).

use super::{Done, deadline};
use crate::door::{Chance, Door, State};
use crate::files::{Came, Epoll, File, Interest};
use clock::{Duration, Instant};
use libc::{c_int, c_short};
use socket::{Events, PollFd};

/// Event bits that `poll` and `epoll` share, and flags of `epoll`.
const EPOLLERR: u32 = libc::EPOLLERR as u32;
const EPOLLHUP: u32 = libc::EPOLLHUP as u32;
const ALWAYS: u32 = EPOLLERR | EPOLLHUP;
const EDGE: u32 = libc::EPOLLET as u32;
const ONCE: u32 = libc::EPOLLONESHOT as u32;

/// A descriptor passed to `poll`, with requested and returned events.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Polled {
    pub token: c_int,
    pub requested: c_short,
    pub reported: c_short,
}

fn until(now: Instant, timeout_ms: c_int) -> Instant {
    deadline(now, u64::try_from(timeout_ms).ok().map(Duration::from_millis))
}

impl Door {
    /// Implements poll(2). Returns the number of descriptors with events.
    pub fn poll(&self, fds: &mut [Polled], timeout_ms: c_int) -> usize {
        let requested = fds.to_vec();
        let attempt = move |state: &mut State, chance| {
            let mut reported = requested.clone();
            for fd in &mut reported {
                let all = state.ready(fd.token);
                let wanted = fd.requested as u16 as u32 | ALWAYS | libc::POLLNVAL as u32;
                fd.reported = (all.unwrap_or(libc::POLLNVAL as u32) & wanted) as c_short;
            }
            let some = reported.iter().any(|fd| fd.reported != 0);
            (some || chance == Chance::Last).then_some(reported)
        };
        let reported = self.wait(move |state| until(state.host.now(), timeout_ms), attempt).unwrap_or_default();
        for (fd, reported) in fds.iter_mut().zip(reported) {
            fd.reported = reported.reported;
        }
        fds.iter().filter(|fd| fd.reported != 0).count()
    }

    /// Implements epoll_create(2).
    pub fn epoll_create(&self) -> Done<c_int> {
        self.enter(|state| state.files.open(File::Epoll(Epoll::default())))
    }

    /// Implements epoll_ctl(2).
    pub fn epoll_ctl(&self, epoll: c_int, op: c_int, token: c_int, event: Option<(u32, u64)>) -> Done<()> {
        self.enter(|state| {
            state.files.get(token).map_err(|errno| if errno == libc::ENOTSOCK { libc::EPERM } else { errno })?;
            let seen = state.came(token);
            let epoll = state.files.epoll(epoll)?;
            let there = epoll.interests.contains_key(&token);
            match op {
                libc::EPOLL_CTL_ADD if there => return Err(libc::EEXIST),
                libc::EPOLL_CTL_MOD | libc::EPOLL_CTL_DEL if !there => return Err(libc::ENOENT),
                libc::EPOLL_CTL_ADD | libc::EPOLL_CTL_MOD => {
                    let (events, data) = event.ok_or(libc::EFAULT)?;
                    epoll.interests.insert(token, Interest { events, data, fresh: true, seen, spent: false });
                }
                libc::EPOLL_CTL_DEL => {
                    epoll.interests.remove(&token);
                }
                _ => return Err(libc::EINVAL),
            }
            Ok(())
        })
    }

    /// Implements epoll_wait(2). Returns events and data of up to `most` descriptors.
    pub fn epoll_wait(&self, epoll: c_int, most: usize, timeout_ms: c_int) -> Done<Vec<(u32, u64)>> {
        self.enter(|state| state.files.epoll(epoll).map(drop))?;
        let attempt = move |state: &mut State, chance| {
            let reported = state.epoll(epoll, most);
            (chance == Chance::Last || !matches!(&reported, Ok(reported) if reported.is_empty())).then_some(reported)
        };
        self.wait(move |state| until(state.host.now(), timeout_ms), attempt).unwrap_or_else(|| Ok(Vec::new()))
    }
}

impl State {
    /// Returns all events of a descriptor, in `poll`'s bits.
    fn ready(&mut self, token: c_int) -> Option<u32> {
        let socket = self.files.get(token).ok()?;
        let requested = Events { readable: true, writable: true, ..Events::default() };
        let mut fds = [PollFd { fd: socket.fd, requested, reported: Events::default() }];
        self.host.calls().poll(&mut fds);
        let [PollFd { mut reported, .. }] = fds;
        if socket.shut_read {
            (reported.readable, reported.peer_closed) = (true, true);
            reported.hangup |= self.is_shut_for_writing(socket.fd.0 & !inet::tcp::SOCK_BIT);
        }
        let connected = socket.fd.is_stream() && reported.writable && !reported.error && !reported.hangup;
        if connected && !self.is_shut_for_writing(socket.fd.0 & !inet::tcp::SOCK_BIT) {
            reported.writable = self.is_roomy(token, socket.fd.0 & !inet::tcp::SOCK_BIT).unwrap_or(true);
            if !reported.writable
                && let Ok(socket) = self.files.socket(token)
            {
                socket.no_space = true; // requests a notification
            }
        }
        // Linux: a socket that is neither connected nor listening is writable (writes fail) and
        // reports a hangup.
        let fresh = socket.fd.is_stream() && self.is_fresh(socket.fd.0 & !inet::tcp::SOCK_BIT);
        let bits = [
            (reported.readable, libc::POLLIN | libc::POLLRDNORM),
            (reported.writable || fresh, libc::POLLOUT | libc::POLLWRNORM),
            (reported.error, libc::POLLERR),
            (reported.hangup || fresh, libc::POLLHUP),
            (reported.peer_closed, libc::POLLRDHUP),
            (reported.urgent, libc::POLLPRI),
            (reported.invalid, libc::POLLNVAL),
        ];
        Some(bits.iter().filter(|(on, _)| *on).fold(0, |all, (_, bit)| all | *bit as u32))
    }

    fn is_shut_for_writing(&self, id: usize) -> bool {
        let shut = |sock: &mut inet::tcp::Sock<lock::Light>| sock.tcb().is_some_and(|tcb| !tcb.state().may_queue());
        self.host.stack.with_sock(self.host.cx(), id, shut) == Some(true)
    }

    fn is_fresh(&self, id: usize) -> bool {
        let fresh = |sock: &mut inet::tcp::Sock<lock::Light>| sock.tcb().is_none() && !sock.is_listening();
        self.host.stack.with_sock(self.host.cx(), id, fresh) == Some(true)
    }

    /// Returns the current events of an epoll instance.
    fn epoll(&mut self, epoll: c_int, most: usize) -> Done<Vec<(u32, u64)>> {
        let interests = self.files.epoll(epoll)?.interests.clone();
        let mut reported = Vec::new();
        for (token, mut interest) in interests {
            // An edge is new data, or space for a writer that found none before.
            let starved = self.files.get(token).is_ok_and(|socket| socket.no_space);
            let all = self.ready(token).unwrap_or(0);
            let seen = self.came(token);
            let room = starved && all & libc::POLLOUT as u32 != 0;
            interest.fresh |= seen != interest.seen || room;
            interest.seen = seen;
            if room && let Ok(socket) = self.files.socket(token) {
                socket.no_space = false;
            }
            let silent = interest.spent || interest.events & EDGE != 0 && !interest.fresh;
            let ready = all & (interest.events | ALWAYS);
            if !silent && ready != 0 && reported.len() < most {
                reported.push((ready, interest.data));
                (interest.fresh, interest.spent) = (false, interest.events & ONCE != 0);
            }
            if let Some(kept) = self.files.epoll(epoll)?.interests.get_mut(&token) {
                *kept = interest;
            }
        }
        Ok(reported)
    }

    /// Returns a summary of the data that a socket has received so far. Edge-triggered events are
    /// detected by comparing it with an earlier summary.
    fn came(&self, token: c_int) -> Came {
        let Ok(fd) = self.files.get(token).map(|socket| socket.fd) else { return Came::default() };
        let (stack, cx, now) = (&self.host.stack, self.host.cx(), self.host.now());
        if !fd.is_stream() {
            let queued = stack.with_pcb(cx, fd.0, |pcb| (pcb.queued() as u64, pcb.has_error()));
            return queued.map_or(Came::default(), |(count, failed)| Came { count, state: None, failed });
        }
        let came = |sock: &mut inet::tcp::Sock<lock::Light>| {
            let waiting = if sock.is_listening() { sock.queues().0 as u64 } else { 0 };
            let tcb = sock.tcb();
            let count = tcb.map_or(waiting, |tcb| tcb.info(now).bytes_received);
            Came { count, state: tcb.map(|tcb| tcb.state()), failed: sock.has_error() }
        };
        stack.with_sock(cx, fd.0 & !inet::tcp::SOCK_BIT, came).unwrap_or_default()
    }
}
