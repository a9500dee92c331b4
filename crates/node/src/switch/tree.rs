//! The spanning tree of a switch, and its links: BPDUs come from the lanes' outlets, what the protocol says is done in every replica.
//!
//! One [`Stp`] for all lanes. A lane that has a frame for the bridge itself puts it into the [`Inbox`] and wakes the first lane, whose thread
//! tends the tree between its turns ([`Switch::tend`]).

use super::{Switch, lock};
use bridge::{Carrier, Effect, Kind, Link, PortNo, PortState, Reserved, Running, Stp, StpConfig, StpError, StpPort};
use clock::{Duration, Instant};
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use wire::bpdu::BRIDGE_GROUP;

/// BPDUs that wait at most; what is beyond is not heard, and counted.
const MOST: usize = 1024;
/// Interval at which link states are polled.
const LINKS: Duration = Duration::from_millis(100);
/// Polling interval while a link is down: no frames are forwarded there until it is seen up.
const LINKS_DOWN: Duration = Duration::from_millis(5);

stats::counters! {
    /// What became of frames for the bridge itself.
    pub struct LocalCounts at "bridge.local" {
        /// BPDUs for the spanning tree.
        heard,
        /// BPDUs of which more waited than may.
        lost,
        /// For the bridge's own address, or for groups that only bridges read: nobody here does.
        unread,
    }
}

/// BPDUs on their way to the spanning tree.
#[derive(Debug, Default)]
pub struct Inbox {
    frames: Mutex<VecDeque<(PortNo, Vec<u8>)>>,
    some: AtomicBool,
    /// What came.
    pub counts: LocalCounts,
}

impl Inbox {
    /// Puts a BPDU in; what is none ends here. Says whether it was one.
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

    /// Is there something?
    #[inline]
    pub fn is_some(&self) -> bool {
        self.some.load(Ordering::Relaxed)
    }

    fn take(&self) -> VecDeque<(PortNo, Vec<u8>)> {
        self.some.store(false, Ordering::Relaxed);
        std::mem::take(&mut lock(&self.frames))
    }
}

/// The protocol, and what it needs to be looked after.
#[derive(Debug)]
pub struct Tree {
    /// The protocol.
    pub stp: Stp,
    /// Addresses at these ports age in this time (802.1D-2004 17.19.1).
    ageing: BTreeMap<PortNo, Duration>,
    aged: Instant,
}

/// Links, as they were when they were looked at last.
#[derive(Debug, Default)]
pub(super) struct Links {
    down: BTreeSet<PortNo>,
    /// Ports that do not carry frames.
    carriers: BTreeMap<PortNo, Carrier>,
    next: Instant,
}

impl Switch {
    /// Begins a spanning tree, of no ports yet; or begins it anew with other times.
    ///
    /// # Errors
    /// [`StpError`]: a time that the standard does not allow.
    pub fn start_tree(&self, config: StpConfig) -> Result<(), StpError> {
        let now = self.clock.now();
        let config = StpConfig { address: self.mac, ..config };
        let mut stp = Stp::new(config, now)?;
        let mut tree = lock(&self.tree);
        let ports: Vec<(PortNo, StpPort)> =
            tree.as_ref().map(|old| old.stp.ports().map(|port| (port.port, port.asked)).collect()).unwrap_or_default();
        for (port, asked) in ports {
            stp.add_port(port, asked, now)?;
        }
        *tree = Some(Tree { stp, ageing: BTreeMap::new(), aged: now });
        drop(tree);
        lock(&self.links).next = Instant::ZERO;
        self.each_lane(|lane| lane.bridge.set_reserved(Reserved::Local));
        self.tend();
        Ok(())
    }

    /// Ends the spanning tree: all ports forward, and are muted in loops again.
    pub fn stop_tree(&self) {
        if lock(&self.tree).take().is_none() {
            return;
        }
        let members = self.members();
        self.each_lane(|lane| {
            lane.bridge.set_reserved(Reserved::Drop);
            for (number, _) in &members {
                lane.bridge.set_state(*number, PortState::Forwarding);
                lane.bridge.set_spanned(*number, false);
            }
        });
    }

    /// Makes a member part of the tree, or asks something else of it there.
    ///
    /// # Errors
    /// [`StpError`]: a priority or cost that the standard does not allow.
    pub fn set_tree_port(&self, number: PortNo, asked: StpPort) -> Result<(), StpError> {
        let now = self.clock.now();
        {
            let mut tree = lock(&self.tree);
            let Some(tree) = tree.as_mut() else { return Ok(()) };
            if tree.stp.port(number).is_some() {
                tree.stp.set_port(number, asked, now)?;
            } else {
                tree.stp.add_port(number, asked, now)?;
                lock(&self.links).next = Instant::ZERO;
            }
        }
        self.each_lane(|lane| lane.bridge.set_spanned(number, true));
        self.tend();
        Ok(())
    }

    /// Takes a member out of the tree: it forwards, whatever loop that makes.
    pub fn remove_tree_port(&self, number: PortNo) {
        let now = self.clock.now();
        if let Some(tree) = lock(&self.tree).as_mut() {
            tree.stp.remove_port(number, now);
        }
        self.each_lane(|lane| {
            lane.bridge.set_state(number, PortState::Forwarding);
            lane.bridge.set_spanned(number, false);
        });
        self.tend();
    }

