//! Fuzz target: requests to the server of metrics.
#![no_main]

linerate_fuzz::target!(metrics::fuzz::request);
