//! Routes: the FIB, its next hops, and the cached link-layer header of each next hop.
//!
//! A host's own addresses are routes too (with a `Local` next hop), and so are its broadcast
//! addresses. One lookup thus decides whether a packet is delivered, forwarded or dropped. Routes
//! share next hops: a million routes through eight gateways have eight next hops.
//!
//! The control plane changes [`Routes`], one thread at a time. The packet path reads
//! [`RouteReader`], on any thread, without a lock.

mod cache;
pub(crate) mod connected;
mod counts;
mod hops;
mod learned;
mod objects;
mod origin;
pub(crate) mod paths;
mod reader;
#[cfg(test)]
mod tests;
mod via;
mod why;

use crate::iface::IfaceId;
pub(crate) use cache::RouteCache;
use clock::Instant;
pub use counts::RouteCount;
pub(crate) use counts::RouteCounts;
use fib::{Fib, FibFull, IpPrefix, Matched, NextHopId, Stored};
pub use hops::{Adjacency, Hop};
pub use learned::{Learned, Target};
pub use objects::ObjectId;
use origin::Tally;
pub use origin::{Origin, Protocol};
use paths::Object;
pub use paths::{DEAD_FOR, PATHS_MAX, Path};
pub use reader::RouteReader;
use std::collections::{BTreeMap, HashMap, VecDeque};
use std::fmt;
pub use via::{PathsId, Via, Via6};
pub use why::{Choice, Question, Why};

/// A route, as listed by commands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Route<A: Matched = u32> {
    /// Destination prefix.
    pub prefix: IpPrefix<A>,
    /// Next hop.
    pub via: Via<A::Addr>,
    /// Origin of the route.
    pub origin: Origin,
}

impl<A: Matched> Route<A> {
    /// Creates a route of this host's configuration.
    pub fn own(prefix: IpPrefix<A>, via: Via<A::Addr>) -> Route<A> {
        Route { prefix, via, origin: Origin::OWN }
    }
}

/// An IPv6 route.
pub type Route6 = Route<u128>;

/// Reason why a route was not added.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RouteError {
    /// The table is full.
    Full(FibFull),
    /// There are more distinct next hops or path sets than can be numbered.
    TooManyNextHops,
    /// The prefix is longer than an address.
    BadPrefix,
    /// The next hop cannot be configured, because it is for IPv4 broadcasts or is a set of paths.
    BadVia,
    /// There are no paths, more than [`PATHS_MAX`] paths, or a path that is neither a gateway nor a
    /// link.
    BadPaths,
}

impl fmt::Display for RouteError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            RouteError::Full(full) => full.fmt(f),
            RouteError::TooManyNextHops => f.write_str("too many different next hops or path sets"),
            RouteError::BadPrefix => f.write_str("the prefix length exceeds the address length"),
            RouteError::BadVia => {
                f.write_str("invalid next hop: must be a gateway, an iface, local, reject, prohibit or blackhole")
            }
            RouteError::BadPaths => {
                write!(f, "a route must have 1 to {PATHS_MAX} paths, each through a gateway or an iface")
            }
        }
    }
}

impl std::error::Error for RouteError {}

/// Routing table of a stack.
pub struct Routes<A: Matched = u32> {
    fib: Fib<A>,
    ways: RouteReader<A>,
    by_via: HashMap<Via<A::Addr>, NextHopId>,
    /// Next hop objects with their paths.
    objects: HashMap<NextHopId, Object<A::Addr>>,
    /// Objects whose routes take the next hop of another object.
    diverted: Vec<NextHopId>,
    /// Routes of a routing engine to prefixes of own routes.
    shadowed: BTreeMap<IpPrefix<A>, Stored>,
    /// Ifaces that are down. Their next hops are dead.
    down: Vec<IfaceId>,
    /// Set when an iface was removed.
    has_forgotten: bool,
    /// Numbers of routes of a routing engine; `None` if there has been none.
    tally: Option<Box<Tally>>,
    /// For each next hop, the number of routes, path sets and objects that use it.
    uses: Vec<u32>,
    free: Vec<NextHopId>,
    /// Next hops that no route uses any more but that a pinned reader may still have. Each is
    /// stored with the value that `Pins::retire` returned when the next hop became unused.
    waiting: VecDeque<(u64, NextHopId)>,
    sets: Vec<Vec<Path<A::Addr>>>,
    free_sets: Vec<PathsId>,
}

