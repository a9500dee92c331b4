//! Fuzz target: frames as lines of text, read at once and in pieces.
#![no_main]

linerate_fuzz::target!(port::fuzz::text);
