//! Next hop objects: targets that many routes share and that change for all of them at once.
//!
//! A routing engine announces next hops by number, and routes with the number of their next hop, as
//! `ip nexthop` in Linux. Each such next hop is an object: a next hop number that refers to another
//! next hop, its target. When the object changes, one store moves all its routes to the new target.
//!
//! The engine replaces the next hop of one route after another, which takes half a minute for a
//! million routes. If all paths of an object are dead, the first of its routes that the engine
//! gives another next hop therefore takes the others along: the object is diverted to that next
//! hop, until one of its own gateways is alive or may be tried again, or until the engine changes
//! it. Without this, the packets of the other routes would be lost meanwhile.

use super::paths::{Diversion, Object};
use super::{Path, RouteError, Routes, Via};
use crate::iface::IfaceId;
use clock::{Duration, Instant};
use fib::{IpPrefix, Matched, NextHopId};

/// Maximum number of diverted objects. Routes of further ones wait for the engine.
const DIVERTED_MAX: usize = 4096;
/// Interval at which the diversions are checked.
const POLL: Duration = Duration::from_secs(1);

/// Number of a next hop object.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct ObjectId(pub(super) NextHopId);

impl<A: Matched> Routes<A> {
    /// Creates an object with these paths. Without paths, packets to its routes are rejected; with
    /// one path, the path may have any target except a set of paths.
    ///
    /// # Errors
    /// [`RouteError::TooManyNextHops`], or [`RouteError::BadPaths`] for invalid paths.
    pub fn new_object(&mut self, paths: &[Path<A::Addr>]) -> Result<ObjectId, RouteError> {
        let target = self.hold_target(paths, None)?;
        let id = match self.new_number() {
            Ok(id) => id,
            Err(why) => {
                self.release(target);
                return Err(why);
            }
        };
        self.ways.set_object(id, target);
        self.add_use(id); // of the caller, until remove_object
        self.objects.insert(id, Object { paths: paths.to_vec(), is_held: true, diversion: None });
        Ok(ObjectId(id))
    }

    /// Changes the paths of an object, and thus of all its routes. Flows keep their path as far as
    /// the new weights allow. Returns `false` if it has these paths already.
    ///
    /// # Errors
    /// The errors of [`Routes::new_object`]; the object is then unchanged.
    pub fn set_object(&mut self, ObjectId(id): ObjectId, paths: &[Path<A::Addr>]) -> Result<bool, RouteError> {
        if self.objects.get(&id).is_none_or(|object| object.paths == paths) {
            return Ok(false);
        }
        let own = self.diversion(id).map_or_else(|| self.ways.object_target(id), |diversion| Some(diversion.own));
        let target = self.hold_target(paths, own)?;
        self.end_diversion(id);
        let before = self.ways.object_target(id);
        self.ways.set_object(id, target);
        self.move_followers(id, id);
        before.into_iter().for_each(|before| self.release(before));
        self.objects.entry(id).and_modify(|object| object.paths = paths.to_vec());
        Ok(true)
    }

    /// Ends the caller's use of an object. Routes that still use it keep it.
    pub fn remove_object(&mut self, ObjectId(id): ObjectId) {
        if let Some(object) = self.objects.get_mut(&id)
            && std::mem::take(&mut object.is_held)
        {
            self.release(id);
        }
    }

    /// Returns the object that the route to exactly `prefix` uses; `None` if it uses none.
    pub fn object_at(&self, prefix: IpPrefix<A>) -> Option<ObjectId> {
        self.fib.get(prefix).filter(|id| self.objects.contains_key(id)).map(ObjectId)
    }

    /// Returns the paths of an object; none if it has ended.
    pub fn object_paths(&self, ObjectId(id): ObjectId) -> &[Path<A::Addr>] {
        self.objects.get(&id).map_or(&[], |object| &object.paths)
    }

