//! IPv6 at a router with tunnels: chains, fragments, neighbor discovery, errors, from somebody who sends what he likes.
#![no_main]

linerate_fuzz::target!(inet::fuzz::six);
