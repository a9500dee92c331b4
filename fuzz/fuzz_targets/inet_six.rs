//! Fuzz target: an IPv6 router with tunnels that receives arbitrary frames of an attacker.
#![no_main]

linerate_fuzz::target!(inet::fuzz::six);
