//! Netisr of a host, and the share of a stack in the netisr of a split host.

use super::died::Died;
use super::protocols::Received;
use crate::split::{DispatchCounts, Strays};
use dispatch::netisr::Netisr;
use std::sync::Arc;

/// Index of a stack in a split host, and the counters of the dispatcher.
#[derive(Debug)]
pub(crate) struct ShardOf {
    pub(crate) at: usize,
    pub(crate) dispatched: Arc<DispatchCounts>,
    pub(crate) strays: Arc<Strays>,
}

/// Netisr of a host, shared by the host's threads.
#[derive(Debug)]
pub(crate) struct Isr {
    pub(crate) netisr: Arc<Netisr<Received>>,
    /// For a stack of a split host: its index, and the counters of the dispatcher. All stacks share
    /// the netisr, and frames queued in it do not belong to this host yet.
    pub(crate) shard: Option<ShardOf>,
    pub(crate) died: Died,
}

impl Isr {
    /// Returns the netisr of a host with one stack.
    pub(crate) fn of_host(netisr: Arc<Netisr<Received>>) -> Isr {
        Isr { netisr, shard: None, died: Died::default() }
    }

    /// Returns the netisr of stack `at` of a split host.
    pub(crate) fn of_shard(netisr: Arc<Netisr<Received>>, shard: ShardOf) -> Isr {
        Isr { netisr, shard: Some(shard), died: Died::default() }
    }
}
