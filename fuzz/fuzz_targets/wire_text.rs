//! Lines of text by every kind of reader, and back.
#![no_main]

linerate_fuzz::target!(wire::fuzz::text);
