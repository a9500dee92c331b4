//! Conversations by state and event. Each incoming line states the complete reply, each outgoing
//! line all fields.

use super::peer::{Talk, established, plain, talk};
use crate::{Config, EcnMode};

mod closing;
mod data;
mod opening;
mod recovering;
