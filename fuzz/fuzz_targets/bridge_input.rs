//! Fuzz target: frames through a bridge whose VLANs, port states, rules and snooping change.
#![no_main]

linerate_fuzz::target!(bridge::fuzz::input);
