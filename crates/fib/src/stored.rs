//! Routes as the ordered map stores them.

use super::entry::NextHopId;
use super::prefix::IpPrefix;
use std::collections::BTreeMap;

/// All routes of a table.
pub(super) type RouteMap<A> = BTreeMap<IpPrefix<A>, Stored>;

/// Data of the caller that is stored with a route, such as the protocol that it comes from. Lookups
/// of packets do not read it.
#[derive(Copy, Clone, PartialEq, Eq, Hash, Debug, Default)]
pub struct Note(pub [u32; 2]);

/// Route of a prefix, as it is stored.
#[derive(Copy, Clone, PartialEq, Eq, Debug)]
pub struct Stored {
    /// Next hop of the route.
    pub hop: NextHopId,
    /// Data of the caller.
    pub note: Note,
}
