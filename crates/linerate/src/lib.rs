//! A TCP/IP stack, an Ethernet bridge and an IP router in user space.
//!
//! A [`Host`] has its own addresses, routes, neighbors and sockets, which are independent of those
//! of the kernel. Its ports are virtual links inside the process, TAP devices, packet sockets,
//! capture files, text, or [ports of your own](port). One process can easily run a thousand hosts.
//!
//! # A first program
//!
//! A program depends on the library by the path of a checkout:
//!
//! ```toml
//! [dependencies]
//! linerate = { path = "../linerate/crates/linerate" }
//! ```
//!
//! An echo server on one host, and a client on another:
//!
//! ```
//! use linerate::net::{TcpListener, TcpStream};
//! use linerate::{Error, Host};
//! use std::io::{self, Read, Write};
//! use std::thread;
//!
//! fn main() -> Result<(), Error> {
//!     // Two hosts, connected by a virtual cable.
//!     let server = Host::builder().port("pair:cable").addr("10.0.0.1/24").build()?;
//!     let client = Host::builder().port("pair:cable").addr("10.0.0.2/24").build()?;
//!
//!     let listener = TcpListener::bind(&server, "10.0.0.1:7")?;
//!     thread::spawn(move || {
//!         for stream in listener.incoming().flatten() {
//!             thread::spawn(move || io::copy(&mut &stream, &mut &stream));
//!         }
//!     });
//!
//!     let mut stream = TcpStream::connect(&client, "10.0.0.1:7")?;
//!     stream.write_all(b"hello")?;
//!     let mut text = [0; 5];
//!     stream.read_exact(&mut text)?;
//!     assert_eq!(&text, b"hello");
//!     Ok(())
//! }
//! ```
//!
//! With `"tap:tap0"` instead of `"pair:cable"`, a host appears on the TAP device `tap0`, and
//! programs of the kernel can reach it. The directory `examples/` of this crate has eleven programs
//! (`cargo run -p linerate --example tcp_echo`), and `docs/guide/` of the repository explains each
//! part.
//!
//! # Kinds of hosts
//!
//! | type | runs | use it for |
//! |---|---|---|
//! | [`Host`] | in a thread of its own; sockets work in any thread, and in tasks of any runtime | most programs |
//! | [`LocalHost`] | on its owner's thread: a blocking call runs it, or a [`Driver`] runs several | lowest cost per packet, many hosts |
//! | [`LocalHost`] in a [`sim::World`] | on virtual time, with a seed | tests: the same seed gives the same packets |
//!
//! A [`Bridge`] connects ports at layer 2, and a [`Router`] is a host that forwards.
//!
//! # Sockets
//!
//! [`net`] has the types and semantics of `std::net`; each constructor takes the host as its first
//! argument. [`net::tasks`] has the same sockets with `async` methods. With the feature `tokio`,
//! their streams implement `AsyncRead` and `AsyncWrite`. [`net::Poll`] waits for events of many
//! sockets, for programs with an event loop.
//!
//! # Parts without a host
//!
//! [`wire`] parses and writes headers, [`filter`] compiles expressions of tcpdump, [`pcap`] reads
//! and writes captures, and [`stack`] is the network stack without ports, threads and clocks.
#![forbid(unsafe_code)]
#![deny(missing_docs)]
#![cfg_attr(
    not(test),
    deny(clippy::unwrap_used, clippy::expect_used, clippy::indexing_slicing, clippy::panic, clippy::unreachable)
)]

mod background;
mod bridges;
mod builder;
mod capture;
mod control;
mod driver;
pub mod error;
#[cfg(doctest)]
mod guide;
mod iface;
mod local;
pub mod net;
pub mod pcap;
pub mod policy;
pub mod port;
mod router;
pub mod sim;
pub mod stack;

pub use background::{Host, Unfinished};
pub use bridges::{Bridge, BridgeAddr, BridgeBuilder};
pub use builder::HostBuilder;
pub use capture::{Capture, CapturedFrame};
pub use control::{Audit, Connection, Counter, State};
pub use driver::Driver;
pub use error::Error;
pub use iface::{Offload, Tunnel};
pub use local::LocalHost;
pub use router::Router;

/// Headers of protocols: parsers and writers, checksums, flow hashes, the dissector.
#[doc(inline)]
pub use ::wire;
/// Filters: compiled expressions of tcpdump.
pub use ::wire::filter;