/// Interval at which unused next hops are freed: each time the length of `Routes::waiting` reaches
/// a multiple of this number.
const ASK_AT: usize = 16;

impl<A: Matched> Routes<A> {
    /// Creates a table for up to `limit` routes, with readers on up to `threads` threads.
    pub fn new(limit: usize, threads: usize) -> Routes<A> {
        // With many routes, lookups access the table at random. Huge pages then save a page walk
        // per lookup.
        let fib = Fib::with_readers(limit, threads).with_huge_pages();
        Routes {
            ways: RouteReader::new(fib.reader()),
            fib,
            by_via: HashMap::new(),
            objects: HashMap::new(),
            diverted: Vec::new(),
            shadowed: BTreeMap::new(),
            down: Vec::new(),
            has_forgotten: false,
            tally: None,
            uses: Vec::new(),
            free: Vec::new(),
            waiting: VecDeque::new(),
            sets: Vec::new(),
            free_sets: Vec::new(),
        }
    }

    /// Returns the reader that the packet path uses.
    pub fn reader(&self) -> RouteReader<A> {
        self.ways.clone()
    }

    /// Adds or replaces the own route to `prefix`; returns its previous target.
    ///
    /// # Errors
    /// [`RouteError`]; the table is then unchanged.
    #[inline(never)]
    pub fn insert(&mut self, prefix: IpPrefix<A>, via: Via<A::Addr>) -> Result<Option<Via<A::Addr>>, RouteError> {
        let id = self.hold_via(via)?;
        match self.fib.insert_stored(prefix, Stored { hop: id, note: Origin::OWN.note() }) {
            Ok(before) => {
                let led = before.and_then(|before| self.via(before.hop));
                match before {
                    Some(before) if !Origin::of(before.note).is_own() => {
                        self.shadowed.insert(prefix, before); // it was not shadowed, since it was used
                    }
                    Some(before) => self.release(before.hop),
                    None => {}
                }
                Ok(led)
            }
            Err(full) => {
                self.release(id);
                Err(RouteError::Full(full))
            }
        }
    }

    /// Adds or replaces a route with 1 to [`PATHS_MAX`] `paths`; each flow uses one of them.
    /// Returns the previous target. With a single path, the route is an ordinary one.
    ///
    /// # Errors
    /// [`RouteError`]; the table is then unchanged.
    #[inline(never)]
    pub fn insert_paths(
        &mut self,
        prefix: IpPrefix<A>,
        paths: &[Path<A::Addr>],
    ) -> Result<Option<Via<A::Addr>>, RouteError> {
        match paths {
            [only] => self.insert(prefix, only.via),
            _ => {
                let via = self.via_of(paths, self.fib.get(prefix))?;
                let before = self.insert(prefix, via);
                if before == Err(RouteError::TooManyNextHops) && !self.by_via.contains_key(&via) {
                    self.end_set(via); // no route has used the new set
                }
                before
            }
        }
    }

    /// Removes the own route to `prefix`; returns its target. If a routing engine has announced a
    /// route to the prefix, too, that is used from now on.
    #[inline(never)]
    pub fn remove(&mut self, prefix: IpPrefix<A>) -> Option<Via<A::Addr>> {
        let id = self.remove_own(prefix)?;
        let led = self.via(id);
        self.release(id);
        led
    }

    /// Removes the routes through an interface that is being removed. A multipath route keeps its
    /// other paths, if the table has space for the reduced set. Routes of next hop objects are
    /// kept; the objects lose the paths.
    pub fn forget_iface(&mut self, iface: IfaceId) {
        self.forget_iface_in_objects(iface);
        let through = |via: Via<A::Addr>| via.iface() == Some(iface);
        for Route { prefix, via, .. } in self.iter().filter(|route| route.origin.is_own()).collect::<Vec<_>>() {
            let others = match via {
                Via::Paths(set) => {
                    let all = self.paths(set);
                    if !all.iter().any(|path| through(path.via)) {
                        continue;
                    }
                    all.iter().copied().filter(|path| !through(path.via)).collect()
                }
                via if through(via) => Vec::new(),
                _ => continue,
            };
            if others.is_empty() || self.insert_paths(prefix, &others).is_err() {
                self.remove(prefix);
            }
        }
        // An iface that is added again may get the same number, and is up then.
        self.down.retain(|down| *down != iface);
        self.has_forgotten = true;
    }

