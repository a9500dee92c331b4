//! The three lock kinds behind one trait, and the current context.