    /// Whether it forwards, looks on or does nothing. A bridge that is down has no link: its tree is left by its neighbors, and what it learned is
    /// forgotten.
    pub fn set_running(&self, running: Running) {
        self.each_lane(|lane| lane.bridge.set_running(running));
        lock(&self.links).next = Instant::ZERO;
        self.tend();
    }

    /// What became of frames for the bridge itself.
    pub fn local_counts(&self) -> &LocalCounts {
        &self.inbox.counts
    }

    /// What `look` sees of the tree, if there is one.
    pub fn tree<R>(&self, look: impl FnOnce(&Stp) -> R) -> Option<R> {
        lock(&self.tree).as_ref().map(|tree| look(&tree.stp))
    }

    /// Does something to the tree, if there is one, and what follows from it.
    pub fn change_tree<R>(&self, change: impl FnOnce(&mut Stp, Instant) -> R) -> Option<R> {
        let now = self.clock.now();
        let changed = lock(&self.tree).as_mut().map(|tree| change(&mut tree.stp, now));
        self.tend();
        changed
    }

    /// BPDUs that came, seconds that went by, links that went up or down; and what follows from them. Says when to come again.
    pub fn tend(&self) -> Instant {
        let heard = self.inbox.take();
        let mut guard = lock(&self.tree);
        let now = self.clock.now();
        let look = self.look_at_links(guard.as_mut(), now);
        let Some(tree) = guard.as_mut() else { return look };
        self.settle(tree);
        for (from, bytes) in heard {
            tree.stp.on_bpdu(from, &bytes, now);
            self.settle(tree);
        }
        let next = tree.stp.poll(now);
        self.settle(tree);
        if now.since(tree.aged) >= Duration::from_secs(1) {
            tree.aged = now;
            for (port, most) in &tree.ageing {
                self.forget_at(*port, |age| age >= *most);
            }
        }
        next.map_or(look, |next| next.min(look))
    }

    /// Sees which links are up, if it is time to, and says when that is next. Stations behind a link that went down may be behind another
    /// now: what was learned there is forgotten.
    fn look_at_links(&self, mut tree: Option<&mut Tree>, now: Instant) -> Instant {
        let mut links = lock(&self.links);
        if now < links.next {
            return links.next;
        }
        for (number, info) in self.members() {
            let (mut link, mut carrier) = info.link();
            if let Some(lane) = self.lane(info.lane()) {
                if lane.remarks(number).1.is_some() || lane.bridge.running() == Running::Down {
                    link = Link::Down;
                }
                if lane.is_gone(number) {
                    (link, carrier) = (Link::Down, Carrier::Gone);
                }
            }
            let before = links.carriers.get(&number).copied().unwrap_or_default();
            if carrier != before {
                links.carriers.insert(number, carrier);
                self.each_lane(|lane| lane.bridge.set_carrier(number, carrier));
            }
            if link != Link::Down {
                links.down.remove(&number);
            } else if links.down.insert(number) {
                self.forget_at(number, |_| true);
            }
            if let Some(tree) = tree.as_deref_mut() {
                tree.stp.set_link(number, link, now);
            }
        }
        let waits = links.carriers.values().any(|carrier| matches!(carrier, Carrier::None | Carrier::Down));
        links.next = now.after(if waits { LINKS_DOWN } else { LINKS });
        links.next
    }

    /// The number of a port is free, or another port's: its link is looked at anew.
    pub(super) fn forget_link(&self, number: PortNo) {
        let mut links = lock(&self.links);
        links.down.remove(&number);
        links.carriers.remove(&number);
        links.next = Instant::ZERO;
    }

    /// Does what the protocol says: states in every replica before BPDUs leave.
    fn settle(&self, tree: &mut Tree) {
        while let Some(effect) = tree.stp.next_effect() {
            match effect {
                Effect::State(port, state) => self.each_lane(|lane| lane.bridge.set_state(port, state)),
                Effect::Flush(port) => self.forget_at(port, |_| true),
                Effect::Ageing(port, Some(most)) => _ = tree.ageing.insert(port, most),
                Effect::Ageing(port, None) => _ = tree.ageing.remove(&port),
                Effect::Transmit(port, bpdu) => self.send_from_bridge(port, &bpdu.emit_frame(self.mac)),
            }
        }
    }

    fn forget_at(&self, port: PortNo, which: impl Fn(Duration) -> bool) {
        self.each_lane(|lane| {
            let now = lane.now();
            let all = |entry: &bridge::Entry| entry.port == port && entry.kind == Kind::Learned && which(entry.age);
            lane.bridge.forget(all, now);
        });
    }

    /// A frame of the bridge's own; one for which there is no buffer is not sent.
    fn send_from_bridge(&self, port: PortNo, bytes: &[u8]) {
        let Some(info) = self.members().into_iter().find(|(number, _)| *number == port) else { return };
        let Some(mut frame) = self.pool().get() else { return };
        if frame.extend(bytes).is_some()
            && let Some(mut lane) = self.lane(info.1.lane())
        {
            lane.send_own(port, frame);
        }
    }
}

/// The inbox of a switch, for its lanes.
pub type SharedInbox = Arc<Inbox>;
