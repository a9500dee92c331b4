//! Messages to netserver and netrate's receivers.
#![no_main]

linerate_fuzz::target!(apps::fuzz::netperf);
