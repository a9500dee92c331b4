//! Messages of a routing engine and what they change: next hops by number, and routes, some of
//! which wait for a next hop.

use super::inline::Inline;
use super::paths::{Content, Links, OfNumbers, inline_hops, of_several, path};
use super::stale::Stale;
use super::tables::{Absent, Family, Objects, Orphans, OrphansOf, Tables, To};
use super::{FpmConfig, FpmCounts};
use clock::{Duration, Instant};
use inet::fib::{IpPrefix, Prefix, Prefix6};
use inet::route::{Learned, ObjectId, Origin, Path, Protocol, RouteError, Routes, Target, Via};
use std::collections::{BTreeMap, HashMap, HashSet};
use std::hash::BuildHasherDefault;
use std::net::IpAddr;
use wire::fpm::split;
use wire::rtnetlink::{Message, Route, RouteKind, messages};

/// Maximum number of routes that wait for their next hop. Further ones are lost and counted.
const WAITING_MAX: usize = 100_000;
/// Maximum number of next hops. Further ones are lost and counted.
const NEXT_HOPS_MAX: usize = 1 << 20;

/// A next hop by its number.
#[derive(Debug, Default)]
struct Known {
    /// False for a member of a group that the engine has not announced itself.
    is_announced: bool,
    to: Content,
    objects: Objects,
    /// Groups that have this next hop as a member.
    groups: Vec<u32>,
}

/// A route that waits for its next hop.
#[derive(Clone, Copy, Debug)]
struct Waits {
    nh_id: u32,
    protocol: Protocol,
}

/// State of a routing engine's connections: applies its messages to the tables of a stack.
#[derive(Debug, Default)]
pub struct Engine {
    config: FpmConfig,
    /// Number of the current or last connection, from 1 to 255; 0 before the first.
    generation: u8,
    is_connected: bool,
    next_hops: HashMap<u32, Known, BuildHasherDefault<OfNumbers>>,
    inline: Inline,
    orphans: Orphans,
    waiting: HashMap<To, Waits>,
    waiting_for: HashMap<u32, HashSet<To>>,
    stale: Stale,
    pub(crate) counts: FpmCounts,
}

impl Engine {
    /// Creates the state of an engine that has not connected yet.
    pub fn new(config: FpmConfig) -> Engine {
        Engine { config, ..Engine::default() }
    }

    /// Returns the number of the current connection, or of the last one.
    pub(crate) fn generation(&self) -> u8 {
        self.generation
    }

    pub(crate) fn is_connected(&self) -> bool {
        self.is_connected
    }

    /// Returns the number of next hops of the current connection.
    pub(crate) fn next_hops(&self) -> usize {
        self.next_hops.values().filter(|known| known.is_announced).count()
    }

    /// Returns the number of routes that wait for their next hop.
    pub(crate) fn waiting(&self) -> usize {
        self.waiting.len()
    }

    /// Returns the next hops of the current connection, ordered by number: (number, IPv4 object,
    /// IPv6 object).
    pub(crate) fn objects(&self) -> BTreeMap<u32, (Option<ObjectId>, Option<ObjectId>)> {
        let announced = self.next_hops.iter().filter(|(_, known)| known.is_announced);
        announced.map(|(id, known)| (*id, (known.objects.v4, known.objects.v6))).collect()
    }

    /// Begins a connection. The routes of former ones stay until the engine has announced them
    /// again, or until their time is over.
    pub fn connect(&mut self, tables: &mut Tables<'_>) {
        self.is_connected = true;
        self.generation = self.generation.checked_add(1).unwrap_or(1);
        // After 255 connections the number is used again. Its routes are removed first.
        while self.stale.has(self.generation) {
            self.turn_sweep(tables);
        }
        self.forget_next_hops(tables);
    }

