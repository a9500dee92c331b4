//! Methods of a switch that run its spanning tree and check its links.

use super::{LINKS, LINKS_DOWN, LocalCounts, Tree};
use crate::switch::Switch;
use crate::switch::poison::lock;
use bridge::{
    Carrier, Effect, Kind, Link, PortNo, PortState, Reserved, Running, Stp, StpConfig, StpError, StpPort, StpVersion,
};
use clock::{Duration, Instant};
use std::collections::BTreeMap;

impl Switch {
    /// Starts a spanning tree without ports, or restarts a running one with its ports and new
    /// timers.
    ///
    /// # Errors
    /// Returns an [`StpError`] for a timer value that the standard does not permit.
    pub fn start_tree(&self, config: StpConfig) -> Result<(), StpError> {
        let now = self.clock.now();
        let config = StpConfig { address: self.mac, ..config };
        let mut stp = Stp::new(config, now)?;
        let mut tree = lock(&self.tree);
        let ports: Vec<(PortNo, StpPort)> = tree
            .as_ref()
            .map(|old| old.stp.ports().map(|port| (port.port, port.requested)).collect())
            .unwrap_or_default();
        for (port, requested) in ports {
            stp.add_port(port, requested, now)?;
        }
        *tree = Some(Tree { stp, ageing: BTreeMap::new(), aged: now });
        drop(tree);
        lock(&self.links).next = Instant::ZERO;
        self.each_thread(|thread| thread.bridge.set_reserved(Reserved::Local));
        self.tend();
        Ok(())
    }

    /// Stops the spanning tree: all ports forward, and loop detection mutes ports again.
    pub fn stop_tree(&self) {
        if lock(&self.tree).take().is_none() {
            return;
        }
        let members = self.members();
        self.each_thread(|thread| {
            thread.bridge.set_reserved(Reserved::Drop);
            for (number, _) in &members {
                thread.bridge.set_state(*number, PortState::Forwarding);
                thread.bridge.set_spanned(*number, false);
            }
        });
    }

    /// Adds a member to the spanning tree, or changes its settings in the tree.
    ///
    /// # Errors
    /// Returns an [`StpError`] for a priority or cost that the standard does not permit.
    pub fn set_tree_port(&self, number: PortNo, requested: StpPort) -> Result<(), StpError> {
        let now = self.clock.now();
        {
            let mut tree = lock(&self.tree);
            let Some(tree) = tree.as_mut() else { return Ok(()) };
            if tree.stp.port(number).is_some() {
                tree.stp.set_port(number, requested, now)?;
            } else {
                tree.stp.add_port(number, requested, now)?;
                lock(&self.links).next = Instant::ZERO;
            }
        }
        self.each_thread(|thread| thread.bridge.set_spanned(number, true));
        self.tend();
        Ok(())
    }

    /// Adds a member to the spanning tree. The first member starts the tree.
    ///
    /// # Errors
    /// Returns an [`StpError`] if the tree has no free port number.
    pub fn join_tree(&self, number: PortNo) -> Result<(), StpError> {
        if self.tree(|_| ()).is_none() {
            self.start_tree(StpConfig::default())?;
        }
        self.set_tree_port(number, StpPort::default())
    }

    /// Runs the spanning tree protocol `version` on all members.
    ///
    /// # Errors
    /// Returns an [`StpError`] if the tree has no free port number.
    pub fn span(&self, version: StpVersion) -> Result<(), StpError> {
        let config = self.tree(|stp| *stp.config()).unwrap_or_default();
        self.start_tree(StpConfig { version, ..config })?;
        self.join_rest()
    }

    /// Adds all members that are not part of the spanning tree to it, if there is one.
    ///
    /// # Errors
    /// Returns an [`StpError`] if the tree has no free port number.
    pub fn join_rest(&self) -> Result<(), StpError> {
        let is_outside = |number: PortNo| self.tree(|stp| stp.port(number).is_none()) == Some(true);
        let members = self.members();
        members.iter().filter(|(number, _)| is_outside(*number)).try_for_each(|(number, _)| self.join_tree(*number))
    }

    /// Removes a member from the spanning tree. It then forwards, even if this creates a loop.
    pub fn remove_tree_port(&self, number: PortNo) {
        let now = self.clock.now();
        if let Some(tree) = lock(&self.tree).as_mut() {
            tree.stp.remove_port(number, now);
        }
        self.each_thread(|thread| {
            thread.bridge.set_state(number, PortState::Forwarding);
            thread.bridge.set_spanned(number, false);
        });
        self.tend();
    }

