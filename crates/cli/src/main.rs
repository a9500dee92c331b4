//! One binary, many commands.
fn main() {}
