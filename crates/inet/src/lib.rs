//! Internal crate of [linerate](https://docs.rs/linerate): its interface may change in any release.
//!
//! IP stack of a host or router: link layer, neighbors, routes, IPv4, IPv6, ICMP, IGMP, MLD, UDP,
//! demultiplexing, and all of TCP except its state machine.
//!
//! ```text
//!  in   Stack::input            a burst from a port
//!       link::ether             for us? -> arp | ip4 | ip6
//!       ip4::input              checks, reassembly -> deliver | forward | drop(reason)
//!       ip4::forward            time to live, next hop, fragment or too-big error
//!       ip6                     the same for IPv6 -> icmp6, nd, mld, tunnels | ip6::forward
//!       tunnel::input           lookup, decapsulation, queue, then input as if from a port
//!       demux -> udp, tcp       four-tuple -> Pcb or connection, receive queue, reader woken
//!  out  udp::, tcp::output      header (cached from the previous datagram), checksum
//!       ip4::output             route, fragments -> neigh: MAC address or wait
//!       link::ether             -> iface stage -> port
//! ```
//!
//! A [`Stack`] is one host. It has no global state, no threads and no clock, and makes no system
//! calls. The caller passes the time as `Cx::now` and frames as bursts. Frames leave through the
//! [`iface::Output`] that the node installs. Every frame that is freed in the stack is counted
//! under a [`stats::DropReason`]. [`Stack::audit`] verifies that no frame is missing. UDP and TCP
//! are written once for both families ([`family`]).
//!
//! A file contains either the types of a layer or the methods of [`Stack`] that process its
//! packets. [`Stack`] imports the types, and the files with methods import [`Stack`], so there are
//! no import cycles.
//!
//! Large functions that run at most once per burst have `#[inline(never)]`. The crates of a program
//! then share one compiled instance of each (decision 42).
#![forbid(unsafe_code)]
#![cfg_attr(
    not(test),
    deny(clippy::unwrap_used, clippy::expect_used, clippy::indexing_slicing, clippy::panic, clippy::unreachable)
)]

pub mod alarm;
mod arp;
mod bfd;
pub mod counters;
pub mod demux;
mod destination;
pub mod echo;
pub mod ends;
mod family;
#[cfg(any(test, fuzzing))]
pub mod fuzz;
pub mod groups;
mod icmp4;
mod icmp6;
pub mod iface;
mod igmp;
mod ip;
pub mod ip4;
pub mod ip6;
mod limit;
mod link;
mod mld;
mod nd;
pub mod neigh;
pub mod prefixes;
pub mod punt;
pub mod raw;
mod ready;
mod redirect;
pub mod requests;
pub mod resolvers;
pub mod route;
mod sessions;
mod slots;
mod stack;
pub mod sysctls;
pub mod tcp;
pub mod tunnel;
pub mod udp;
pub mod zone;

pub use ::fib;
pub use slots::{Slot, Slots};
pub use stack::{Config, LockUse, LoopUse, Notice, Stack};
