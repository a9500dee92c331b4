//! A file service and its clients: records, handles, slow readers, time.
#![no_main]

linerate_fuzz::target!(apps::fuzz::filed);
