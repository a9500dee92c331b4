//! Result files, as reports and gates read them.
#![no_main]

linerate_fuzz::target!(lab::fuzz::results);
