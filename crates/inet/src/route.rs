//! Routes: the FIB, the next hops it points at, and what is known of each without asking again.
//!
//! A host's own addresses are routes too (to a `Local` hop), as are its broadcast addresses: one lookup says whether a
//! packet is delivered, forwarded or dropped. Next hops are shared: a million routes through eight gateways are eight.
//!
//! [`Routes`] is the control plane's, one thread at a time; [`Ways`] is what packets go by, on any thread, without a lock.

mod cache;
mod hops;
pub(crate) mod paths;
#[cfg(test)]
mod tests;
mod via;
mod ways;
mod why;

use crate::fib::{Fib, FibFull, IpPrefix, Matched, NextHopId};
use crate::iface::IfaceId;
pub(crate) use cache::RouteCache;
pub use hops::{Adjacency, Hop};
pub use paths::{DEAD_FOR, PATHS_MAX, Path};
use std::collections::{HashMap, VecDeque};
use std::fmt;
pub use via::{PathsId, Via, Via6};
pub use ways::Ways;
pub use why::{Choice, Question, Why};

/// A route, for listings.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Route<A: Matched = u32> {
    /// Its destinations.
    pub prefix: IpPrefix<A>,
    /// Where they go.
    pub via: Via<A::Addr>,
}

/// A route of IPv6.
pub type Route6 = Route<u128>;

/// Why a route was not added.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RouteError {
    /// The table is full.
    Full(FibFull),
    /// More different next hops, or sets of paths, than can be numbered.
    TooManyNextHops,
    /// An address with a prefix longer than 32 bits.
    BadPrefix,
    /// A destination that an address makes, or several paths at once: not one of a configured route.
    BadVia,
    /// None, more than [`PATHS_MAX`], or one that leads neither to a gateway nor to a link.
    BadPaths,
}

impl fmt::Display for RouteError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            RouteError::Full(full) => full.fmt(f),
            RouteError::TooManyNextHops => f.write_str("too many different next hops or sets of paths"),
            RouteError::BadPrefix => f.write_str("the prefix is longer than its address"),
            RouteError::BadVia => f.write_str("no configured route leads there"),
            RouteError::BadPaths => write!(f, "a route has 1 to {PATHS_MAX} paths, each to a gateway or an iface"),
        }
    }
}

impl std::error::Error for RouteError {}

/// The routes of one stack.
pub struct Routes<A: Matched = u32> {
    fib: Fib<A>,
    ways: Ways<A>,
    by_via: HashMap<Via<A::Addr>, NextHopId>,
    /// Routes and sets that lead to each next hop.
    uses: Vec<u32>,
    free: Vec<NextHopId>,
    /// Nothing leads there any more since this count of readers' pins, but a reader may have it in hand.
    waiting: VecDeque<(u64, NextHopId)>,
    sets: Vec<Vec<Path<A::Addr>>>,
    free_sets: Vec<PathsId>,
}

/// So many next hops wait before the readers are asked.
const ASK_AT: usize = 16;

impl<A: Matched> Routes<A> {
    /// Returns a table for up to `limit` routes, with readers on up to `threads` threads.
    pub fn new(limit: usize, threads: usize) -> Routes<A> {
        // The table of a router with many routes is read at random: huge pages spare it a page walk a lookup.
        let fib = Fib::with_readers(limit, threads).with_huge_pages();
        Routes {
            ways: Ways::new(fib.reader()),
            fib,
            by_via: HashMap::new(),
            uses: Vec::new(),
            free: Vec::new(),
            waiting: VecDeque::new(),
            sets: Vec::new(),
            free_sets: Vec::new(),
        }
    }

    /// What packets go by.
    pub fn ways(&self) -> Ways<A> {
        self.ways.clone()
    }

    /// Adds or replaces the route to `prefix`; says where it led before.
    ///
    /// # Errors
    /// [`RouteError`]; nothing has changed then.
    pub fn insert(&mut self, prefix: IpPrefix<A>, via: Via<A::Addr>) -> Result<Option<Via<A::Addr>>, RouteError> {
        let id = self.hold(via)?;
        match self.fib.insert(prefix, id) {
            Ok(before) => {
                let led = before.and_then(|id| self.via(id));
                before.into_iter().for_each(|id| self.release(id));
                Ok(led)
            }
            Err(full) => {
                self.release(id);
                Err(RouteError::Full(full))
            }
        }
    }

