//! Fuzz target: frames as lines of text, read by every implementation and written back.
#![no_main]

linerate_fuzz::target!(wire::fuzz::text);
