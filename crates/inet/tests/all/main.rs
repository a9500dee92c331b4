//! Tests of a host, one file per protocol. All are in one program, since a stack is generic over
//! its locks and compiled for each kind.

#[macro_use]
mod common;

mod advertise;
mod ancillary;
mod arp;
mod autoconf;
mod bind;
mod burst6;
mod forward;
mod frag;
mod frag6;
mod gateway6;
mod gif6;
mod group;
mod group6;
mod held;
mod icmp;
mod icmp6;
mod ip4;
mod ip6;
mod ledger;
mod local6;
mod loopback;
mod mirror;
mod nd;
mod paths6;
mod random;
mod raw;
mod redirect6;
mod relay6;
mod rfc6;
mod router;
mod scan;
mod segments;
mod sources;
mod tcp;
mod tcp6;
mod threads;
mod tunnel;
mod udp;
mod udp6;
mod validation6;
mod zone6;
