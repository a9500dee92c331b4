//! The one-line dissector.
#![no_main]

linerate_fuzz::target!(wire::fuzz::dissect);
