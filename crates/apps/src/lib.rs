//! Programs on our sockets.
//!
//! [`testtool`] is rump2014's: it sends, receives or routes UDP as fast as the stack can and prints the report's result
//! block. [`netperf`] has netperf's tests, and [`netrate`] the tools of FreeBSD's tools/tools/netrate, between any two ends; [`load`] asks a service as many clients would.
//!
//! The servers on streams are protocols without sockets: each is an [`app::App`] that takes bytes and time and says what it
//! wants done. [`serve::Server`] runs one on anything that is [`streams::Streams`].
//! ```text
//!  streams::Streams    listen, accept, connect, send, recv, close, poll: our stack's calls, or the kernel's, or a test's
//!  serve::Server       one thread: turns, channels, lingering ends
//!  app::App            ftp::Ftp | http::Http | iperf3::Iperf3 | kv::Kv | filed::Filed | small::Small
//!  host::HostStreams   Streams of a host of ours; host::run is its whole life with one application
//!  files::Root         what FTP and HTTP may name: built-in files and one directory
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
pub mod host;
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
pub mod testtool;
