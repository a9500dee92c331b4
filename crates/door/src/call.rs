//! Stopped system calls.

use crate::os::Notification;

/// An address and the place of its length in the memory of a program, as in getsockname(2).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Place {
    pub addr: u64,
    pub len: u64,
}

/// A stopped system call. Descriptors and addresses are those of the program.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Call {
    Socket {
        family: i32,
        kind: i32,
        proto: i32,
    },
    Connect {
        fd: i32,
        addr: u64,
        len: usize,
    },
    Bind {
        fd: i32,
        addr: u64,
        len: usize,
    },
    Listen {
        fd: i32,
        backlog: i32,
    },
    /// `flags` are those of accept4(2).
    Accept {
        fd: i32,
        place: Place,
        flags: i32,
    },
    LocalAddr {
        fd: i32,
        place: Place,
    },
    PeerAddr {
        fd: i32,
        place: Place,
    },
    Option {
        fd: i32,
        level: i32,
        name: i32,
        place: Place,
    },
    SetOption {
        fd: i32,
        level: i32,
        name: i32,
        addr: u64,
        len: usize,
    },
    SendTo {
        fd: i32,
        addr: u64,
        len: usize,
        flags: i32,
    },
}

impl Call {
    /// Parses a call; `None` if the filter does not stop it.
    pub fn of(call: &Notification) -> Option<Call> {
        let [a, b, c, d, e, _] = call.args;
        let fd = a as i32;
        Some(match call.number {
            libc::SYS_socket => Call::Socket { family: fd, kind: b as i32, proto: c as i32 },
            libc::SYS_connect => Call::Connect { fd, addr: b, len: c as u32 as usize },
            libc::SYS_bind => Call::Bind { fd, addr: b, len: c as u32 as usize },
            libc::SYS_listen => Call::Listen { fd, backlog: b as i32 },
            libc::SYS_accept => Call::Accept { fd, place: Place { addr: b, len: c }, flags: 0 },
            libc::SYS_accept4 => Call::Accept { fd, place: Place { addr: b, len: c }, flags: d as i32 },
            libc::SYS_getsockname => Call::LocalAddr { fd, place: Place { addr: b, len: c } },
            libc::SYS_getpeername => Call::PeerAddr { fd, place: Place { addr: b, len: c } },
            libc::SYS_getsockopt => {
                Call::Option { fd, level: b as i32, name: c as i32, place: Place { addr: d, len: e } }
            }
            libc::SYS_setsockopt => {
                Call::SetOption { fd, level: b as i32, name: c as i32, addr: d, len: e as u32 as usize }
            }
            libc::SYS_sendto => Call::SendTo { fd, addr: b, len: c as usize, flags: d as i32 },
            _ => return None,
        })
    }
}
