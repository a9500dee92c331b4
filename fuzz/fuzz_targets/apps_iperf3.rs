//! An iperf3 server and its clients: cookies, parameters, streams, results, time.
#![no_main]

linerate_fuzz::target!(apps::fuzz::iperf3);
