//! Fuzz target: a key-value server and its clients, with requests as arrays and as lines.
#![no_main]

linerate_fuzz::target!(apps::fuzz::kv);
