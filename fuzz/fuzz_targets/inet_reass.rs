//! Fuzz target: IPv4 reassembly, with a sequence of fragments, time steps and interruptions.
#![no_main]

linerate_fuzz::target!(inet::ip4::reass::fuzz);