    /// Forgets all next hops, since their numbers are new with each connection, and keeps their
    /// objects by their paths.
    fn forget_next_hops(&mut self, tables: &mut Tables<'_>) {
        for (_, known) in self.next_hops.drain() {
            let Objects { v4, v6 } = known.objects;
            adopt(&mut self.orphans.v4, tables.v4, v4);
            adopt(&mut self.orphans.v6, tables.v6, v6);
        }
        self.waiting.clear();
        self.waiting_for.clear();
    }

    /// Ends the connection: its routes become stale. Returns the time for which they stay.
    pub fn disconnect(&mut self, now: Instant) -> Duration {
        if std::mem::take(&mut self.is_connected) {
            self.stale.end(self.generation, now.after(self.config.stale));
        }
        self.config.stale
    }

    /// Applies whole frames, at most `most`. Returns the number of bytes of the applied frames, and
    /// whether the target of a route has changed.
    pub fn apply(&mut self, frames: &[u8], most: usize, tables: &mut Tables<'_>) -> (usize, bool) {
        let (mut rest, mut has_changed) = (frames, false);
        for _ in 0..most {
            // The stream was split into whole frames before.
            let Ok(Some(frame)) = split(&mut rest) else { break };
            has_changed |= self.apply_frame(frame, tables);
        }
        (frames.len() - rest.len(), has_changed)
    }

    /// Applies the messages of a frame as one change: a removal and a new route to the same prefix
    /// are a replacement.
    fn apply_frame(&mut self, frame: &[u8], tables: &mut Tables<'_>) -> bool {
        self.counts.frames.bump();
        let (mut removed, mut has_changed) = (None, false);
        for message in messages(frame) {
            let to = match message {
                Ok(Message::NewRoute(route) | Message::DelRoute(route)) => {
                    Some(to_of(&route)).filter(|_| self.is_table(&route))
                }
                _ => None,
            };
            if let Some(before) = removed.take().filter(|before| Some(*before) != to) {
                has_changed |= self.remove(before, tables);
            }
            has_changed |= match message {
                Ok(Message::DelRoute(_)) => {
                    self.counts.del_routes.bump();
                    removed = to;
                    false
                }
                Ok(Message::NewRoute(route)) => {
                    self.counts.new_routes.bump();
                    match to {
                        Some(To::V4(prefix)) => self.new_route(prefix, &route, tables),
                        Some(To::V6(prefix)) => self.new_route(prefix, &route, tables),
                        None => false,
                    }
                }
                Ok(Message::NewNextHop { id, to }) => {
                    self.counts.new_next_hops.bump();
                    self.new_next_hop(id, Content::of(to), tables)
                }
                Ok(Message::DelNextHop(id)) => {
                    self.counts.del_next_hops.bump();
                    self.del_next_hop(id, tables);
                    false
                }
                Ok(Message::Other(_)) => {
                    self.counts.other_messages.bump();
                    false
                }
                Err(_) => {
                    self.counts.malformed.bump();
                    false
                }
            };
        }
        removed.is_some_and(|before| self.remove(before, tables)) || has_changed
    }

    /// Returns whether a route belongs to the table that this host has. Counts it otherwise.
    fn is_table(&self, route: &Route<'_>) -> bool {
        let is_table = route.table == self.config.table;
        if !is_table {
            self.counts.other_table.bump();
        }
        is_table
    }

