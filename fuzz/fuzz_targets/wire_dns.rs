//! Fuzz target: DNS responses.
#![no_main]

linerate_fuzz::target!(wire::fuzz::dns);
