//! Fuzz target: slots of a packet socket's ring, and virtio headers.
#![no_main]

linerate_fuzz::target!(port::fuzz::device);