    /// Sets the state of the bridge: up, down, or in monitor mode. A bridge that is down has no
    /// links, so its neighbors remove it from the tree, and its learned addresses are flushed.
    pub fn set_running(&self, running: Running) {
        self.each_thread(|thread| thread.bridge.set_running(running));
        lock(&self.links).next = Instant::ZERO;
        self.tend();
    }

    /// Returns the counters of frames for the bridge itself.
    pub fn local_counts(&self) -> &LocalCounts {
        &self.inbox.counts
    }

    /// Calls `look` with the spanning tree; returns `None` if there is none.
    pub fn tree<R>(&self, look: impl FnOnce(&Stp) -> R) -> Option<R> {
        lock(&self.tree).as_ref().map(|tree| look(&tree.stp))
    }

    /// Changes the spanning tree and applies the effects; returns `None` if there is no tree.
    pub fn change_tree<R>(&self, change: impl FnOnce(&mut Stp, Instant) -> R) -> Option<R> {
        let now = self.clock.now();
        let changed = lock(&self.tree).as_mut().map(|tree| change(&mut tree.stp, now));
        self.tend();
        changed
    }

    /// Processes received BPDUs, timers and link changes, and applies the effects. Returns the time
    /// at which the next call is due.
    pub fn tend(&self) -> Instant {
        let heard = self.inbox.take();
        let mut guard = lock(&self.tree);
        let now = self.clock.now();
        let look = self.look_at_links(guard.as_mut(), now);
        let Some(tree) = guard.as_mut() else { return look };
        self.update(tree);
        for (from, bytes) in heard {
            tree.stp.on_bpdu(from, &bytes, now);
            self.update(tree);
        }
        let next = tree.stp.poll(now);
        self.update(tree);
        if now.since(tree.aged) >= Duration::from_secs(1) {
            tree.aged = now;
            for (port, most) in &tree.ageing {
                self.forget_at(*port, |age| age >= *most);
            }
        }
        next.map_or(look, |next| next.min(look))
    }

    /// Checks the links if a check is due, and returns the time of the next check. Addresses
    /// learned on a link that went down are flushed, because the stations may now be reachable
    /// through another link.
    fn look_at_links(&self, mut tree: Option<&mut Tree>, now: Instant) -> Instant {
        let mut links = lock(&self.links);
        if now < links.next {
            return links.next;
        }
        for (number, info) in self.members() {
            let (mut link, mut carrier) = info.link();
            if let Some(thread) = self.thread(info.thread()) {
                if thread.warnings(number).1.is_some() || thread.bridge.running() == Running::Down {
                    link = Link::Down;
                }
                if thread.is_gone(number) {
                    (link, carrier) = (Link::Down, Carrier::Gone);
                }
            }
            let before = links.carriers.get(&number).copied().unwrap_or_default();
            if carrier != before {
                links.carriers.insert(number, carrier);
                self.each_thread(|thread| thread.bridge.set_carrier(number, carrier));
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

    /// Discards the link state of a port number that is free or was reassigned, so that the link is
    /// checked again.
    pub(in crate::switch) fn forget_link(&self, number: PortNo) {
        let mut links = lock(&self.links);
        links.down.remove(&number);
        links.carriers.remove(&number);
        links.next = Instant::ZERO;
    }

    /// Applies the effects of the protocol in order, so that a port's state is set in every replica
    /// before the next BPDU is sent.
    fn update(&self, tree: &mut Tree) {
        while let Some(effect) = tree.stp.next_effect() {
            match effect {
                Effect::State(port, state) => self.each_thread(|thread| thread.bridge.set_state(port, state)),
                Effect::Flush(port) => self.forget_at(port, |_| true),
                Effect::Ageing(port, Some(most)) => _ = tree.ageing.insert(port, most),
                Effect::Ageing(port, None) => _ = tree.ageing.remove(&port),
                Effect::Transmit(port, bpdu) => self.send_from_bridge(port, &bpdu.emit_frame(self.mac)),
            }
        }
    }

    fn forget_at(&self, port: PortNo, which: impl Fn(Duration) -> bool) {
        self.each_thread(|thread| {
            let now = thread.now();
            let all = |entry: &bridge::Entry| entry.port == port && entry.kind == Kind::Learned && which(entry.age);
            thread.bridge.forget(all, now);
        });
    }

    /// Sends a frame generated by the bridge itself. The frame is dropped if there is no free
    /// buffer.
    fn send_from_bridge(&self, port: PortNo, bytes: &[u8]) {
        let Some(info) = self.members().into_iter().find(|(number, _)| *number == port) else { return };
        let Some(mut frame) = self.pool().get() else { return };
        if frame.extend(bytes).is_some()
            && let Some(mut thread) = self.thread(info.1.thread())
        {
            thread.send_own(port, frame);
        }
    }
}
