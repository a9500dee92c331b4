//! Fuzz target: messages to netserver and to the receivers of netrate.
#![no_main]

linerate_fuzz::target!(apps::fuzz::netperf);
