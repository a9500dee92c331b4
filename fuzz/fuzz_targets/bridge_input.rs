//! Frames through a bridge of which VLANs, states, rules and snooping change.
#![no_main]

linerate_fuzz::target!(bridge::fuzz::input);
