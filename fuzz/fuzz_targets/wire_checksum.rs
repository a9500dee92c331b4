//! Fuzz target: every checksum routine against a simple one, including odd split positions.
#![no_main]

linerate_fuzz::target!(wire::fuzz::checksum);
