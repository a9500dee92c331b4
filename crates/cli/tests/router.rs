//! `linerate`'s router in the world: the kernel as its twin.

mod common;

#[path = "router/twin.rs"]
mod twin;
