//! Fuzz target: IPv4 reassembly, with fragments, time and configuration changes.
#![no_main]

linerate_fuzz::target!(inet::ip4::reass::fuzz);
