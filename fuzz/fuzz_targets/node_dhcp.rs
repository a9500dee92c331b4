//! Fuzz target: answers of DHCP servers, as the DHCPv4 and DHCPv6 clients parse them.
#![no_main]

linerate_fuzz::target!(node::fuzz::dhcp);
