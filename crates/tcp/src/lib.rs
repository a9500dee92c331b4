//! Internal crate of [linerate](https://docs.rs/linerate): its interface may change in any release.
//!
//! TCP as a state machine over sequence numbers: its inputs and outputs are segments without
//! payload bytes.
//!
//! ```text
//!  in   Segment::parse          header and options validated by `wire`
//!       Tcb::on_segment         the steps of RFC 9293 3.10.7; a Reply: what to keep and release
//!  out  Tcb::poll_segment       what may be sent now; an Out: header fields, which data follows
//!  time Tcb::next_timer         one deadline for all timers; Tcb::on_timer runs those that are due
//! ```
//!
//! This crate handles no IP headers, frames, threads or clocks. It works with lengths only: the
//! bytes are in the queues of the host, the program that calls it. Time is passed in as
//! `clock::Instant`, randomness as arguments, so equal inputs give equal outputs. `differences.md`
//! lists deviations from the RFCs.
#![cfg_attr(not(any(test, fuzzing)), no_std)]
#![forbid(unsafe_code)]
#![deny(missing_docs)]
#![cfg_attr(
    not(test),
    deny(clippy::unwrap_used, clippy::expect_used, clippy::indexing_slicing, clippy::panic, clippy::unreachable)
)]

extern crate alloc;

mod ack;
mod answer;
mod api;
pub mod cc;
mod challenge;
mod chrono;
mod config;
pub mod cookie;
pub mod counters;
mod delack;
mod ends;
#[cfg(any(test, fuzzing))]
pub mod fuzz;
mod handshake;
mod host;
mod info;
mod input;
pub mod isn;
mod keepalive;
pub mod listen;
mod output;
pub mod pacing;
mod pmtu;
pub mod ports;
mod predict;
mod rack;
mod rare_events;
mod reassembly;
mod recovery;
mod reply;
mod rtt;
mod scoreboard;
mod segment;
mod seq;
pub mod siphash;
mod state;
mod table;
mod tcb;
#[cfg(test)]
mod tests;
pub mod time_wait;
mod timers;
mod window;

pub use answer::answer_to_nobody;
pub use api::Closed;
pub use challenge::ChallengeLimit;
pub use config::{Config, EcnMode};
pub use ends::Ends;
pub use handshake::{Handshake, TsState};
pub use info::Info;
pub use pmtu::IcmpNotice;
pub use predict::{Bare, Ended, Expected, Next, Taken};
pub use rare_events::RareEvents;
pub use reply::{Dropped, Events, Reply, Text};
pub use segment::{Block, Blocks, Ecn, Out, OutOptions, Segment, SegmentOptions, Timestamps};
pub use seq::SeqNum;
pub use state::State;
pub use tcb::{Tail, Tcb};
