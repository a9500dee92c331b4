//! Hosts with threads on the real clock, joined by pairs. Tests that stop the whole process are in test
//! programs of their own.

mod doorbell;
mod drive;
mod isr;
mod large;
mod parts;
mod shutdown;
