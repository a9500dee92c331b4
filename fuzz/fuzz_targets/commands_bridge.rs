//! Fuzz target: control commands to a bridge.
#![no_main]

linerate_fuzz::target!(commands::fuzz::bridge);
