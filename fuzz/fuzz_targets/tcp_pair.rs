//! TCP: two connections, a bad wire, a stranger, applications and time.
#![no_main]

linerate_fuzz::target!(tcp::fuzz::pair);