    fn new_route<A: Family>(&mut self, prefix: IpPrefix<A>, route: &Route<'_>, tables: &mut Tables<'_>) -> bool {
        let protocol = Protocol(route.proto);
        self.stop_waiting(A::to(prefix));
        // The kernel has a route to its own links, and its own default route is not the engine's.
        if A::is_special(prefix) || prefix.len() == 0 && protocol == Protocol::KERNEL {
            self.counts.ignored.bump();
            return A::routes(tables).unlearn(prefix); // the engine has replaced what was there
        }
        let is_marker = self.config.marker == Some((route.dst, route.dst_len));
        let origin = Origin::engine(protocol, self.generation, tables.now);
        let learned = match (route.kind, route.nh_id) {
            (RouteKind::Blackhole, _) => learn(prefix, Target::Via(Via::Blackhole), origin, tables),
            (RouteKind::Unreachable, _) => learn(prefix, Target::Via(Via::Reject), origin, tables),
            (RouteKind::Prohibit, _) => learn(prefix, Target::Via(Via::Prohibit), origin, tables),
            (RouteKind::Other(_), _) => Err(Absent::Unusable),
            (RouteKind::Unicast, Some(id)) => {
                let learned =
                    self.object::<A>(id, tables).and_then(|id| learn(prefix, Target::Object(id), origin, tables));
                if let Err(Absent::Unknown | Absent::Unusable) = learned {
                    self.wait(A::to(prefix), Waits { nh_id: id, protocol });
                }
                learned
            }
            (RouteKind::Unicast, None) => {
                let object = self.inline.object::<A>(inline_hops(route.to), tables);
                object.and_then(|id| learn(prefix, Target::Object(id), origin, tables))
            }
        };
        if is_marker && learned.is_ok() {
            self.counts.markers.bump();
            self.stale.end_all(tables.now);
        }
        self.count(&learned);
        match learned {
            Ok(Learned::Changed) => true,
            Ok(Learned::Same | Learned::Shadowed) => false,
            // The engine has replaced the route that was there.
            Err(_) => A::routes(tables).unlearn(prefix),
        }
    }

    fn count(&self, learned: &Result<Learned, Absent>) {
        let counts = &self.counts;
        match learned {
            Ok(Learned::Changed) => counts.changed.bump(),
            Ok(Learned::Same) => counts.unchanged.bump(),
            Ok(Learned::Shadowed) => counts.shadowed.bump(),
            Err(Absent::Unknown) => counts.unknown_next_hop.bump(),
            Err(Absent::Unusable) => counts.no_path.bump(),
            Err(Absent::Error(RouteError::Full(_))) => counts.table_full.bump(),
            Err(Absent::Error(_)) => counts.no_next_hop_left.bump(),
        }
    }

    fn remove(&mut self, to: To, tables: &mut Tables<'_>) -> bool {
        self.stop_waiting(to);
        let was_there = match to {
            To::V4(prefix) => tables.v4.unlearn(prefix),
            To::V6(prefix) => tables.v6.unlearn(prefix),
        };
        if was_there {
            self.counts.removed.bump();
        }
        was_there
    }

    fn wait(&mut self, to: To, waits: Waits) {
        if self.waiting.len() >= WAITING_MAX {
            self.counts.waiting_full.bump();
            return;
        }
        self.waiting.insert(to, waits);
        self.waiting_for.entry(waits.nh_id).or_default().insert(to);
    }

    fn stop_waiting(&mut self, to: To) {
        if self.waiting.is_empty() {
            return;
        }
        if let Some(Waits { nh_id, .. }) = self.waiting.remove(&to)
            && let Some(all) = self.waiting_for.get_mut(&nh_id)
        {
            all.remove(&to);
            if all.is_empty() {
                self.waiting_for.remove(&nh_id);
            }
        }
    }

    /// Returns the object of next hop `id` for routes of family `A`, creating it if necessary.
    fn object<A: Family>(&mut self, id: u32, tables: &mut Tables<'_>) -> Result<ObjectId, Absent> {
        let known = self.next_hops.get_mut(&id).filter(|known| known.is_announced).ok_or(Absent::Unknown)?;
        if let Some(object) = *A::objects(&mut known.objects) {
            return Ok(object);
        }
        let paths = self.paths::<A>(id, tables.links);
        if paths.is_empty() {
            return Err(Absent::Unusable);
        }
        let object = match A::orphans(&mut self.orphans).remove(&paths) {
            Some(object) if A::routes(tables).object_paths(object) == paths => object,
            // It has lost paths with an iface since. Its routes keep it until they change.
            Some(object) => {
                A::routes(tables).remove_object(object);
                A::routes(tables).new_object(&paths).map_err(Absent::Error)?
            }
            None => A::routes(tables).new_object(&paths).map_err(Absent::Error)?,
        };
        if let Some(known) = self.next_hops.get_mut(&id) {
            *A::objects(&mut known.objects) = Some(object);
        }
        Ok(object)
    }