    /// Returns whether an iface was removed since the last call, so that objects may have lost
    /// paths.
    pub fn take_forgotten(&mut self) -> bool {
        std::mem::take(&mut self.has_forgotten)
    }

    /// Returns the target of the own route to exactly `prefix`; `None` if there is none, even if a
    /// routing engine has announced one.
    pub fn get(&self, prefix: IpPrefix<A>) -> Option<Via<A::Addr>> {
        self.at(prefix).filter(|route| route.origin.is_own()).map(|route| route.via)
    }

    /// Returns the paths of a path set, in the order in which they were given.
    pub fn paths(&self, PathsId(set): PathsId) -> &[Path<A::Addr>] {
        self.sets.get(usize::from(set)).map_or(&[], Vec::as_slice)
    }

    /// Returns the number of the next hop `via`; `None` if no route uses it.
    pub fn hop_to(&self, via: Via<A::Addr>) -> Option<NextHopId> {
        self.by_via.get(&via).copied()
    }

    /// Returns the route that packets to `dst` use, with its prefix.
    #[inline(never)]
    pub fn explain(&self, dst: A::Addr) -> Option<Route<A>> {
        let (prefix, _) = self.fib.lookup_prefix(dst)?;
        self.at(prefix)
    }

    /// Returns the route to exactly `prefix`.
    pub fn at(&self, prefix: IpPrefix<A>) -> Option<Route<A>> {
        self.route(prefix, self.fib.get_stored(prefix)?)
    }

    /// Returns all routes whose prefix contains `dst`, the longest prefix first. Packets to `dst`
    /// use the first route.
    pub fn covering(&self, dst: A::Addr) -> Vec<Route<A>> {
        let prefixes = (0..=A::BITS).rev().filter_map(|len| IpPrefix::new(dst, len).ok());
        prefixes.filter_map(|prefix| self.at(prefix)).collect()
    }

