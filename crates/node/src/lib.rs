//! The one crate that knows everyone: wires ports to stacks, runs them, and answers questions about them.
//!
//! A [`Host`] is a stack with its clock and the receiving halves of its ports; [`Host::step`] is the loop's body. What a
//! host is to be like is a [`config::HostConfig`], from a TOML file or from flags with the same words.
#![forbid(unsafe_code)]

pub mod config;
mod host;

pub use host::{AddPortError, Host, PortInfo, Step};
