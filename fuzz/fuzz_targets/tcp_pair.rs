//! Fuzz target: two TCP connections over a lossy link, with an attacker, applications and time.
#![no_main]

linerate_fuzz::target!(tcp::fuzz::pair);