    /// A route by several `paths`, 1 to [`PATHS_MAX`] of them, each flow by one; says where it led before. One path is an ordinary route.
    ///
    /// # Errors
    /// [`RouteError`]; nothing has changed then.
    pub fn insert_paths(
        &mut self,
        prefix: IpPrefix<A>,
        paths: &[Path<A::Addr>],
    ) -> Result<Option<Via<A::Addr>>, RouteError> {
        match paths {
            [only] => self.insert(prefix, only.via),
            _ => {
                let via = self.via_of(paths)?;
                let before = self.insert(prefix, via);
                if before == Err(RouteError::TooManyNextHops) && !self.by_via.contains_key(&via) {
                    self.end_set(via); // nothing ever led there
                }
                before
            }
        }
    }

    /// Removes the route to `prefix`; says where it led.
    pub fn remove(&mut self, prefix: IpPrefix<A>) -> Option<Via<A::Addr>> {
        let id = self.fib.remove(prefix)?;
        let led = self.via(id);
        self.release(id);
        led
    }

    /// Removes the routes by an iface that is going away. Of several paths the others stay, if there is room for a set of them.
    pub fn forget_iface(&mut self, iface: IfaceId) {
        let through = |via: Via<A::Addr>| via.iface() == Some(iface);
        for Route { prefix, via } in self.iter().collect::<Vec<_>>() {
            let Via::Paths(set) = via else {
                through(via).then(|| self.remove(prefix));
                continue;
            };
            let (gone, others): (Vec<_>, Vec<_>) = self.paths(set).iter().copied().partition(|path| through(path.via));
            if !gone.is_empty() && self.insert_paths(prefix, &others).is_err() {
                self.remove(prefix);
            }
        }
    }

    /// Where the route to exactly `prefix` leads.
    pub fn get(&self, prefix: IpPrefix<A>) -> Option<Via<A::Addr>> {
        self.via(self.fib.get(prefix)?)
    }

    /// The paths of a set, in the order in which they were given.
    pub fn paths(&self, PathsId(set): PathsId) -> &[Path<A::Addr>] {
        self.sets.get(usize::from(set)).map_or(&[], Vec::as_slice)
    }

    /// The next hop to a gateway, if a route leads there.
    pub fn hop_to(&self, via: Via<A::Addr>) -> Option<NextHopId> {
        self.by_via.get(&via).copied()
    }

    /// The route that packets to `dst` take, with its prefix.
    pub fn explain(&self, dst: A::Addr) -> Option<Route<A>> {
        let (prefix, id) = self.fib.lookup_prefix(dst)?;
        Some(Route { prefix, via: self.via(id)? })
    }

    /// All routes whose prefix contains `dst`, the longest first: the first one is taken.
    pub fn covering(&self, dst: A::Addr) -> Vec<Route<A>> {
        let prefixes = (0..=A::BITS).rev().filter_map(|len| IpPrefix::new(dst, len).ok());
        prefixes.filter_map(|prefix| Some(Route { prefix, via: self.get(prefix)? })).collect()
    }

