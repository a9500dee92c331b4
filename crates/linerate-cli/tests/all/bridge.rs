//! `linerate bridge` with hosts in network namespaces of the kernel: traffic, loops, comparison
//! with other bridges, the address table, ports that are removed under load, and the command
//! itself.

mod lan;
mod loops;
mod queues;
mod tables;
mod traffic;
mod twin;
mod unplugged;
mod words;
