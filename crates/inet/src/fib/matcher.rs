//! The longest-prefix match of both families.

use super::entry::{Entry, NextHopId};
use super::groups::Spare;
use super::prefix::IpPrefix;
use lock::Pins;
use std::collections::BTreeMap;

/// The longest-prefix match of a family: read by many threads, none of which waits for the one that changes it.
/// Readers are pinned.
pub trait Matcher<A>: Default + Send + Sync {
    /// Returns the answer for an address.
    fn find(&self, dst: A) -> Entry;
    /// Returns the answers for as many addresses as there are in the shorter slice.
    fn lookup_burst(&self, dst: &[A], out: &mut [Option<NextHopId>]);
    /// Returns whether there is memory for a new prefix.
    fn has_room(prefix: IpPrefix<A>, spare: &Spare) -> bool;
    /// Adds the route to `prefix`, which is one of `routes`, or gives it another next hop. There is room.
    fn insert(
        &self,
        prefix: IpPrefix<A>,
        hop: NextHopId,
        routes: &BTreeMap<IpPrefix<A>, NextHopId>,
        spare: &mut Spare,
        pins: &Pins,
    );
    /// Removes the route to `prefix`; `cover`: the answer of the longest route left that contains it.
    fn remove(&self, prefix: IpPrefix<A>, cover: Entry, spare: &mut Spare, pins: &Pins);
    /// Returns the bytes reserved.
    fn bytes(&self) -> usize;
}
