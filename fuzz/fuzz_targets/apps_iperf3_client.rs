//! Fuzz target: an iperf3 client that receives arbitrary bytes from its server.
#![no_main]

linerate_fuzz::target!(apps::fuzz::iperf3_client);
