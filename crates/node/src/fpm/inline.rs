//! Next hops that routes have themselves, without a number (`no fpm use-next-hop-groups`).
//!
//! All routes with the same next hops share an object, as if the engine had given them a number.
//! They stay when a port is removed, and use it again when it is added.

use super::paths::inline_paths;
use super::tables::{Absent, Family, Objects, Tables};
use inet::route::{ObjectId, RouteError, Routes};
use std::collections::HashMap;
use wire::rtnetlink::Hop;

/// Maximum number of different next hops or sets of them.
const INLINE_MAX: usize = 1 << 18;
/// Number of entries from which on unused ones are removed.
const FREE_AT: usize = 1024;

/// The objects by their next hops and weights.
#[derive(Debug, Default)]
pub(super) struct Inline {
    all: HashMap<Vec<(Hop, u16)>, Objects>,
    /// Number of entries after the unused ones were last removed.
    used: usize,
}

impl Inline {
    /// Returns the object of these next hops for routes of family `A`, creating it if necessary.
    pub(super) fn object<A: Family>(
        &mut self,
        hops: Vec<(Hop, u16)>,
        tables: &mut Tables<'_>,
    ) -> Result<ObjectId, Absent> {
        if let Some(object) = self.all.get_mut(&hops).and_then(|objects| *A::objects(objects)) {
            return Ok(object);
        }
        let paths = inline_paths::<A>(&hops, tables.links);
        if paths.is_empty() {
            return Err(Absent::Unusable);
        }
        if self.all.len() >= FREE_AT.max(2 * self.used) || self.all.len() >= INLINE_MAX && self.all.len() > self.used {
            self.free(tables);
        }
        if self.all.len() >= INLINE_MAX {
            return Err(Absent::Error(RouteError::TooManyNextHops));
        }
        let mut object = A::routes(tables).new_object(&paths);
        if object == Err(RouteError::TooManyNextHops) && self.all.len() > self.used {
            self.free(tables);
            A::routes(tables).hops_in_use(); // frees the sets and next hops of the objects
            object = A::routes(tables).new_object(&paths);
        }
        let object = object.map_err(Absent::Error)?;
        *A::objects(self.all.entry(hops).or_default()) = Some(object);
        Ok(object)
    }

    /// Removes the objects that no route uses.
    pub(super) fn free(&mut self, tables: &mut Tables<'_>) {
        self.all.retain(|_, Objects { v4, v6 }| {
            free_unused(tables.v4, v4);
            free_unused(tables.v6, v6);
            v4.is_some() || v6.is_some()
        });
        self.used = self.all.len();
    }

    /// Adapts the objects to the ifaces of the host. Returns whether the target of a route has
    /// changed.
    pub(super) fn relink(&mut self, tables: &mut Tables<'_>) -> bool {
        self.free(tables);
        let mut has_changed = false;
        for (hops, objects) in &mut self.all {
            has_changed |= update::<u32>(hops, objects, tables);
            has_changed |= update::<u128>(hops, objects, tables);
        }
        has_changed
    }
}

fn update<A: Family>(hops: &[(Hop, u16)], objects: &mut Objects, tables: &mut Tables<'_>) -> bool {
    let Some(object) = *A::objects(objects) else { return false };
    let paths = inline_paths::<A>(hops, tables.links);
    let routes = A::routes(tables);
    // Without space for a set, the routes are rejected rather than kept on a path that has ended.
    routes.set_object(object, &paths).or_else(|_| routes.set_object(object, &[])).unwrap_or(false)
}

fn free_unused<A: inet::fib::Matched>(routes: &mut Routes<A>, object: &mut Option<ObjectId>) {
    if let Some(id) = object.filter(|id| routes.object_uses(*id) == 0) {
        routes.remove_object(id);
        *object = None;
    }
}
