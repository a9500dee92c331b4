//! Fuzz target: a file service and its clients, with records, handles, slow readers and time.
#![no_main]

linerate_fuzz::target!(apps::fuzz::filed);
