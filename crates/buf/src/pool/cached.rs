//! A free list with a light lock, and a cache of free buffers for each thread.
//!
//! A thread that returns as many buffers as it takes locks the shared list only when it moves half
//! a cache of buffers to or from the list. In between it writes no shared cache line. A buffer in a
//! cache can be taken only by the thread of that cache. Only the first 64 threads have caches,
//! which contain at most half of the pool's buffers even if all of them are full. A pool with too
//! few buffers has no caches.
#![allow(unsafe_code)] // unsafe: a cache is found by thread index, unique among living threads

use super::free::Free;
use super::lock_cx;
use crate::frame::prefetch_buffer;
use lock::{Guarded, Light, USUAL_THREADS, thread_index};
use stats::{Counter, Shards};
use std::cell::UnsafeCell;
use std::mem::MaybeUninit;
use std::ptr::NonNull;
use std::sync::atomic::{Ordering, fence};

/// Maximum number of buffers in a thread's cache.
const ROOM_MAX: usize = 64;

#[derive(Default)]
struct Cache {
    free: UnsafeCell<Vec<NonNull<u8>>>,
    gets: Counter,
    puts: Counter,
}

pub(super) struct Cached {
    caches: Shards<Cache>,
    depot: Guarded<Light, Free>,
    room: usize,
}

/// Returns the maximum number of buffers in a thread's cache, for a pool of `buffers` buffers.
pub(super) fn room(buffers: usize) -> usize {
    (buffers / (2 * USUAL_THREADS)).min(ROOM_MAX)
}

impl Cached {
    /// Creates caches of up to `room` buffers each; `depot` is the shared list.
    pub(super) fn new(depot: Free, room: usize) -> Cached {
        Cached { caches: Shards::new(USUAL_THREADS), depot: Guarded::new(depot), room }
    }

    fn cache(&self) -> (&Cache, usize) {
        let index = thread_index();
        (self.caches.at(index), if index < USUAL_THREADS { self.room } else { 0 })
    }

    /// Takes a buffer. If `ahead` is given, also prefetches the next free buffer at this byte
    /// offset.
    pub(super) fn get(&self, ahead: Option<usize>) -> Option<NonNull<u8>> {
        let (cache, room) = self.cache();
        // SAFETY: the cache of this index belongs to this thread while it lives; no reference
        // outlives this call.
        let free = unsafe { &mut *cache.free.get() };
        let buf = match free.pop() {
            Some(buf) => buf,
            None => self.refill(free, room)?,
        };
        cache.gets.bump();
        if let (Some(front), Some(next)) = (ahead, free.last()) {
            prefetch_buffer(*next, front);
        }
        Some(buf)
    }

    /// Takes a buffer from the shared list, and moves further buffers from the list to the thread's
    /// cache, until the cache is half full.
    #[cold]
    fn refill(&self, free: &mut Vec<NonNull<u8>>, room: usize) -> Option<NonNull<u8>> {
        let mut depot = self.depot.lock(lock_cx());
        let buf = depot.take();
        if buf.is_none() {
            depot.empty.bump();
        }
        free.extend((0..room / 2).map_while(|_| depot.take()));
        buf
    }

    pub(super) fn put(&self, buf: NonNull<u8>) {
        let (cache, room) = self.cache();
        // SAFETY: same as in `get`.
        let free = unsafe { &mut *cache.free.get() };
        if free.len() < room {
            free.push(buf);
        } else {
            self.spill(free, room, buf);
        }
        cache.count_puts(1);
    }

    /// Returns a buffer to the shared list, together with half a cache of buffers from the thread's
    /// cache.
    #[cold]
    fn spill(&self, free: &mut Vec<NonNull<u8>>, room: usize, buf: NonNull<u8>) {
        let mut depot = self.depot.lock(lock_cx());
        free.drain(free.len().saturating_sub(room / 2)..).for_each(|buf| depot.give(buf));
        depot.give(buf);
    }

    /// Takes one buffer for each slot of `into`, or fewer if the thread's cache and the shared list
    /// have fewer. Returns their number.
    pub(super) fn get_many<T>(&self, into: &mut [MaybeUninit<T>], make: impl Fn(NonNull<u8>) -> T) -> usize {
        let (cache, _) = self.cache();
        // SAFETY: same as in `get`.
        let free = unsafe { &mut *cache.free.get() };
        let n = into.len().min(free.len());
        let (cached, rest) = into.split_at_mut(n);
        cached.iter_mut().zip(free.drain(free.len() - n..)).for_each(|(place, buf)| _ = place.write(make(buf)));
        cache.gets.add(n as u64);
        if rest.is_empty() { n } else { n + self.depot.lock(lock_cx()).get_many(rest, make) }
    }

    pub(super) fn put_many(&self, bufs: impl ExactSizeIterator<Item = NonNull<u8>>) {
        let (cache, room) = self.cache();
        // SAFETY: same as in `get`.
        let free = unsafe { &mut *cache.free.get() };
        let n = bufs.len();
        if free.len() + n <= room {
            free.extend(bufs);
            cache.count_puts(n as u64);
        } else {
            let mut depot = self.depot.lock(lock_cx());
            bufs.for_each(|buf| depot.give(buf));
            drop(depot);
            cache.count_puts(n as u64);
        }
    }

    /// Returns the number of gets, of puts, and of gets that found no free buffer. A thread counts
    /// its put last, so it no longer accesses the pool once the put is counted.
    pub(super) fn counts(&self) -> (u64, u64, u64) {
        let depot = self.depot.lock(lock_cx());
        let sum = |count: fn(&Cache) -> &Counter| self.caches.iter().map(|cache| count(cache).get()).sum::<u64>();
        // Puts are read first, so the gets read afterwards are at least as many.
        let puts = depot.puts.get() + sum(|cache| &cache.puts);
        fence(Ordering::Acquire);
        (depot.gets.get() + sum(|cache| &cache.gets), puts, depot.empty.get())
    }

    /// Returns how often the lock of the shared list was taken.
    pub(super) fn acquisitions(&self) -> u64 {
        self.depot.acquisitions()
    }
}

impl Cache {
    /// Counts puts. This is the last access to the pool, which may be freed as soon as all puts are
    /// counted.
    #[inline(always)]
    fn count_puts(&self, n: u64) {
        fence(Ordering::Release);
        self.puts.add(n);
    }
}
