//! Tests of the library through its public interface only.

mod bridges;
mod builder;
#[cfg(feature = "commands")]
mod commands;
#[cfg(feature = "files")]
mod files;
mod forwarders;
mod guest;
mod life;
mod policy;
mod poll;
mod ports;
mod qemu;
#[cfg(feature = "quinn")]
mod quinn;
mod readme;
#[cfg(feature = "tokio")]
mod tokio;
mod world;
