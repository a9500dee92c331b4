//! Fuzz target: an iperf3 server and its clients, with cookies, parameters, streams and results.
#![no_main]

linerate_fuzz::target!(apps::fuzz::iperf3);
