//! Hosts with threads, on the real clock, joined by pairs. What stops the whole process has a program of its own beside this one.

mod doorbell;
mod drive;
mod isr;
mod large;
mod shutdown;
