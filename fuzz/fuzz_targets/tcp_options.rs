//! TCP: the options of a segment.
#![no_main]

linerate_fuzz::target!(tcp::fuzz::options);
