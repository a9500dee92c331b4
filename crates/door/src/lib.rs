//! Internal crate of [linerate](https://docs.rs/linerate): its interface may change in any release.
//!
//! Runs unmodified programs on the sockets of a host. A seccomp filter stops the program's calls
//! that open and connect stream sockets, and the host answers them ([`Door`]). In place of each TCP
//! socket, the program gets a token: a UNIX stream socket of the kernel, whose other end is in this
//! process. All calls with data, and poll, fork, dup and the like, are the kernel's own, so they
//! work in all programs, also in those that are linked statically.
//!
//! ```text
//!  filter::program   which calls are stopped
//!  os                notifications, memory of the program, UNIX sockets, epoll, fork and exec
//!  call::Call        a stopped call, parsed
//!  Door              the sockets of the programs: answers calls, follows the host's events
//!  pump              passes bytes between a token and a connection
//! ```
//!
//! The filter is for compatibility, not for security (seccomp_unotify(2)): a program could change
//! its arguments after they were read.
#![cfg(target_os = "linux")]
#![cfg(any(target_arch = "x86_64", target_arch = "aarch64"))]
#![cfg_attr(
    not(any(test, fuzzing)),
    deny(clippy::unwrap_used, clippy::expect_used, clippy::indexing_slicing, clippy::panic, clippy::unreachable)
)]

mod address;
mod call;
mod door;
mod filter;
mod options;
mod os;
mod pump;

pub use door::Door;
