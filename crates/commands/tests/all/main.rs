//! Hosts on the real clock, connected by pairs, with the commands that show their state.

mod isr;
mod large;
