//! Fuzz target: control commands to a host.
#![no_main]

linerate_fuzz::target!(commands::fuzz::host);
