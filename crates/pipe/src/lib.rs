//! Internal crate of [linerate](https://docs.rs/linerate): its interface may change in any release.
//!
//! Frames as lines of text in UNIX pipes, as in ethpipe. Reads, matches, rewrites and writes frames
//! on one core or several, and keeps their order.
//!
//! ```text
//! Input            stdin, a file or a port; text, binary records, pcap(ng) or JSON lines,
//!                  detected by the first bytes
//!   -> Frames      a batch: some hundred kilobytes of frames in one arena
//! Stage ...        one per command: removes, changes or adds frames of a batch; `+` chains several
//! Output           stdout, a file or a port; by default in the format of the input
//! ```
//!
//! [`run`](run::run) moves batches from the input to the output with one thread or several
//! ([`spread`]). If all stages can be copied ([`Stage::fork`]), the copies process batches in
//! parallel. Otherwise the batches pass through the stages one after the other. Frames leave in the
//! order in which they arrived.
#![deny(unsafe_code)]
#![cfg_attr(
    not(test),
    deny(clippy::unwrap_used, clippy::expect_used, clippy::indexing_slicing, clippy::panic, clippy::unreachable)
)]

pub mod cat;
pub mod count;
pub mod crc;
pub mod delay;
pub mod flow;
mod format;
mod frames;
#[cfg(any(test, fuzzing))]
pub mod fuzz;
pub mod generate;
pub mod grep;
pub mod input;
pub mod mount;
pub mod nanoping;
pub mod os;
mod output;
pub mod ports;
mod queue;
pub mod rate;
pub mod rewrite;
pub mod run;
pub mod sketch;
pub mod spread;
pub mod stage;
pub mod targets;
pub mod timed;
pub mod top;
pub mod units;

pub use format::Format;
pub use frames::{About, FrameMut, Frames, Time};
pub use input::{BadInput, Input};
pub use output::{BadOutput, Encoder, Output};
pub use stage::Stage;
