//! TCP as a machine of sequence numbers: segments in, segments out, and no payload bytes.
//!
//! ```text
//!  in   Segment::parse          header and options that `wire` vouched for
//!       Tcb::on_segment         the walk of RFC 9293 3.10.7; a Reply says what to keep of the text, what to release
//!  out  Tcb::poll_segment       what may be sent now: an Out says what goes into the header and which bytes follow it
//!  time Tcb::next_timer         one instant for all timers; Tcb::on_timer does what is due
//! ```
//!
//! The core knows no IP header, no frame, no thread, no clock. It sees lengths; the bytes lie in the host's queues. Time comes
//! in as `clock::Instant`, chance as arguments. Same inputs, same outputs. Where it leaves an RFC, `differences.md` says so.
#![forbid(unsafe_code)]
#![cfg_attr(
    not(test),
    deny(clippy::unwrap_used, clippy::expect_used, clippy::indexing_slicing, clippy::panic, clippy::unreachable)
)]

pub mod cc;
mod challenge;
mod config;
pub mod cookie;
pub mod counters;
mod ends;
mod handshake;
pub mod isn;
pub mod listen;
pub mod pacing;
pub mod ports;
mod segment;
mod seq;
pub mod siphash;
mod table;
pub mod time_wait;

pub use challenge::ChallengeLimit;
pub use config::{Config, EcnMode};
pub use ends::Ends;
pub use handshake::{Handshake, TsState};
pub use segment::{Block, Blocks, Ecn, Out, OutOptions, Segment, SegmentOptions, Timestamps};
pub use seq::SeqNum;
