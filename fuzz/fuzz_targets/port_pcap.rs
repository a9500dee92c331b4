//! Both capture formats, whole and in pieces.
#![no_main]

linerate_fuzz::target!(port::fuzz::pcap);
