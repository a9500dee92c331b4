//! `linerate bridge` in the world: hosts of the kernel's in namespaces of their own, joined by it; loops; the kernel's bridge as its twin;
//! addresses that come, age, move and are too many; ports that go under load; the command itself.

mod common;

#[path = "bridge/lan.rs"]
mod lan;
#[path = "bridge/loops.rs"]
mod loops;
#[path = "bridge/queues.rs"]
mod queues;
#[path = "bridge/tables.rs"]
mod tables;
#[path = "bridge/traffic.rs"]
mod traffic;
#[path = "bridge/twin.rs"]
mod twin;
#[path = "bridge/unplugged.rs"]
mod unplugged;
#[path = "bridge/words.rs"]
mod words;
