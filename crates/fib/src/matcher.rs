//! Trait of the data structures for longest-prefix match, common to both address families.

use super::entry::{Entry, NextHopId};
use super::groups::Spare;
use super::prefix::IpPrefix;
use super::stored::RouteMap;
use lock::Pins;

/// Data structure for the longest-prefix match of an address family. Many threads read a matcher
/// while one changes it; no reader waits for the thread that changes it. Reading threads must be
/// pinned.
pub trait Matcher<A>: Default + Send + Sync {
    /// Returns the entry of the longest prefix that contains `dst`.
    fn find(&self, dst: A) -> Entry;
    /// Looks up the addresses in `dst`. If the slices differ in length, looks up only as many
    /// addresses as the shorter one has elements.
    fn lookup_burst(&self, dst: &[A], out: &mut [Option<NextHopId>]);
    /// Returns whether there is memory for a new prefix.
    fn has_room(prefix: IpPrefix<A>, spare: &Spare) -> bool;
    /// Adds the route to `prefix`, or changes its next hop. `routes` contains all routes, including
    /// this one. The caller has checked [`Matcher::has_room`].
    fn insert(&self, prefix: IpPrefix<A>, hop: NextHopId, routes: &RouteMap<A>, spare: &mut Spare, pins: &Pins);
    /// Removes the route to `prefix`. `cover` is the entry of the longest remaining route that
    /// contains it.
    fn remove(&self, prefix: IpPrefix<A>, cover: Entry, spare: &mut Spare, pins: &Pins);
    /// Returns the memory reserved by the arrays of the matcher, in bytes.
    fn bytes(&self) -> usize;
}
