//! Fuzz target: tunnels of every kind, with arbitrary packets from far ends and routers.
#![no_main]

linerate_fuzz::target!(inet::fuzz::tunnel);
