//! Tunnels of every kind, a far end that sends what it likes, and routers that say what they like.
#![no_main]

linerate_fuzz::target!(inet::fuzz::tunnel);
