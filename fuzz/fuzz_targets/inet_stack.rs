//! Two hosts: frames, time and calls in any order.
#![no_main]

linerate_fuzz::target!(inet::fuzz::stack);
