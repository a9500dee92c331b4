//! The spanning tree of a switch: BPDUs come from the lanes' outlets, what the protocol says is done in every replica.
//!
//! One [`Stp`] for all lanes. A lane that has a frame for the bridge itself puts it into the [`Inbox`] and wakes the first lane, whose thread
//! tends the tree between its turns ([`Switch::tend`]).

use super::{Switch, lock};
use bridge::{Effect, Kind, Link, Mute, PortNo, PortState, Reserved, Stp, StpConfig, StpError, StpPort};
use clock::{Duration, Instant};
use std::collections::{BTreeMap, VecDeque};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};

/// BPDUs that wait at most; what is beyond is not heard, and counted.
const MOST: usize = 1024;
/// How often links are looked at.
const LINKS: Duration = Duration::from_millis(100);

/// Frames for the bridge itself, on their way to who reads them.
#[derive(Debug, Default)]
pub struct Inbox {
    frames: Mutex<Waiting>,
    some: AtomicBool,
}

#[derive(Debug, Default)]
struct Waiting {
    frames: VecDeque<(PortNo, Vec<u8>)>,
    lost: u64,
}

impl Inbox {
    /// Puts a frame in.
    pub fn put(&self, from: PortNo, bytes: &[u8]) {
        let mut waiting = lock(&self.frames);
        if waiting.frames.len() < MOST {
            waiting.frames.push_back((from, bytes.to_vec()));
        } else {
            waiting.lost += 1;
        }
        self.some.store(true, Ordering::Release);
    }

    /// Is there something?
    #[inline]
    pub fn is_some(&self) -> bool {
        self.some.load(Ordering::Relaxed)
    }

    fn take(&self) -> VecDeque<(PortNo, Vec<u8>)> {
        self.some.store(false, Ordering::Relaxed);
        std::mem::take(&mut lock(&self.frames).frames)
    }
}

/// The protocol, and what it needs to be looked after.
#[derive(Debug)]
pub struct Tree {
    /// The protocol.
    pub stp: Stp,
    /// Addresses at these ports age in this time (802.1D-2004 17.19.1).
    ageing: BTreeMap<PortNo, Duration>,
    links: Instant,
    aged: Instant,
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
        *tree = Some(Tree { stp, ageing: BTreeMap::new(), links: Instant::ZERO, aged: now });
        drop(tree);
        self.each_lane(|lane| {
            lane.bridge.set_reserved(Reserved::Local);
            lane.bridge.set_mute(None);
        });
        self.tend();
        Ok(())
    }

    /// Ends the spanning tree: all ports forward, and loops are muted again.
    pub fn stop_tree(&self) {
        if lock(&self.tree).take().is_none() {
            return;
        }
        let members = self.members();
        self.each_lane(|lane| {
            lane.bridge.set_reserved(Reserved::Drop);
            lane.bridge.set_mute(Some(Mute::default()));
            members.iter().for_each(|(number, _)| lane.bridge.set_state(*number, PortState::Forwarding));
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
                tree.links = Instant::ZERO;
            }
        }
        self.tend();
        Ok(())
    }

    /// Takes a member out of the tree: it forwards, whatever loop that makes.
    pub fn remove_tree_port(&self, number: PortNo) {
        let now = self.clock.now();
        if let Some(tree) = lock(&self.tree).as_mut() {
            tree.stp.remove_port(number, now);
        }
        self.each_lane(|lane| lane.bridge.set_state(number, PortState::Forwarding));
        self.tend();
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
    pub fn tend(&self) -> Option<Instant> {
        let heard = self.inbox.take();
        let mut guard = lock(&self.tree);
        let tree = guard.as_mut()?;
        let now = self.clock.now();
        if now >= tree.links {
            self.look_at_links(tree, now);
            tree.links = now.after(LINKS);
            self.settle(tree);
        }
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
        next
    }

    fn look_at_links(&self, tree: &mut Tree, now: Instant) {
        let ports: Vec<PortNo> = tree.stp.ports().map(|port| port.port).collect();
        for (number, info) in self.members() {
            if ports.contains(&number)
                && let Some(lane) = self.lane(info.lane)
            {
                let up = lane.remarks(number).1.is_none() && info.nic.as_ref().is_none_or(|nic| nic.is_up());
                drop(lane);
                let link = if up { Link::Up { duplex: bridge::Duplex::Full, speed_kbps: 0 } } else { Link::Down };
                tree.stp.set_link(number, link, now);
            }
        }
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
            && let Some(mut lane) = self.lane(info.1.lane)
        {
            lane.send_own(port, frame);
        }
    }
}

/// The inbox of a switch, for its lanes.
pub type SharedInbox = Arc<Inbox>;
