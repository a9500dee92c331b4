//! Streams of frames as lines, JSON lines, records and captures.
#![no_main]

linerate_fuzz::target!(pipe::fuzz::input);
