//! Internal crate of [linerate](https://docs.rs/linerate): its interface may change in any release.
//!
//! Top-level crate: connects ports to stacks, runs hosts and switches, and reports their state.
//!
//! A [`Host`] is a stack with its clock and the receive halves of its ports. [`Host::step`] is the
//! body of its loop. Its configuration is a [`config::HostConfig`], read from a TOML file or from
//! flags with the same keys. The methods in [`change`] change a running host. Its [`control`]
//! socket runs the commands of the crate `commands`.
#![forbid(unsafe_code)]
#![cfg_attr(
    not(any(test, fuzzing)),
    deny(clippy::unwrap_used, clippy::expect_used, clippy::indexing_slicing, clippy::panic, clippy::unreachable)
)]

pub mod address;
mod audit;
pub mod capture;
pub mod change;
mod collect;
pub mod config;
pub mod control;
#[cfg_attr(not(feature = "dhcp"), path = "dhcp/absent.rs")]
pub mod dhcp;
pub mod figures;
pub mod fpm;
#[cfg(any(test, fuzzing))]
pub mod fuzz;
mod host;
mod inputs;
pub mod isr;
pub mod jobs;
pub mod ledgers;
pub mod log;
pub mod mirror;
mod origin;
pub mod policy;
pub mod reload;
pub mod remote;
pub mod run;
pub mod service;
mod shutdown;
mod sleep;
mod split;
pub mod switch;
pub mod sysctl;
pub mod topology;
pub mod tunnel;

pub use host::{AddPortError, Host, NewHostError, OpenOwn, PortInfo, PuntStatus, Step};
pub use run::build;
