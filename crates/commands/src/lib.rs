//! Internal crate of [linerate](https://docs.rs/linerate): its interface may change in any release.
//!
//! Commands that configure and display running hosts and bridges, with the grammars of the BSD and
//! iproute2 programs. [`host`] has the commands of hosts: ifconfig, ip, arp, route, sysctl, netstat
//! and others. [`bridge`] has the commands of bridges. The modules at the top are shared by both.
//!
//! A control socket runs them ([`node::control`]): [`All`] is what it is created with.
#![forbid(unsafe_code)]
#![cfg_attr(
    not(any(test, fuzzing)),
    deny(clippy::unwrap_used, clippy::expect_used, clippy::indexing_slicing, clippy::panic, clippy::unreachable)
)]

pub mod bridge;
mod capture;
mod cards;
#[cfg(any(test, fuzzing))]
pub mod fuzz;
mod help;
pub mod host;
mod jobs;
mod json;
mod link;
mod parse;
mod statement;
mod sysctl;

use grammar::CommandError;
use lock::Locks;
use node::Host;
use node::control::Commands;
use node::switch::Switch;
use port::Pairs;

/// All commands of hosts and bridges.
#[derive(Clone, Copy, Debug)]
pub struct All;

impl Commands for All {
    fn host<L: Locks>(host: &Host<L>, pairs: &Pairs, words: &[&str], json: bool) -> Result<String, CommandError> {
        host::run(host, pairs, words, json)
    }

    fn bridge(switch: &Switch, words: &[&str], json: bool) -> Result<String, CommandError> {
        bridge::run(switch, words, json)
    }
}
