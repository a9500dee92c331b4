//! Fuzz target: configuration files.
#![no_main]

linerate_fuzz::target!(node::fuzz::config);
