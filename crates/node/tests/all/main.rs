//! Hosts with threads on the real clock, joined by pairs. Tests that stop all hosts of the process
//! have test programs of their own.

mod doorbell;
mod drive;
mod isr;
mod large;
mod parts;
mod shutdown;