    /// Returns the number of routes that use an object.
    pub fn object_uses(&self, ObjectId(id): ObjectId) -> u32 {
        let uses = self.uses.get(id.index()).copied().unwrap_or(0);
        uses.saturating_sub(self.objects.get(&id).is_some_and(|object| object.is_held).into())
    }

    /// Diverts the object `from` to the next hop `to`, which one of its routes has got, if no path
    /// of the object is alive, but one of `to` is.
    pub(super) fn divert(&mut self, from: NextHopId, to: NextHopId) {
        if !self.ways.any_dead() || from == to || !self.objects.contains_key(&from) || !self.is_dead(from) {
            return;
        }
        self.end_diversion(from); // to a next hop that is dead now, too
        let to = self.diversion(to).map_or(to, |diversion| diversion.to);
        let Some(own) = self.ways.object_target(from).filter(|_| self.is_dead(from)) else { return };
        if from == to || self.is_dead(to) || !self.sends(to) || self.diverted.len() >= DIVERTED_MAX {
            return;
        }
        self.objects.entry(from).and_modify(|object| object.diversion = Some(Diversion { own, to }));
        self.diverted.push(from);
        self.take_target(from, to);
        self.move_followers(from, to);
        self.ways.note_diverted(self.diverted.len());
    }

    /// Returns the routes of a diverted object to its own paths.
    pub(super) fn end_diversion(&mut self, id: NextHopId) {
        let Some(object) = self.objects.get_mut(&id) else { return };
        let Some(Diversion { own, .. }) = object.diversion.take() else { return };
        self.diverted.retain(|diverted| *diverted != id);
        let target = self.ways.object_target(id);
        self.ways.set_object(id, own);
        target.into_iter().for_each(|target| self.end_use(target));
        self.ways.note_diverted(self.diverted.len());
    }

    /// Makes the objects that are diverted to `before` take the target of `to`, which `before` has
    /// changed to, or ends their diversions.
    fn move_followers(&mut self, before: NextHopId, to: NextHopId) {
        for id in self.followers(before) {
            let target = self.ways.object_target(id);
            if id == to || !self.sends(to) {
                self.end_diversion(id);
                continue;
            }
            if let Some(diversion) = self.objects.get_mut(&id).and_then(|object| object.diversion.as_mut()) {
                diversion.to = to;
            }
            self.take_target(id, to);
            target.into_iter().for_each(|target| self.end_use(target));
        }
    }

    /// Ends the diversions to a next hop that has ended.
    pub(super) fn end_followers(&mut self, of: NextHopId) {
        self.followers(of).into_iter().for_each(|id| self.end_diversion(id));
    }

    fn followers(&self, of: NextHopId) -> Vec<NextHopId> {
        let follows = |id: &NextHopId| self.diversion(*id).is_some_and(|diversion| diversion.to == of);
        self.diverted.iter().copied().filter(follows).collect()
    }

    fn diversion(&self, id: NextHopId) -> Option<Diversion> {
        self.objects.get(&id)?.diversion
    }

    /// Makes the routes of the object `id` use the target of the next hop `to`.
    fn take_target(&mut self, id: NextHopId, to: NextHopId) {
        let target = self.ways.object_target(to).unwrap_or(to);
        self.add_use(target);
        self.ways.set_object(id, target);
    }

    /// Returns whether packets to a next hop are sent, and not rejected or dropped.
    fn sends(&self, id: NextHopId) -> bool {
        self.via(id).is_some_and(|via| via.is_gateway() || matches!(via, Via::Link(_) | Via::Paths(_)))
    }

    /// Returns the number of diverted objects.
    pub fn diverted(&self) -> usize {
        self.diverted.len()
    }

