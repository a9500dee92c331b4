//! `linerate bridge` in the world: hosts of the kernel's in namespaces of their own, joined by it; loops; the kernel's bridge as its twin;
//! addresses that come, age, move and are too many; ports that go under load; the command itself.

mod lan;
mod loops;
mod queues;
mod tables;
mod traffic;
mod twin;
mod unplugged;
mod words;
