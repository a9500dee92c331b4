//! Multipath routes (weighted ECMP): selection of a path per flow (RFC 2992).
//!
//! A set of paths has 256 buckets. The keyed hash of a flow selects a bucket, and each bucket has a
//! next hop. Buckets are assigned by weight. Among the paths that have not reached their share, a
//! bucket gets the path with the highest random value for this bucket (highest random weight, RFC
//! 2992 1). The shares are exact to one bucket. A set that replaces another one keeps the buckets
//! of the paths that both have, up to their new shares: only the flows of a removed path move, and
//! to an added path only as many as its share. A flow whose path is dead tries other buckets, in
//! steps that depend on the flow. It therefore stays with one live path, and the flows of the dead
//! path spread over all others.

use super::hops::Hops;
use super::via::{PathsId, Via};
use clock::{Duration, Instant};
use fib::{AddrBits, NextHopId};
use std::net::Ipv4Addr;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU32, AtomicUsize, Ordering};

/// Number of buckets in a path set.
pub const BUCKETS: usize = 256;
/// Maximum number of paths in a set.
pub const PATHS_MAX: usize = 64;
/// Maximum number of path sets. Routes with the same paths share one set.
pub(super) const SETS_MAX: usize = 4096;
/// Time for which a gateway that did not answer is avoided. After it, one packet tries the gateway
/// again.
pub const DEAD_FOR: Duration = Duration::from_secs(20);

/// A path of a multipath route.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct Path<G = Ipv4Addr> {
    /// Next hop: [`Via::Gateway`], [`Via::Gateway6`] or [`Via::Link`].
    pub via: Via<G>,
    /// Relative weight: 1 to 256.
    pub weight: u16,
}

/// A next hop object in use.
#[derive(Clone, Debug)]
pub(super) struct Object<G> {
    pub(super) paths: Vec<Path<G>>,
    /// Set until the caller has called `Routes::remove_object`.
    pub(super) is_held: bool,
    /// Set while the routes take the next hop of another object.
    pub(super) diversion: Option<Diversion>,
}

/// Diversion of an object.
#[derive(Clone, Copy, Debug)]
pub(super) struct Diversion {
    /// Next hop of the object's own paths, which is kept meanwhile.
    pub(super) own: NextHopId,
    /// Object or other next hop whose target the routes take. It is not diverted itself.
    pub(super) to: NextHopId,
}

/// A path set as readers use it: for each bucket, the number of its next hop plus one; 0 if it has
/// none.
type Set = Box<[AtomicU32]>;

/// All path sets as readers use them. A set is changed only while no reader can have its number.
#[derive(Default)]
pub(super) struct Sets {
    all: OnceLock<Box<[OnceLock<Set>]>>,
    /// Number of sets in use by multipath routes.
    used: AtomicUsize,
}

impl Sets {
    #[inline(always)]
    pub(super) fn any(&self) -> bool {
        self.used.load(Ordering::Relaxed) != 0
    }

    pub(super) fn note(&self, used: usize) {
        self.used.store(used, Ordering::Release);
    }

    pub(super) fn set(&self, id: PathsId, buckets: &[NextHopId]) {
        let all = self.all.get_or_init(|| (0..SETS_MAX).map(|_| OnceLock::new()).collect());
        let Some(set) = all.get(usize::from(id.0)) else { return };
        let set = set.get_or_init(|| (0..BUCKETS).map(|_| AtomicU32::new(0)).collect());
        for (bucket, hop) in set.iter().zip(buckets) {
            bucket.store(hop.index() as u32 + 1, Ordering::Release);
        }
    }

    /// Returns the next hop of a bucket.
    pub(super) fn at(&self, id: PathsId, bucket: usize) -> Option<NextHopId> {
        let set = self.all.get()?.get(usize::from(id.0))?.get()?;
        NextHopId::new(set.get(bucket % BUCKETS)?.load(Ordering::Acquire).checked_sub(1)?)
    }

    /// Returns the next hop for the flow with this hash. The calling thread must be pinned.
    pub(super) fn choose(&self, id: PathsId, hash: u64, hops: &Hops, now: Instant) -> Option<NextHopId> {
        let own = self.at(id, bucket(hash))?;
        if !hops.any_dead() {
            return Some(own);
        }
        let again = now.after(DEAD_FOR);
        Some(self.way(id, hash).find(|hop| hops.may_try(*hop, now, again)).unwrap_or(own))
    }

    /// Returns the next hop that [`Sets::choose`] would return, without side effects.
    pub(super) fn would_choose(&self, id: PathsId, hash: u64, hops: &Hops, now: Instant) -> Option<NextHopId> {
        let open = |hop: &NextHopId| hops.dead_until(*hop).is_none_or(|until| now >= until);
        self.way(id, hash).find(open).or_else(|| self.at(id, bucket(hash)))
    }

    /// Returns the next hops in the order in which a flow tries the buckets. The step between two
    /// buckets is odd, so every bucket is tried.
    fn way(&self, id: PathsId, hash: u64) -> impl Iterator<Item = NextHopId> {
        let (first, step) = (bucket(hash), (hash as usize & (BUCKETS - 1)) | 1);
        (0..BUCKETS).filter_map(move |turn| self.at(id, first + turn * step))
    }
}

/// Returns the bucket of a flow's hash.
pub(super) fn bucket(hash: u64) -> usize {
    (hash >> 56) as usize
}

