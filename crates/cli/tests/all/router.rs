//! `linerate`'s router in the world: the kernel as its twin.

mod twin;
