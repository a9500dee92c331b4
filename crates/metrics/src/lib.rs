//! Internal crate of [linerate](https://docs.rs/linerate): its interface may change in any release.
//!
//! Metrics of running hosts and bridges, in the formats of Prometheus and OpenMetrics, over HTTP.
//!
//! ```text
//! server    accepts clients, parses requests    GET /metrics
//! node      figures of each node, collected from its thread (node::figures)
//! families  figures as metric families: names, labels, values
//! text      families as text, in either format
//! ```
#![forbid(unsafe_code)]
#![cfg_attr(
    not(any(test, fuzzing)),
    deny(clippy::unwrap_used, clippy::expect_used, clippy::indexing_slicing, clippy::panic, clippy::unreachable)
)]

mod families;
#[cfg(any(test, fuzzing))]
pub mod fuzz;
mod request;
mod server;
mod text;

pub use families::{Family, Kind, Sample, families};
pub use request::{Request, RequestError};
pub use server::{Bound, Server};
pub use text::Format;
