//! Fuzz target: the grammar of port names.
#![no_main]

linerate_fuzz::target!(port::fuzz::spec);
