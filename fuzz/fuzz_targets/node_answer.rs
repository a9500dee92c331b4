//! Answers of a control socket.
#![no_main]

linerate_fuzz::target!(node::fuzz::answer);
