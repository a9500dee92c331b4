//! A key-value server and its clients: requests as arrays and lines, slow readers, time.
#![no_main]

linerate_fuzz::target!(apps::fuzz::kv);
