//! Answers of DHCP servers.
#![no_main]

linerate_fuzz::target!(node::fuzz::dhcp);