/// Assigns the buckets to paths. `before` contains, for each bucket, the path that it had in the
/// replaced set, and ends early if there was none. Paths are indices into `paths`.
pub(super) fn deal<A: AddrBits>(paths: &[Path<A::Addr>], before: &[Option<usize>]) -> Vec<usize> {
    let total: usize = paths.iter().map(|path| usize::from(path.weight.max(1))).sum();
    let mut left: Vec<usize> =
        paths.iter().map(|path| BUCKETS * usize::from(path.weight.max(1)) / total.max(1)).collect();
    let rest = BUCKETS.saturating_sub(left.iter().sum());
    left.iter_mut().take(rest).for_each(|left| *left += 1);
    let mut take = |at: usize| match left.get_mut(at) {
        Some(left) if *left > 0 => {
            *left -= 1;
            true
        }
        _ => false,
    };
    let kept: Vec<Option<usize>> =
        (0..BUCKETS).map(|bucket| before.get(bucket).copied().flatten().filter(|at| take(*at))).collect();
    let mut dealt = Vec::with_capacity(BUCKETS);
    for (bucket, kept) in kept.into_iter().enumerate() {
        let open = || {
            let open = paths.iter().enumerate().filter(|(at, _)| left.get(*at).is_some_and(|left| *left > 0));
            open.max_by_key(|(_, path)| draw::<A>(bucket, path.via)).map(|(at, _)| at)
        };
        let Some(at) = kept.or_else(open) else { break };
        if kept.is_none() {
            left.iter_mut().skip(at).take(1).for_each(|left| *left -= 1);
        }
        dealt.push(at);
    }
    dealt
}

/// Returns the pseudorandom value of a path for a bucket. It does not depend on the other paths of
/// the set.
fn draw<A: AddrBits>(bucket: usize, via: Via<A::Addr>) -> u64 {
    let (iface, addr) = match via {
        Via::Gateway(iface, gateway) => (iface.0, A::of(gateway).to_wide()),
        Via::Gateway6(iface, gateway) => (iface.0, gateway.to_bits()),
        Via::Link(iface) => (iface.0, 0),
        _ => (0, 0),
    };
    let folded = (addr >> 64) as u64 ^ addr as u64;
    let mut x = (bucket as u64) << 48 ^ u64::from(iface) << 32 ^ folded;
    for multiplier in [0xbf58_476d_1ce4_e5b9u64, 0x94d0_49bb_1331_11eb] {
        x = (x ^ x >> 30).wrapping_mul(multiplier);
    }
    x ^ x >> 31
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::iface::IfaceId;

    fn paths(weights: &[u16]) -> Vec<Path> {
        let via = |i: usize| Via::Gateway(IfaceId(1), Ipv4Addr::new(10, 0, 0, i as u8 + 1));
        weights.iter().enumerate().map(|(i, &weight)| Path { via: via(i), weight }).collect()
    }

    #[test]
    fn buckets_are_assigned_by_weight() {
        for (weights, expected) in [(vec![1, 1], vec![128, 128]), (vec![3, 1], vec![192, 64]), (vec![1], vec![256])] {
            let dealt = deal::<u32>(&paths(&weights), &[]);
            let got: Vec<_> = (0..weights.len()).map(|at| dealt.iter().filter(|of| **of == at).count()).collect();
            assert_eq!(got, expected);
        }
        assert_eq!(deal::<u32>(&paths(&[1; PATHS_MAX]), &[]).len(), BUCKETS);
    }

    // RFC 2992 3: when one of four paths is removed, the flows of this path (a quarter) must move.
    // Without a replaced set, only few other flows move.
    #[test]
    fn few_flows_move_when_a_path_is_removed() {
        let four = paths(&[1, 1, 1, 1]);
        let three = &four[..3];
        let (before, after) = (deal::<u32>(&four, &[]), deal::<u32>(three, &[]));
        let moved = before.iter().zip(&after).filter(|(a, b)| a != b).count();
        assert!((64..=128).contains(&moved), "{moved} of 256; modulo moves 192");
    }

    #[test]
    fn a_set_that_replaces_another_moves_no_more_flows_than_it_must() {
        let moved = |a: &[usize], b: &[usize]| a.iter().zip(b).filter(|(a, b)| a != b).count();
        let in_use = |dealt: &[usize]| dealt.iter().copied().map(Some).collect::<Vec<_>>();
        let four = paths(&[1, 1, 1, 1]);
        let before = deal::<u32>(&four, &[]);
        // The last path is removed.
        let left: Vec<Option<usize>> = before.iter().map(|&at| (at < 3).then_some(at)).collect();
        let three = deal::<u32>(&four[..3], &left);
        assert!(before.iter().zip(&three).all(|(&before, &after)| before == 3 || before == after));
        assert_eq!([0, 1, 2].map(|at| three.iter().filter(|of| **of == at).count()), [86, 85, 85]);
        // It comes back.
        let again = deal::<u32>(&four, &in_use(&three));
        assert!(three.iter().zip(&again).all(|(before, after)| *after == 3 || before == after));
        assert_eq!((moved(&three, &again), again.iter().filter(|of| **of == 3).count()), (64, 64));
        // The same paths with other weights.
        let heavy = deal::<u32>(&paths(&[5, 1, 1, 1]), &in_use(&before));
        assert_eq!(moved(&before, &heavy), 160 - 64);
    }
}
