//! Answers of name servers.
#![no_main]

linerate_fuzz::target!(wire::fuzz::dns);
