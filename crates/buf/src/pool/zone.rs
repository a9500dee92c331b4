//! A pool of kind `zone`, modelled on BSD's UMA: a constructor and a destructor per buffer, two
//! buckets per thread, and a depot of full buckets under a lock.
//!
//! The report rtems2014 found that UMA accounts for a tenth of the cost of a TCP stream on a small
//! machine. This kind of pool makes that cost measurable.
#![allow(unsafe_code)] // unsafe: buckets are found by thread index, unique among living threads

use super::{PoolLocks, lock_cx};
use lock::{Guarded, Heavy, Light, USUAL_THREADS, thread_index};
use stats::{Counter, Shards};
use std::cell::UnsafeCell;
use std::ptr::NonNull;

/// Number of pointers in a bucket (UMA's largest bucket).
const BUCKET: usize = 128;
/// Number of bytes that the constructor initialises: the size of an mbuf header.
const HEADER: usize = 64;

type Bucket = Vec<NonNull<u8>>;

#[derive(Default)]
struct Cache {
    buckets: UnsafeCell<[Bucket; 2]>, // buffers are taken from the first and returned to the second
    gets: Counter,
    puts: Counter,
    empty: Counter,
}

enum Depot {
    Light(Guarded<Light, Vec<Bucket>>),
    Heavy(Guarded<Heavy, Vec<Bucket>>),
}

pub(super) struct Zone {
    caches: Shards<Cache>,
    depot: Depot,
}

fn construct(buf: NonNull<u8>) {
    // SAFETY: the buffer belongs to the caller and is at least HEADER bytes long.
    unsafe { buf.as_ptr().write_bytes(0, HEADER) }
}

fn destruct(buf: NonNull<u8>) {
    // Writes one word, as mb_dtor_mbuf does when it clears tags and flags; this loads the line.
    // SAFETY: the buffer belongs to the caller and is aligned to 64 bytes.
    unsafe { buf.cast::<u64>().write(0) }
}

impl Zone {
    pub(super) fn new(locks: PoolLocks, all: impl Iterator<Item = NonNull<u8>>) -> Zone {
        let mut full: Vec<Bucket> = Vec::new();
        for buf in all {
            match full.last_mut() {
                Some(bucket) if bucket.len() < BUCKET => bucket.push(buf),
                _ => {
                    let mut bucket = Vec::with_capacity(BUCKET);
                    bucket.push(buf);
                    full.push(bucket);
                }
            }
        }
        full.reverse(); // the partly filled bucket is used last
        let depot = match locks {
            PoolLocks::Heavy => Depot::Heavy(Guarded::new(full)),
            _ => Depot::Light(Guarded::new(full)),
        };
        Zone { caches: Shards::new(USUAL_THREADS), depot }
    }

    fn with_depot<R>(&self, f: impl FnOnce(&mut Vec<Bucket>) -> R) -> R {
        match &self.depot {
            Depot::Light(depot) => f(&mut depot.lock(lock_cx())),
            Depot::Heavy(depot) => f(&mut depot.lock(lock_cx())),
        }
    }

    /// Returns how often the depot's lock was taken.
    pub(super) fn acquisitions(&self) -> u64 {
        match &self.depot {
            Depot::Light(depot) => depot.acquisitions(),
            Depot::Heavy(depot) => depot.acquisitions(),
        }
    }

    pub(super) fn get(&self) -> Option<NonNull<u8>> {
        let cache = self.caches.at(thread_index());
        // SAFETY: the caches of this index belong to this thread while it lives; no reference
        // outlives this call.
        let [from, to] = unsafe { &mut *cache.buckets.get() };
        if from.is_empty() {
            std::mem::swap(from, to);
        }
        if from.is_empty() {
            match self.with_depot(Vec::pop) {
                Some(bucket) => *from = bucket,
                None => {
                    cache.empty.bump();
                    return None;
                }
            }
        }
        let buf = from.pop()?;
        cache.gets.bump();
        construct(buf);
        Some(buf)
    }

    pub(super) fn put(&self, buf: NonNull<u8>) {
        destruct(buf);
        let cache = self.caches.at(thread_index());
        // SAFETY: same as in `get`.
        let [from, to] = unsafe { &mut *cache.buckets.get() };
        if to.len() >= BUCKET {
            std::mem::swap(from, to);
        }
        if to.len() >= BUCKET {
            let full = std::mem::replace(to, Vec::with_capacity(BUCKET));
            self.with_depot(|depot| depot.push(full));
        }
        to.push(buf);
        cache.puts.bump();
    }

    /// Returns the number of gets, of puts, and of gets that found no free buffer.
    pub(super) fn counts(&self) -> (u64, u64, u64) {
        let sum = |pick: fn(&Cache) -> &Counter| self.caches.iter().map(|cache| pick(cache).get()).sum();
        (sum(|c| &c.gets), sum(|c| &c.puts), sum(|c| &c.empty))
    }

    /// Returns whether no thread other than this one has ever taken or returned a buffer.
    pub(super) fn used_only_here(&self) -> bool {
        let me = thread_index();
        self.caches.enumerate().all(|(i, c)| i == me || (c.gets.get() == 0 && c.puts.get() == 0))
    }
}
