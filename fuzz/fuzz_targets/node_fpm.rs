//! Fuzz target: streams of a routing engine, applied to the tables of a host.
#![no_main]

linerate_fuzz::target!(node::fuzz::fpm);