    /// All routes, in order of their prefixes.
    pub fn iter(&self) -> impl Iterator<Item = Route<A>> + '_ {
        self.fib.iter().filter_map(|(prefix, id)| Some(Route { prefix, via: self.via(id)? }))
    }

    /// How many routes.
    pub fn len(&self) -> usize {
        self.fib.len()
    }

    /// None?
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Bytes the tables take.
    pub fn bytes(&self) -> usize {
        self.fib.bytes() + self.ways.bytes() + self.uses.capacity() * size_of::<u32>()
    }

    fn via(&self, id: NextHopId) -> Option<Via<A::Addr>> {
        self.ways.via(id)
    }

    /// The next hop for `via`, which one more leads to.
    fn hold(&mut self, via: Via<A::Addr>) -> Result<NextHopId, RouteError> {
        let id = match self.by_via.get(&via) {
            Some(&id) => id,
            None => self.new_hop(via)?,
        };
        self.uses.iter_mut().skip(id.index()).take(1).for_each(|uses| *uses += 1);
        Ok(id)
    }

    fn new_hop(&mut self, via: Via<A::Addr>) -> Result<NextHopId, RouteError> {
        if self.free.is_empty() {
            self.look_after();
        }
        let id = match self.free.pop() {
            Some(id) => id,
            None if self.uses.len() >= hops::HOPS_MAX => return Err(RouteError::TooManyNextHops),
            None => {
                let id = NextHopId::new(self.uses.len() as u32).ok_or(RouteError::TooManyNextHops)?;
                self.uses.push(0);
                id
            }
        };
        self.ways.set(id, via);
        self.by_via.insert(via, id);
        Ok(id)
    }

    /// One less leads to `id`. Behind the last one it is another's, once no reader can have it.
    fn release(&mut self, id: NextHopId) {
        let Some(uses) = self.uses.get_mut(id.index()) else { return };
        *uses = uses.saturating_sub(1);
        if *uses > 0 {
            return;
        }
        if let Some(via) = self.via(id) {
            self.by_via.remove(&via);
        }
        self.waiting.push_back((self.ways.pins().retire(), id));
        if self.waiting.len().is_multiple_of(ASK_AT) {
            self.look_after();
        }
    }

    /// Frees the next hops that no reader can have any more, and the sets among them.
    fn look_after(&mut self) {
        let passed = self.ways.pins().passed();
        while let Some((_, id)) = self.waiting.pop_front_if(|(at, _)| *at <= passed) {
            if let Some(via) = self.via(id) {
                self.ways.set(id, Via::Blackhole);
                self.end_set(via);
            }
            self.free.push(id);
        }
    }

    /// The way by these paths: a set that is there already, or a new one.
    fn via_of(&mut self, paths: &[Path<A::Addr>]) -> Result<Via<A::Addr>, RouteError> {
        let known = self.sets.iter().position(|set| set == paths);
        if let Some(via) = known.map(|at| Via::Paths(PathsId(at as u16))).filter(|via| self.by_via.contains_key(via)) {
            return Ok(via);
        }
        let leads = |path: &Path<A::Addr>| matches!(path.via, Via::Gateway(..) | Via::Link(_));
        if paths.is_empty() || paths.len() > PATHS_MAX || !paths.iter().all(leads) {
            return Err(RouteError::BadPaths);
        }
        if self.free_sets.is_empty() {
            self.look_after();
        }
        let id = match self.free_sets.pop() {
            Some(id) => id,
            None if self.sets.len() >= paths::SETS_MAX => return Err(RouteError::TooManyNextHops),
            None => {
                self.sets.push(Vec::new());
                PathsId((self.sets.len() - 1) as u16)
            }
        };
        let mut hops = Vec::with_capacity(paths.len());
        for path in paths {
            match self.hold(path.via) {
                Ok(hop) => hops.push(hop),
                Err(why) => {
                    hops.into_iter().for_each(|hop| self.release(hop));
                    self.free_sets.push(id);
                    return Err(why);
                }
            }
        }
        let buckets: Vec<NextHopId> =
            paths::deal::<A>(paths).into_iter().filter_map(|at| hops.get(at).copied()).collect();
        self.ways.set_paths(id, &buckets);
        self.sets.iter_mut().skip(usize::from(id.0)).take(1).for_each(|set| *set = paths.to_vec());
        self.note_sets();
        Ok(Via::Paths(id))
    }

    /// A set that nothing leads to and no reader has.
    fn end_set(&mut self, via: Via<A::Addr>) {
        let Via::Paths(id) = via else { return };
        let paths = self.sets.get_mut(usize::from(id.0)).map(std::mem::take).unwrap_or_default();
        let hops: Vec<NextHopId> = paths.iter().filter_map(|path| self.hop_to(path.via)).collect();
        self.free_sets.push(id);
        self.note_sets();
        hops.into_iter().for_each(|hop| self.release(hop));
    }

    fn note_sets(&self) {
        self.ways.note_sets(self.sets.len() - self.free_sets.len());
    }
}
