//! Fuzz target: the options of a TCP segment.
#![no_main]

linerate_fuzz::target!(tcp::fuzz::options);
