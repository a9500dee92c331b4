//! Routes of a routing engine beside the host's own routes.
//!
//! An own route is used instead of a route of the engine to the same prefix. The engine's route is
//! kept, and used again when the own route is removed.

use super::{ObjectId, Origin, Protocol, Route, RouteError, Routes, Via};
use fib::{IpPrefix, Matched, NextHopId, Stored};

/// Target of a route of a routing engine.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Target<G> {
    /// A next hop object.
    Object(ObjectId),
    /// A target without an interface: packets are dropped or rejected.
    Via(Via<G>),
}

/// Effect of [`Routes::learn`].
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Learned {
    /// The route is new, or its target or protocol has changed.
    Changed,
    /// The route was the same already.
    Same,
    /// The host has an own route to the prefix, which is used.
    Shadowed,
}

impl<A: Matched> Routes<A> {
    /// Adds or replaces the route of a routing engine to `prefix`. If the route is the same
    /// already, readers see no store; only its generation changes.
    ///
    /// # Errors
    /// [`RouteError`]; the table is then unchanged.
    pub fn learn(
        &mut self,
        prefix: IpPrefix<A>,
        target: Target<A::Addr>,
        origin: Origin,
    ) -> Result<Learned, RouteError> {
        let known = match target {
            Target::Object(ObjectId(id)) => Some(id),
            Target::Via(via @ (Via::Blackhole | Via::Reject | Via::Prohibit)) => self.hop_to(via),
            Target::Via(_) => return Err(RouteError::BadVia),
        };
        let mut is_shadowed = false;
        if let Some((hop, note)) = self.fib.note_mut(prefix) {
            let before = Origin::of(*note);
            is_shadowed = before.is_own();
            if !is_shadowed && Some(hop) == known && before.protocol == origin.protocol {
                let [old, new] = [before, Origin { since: before.since, ..origin }].map(Origin::note);
                *note = new;
                if old != new {
                    self.uncount(Stored { hop, note: old });
                    self.count(Stored { hop, note: new });
                }
                return Ok(Learned::Same);
            }
        }
        let hop = match target {
            Target::Object(ObjectId(id)) => {
                self.add_use(id);
                id
            }
            Target::Via(via) => self.hold_via(via)?,
        };
        let stored = Stored { hop, note: origin.note() };
        if is_shadowed {
            let before = self.shadowed.insert(prefix, stored);
            before.into_iter().for_each(|before| self.end_learned(before));
            self.count(stored);
            return Ok(Learned::Shadowed);
        }
        match self.fib.insert_stored(prefix, stored) {
            Ok(before) => {
                before.into_iter().for_each(|before| self.divert(before.hop, hop));
                before.into_iter().for_each(|before| self.end_learned(before));
                self.count(stored);
                Ok(Learned::Changed)
            }
            Err(full) => {
                self.release(hop);
                Err(RouteError::Full(full))
            }
        }
    }

    /// Removes the route of a routing engine to `prefix`. Returns `false` if there is none.
    pub fn unlearn(&mut self, prefix: IpPrefix<A>) -> bool {
        let used = self.fib.get_stored(prefix).filter(|stored| !Origin::of(stored.note).is_own());
        let gone = match used {
            Some(_) => self.fib.remove_stored(prefix),
            None => self.shadowed.remove(&prefix),
        };
        gone.map(|gone| self.end_learned(gone)).is_some()
    }

    /// Returns the numbers of a routing engine's routes by protocol, without zeros.
    pub fn learned_by_protocol(&self) -> impl Iterator<Item = (Protocol, u32)> + '_ {
        let all = self.tally.iter().flat_map(|tally| (0..=u8::MAX).zip(tally.protocols));
        all.filter(|(_, count)| *count > 0).map(|(number, count)| (Protocol(number), count))
    }

    /// Returns the number of routes that connection `generation` of the routing engine was the last
    /// to announce.
    pub fn learned_by(&self, generation: u8) -> u32 {
        let counts = self.tally.iter().filter_map(|tally| tally.generations.get(usize::from(generation)));
        counts.copied().sum()
    }

    fn count(&mut self, stored: Stored) {
        let tally = self.tally.get_or_insert_default();
        tally.count(stored, u32::saturating_add);
    }

    fn uncount(&mut self, stored: Stored) {
        self.tally.iter_mut().for_each(|tally| tally.count(stored, u32::saturating_sub));
    }

    /// Ends a route of the engine that was removed from the table.
    fn end_learned(&mut self, stored: Stored) {
        self.uncount(stored);
        self.release(stored.hop);
    }

    /// Removes the routes that connection `generation` of the routing engine was the last to
    /// announce. Looks at up to `most` routes after `after`; returns the number of removed routes,
    /// and the prefix to continue after, `None` at the end.
    pub fn sweep(&mut self, generation: u8, after: Option<IpPrefix<A>>, most: usize) -> (usize, Option<IpPrefix<A>>) {
        let is_old = |stored: &Stored| {
            let origin = Origin::of(stored.note);
            !origin.is_own() && origin.generation == generation
        };
        let (mut last, mut looked_at, mut old) = (None, 0, Vec::new());
        for (prefix, stored) in self.fib.iter_after(after).take(most) {
            (last, looked_at) = (Some(prefix), looked_at + 1);
            if is_old(&stored) {
                old.push(prefix);
            }
        }
        if after.is_none() {
            old.extend(self.shadowed.iter().filter(|(_, stored)| is_old(stored)).map(|(prefix, _)| *prefix));
        }
        let removed = old.into_iter().filter(|prefix| self.unlearn(*prefix)).count();
        (removed, last.filter(|_| looked_at == most))
    }

    /// Returns the engine's routes that are not used, because the host has own routes to the same
    /// prefixes, ordered by prefix.
    pub fn shadowed(&self) -> impl Iterator<Item = Route<A>> + '_ {
        self.shadowed.iter().filter_map(|(prefix, stored)| self.route(*prefix, *stored))
    }

    /// Removes the own route to `prefix` from the table, or puts the engine's route in its place.
    pub(super) fn remove_own(&mut self, prefix: IpPrefix<A>) -> Option<NextHopId> {
        if !Origin::of(self.fib.get_stored(prefix)?.note).is_own() {
            return None;
        }
        match self.shadowed.remove(&prefix) {
            // There is space, since the prefix is in the table.
            Some(shadowed) => self.fib.insert_stored(prefix, shadowed).ok().flatten().map(|own| own.hop),
            None => self.fib.remove(prefix),
        }
    }

    pub(super) fn route(&self, prefix: IpPrefix<A>, stored: Stored) -> Option<Route<A>> {
        Some(Route { prefix, via: self.via(stored.hop)?, origin: Origin::of(stored.note) })
    }
}
