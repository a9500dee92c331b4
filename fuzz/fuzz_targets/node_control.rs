//! The control socket's lines and words.
#![no_main]

linerate_fuzz::target!(node::fuzz::control);
