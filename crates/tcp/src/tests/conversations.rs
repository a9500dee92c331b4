//! Conversations by state and event. Each line that arrives states all of its reply; each that leaves, all of its fields.

use super::peer::{Talk, established, plain, talk};
use crate::{Config, EcnMode};

mod closing;
mod data;
mod opening;
mod recovering;
