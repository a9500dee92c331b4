//! Fuzz target: FUSE requests to a mount.
#![no_main]

linerate_fuzz::target!(pipe::fuzz::fuse);
