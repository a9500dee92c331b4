//! The table shown, a page at a time, and forgotten, by what an entry is.

use super::{Entry, Fdb, HEARD, Key, Kind, LEARNED, OWN, Place, STATIC, STICKY, WAYS, units};
use clock::{Duration, Instant};

/// Where the next [`Page`] begins.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Cursor(usize);

/// A part of a table.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Page {
    /// What stands there.
    pub entries: Vec<Entry>,
    /// Where to go on; `None`: that was all. What comes, goes or makes room between two pages may be in both of them or in none.
    pub next: Option<Cursor>,
}

/// Buckets that one page looks at: it says nothing of a table that is empty, but comes to an end.
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
    /// All that is known.
    pub fn entries(&self, now: Instant) -> impl Iterator<Item = Entry> {
        let now = units(now.nanos());
        let of = move |(key, place): (&u64, &Place)| entry(*key, place, now);
        self.buckets.iter().flat_map(move |bucket| bucket.keys.iter().zip(&bucket.places).filter_map(of))
    }

    /// What `which` says of the table from `from` on (a VLAN's, a port's, all), up to `most` entries and at most three more. What has aged and
    /// was not swept yet ([`Fdb::poll`]) is no part of it.
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

    /// Forgets what `which` says; how many that were. A spanning tree forgets what was learned ([`Kind::Learned`]) at a port, if_bridge's
    /// `flush` all of that kind, `flushall` everything but the bridge's own ([`Kind::Local`]).
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
