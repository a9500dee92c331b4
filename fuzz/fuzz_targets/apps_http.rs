//! An HTTP server and its clients: requests, slow readers, time.
#![no_main]

linerate_fuzz::target!(apps::fuzz::http);
