//! Every checksum kernel against the plain one, odd splits included.
#![no_main]

linerate_fuzz::target!(wire::fuzz::checksum);
