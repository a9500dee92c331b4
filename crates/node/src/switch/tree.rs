//! Spanning tree and link states of a switch. BPDUs come from the bridge replicas of its threads,
//! and the effects of the protocol are applied to every replica.
//!
//! All threads share one [`Stp`]. A thread that receives a frame for the bridge itself puts it into
//! the [`Inbox`] and wakes the first thread, which runs the spanning tree between its turns
//! ([`Switch::tend`]).
//!
//! [`Switch::tend`]: super::Switch::tend

mod switch;

use super::poison::lock;
use bridge::{Carrier, PortNo, Stp};
use clock::{Duration, Instant};
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use wire::bpdu::BRIDGE_GROUP;

/// Maximum number of queued BPDUs; further ones are dropped and counted.
const MOST: usize = 1024;
/// Interval at which link states are polled.
const LINKS: Duration = Duration::from_millis(100);
/// Polling interval while a link is down, because its port forwards no frames until the link is
/// found to be up.
const LINKS_DOWN: Duration = Duration::from_millis(5);

stats::counters! {
    /// Counters of frames for the bridge itself.
    pub struct LocalCounts at "bridge.local" {
        /// BPDUs for the spanning tree.
        heard,
        /// BPDUs dropped: the queue was full.
        lost,
        /// Frames for the bridge's own address or for bridge group addresses: discarded.
        unread,
    }
}

/// Queue of BPDUs for the spanning tree.
#[derive(Debug, Default)]
pub struct Inbox {
    frames: Mutex<VecDeque<(PortNo, Vec<u8>)>>,
    some: AtomicBool,
    /// Counters of the queue.
    pub counts: LocalCounts,
}

impl Inbox {
    /// Queues a BPDU and drops other frames. Returns whether it was a BPDU.
    pub fn put(&self, from: PortNo, bytes: &[u8]) -> bool {
        let mut waiting = lock(&self.frames);
        if !bytes.starts_with(&BRIDGE_GROUP.0) {
            self.counts.unread.bump();
            return false;
        }
        if waiting.len() < MOST {
            waiting.push_back((from, bytes.to_vec()));
            self.counts.heard.bump();
        } else {
            self.counts.lost.bump();
        }
        self.some.store(true, Ordering::Release);
        true
    }

    /// Returns whether a BPDU is queued.
    #[inline]
    pub fn is_some(&self) -> bool {
        self.some.load(Ordering::Relaxed)
    }

    fn take(&self) -> VecDeque<(PortNo, Vec<u8>)> {
        self.some.store(false, Ordering::Relaxed);
        std::mem::take(&mut lock(&self.frames))
    }
}

/// The spanning tree protocol of a switch, with the state needed to run it.
#[derive(Debug)]
pub struct Tree {
    /// State of the spanning tree protocol.
    pub stp: Stp,
    /// Shortened ageing times of learned addresses, by port (802.1D-2004 17.19.1).
    ageing: BTreeMap<PortNo, Duration>,
    aged: Instant,
}

/// Link states of the ports at the last check.
#[derive(Debug, Default)]
pub(super) struct Links {
    down: BTreeSet<PortNo>,
    /// Last carrier state of the ports. A port without an entry has the default state.
    carriers: BTreeMap<PortNo, Carrier>,
    next: Instant,
}

/// Inbox of a switch, which its threads share.
pub type SharedInbox = Arc<Inbox>;