    /// Ends the diversions of objects with a gateway that may be tried again. Returns the time of
    /// the next call.
    pub fn poll_diversions(&mut self, now: Instant) -> Instant {
        let may_try = |id: NextHopId| self.ways.dead_until(id).is_none_or(|until| until <= now);
        let is_over = |id: &NextHopId| {
            let paths = self.objects.get(id).map_or(&[][..], |object| &object.paths);
            paths.iter().any(|path| self.hop_to(path.via).is_none_or(may_try))
        };
        let over: Vec<NextHopId> = self.diverted.iter().copied().filter(is_over).collect();
        over.into_iter().for_each(|id| self.end_diversion(id));
        if self.diverted.is_empty() { Instant::NEVER } else { now.after(POLL) }
    }

    /// Ends the diversions of objects of which the target of a path satisfies `is_such`.
    fn end_diversions(&mut self, is_such: impl Fn(Via<A::Addr>) -> bool) {
        let has_path = |id: &NextHopId| {
            self.objects.get(id).is_some_and(|object| object.paths.iter().any(|path| is_such(path.via)))
        };
        let ended: Vec<NextHopId> = self.diverted.iter().copied().filter(has_path).collect();
        ended.into_iter().for_each(|id| self.end_diversion(id));
    }

    /// Returns whether all paths of a next hop are through gateways or links that are dead.
    fn is_dead(&self, id: NextHopId) -> bool {
        let is_dead = |id: NextHopId| self.ways.dead_until(id).is_some();
        match self.via(id) {
            Some(Via::Paths(set)) => self.paths(set).iter().all(|path| self.hop_to(path.via).is_some_and(is_dead)),
            _ => is_dead(self.ways.object_target(id).unwrap_or(id)),
        }
    }

    /// Marks a gateway as dead until the given time, or as alive, after which objects with this
    /// gateway are not diverted.
    pub fn mark_gateway(&mut self, gateway: Via<A::Addr>, dead_until: Option<Instant>) {
        self.hop_to(gateway).into_iter().for_each(|id| self.ways.set_dead(id, dead_until));
        if dead_until.is_none() {
            self.end_diversions(|via| via == gateway);
        }
    }

    /// Marks the next hops on the link of an iface as dead, so that sets use their other paths, or
    /// as alive.
    pub fn set_iface_alive(&mut self, iface: IfaceId, is_alive: bool) {
        self.down.retain(|down| *down != iface);
        if !is_alive {
            self.down.push(iface);
        }
        let until = if is_alive { None } else { Some(Instant::NEVER) };
        let hops = self.by_via.iter().filter(|(via, _)| via.iface() == Some(iface));
        hops.for_each(|(_, id)| self.ways.set_dead(*id, until));
        if is_alive {
            self.end_diversions(|via| via.iface() == Some(iface));
        }
    }

    /// Removes the paths through an iface from all objects. Ends all diversions, which may lead
    /// through it.
    pub(super) fn forget_iface_in_objects(&mut self, iface: IfaceId) {
        self.end_diversions(|_| true);
        let is_by = |path: &Path<A::Addr>| path.via.iface() == Some(iface);
        let changed: Vec<NextHopId> =
            self.objects.iter().filter(|(_, object)| object.paths.iter().any(is_by)).map(|(id, _)| *id).collect();
        for id in changed {
            let mut paths = self.objects.get(&id).map(|object| object.paths.clone()).unwrap_or_default();
            paths.retain(|path| !is_by(path));
            // Rejecting needs no new path set, so it succeeds where the remaining paths do not.
            if self.set_object(ObjectId(id), &paths).is_err() {
                let _ = self.set_object(ObjectId(id), &[]);
            }
        }
    }

    /// Returns the next hop for these paths, with its use counted. `before` is the next hop that it
    /// replaces.
    fn hold_target(&mut self, paths: &[Path<A::Addr>], before: Option<NextHopId>) -> Result<NextHopId, RouteError> {
        let via = match paths {
            [] => Via::Reject,
            [only] if matches!(only.via, Via::Paths(_)) => return Err(RouteError::BadPaths),
            [only] => only.via,
            _ => self.via_of(paths, before)?,
        };
        self.hold_via(via)
    }
}
