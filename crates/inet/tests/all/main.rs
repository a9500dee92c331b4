//! Conversations with a host under test, one file a protocol. One program: a stack is generic over its locks, and compiled for each.

#[macro_use]
mod common;

mod arp;
mod bind;
mod forward;
mod frag;
mod group;
mod icmp;
mod ip4;
mod loopback;
mod random;
mod router;
mod segments;
mod tcp;
mod threads;
mod tunnel;
mod udp;
