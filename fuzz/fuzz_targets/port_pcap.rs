//! Fuzz target: pcap and pcapng captures, read at once and in pieces.
#![no_main]

linerate_fuzz::target!(port::fuzz::pcap);
