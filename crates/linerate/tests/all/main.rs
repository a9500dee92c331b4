//! Tests of the library through its public interface only.

mod forwarders;
mod life;
mod ports;
mod readme;
#[cfg(feature = "tokio")]
mod tokio;
mod world;
