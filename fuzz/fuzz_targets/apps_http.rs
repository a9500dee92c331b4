//! Fuzz target: an HTTP server and its clients, with requests, slow readers and time.
#![no_main]

linerate_fuzz::target!(apps::fuzz::http);