    /// Returns the paths of next hop `id` through the ifaces of this host.
    fn paths<A: Family>(&self, id: u32, links: &Links) -> Vec<Path<A::Addr>> {
        let single = |id: &u32, weight: u16| match &self.next_hops.get(id)?.to {
            Content::Blackhole => Some(Path { via: Via::Blackhole, weight }),
            Content::Path(hop) => path::<A>(*hop, weight, links),
            // A group has no groups as members.
            Content::Nothing | Content::Group(_) => None,
        };
        match self.next_hops.get(&id).map(|known| &known.to) {
            Some(Content::Group(members)) => {
                of_several(members.iter().filter_map(|(id, weight)| single(id, *weight)).collect())
            }
            _ => single(&id, 1).into_iter().collect(),
        }
    }

    fn new_next_hop(&mut self, id: u32, to: Content, tables: &mut Tables<'_>) -> bool {
        let known = self.next_hops.get(&id);
        if known.is_some_and(|known| known.is_announced && known.to == to) {
            return false;
        }
        let members = if let Content::Group(members) = &to { members.len() } else { 0 };
        if self.next_hops.len() + usize::from(known.is_none()) + members > NEXT_HOPS_MAX {
            self.counts.no_next_hop_left.bump();
            return false;
        }
        let groups = self.next_hops.get_mut(&id).map(|known| std::mem::take(&mut known.groups));
        self.leave_members(id);
        if let Content::Group(members) = &to {
            for (member, _) in members.iter().filter(|(member, _)| *member != id) {
                let member = self.next_hops.entry(*member).or_default();
                member.groups.push(id);
            }
        }
        let groups = groups.unwrap_or_default();
        let known = self.next_hops.entry(id).or_default();
        (known.is_announced, known.to) = (true, to);
        known.groups.extend(&groups);
        let changed = std::iter::once(id).chain(groups).collect::<Vec<u32>>();
        let mut has_changed = false;
        for id in changed {
            has_changed |= self.update::<u32>(id, tables);
            has_changed |= self.update::<u128>(id, tables);
            has_changed |= self.end_waiting(id, tables);
        }
        has_changed
    }

    /// Adapts the object of next hop `id` to its paths.
    fn update<A: Family>(&mut self, id: u32, tables: &mut Tables<'_>) -> bool {
        let Some(object) = self.next_hops.get_mut(&id).and_then(|known| *A::objects(&mut known.objects)) else {
            return false;
        };
        let paths = self.paths::<A>(id, tables.links);
        let changed = A::routes(tables).set_object(object, &paths);
        if changed.is_err() {
            self.counts.no_next_hop_left.bump();
        }
        changed.unwrap_or(false)
    }

    /// Adapts all next hops to the ifaces of the host, after a port was added or removed. Returns
    /// whether the target of a route has changed.
    pub fn relink(&mut self, tables: &mut Tables<'_>) -> bool {
        let all: Vec<u32> = self.next_hops.keys().copied().collect();
        let mut has_changed = self.inline.relink(tables);
        for id in all {
            has_changed |= self.update::<u32>(id, tables);
            has_changed |= self.update::<u128>(id, tables);
            has_changed |= self.end_waiting(id, tables);
        }
        has_changed
    }

