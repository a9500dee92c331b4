//! Fuzz target: frames of stations, as a policy judges them.
#![no_main]

linerate_fuzz::target!(node::fuzz::policy);
