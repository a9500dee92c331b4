//! Internal crate of [linerate](https://docs.rs/linerate): its interface may change in any release.
//!
//! Applications that run on the sockets of this project, and the tools that measure them.
//!
//! [`netperf`] has the tests of netperf, and [`netrate`] the tools of FreeBSD's
//! tools/tools/netrate; both run between any two hosts. [`load`] simulates many clients of a
//! service. The crate `programs` runs all of these on the hosts of a configuration.
//!
//! The servers for stream sockets are protocol implementations without sockets: each is an
//! [`app::App`], which receives bytes and the current time and returns bytes and actions.
//! [`serve::Server`] runs one of them on any implementation of [`streams::Streams`].
//! ```text
//!  streams::Streams    listen, accept, connect, send, recv, close, poll: by our stack
//!                      (streams::net), the kernel or a test network
//!  serve::Server       one thread: turns, channels, lingering connections
//!  app::App            ftp::Ftp | http::Http | iperf3::Iperf3 | kv::Kv | filed::Filed
//!                      | small::Small
//!  files::Root         files available to FTP and HTTP: built-in files and one directory
//! ```
#![forbid(unsafe_code)]
#![cfg_attr(
    not(any(test, fuzzing)),
    deny(clippy::unwrap_used, clippy::expect_used, clippy::indexing_slicing, clippy::panic, clippy::unreachable)
)]

pub mod app;
pub mod date;
pub mod filed;
pub mod files;
pub mod ftp;
#[cfg(any(test, fuzzing))]
pub mod fuzz;
mod glob;
pub mod http;
pub mod iperf3;
pub mod kv;
pub mod load;
#[cfg(any(test, fuzzing))]
mod net;
pub mod netperf;
pub mod netrate;
pub mod resp;
pub mod serve;
pub mod slots;
pub mod small;
pub mod span;
pub mod streams;
mod table;
