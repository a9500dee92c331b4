//! Fuzz target: a filter expression and a frame.
#![no_main]

linerate_fuzz::target!(wire::fuzz::filter);
