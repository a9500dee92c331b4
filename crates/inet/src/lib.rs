//! A host and a router: link, neighbors, FIB, IPv4, ICMP, UDP, demux.
