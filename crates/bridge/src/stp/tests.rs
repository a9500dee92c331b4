//! The standard's tables, the guards, and whole networks on virtual time.

mod guards;
mod random;
mod table;
mod world;

use super::*;
