//! Replacement for the file of hosts in builds without the cargo feature `files`.

/// A file; none exists in this build.
#[derive(Clone, Debug)]
pub enum ConfigFile {}
