//! A bridge's part in the spanning tree: BPDUs, links, knobs, time.
#![no_main]

linerate_fuzz::target!(bridge::stp_fuzz::stp);
