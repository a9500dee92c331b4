//! The standard's tables, the guards, and whole networks on virtual time.

mod random;
mod world;

use super::*;
