//! Internal crate of [linerate](https://docs.rs/linerate): its interface may change in any release.
//!
//! Parsing and writing of packets: headers, checksums, and a one-line dissector.
//!
//! `parse` turns a borrowed slice into a typed value, and `emit` does the reverse. Nothing here
//! owns a buffer, does I/O or keeps state. Memory is allocated only while a [`filter`] is compiled.
//! Byte offsets into headers are used in this crate only: the type of a parsed header guarantees
//! that its lengths were checked against the bytes present.
//!
//! All input from a wire is untrusted: every parser returns [`Malformed`] with a reason, and no
//! byte string leads to a panic, an unbounded loop or recursion (the `fuzz` module lists the
//! invariants, the tests check them).
//!
//! | module | contents | standard |
//! |---|---|---|
//! | [`eth`], [`vlan`] | Ethernet II header, 802.1Q tag | IEEE 802.3 3.2, 802.1Q 9.6 |
//! | [`bpdu`] | BPDUs of the spanning tree | IEEE 802.1D 9 |
//! | [`arp`] | address resolution for IPv4 over Ethernet | RFC 826 |
//! | [`ip4`], [`ip6`] | IP headers, options, extension headers | RFC 791, RFC 8200 |
//! | [`icmp4`], [`igmp`] | control messages of IPv4 | RFC 792, RFC 2236, RFC 3376 |
//! | [`icmp6`], [`mld`] | control messages of IPv6 | RFC 4443, RFC 4861, RFC 3810 |
//! | [`udp`], [`tcp`] | transport headers, TCP options | RFC 768, RFC 9293 3.1 |
//! | [`gre`], [`vxlan`], [`etherip`] | tunnel headers | RFC 2784, RFC 2890, RFC 7348, RFC 3378 |
//! | [`checksum`] | the Internet checksum, scalar and SIMD | RFC 1071, RFC 1624 |
//! | [`gso`] | segmentation of a large TCP segment | RFC 9293, RFC 3168 6.1.2 |
//! | [`edit`] | changes of fields in place, with their checksums | RFC 1624 |
//! | [`dissect`] | a frame as one line of text | tcpdump(1) |
//! | [`text`], [`bpkt`] | frames as lines of hexadecimal digits or binary records | ethpipe |
//! | [`flow`] | keyed hash of the flow to which a frame belongs | - |
//! | [`rss`] | receive queue that a NIC would select for a packet | - |
//! | [`fpm`], [`rtnetlink`] | routes that FRR sends to a forwarding plane | FRR, rtnetlink(7) |
//! | [`filter`] | filter expressions in tcpdump's language, compiled | pcap-filter(7) |
//!
//! ```
//! use linerate_wire::{Mac, dissect, eth};
//!
//! let mut frame = [0; 14];
//! let (src, dst) = ("02:00:00:00:00:01".parse()?, Mac::BROADCAST);
//! eth::Header { dst, src, ethertype: eth::EtherType::IPV4 }.emit(&mut frame);
//! assert_eq!(eth::Header::parse(&frame)?.src, src);
//! let line = dissect::line(&frame).to_string();
//! assert_eq!(line, "02:00:00:00:00:01 > ff:ff:ff:ff:ff:ff, ethertype IPv4 (0x0800), length 14: [|ip]");
//! # Ok::<(), Box<dyn core::error::Error>>(())
//! ```
#![cfg_attr(not(any(test, fuzzing)), no_std)]
#![deny(unsafe_code, missing_docs)]
#![cfg_attr(
    not(test),
    deny(clippy::unwrap_used, clippy::expect_used, clippy::indexing_slicing, clippy::panic, clippy::unreachable)
)]

extern crate alloc;
#[cfg(feature = "std")]
extern crate std;

pub mod arp;
pub mod bfd;
pub mod bpdu;
pub mod bpkt;
pub mod checksum;
pub mod control;
mod cpu;
pub mod dissect;
pub mod dns;
pub mod edit;
pub mod eth;
pub mod etherip;
pub mod filter;
pub mod flow;
pub mod fpm;
#[cfg(any(test, fuzzing))]
pub mod fuzz;
pub mod gre;
pub mod gso;
pub mod hash;
mod hint;
pub mod icmp4;
pub mod icmp6;
pub mod igmp;
pub mod ip4;
pub mod ip6;
mod l4port;
pub mod link;
mod malformed;
pub mod mld;
mod proto;
pub mod rss;
pub mod rtnetlink;
pub mod tcp;
pub mod text;
pub mod udp;
pub mod vlan;
pub mod vxlan;

pub use eth::Mac;
pub use l4port::L4Port;
pub use malformed::{Layer, Malformed};
pub use proto::Proto;

#[cfg(test)]
mod samples;
#[cfg(test)]
mod tests;
