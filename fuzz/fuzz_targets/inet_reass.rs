//! Reassembly: a conversation of fragments, time and interruptions.
#![no_main]

linerate_fuzz::target!(inet::ip4::reass::fuzz);