    /// Adds the routes that waited for next hop `id`, if it has a path now.
    fn end_waiting(&mut self, id: u32, tables: &mut Tables<'_>) -> bool {
        let Some(waiting) = self.waiting_for.get(&id) else { return false };
        let waiting: Vec<To> = waiting.iter().copied().collect();
        // Only of the families that wait for it.
        let mut object_of = |is_v4: bool| {
            let waits = waiting.iter().any(|to| matches!(to, To::V4(_)) == is_v4);
            match (waits, is_v4) {
                (false, _) => Err(Absent::Unknown),
                (true, true) => self.object::<u32>(id, tables),
                (true, false) => self.object::<u128>(id, tables),
            }
        };
        let (v4, v6) = (object_of(true), object_of(false));
        let mut has_changed = false;
        for to in waiting {
            let Some(Waits { protocol, .. }) = self.waiting.get(&to).copied() else { continue };
            let origin = Origin::engine(protocol, self.generation, tables.now);
            // A next hop may have a path for the routes of one family only.
            let learned = match (to, &v4, &v6) {
                (To::V4(prefix), Ok(object), _) => learn(prefix, Target::Object(*object), origin, tables),
                (To::V6(prefix), _, Ok(object)) => learn(prefix, Target::Object(*object), origin, tables),
                _ => continue,
            };
            self.count(&learned);
            self.stop_waiting(to);
            has_changed |= matches!(learned, Ok(Learned::Changed));
        }
        has_changed
    }

    /// Removes next hop `id` from its members' lists of groups.
    fn leave_members(&mut self, id: u32) {
        let Some(Content::Group(members)) = self.next_hops.get(&id).map(|known| known.to.clone()) else { return };
        for (member, _) in members {
            let Some(known) = self.next_hops.get_mut(&member) else { continue };
            known.groups.retain(|group| *group != id);
            if known.groups.is_empty() && !known.is_announced {
                self.next_hops.remove(&member);
            }
        }
    }

    /// Forgets next hop `id`. Routes that still use it keep its object until they change.
    fn del_next_hop(&mut self, id: u32, tables: &mut Tables<'_>) {
        self.leave_members(id);
        let Some(Known { objects: Objects { v4, v6 }, groups, .. }) = self.next_hops.remove(&id) else { return };
        v4.into_iter().for_each(|object| tables.v4.remove_object(object));
        v6.into_iter().for_each(|object| tables.v6.remove_object(object));
        if !groups.is_empty() {
            // Groups that still have it as a member get it back if the number is announced again.
            let known = Known { groups, ..Known::default() };
            self.next_hops.insert(id, known);
        }
    }

    /// Returns the time of the next turn.
    pub(crate) fn due(&self) -> Option<Instant> {
        self.stale.due()
    }

    /// Removes stale routes whose time is over, some at a time. Returns `false` if there are none.
    pub fn turn(&mut self, tables: &mut Tables<'_>) -> bool {
        let is_due = self.due().is_some_and(|due| due <= tables.now);
        if is_due {
            self.turn_sweep(tables);
        }
        is_due
    }

    fn turn_sweep(&mut self, tables: &mut Tables<'_>) {
        self.counts.swept.add(self.stale.sweep(tables.v4, tables.v6) as u64);
        if !self.stale.is_empty() {
            return;
        }
        if !self.is_connected {
            self.forget_next_hops(tables);
        }
        self.inline.free(tables);
        self.orphans.v4.drain().for_each(|(_, object)| tables.v4.remove_object(object));
        self.orphans.v6.drain().for_each(|(_, object)| tables.v6.remove_object(object));
    }
}

/// Keeps an object of an ended connection for a next hop with the same paths.
fn adopt<A: Family>(orphans: &mut OrphansOf<A>, routes: &mut Routes<A>, object: Option<ObjectId>) {
    let Some(object) = object else { return };
    let paths = routes.object_paths(object).to_vec();
    // Of two objects with equal paths, the second would never be found.
    if let Some(other) = orphans.insert(paths, object) {
        routes.remove_object(other);
    }
}

fn to_of(route: &Route<'_>) -> To {
    match route.dst {
        IpAddr::V4(dst) => To::V4(Prefix::masked(dst.to_bits(), route.dst_len)),
        IpAddr::V6(dst) => To::V6(Prefix6::masked(dst.to_bits(), route.dst_len)),
    }
}

fn learn<A: Family>(
    prefix: IpPrefix<A>,
    target: Target<A::Addr>,
    origin: Origin,
    tables: &mut Tables<'_>,
) -> Result<Learned, Absent> {
    A::routes(tables).learn(prefix, target, origin).map_err(Absent::Error)
}
