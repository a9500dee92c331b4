//! Link layer: Ethernet. Loopback has no headers: see `Stack::loop_back`.

mod ether;
