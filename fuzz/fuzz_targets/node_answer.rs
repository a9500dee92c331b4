//! Fuzz target: answers of a control socket, as its client parses them.
#![no_main]

linerate_fuzz::target!(node::fuzz::answer);
