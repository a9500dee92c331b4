//! sendmmsg(2): many datagrams in one call. Contains unsafe code.
#![allow(unsafe_code)] // sendmmsg and its structures of pointers have no safe form in std

use std::marker::PhantomData;
use std::mem::zeroed;
use std::os::fd::{AsFd, AsRawFd};

/// Messages with one payload each.
pub(super) struct Batch<'a> {
    _payload: PhantomData<&'a [u8]>,
    messages: Vec<libc::mmsghdr>,
    _parts: Vec<libc::iovec>, // the messages point into it, and its entries point into the payloads
}

impl<'a> Batch<'a> {
    /// Returns `burst` messages with the same payload.
    pub fn new(payload: &'a [u8], burst: usize) -> Batch<'a> {
        Batch::of(std::iter::repeat_n(payload, burst))
    }

    /// Returns a message for each payload.
    pub fn of(payloads: impl Iterator<Item = &'a [u8]>) -> Batch<'a> {
        let part =
            |payload: &[u8]| libc::iovec { iov_base: payload.as_ptr().cast_mut().cast(), iov_len: payload.len() };
        let mut parts: Vec<libc::iovec> = payloads.map(part).collect();
        let message = |part: &mut libc::iovec| {
            // SAFETY: mmsghdr is integers and pointers; all bits zero is valid: no name, no parts,
            // no control data.
            let mut message: libc::mmsghdr = unsafe { zeroed() };
            message.msg_hdr.msg_iov = part;
            message.msg_hdr.msg_iovlen = 1;
            message
        };
        let messages = parts.iter_mut().map(message).collect();
        Batch { _payload: PhantomData, messages, _parts: parts }
    }

    /// Sends `count` datagrams, cycling through the messages; returns the number sent.
    pub fn send(&mut self, socket: &impl AsFd, count: u64) -> u64 {
        let mut sent = 0;
        while sent < count {
            let some = (count - sent).min(self.messages.len() as u64);
            let fd = socket.as_fd().as_raw_fd();
            // SAFETY: `some` messages are valid; `self` keeps their parts, and borrows the
            // payloads, for the whole call. The kernel only reads the payloads, although iovec has
            // a `*mut` for them.
            let went = unsafe { libc::sendmmsg(fd, self.messages.as_mut_ptr(), some as u32, 0) };
            match u64::try_from(went) {
                Ok(went) if went > 0 => sent += went,
                _ => break,
            }
        }
        sent
    }
}
