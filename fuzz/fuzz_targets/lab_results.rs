//! Fuzz target: result files, as `linerate report` and `linerate gate` read them.
#![no_main]

linerate_fuzz::target!(lab::fuzz::results);
