//! Fuzz target: streams of frames as lines, JSON lines, binary records and captures.
#![no_main]

linerate_fuzz::target!(pipe::fuzz::input);
