//! Fuzz target: the link of a port for IP packets, with received packets and with a host's frames.
#![no_main]

linerate_fuzz::target!(port::fuzz::ip_link);
