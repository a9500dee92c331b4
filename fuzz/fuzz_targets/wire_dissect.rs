//! Fuzz target: the dissector that prints a frame as one line.
#![no_main]

linerate_fuzz::target!(wire::fuzz::dissect);
