//! Scripts of packets and calls, read and played.
#![no_main]

linerate_fuzz::target!(sim::fuzz::script);
