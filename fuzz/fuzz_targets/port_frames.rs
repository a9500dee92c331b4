//! Fuzz target: frames on a UNIX stream, each after its length.
#![no_main]

linerate_fuzz::target!(port::fuzz::frames);
