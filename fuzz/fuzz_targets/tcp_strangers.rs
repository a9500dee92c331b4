//! Fuzz target: TCP segments of unknown peers to a listener and to TIME-WAIT entries.
#![no_main]

linerate_fuzz::target!(tcp::fuzz::strangers);
