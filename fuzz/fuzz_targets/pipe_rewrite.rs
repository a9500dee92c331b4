//! Fuzz target: edits, address translation and checksums of frames.
#![no_main]

linerate_fuzz::target!(pipe::fuzz::rewrite);
