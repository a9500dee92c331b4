//! Fuzz target: every header parser on a frame, layer by layer.
#![no_main]

linerate_fuzz::target!(wire::fuzz::frame);
