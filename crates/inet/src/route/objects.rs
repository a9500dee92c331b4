//! Next hop objects: targets that many routes share and that change for all of them at once.
//!
//! A routing engine announces next hops by number, and routes with the number of their next hop, as
//! `ip nexthop` in Linux. Each such next hop is an object: a next hop number that refers to another
//! next hop, its target. When the object changes, one store moves all its routes to the new target.

use super::paths::Object;
use super::{Path, RouteError, Routes, Via};
use crate::iface::IfaceId;
use fib::{IpPrefix, Matched, NextHopId};

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
        let target = self.hold_target(paths)?;
        let id = match self.new_number() {
            Ok(id) => id,
            Err(why) => {
                self.release(target);
                return Err(why);
            }
        };
        self.ways.set_object(id, target);
        self.add_use(id); // of the caller, until remove_object
        self.objects.insert(id, Object { paths: paths.to_vec(), is_held: true });
        Ok(ObjectId(id))
    }

    /// Changes the paths of an object, and thus of all its routes. Returns `false` if it has these
    /// paths already.
    ///
    /// # Errors
    /// The errors of [`Routes::new_object`]; the object is then unchanged.
    pub fn set_object(&mut self, ObjectId(id): ObjectId, paths: &[Path<A::Addr>]) -> Result<bool, RouteError> {
        if self.objects.get(&id).is_none_or(|object| object.paths == paths) {
            return Ok(false);
        }
        let target = self.hold_target(paths)?;
        let before = self.ways.object_target(id);
        self.ways.set_object(id, target);
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

    /// Removes the paths through an iface from all objects.
    pub(super) fn forget_iface_in_objects(&mut self, iface: IfaceId) {
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

    /// Returns the next hop for these paths, with its use counted.
    fn hold_target(&mut self, paths: &[Path<A::Addr>]) -> Result<NextHopId, RouteError> {
        let via = match paths {
            [] => Via::Reject,
            [only] if matches!(only.via, Via::Paths(_)) => return Err(RouteError::BadPaths),
            [only] => only.via,
            _ => self.via_of(paths)?,
        };
        self.hold_via(via)
    }
}
