//! Trait for longest-prefix match, common to both families.

use super::entry::{Entry, NextHopId};
use super::groups::Spare;
use super::prefix::IpPrefix;
use lock::Pins;
use std::collections::BTreeMap;

/// Longest-prefix match of a family. Many threads read a matcher while one changes it; no reader
/// waits for the thread that changes it. Readers are pinned.
pub trait Matcher<A>: Default + Send + Sync {
    /// Returns the entry of the longest prefix that contains an address.
    fn find(&self, dst: A) -> Entry;
    /// Looks up as many addresses as the shorter slice holds.
    fn lookup_burst(&self, dst: &[A], out: &mut [Option<NextHopId>]);
    /// Returns whether there is memory for a new prefix.
    fn has_room(prefix: IpPrefix<A>, spare: &Spare) -> bool;
    /// Adds the route to `prefix`, which is in `routes` already, or changes its next hop. The
    /// caller has checked for room.
    fn insert(
        &self,
        prefix: IpPrefix<A>,
        hop: NextHopId,
        routes: &BTreeMap<IpPrefix<A>, NextHopId>,
        spare: &mut Spare,
        pins: &Pins,
    );
    /// Removes the route to `prefix`. `cover` is the entry of the longest remaining route that
    /// contains it.
    fn remove(&self, prefix: IpPrefix<A>, cover: Entry, spare: &mut Spare, pins: &Pins);
    /// Returns the number of bytes reserved.
    fn bytes(&self) -> usize;
}