    /// Returns all routes, ordered by prefix.
    pub fn iter(&self) -> impl Iterator<Item = Route<A>> + '_ {
        self.fib.iter_after(None).filter_map(|(prefix, stored)| self.route(prefix, stored))
    }

    /// Returns the number of routes.
    pub fn len(&self) -> usize {
        self.fib.len()
    }

    /// Returns whether there is no route.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Returns the size of the tables in bytes.
    pub fn bytes(&self) -> usize {
        self.fib.bytes() + self.ways.bytes() + self.uses.capacity() * size_of::<u32>()
    }

    /// Frees the unused next hops that no reader has, and returns the number of those that routes,
    /// path sets and objects use.
    pub fn hops_in_use(&mut self) -> usize {
        // An object that is freed releases its target, and that its paths.
        for _ in 0..3 {
            self.look_after();
        }
        self.uses.iter().filter(|uses| **uses > 0).count()
    }

    fn via(&self, id: NextHopId) -> Option<Via<A::Addr>> {
        self.ways.via(id)
    }

    /// Returns the number of the next hop `via`, creating it if necessary, and increments its use
    /// count.
    fn hold_via(&mut self, via: Via<A::Addr>) -> Result<NextHopId, RouteError> {
        if A::BITS > 32 && matches!(via, Via::Gateway6(..)) {
            return Err(RouteError::BadVia); // an IPv6 route has an ordinary gateway
        }
        let id = match self.by_via.get(&via) {
            Some(&id) => id,
            None => {
                let id = self.new_number()?;
                self.ways.set(id, via);
                self.by_via.insert(via, id);
                if via.iface().is_some_and(|iface| self.down.contains(&iface)) {
                    self.ways.set_dead(id, Some(Instant::NEVER));
                }
                id
            }
        };
        self.add_use(id);
        Ok(id)
    }

    fn add_use(&mut self, id: NextHopId) {
        self.uses.iter_mut().skip(id.index()).take(1).for_each(|uses| *uses += 1);
    }

    /// Returns the number of a next hop that is not used.
    fn new_number(&mut self) -> Result<NextHopId, RouteError> {
        if self.free.is_empty() {
            self.look_after();
        }
        match self.free.pop() {
            Some(id) => Ok(id),
            None if self.uses.len() >= hops::HOPS_MAX => Err(RouteError::TooManyNextHops),
            None => {
                let id = NextHopId::new(self.uses.len() as u32).ok_or(RouteError::TooManyNextHops)?;
                self.uses.push(0);
                Ok(id)
            }
        }
    }

    /// Decrements the use count of `id`. An unused next hop is freed once no reader can use its
    /// number.
    fn release(&mut self, id: NextHopId) {
        self.end_use(id);
        if !self.waiting.is_empty() && self.waiting.len().is_multiple_of(ASK_AT) {
            self.look_after();
        }
    }

    /// Decrements the use count of `id`, and lets it wait for its readers if it is unused.
    fn end_use(&mut self, id: NextHopId) {
        let Some(uses) = self.uses.get_mut(id.index()) else { return };
        *uses = uses.saturating_sub(1);
        if *uses > 0 {
            return;
        }
        self.end_diversion(id);
        self.end_followers(id);
        if self.objects.remove(&id).is_none()
            && let Some(via) = self.via(id)
        {
            self.by_via.remove(&via);
        }
        self.waiting.push_back((self.ways.pins().retire(), id));
    }

    /// Frees the unused next hops, and their path sets, that no reader can use any more.
    fn look_after(&mut self) {
        let passed = self.ways.pins().passed();
        while let Some(&(at, id)) = self.waiting.front()
            && at <= passed
        {
            self.waiting.pop_front();
            if let Some(target) = self.ways.object_target(id) {
                self.ways.set(id, Via::Blackhole);
                self.end_use(target);
            } else if let Some(via) = self.via(id) {
                self.ways.set(id, Via::Blackhole);
                self.end_set(via);
            }
            self.free.push(id);
        }
    }

    /// Returns the target of a route with these paths. Uses an existing path set or creates one. A
    /// new set keeps the buckets of `before`, the next hop that is replaced, as far as possible.
    fn via_of(&mut self, paths: &[Path<A::Addr>], before: Option<NextHopId>) -> Result<Via<A::Addr>, RouteError> {
        let known = self.sets.iter().position(|set| set == paths);
        if let Some(via) = known.map(|at| Via::Paths(PathsId(at as u16))).filter(|via| self.by_via.contains_key(via)) {
            return Ok(via);
        }
        let leads = |path: &Path<A::Addr>| path.via.is_gateway() || matches!(path.via, Via::Link(_));
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
            match self.hold_via(path.via) {
                Ok(hop) => hops.push(hop),
                Err(why) => {
                    hops.into_iter().for_each(|hop| self.release(hop));
                    self.free_sets.push(id);
                    return Err(why);
                }
            }
        }
        let before: Vec<Option<usize>> = match before.and_then(|before| self.via(before)) {
            Some(Via::Paths(set)) => {
                let place = |hop: NextHopId| hops.iter().position(|of| *of == hop);
                (0..paths::BUCKETS).map(|bucket| place(self.ways.bucket(set, bucket)?)).collect()
            }
            Some(via) => vec![paths.iter().position(|path| path.via == via); paths::BUCKETS],
            None => Vec::new(),
        };
        let buckets: Vec<NextHopId> =
            paths::deal::<A>(paths, &before).into_iter().filter_map(|at| hops.get(at).copied()).collect();
        self.ways.set_paths(id, &buckets);
        self.sets.iter_mut().skip(usize::from(id.0)).take(1).for_each(|set| *set = paths.to_vec());
        self.note_sets();
        Ok(Via::Paths(id))
    }

    /// Frees a path set that no route and no reader uses.
    #[inline(never)]
    fn end_set(&mut self, via: Via<A::Addr>) {
        let Via::Paths(id) = via else { return };
        let paths = self.sets.get_mut(usize::from(id.0)).map(std::mem::take).unwrap_or_default();
        let hops: Vec<NextHopId> = paths.iter().filter_map(|path| self.hop_to(path.via)).collect();
        self.free_sets.push(id);
        self.note_sets();
        hops.into_iter().for_each(|hop| self.end_use(hop));
    }

    fn note_sets(&self) {
        self.ways.note_sets(self.sets.len() - self.free_sets.len());
    }
}
