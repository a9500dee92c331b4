//! Lines of text, in pieces.
#![no_main]

linerate_fuzz::target!(port::fuzz::text);
