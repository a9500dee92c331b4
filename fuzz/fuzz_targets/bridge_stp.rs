//! A bridge's part in the spanning tree: BPDUs, links, sysctls, time.
#![no_main]

linerate_fuzz::target!(bridge::stp_fuzz::stp);
