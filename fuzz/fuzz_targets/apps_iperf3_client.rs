//! An iperf3 client and a server that says anything: states, lengths, results, datagrams, time.
#![no_main]

linerate_fuzz::target!(apps::fuzz::iperf3_client);
