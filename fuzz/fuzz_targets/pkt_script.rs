//! Fuzz target: packetdrill scripts, parsed and run.
#![no_main]

linerate_fuzz::target!(pkt::fuzz::script);
