//! Fuzz target: FPM frames with netlink messages.
#![no_main]

linerate_fuzz::target!(wire::fuzz::fpm);
