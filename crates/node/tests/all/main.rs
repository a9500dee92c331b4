//! Hosts with threads on the real clock, connected by pairs. Tests that stop all hosts of the
//! process are test programs of their own.

mod doorbell;
mod drive;
mod parts;
mod shutdown;
