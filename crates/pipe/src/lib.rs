//! Frames as lines, through any UNIX pipe (ethpipe2013): read, matched, rewritten, spread over cores, in their order.
//!
//! ```text
//! Input            stdin, a file or a port; text, binary records, pcap(ng) or JSON lines, told by the first bytes
//!   -> Frames      a batch: some hundred kilobytes of frames in one arena
//! Stage ...        each command is one: it removes, changes or adds frames of a batch; `+` puts several in a row
//! Output           the same kind as came in, unless asked otherwise; stdout, a file or a port
//! ```
//!
//! [`run`](run::run) moves batches from one end to the other, with one thread or with many ([`spread`]): what a stage allows to be worked
//! on beside others is, what it does not comes to it in order, and what leaves is in the order in which it came.
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
