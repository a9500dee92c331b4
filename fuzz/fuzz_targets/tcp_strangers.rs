//! TCP: strangers at a listener and at what TIME-WAIT remembers.
#![no_main]

linerate_fuzz::target!(tcp::fuzz::strangers);
