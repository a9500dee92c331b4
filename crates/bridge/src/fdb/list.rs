//! Paged listing and selective flush of the table.

use super::{Entry, Fdb, HEARD, Key, Kind, LEARNED, OWN, Place, STATIC, STICKY, WAYS, units};
use clock::{Duration, Instant};

/// Position in the table at which the next [`Page`] starts.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Cursor(usize);

/// A page of the table.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Page {
    /// Entries on this page.
    pub entries: Vec<Entry>,
    /// Start of the next page; `None` after the last page. An entry that is added, removed or moved
    /// between two calls may appear on both pages or on neither.
    pub next: Option<Cursor>,
}

/// Maximum number of buckets scanned per page, which bounds the time of a call even if few entries
/// match.
const LOOK: usize = 1 << 14;

fn entry(key: u64, place: &Place, now: u32) -> Option<Entry> {
    let kind = match place.kind() {
        OWN => Kind::Local,
        STATIC => Kind::Static,
        STICKY => Kind::Sticky,
        _ => Kind::Learned,
    };
    let age = Duration::from_nanos(u64::from(now.wrapping_sub(place.seen)) << 26);
    let heard = place.bits & HEARD != 0;
    (key != 0).then_some(Entry { key: Key(key), port: place.port, kind, age, heard })
}

impl Fdb {
    /// Returns all entries of the table.
    pub fn entries(&self, now: Instant) -> impl Iterator<Item = Entry> {
        let now = units(now.nanos());
        let of = move |(key, place): (&u64, &Place)| entry(*key, place, now);
        self.buckets.iter().flat_map(move |bucket| bucket.keys.iter().zip(&bucket.places).filter_map(of))
    }

    /// Returns entries that match `which`, from position `from` on. Scans whole buckets, so there
    /// may be up to three entries more than `most`. Omits expired entries that [`Fdb::poll`] has
    /// not removed yet.
    pub fn page(&self, from: Cursor, most: usize, mut which: impl FnMut(&Entry) -> bool, now: Instant) -> Page {
        let (mut entries, now) = (Vec::new(), units(now.nanos()));
        let mut at = from.0.min(self.buckets.len());
        let end = at.saturating_add(LOOK).min(self.buckets.len());
        while at < end && entries.len() < most.max(1) {
            if let Some(bucket) = self.buckets.get(at) {
                let ways = bucket.keys.iter().zip(&bucket.places);
                let young = ways.filter(|(_, place)| place.kind() != LEARNED || !self.is_old(place, now));
                let all = young.filter_map(|(key, place)| entry(*key, place, now));
                entries.extend(all.filter(|entry| which(entry)));
            }
            at += 1;
        }
        Page { entries, next: (at < self.buckets.len()).then_some(Cursor(at)) }
    }

    /// Removes the entries that match `which` and returns their number. For example, a spanning
    /// tree removes the learned entries ([`Kind::Learned`]) of a port, the command `flush` of
    /// if_bridge removes all learned entries, and its `flushall` removes all entries except the
    /// bridge's own ([`Kind::Local`]).
    pub fn flush(&mut self, mut which: impl FnMut(&Entry) -> bool, now: Instant) -> usize {
        let (before, now) = (self.len, units(now.nanos()));
        for at in 0..self.buckets.len() {
            for way in 0..WAYS {
                let there = self.buckets.get(at).and_then(|b| entry(*b.keys.get(way)?, b.places.get(way)?, now));
                if there.is_some_and(|entry| which(&entry)) {
                    self.clear(at, way);
                }
            }
        }
        before - self.len
    }
}
