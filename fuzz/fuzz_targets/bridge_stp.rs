//! Fuzz target: the spanning tree protocol of a bridge, with BPDUs, links, sysctls and time.
#![no_main]

linerate_fuzz::target!(bridge::stp_fuzz::stp);
