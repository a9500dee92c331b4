//! Fuzz target: two hosts on a wire, with frames, time and socket calls in any order.
#![no_main]

linerate_fuzz::target!(inet::fuzz::stack);
