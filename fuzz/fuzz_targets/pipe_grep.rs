//! Fuzz target: patterns of `grep` and the lines that they select.
#![no_main]

linerate_fuzz::target!(pipe::fuzz::grep);
