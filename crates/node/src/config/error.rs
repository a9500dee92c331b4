//! Errors of configuration files, with their place.

use std::fmt;

/// Error in a configuration file.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct ConfigError {
    /// Name of the configuration file.
    pub file: String,
    /// Line number, from 1; 0 if the error concerns the whole file.
    pub line: usize,
    /// Cause and expected value.
    pub what: String,
}

impl fmt::Display for ConfigError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.line {
            0 => write!(f, "{}: {}", self.file, self.what),
            line => write!(f, "{}:{line}: {}", self.file, self.what),
        }
    }
}

impl std::error::Error for ConfigError {}
