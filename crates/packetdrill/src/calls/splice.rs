//! Implements splice(2) between a socket and a pipe, and sendfile(2), by copying.

use super::Done;
use crate::door::{Chance, Door, State};
use crate::os;
use libc::{c_int, c_uint, off_t};
use socket::OptKind;

/// Maximum number of bytes moved by one call.
const MOST: usize = 1 << 20;

fn flags(flags: c_uint) -> c_int {
    let dont_wait = if flags & libc::SPLICE_F_NONBLOCK != 0 { libc::MSG_DONTWAIT } else { 0 };
    dont_wait | if flags & libc::SPLICE_F_MORE != 0 { libc::MSG_MORE } else { 0 }
}

impl Door {
    /// Moves bytes from a socket into a pipe: as many as the socket has and the pipe can store.
    pub fn splice_out(&self, socket: c_int, pipe: c_int, len: usize, how: c_uint) -> Done<usize> {
        let room = os::room(pipe)?;
        if room == 0 {
            return Err(libc::EAGAIN);
        }
        let got = self.recv(socket, len.min(room).min(MOST), flags(how) & libc::MSG_DONTWAIT, true)?;
        os::write(pipe, &got.bytes)
    }

    /// Moves bytes from a pipe into a socket. Reads no more bytes from the pipe than the socket
    /// accepts.
    pub fn splice_in(&self, pipe: c_int, socket: c_int, len: usize, how: c_uint) -> Done<usize> {
        let there = os::waiting(pipe)?.min(len).min(MOST);
        let room = self.room(socket, flags(how))?;
        let bytes = os::read(pipe, None, there.min(room))?;
        self.send(socket, bytes, flags(how), None)
    }

    /// Copies bytes from a file into a socket.
    pub fn sendfile(&self, socket: c_int, file: c_int, offset: Option<&mut off_t>, len: usize) -> Done<usize> {
        let blocks = !self.enter(|state| state.files.get(socket).map(|socket| socket.nonblocking))?;
        let len = len.min(MOST);
        let len = if blocks { len } else { len.min(self.room(socket, 0)?) };
        let bytes = os::read(file, offset.as_deref().copied(), len)?;
        let sent = self.send(socket, bytes, 0, None)?;
        if let Some(offset) = offset {
            *offset += sent as off_t;
        }
        Ok(sent)
    }

    /// Returns the number of bytes that a socket accepts without blocking. A blocking socket first
    /// waits until it accepts some.
    fn room(&self, socket: c_int, flags: c_int) -> Done<usize> {
        let attempt = move |state: &mut State, chance| match state.room(socket) {
            Ok(0) if chance == Chance::More => None,
            Ok(0) => Some(Err(libc::EAGAIN)),
            done => Some(done),
        };
        let dont_wait = flags & libc::MSG_DONTWAIT != 0;
        let until = move |state: &mut State| state.patience(socket, OptKind::SendTimeout, dont_wait);
        self.wait(until, attempt).unwrap_or(Err(libc::EAGAIN))
    }
}

impl State {
    fn room(&self, token: c_int) -> Done<usize> {
        let id = self.stream(token)?;
        let space = self.send_buffer(token)?;
        let queued = self.host.stack.with_sock(self.host.cx(), id, |sock| sock.queues().1).ok_or(libc::EBADF)?;
        Ok(space.saturating_sub(queued))
    }
}
