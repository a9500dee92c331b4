//! One value per writing thread, found without a lock by the thread's number.
//!
//! The values for the declared number of writers are created at once, in one array. A writer with a
//! higher number gets its value on first access. These later values are stored in chunks, each
//! twice as long as the previous one. Chunks and values are created once and never move, so access
//! takes three loads. Values are freed only when the whole [`Shards`] is dropped, because a new
//! thread may reuse the number of a thread that has ended.

use crate::{Described, Entry};
use once::Once;

/// One `T` for each writing thread, in separate cache lines. The number of threads is not limited.
#[derive(Debug)]
pub struct Shards<T> {
    /// Value for a single writer, stored separately so that access needs no index check.
    sole: Box<Shard<T>>,
    /// Values of the declared writers; empty if there is only one.
    each: Box<[Shard<T>]>,
    /// Values of writers with numbers above the declared ones.
    more: Once<Chunks<T>>,
}

#[derive(Debug, Default)]
#[repr(align(128))] // two lines, since adjacent lines are prefetched in pairs
struct Shard<T>(T);

type Chunk<T> = Once<Box<[Once<Box<Shard<T>>>]>>;

/// Chunk `k` contains the values of the `n << k` writers from number `n << k` on, where `n` is the
/// declared number of writers.
type Chunks<T> = Box<[Chunk<T>; CHUNKS]>;

/// Number of chunks, enough for 32-bit writer numbers.
const CHUNKS: usize = 32;

impl<T: Default> Shards<T> {
    /// Creates one shard per writer; `writers` is rounded up to a power of two. A single writer
    /// uses [`Shards::sole`], regardless of its number.
    pub fn new(writers: usize) -> Shards<T> {
        let several = if writers > 1 { writers.next_power_of_two() } else { 0 };
        let each = (0..several).map(|_| Shard::default()).collect();
        Shards { sole: Box::default(), each, more: Once::default() }
    }

    /// Returns the shard of writer `index`, creating it if necessary.
    #[inline(always)]
    pub fn at(&self, index: usize) -> &T {
        match self.each.get(index) {
            Some(shard) => &shard.0,
            None => self.at_or_insert_with(index, T::default),
        }
    }
}

impl<T> Shards<T> {
    /// Returns the shard of writer `index`; `None` if the number is above the declared ones and its
    /// shard was not created yet.
    #[inline(always)]
    pub fn get(&self, index: usize) -> Option<&T> {
        match self.each.get(index) {
            Some(shard) => Some(&shard.0),
            None => self.get_beyond(index),
        }
    }

    #[cold]
    fn get_beyond(&self, index: usize) -> Option<&T> {
        if self.each.is_empty() {
            return Some(self.sole());
        }
        let (chunk, at) = self.locate(index);
        let shard = self.more.get()?.get(chunk)?.get()?.get(at)?.get()?;
        Some(&shard.0)
    }

    /// Returns the shard of writer `index`. If the number is above the declared ones and its shard
    /// does not exist, creates the shard with `make`.
    #[cold]
    pub fn at_or_insert_with(&self, index: usize, make: impl FnOnce() -> T) -> &T {
        if let Some(shard) = self.get(index) {
            return shard;
        }
        let (chunk, at) = self.locate(index);
        let chunks = self.more.get_or_init(|| Box::new(core::array::from_fn(|_| Once::default())));
        let size = self.each.len() << chunk;
        let shard = chunks.get(chunk).and_then(|chunk| {
            let shards = chunk.get_or_init(|| (0..size).map(|_| Once::default()).collect());
            Some(shards.get(at)?.get_or_init(|| Box::new(Shard(make()))))
        });
        shard.map_or(&self.sole.0, |shard| &shard.0) // only for a number above 32 bits
    }

    /// Returns the chunk of a writer above the declared ones, and the index in that chunk.
    fn locate(&self, index: usize) -> (usize, usize) {
        let chunk = (index / self.each.len().max(1)).max(1).ilog2() as usize;
        (chunk, index - (self.each.len() << chunk))
    }

    /// Returns the shard of the only writer, regardless of its number.
    #[inline(always)]
    pub fn sole(&self) -> &T {
        &self.sole.0
    }

    /// Returns all shards created so far.
    pub fn iter(&self) -> impl Iterator<Item = &T> {
        let sole = self.each.is_empty().then_some(&*self.sole);
        let chunks = self.more.get().into_iter().flat_map(|chunks| chunks.iter().filter_map(Once::get));
        let more = chunks.flatten().filter_map(Once::get).map(|shard| &**shard);
        sole.into_iter().chain(&self.each).chain(more).map(|shard| &shard.0)
    }

    /// Returns the number and the shard of each writer that has one.
    pub fn enumerate(&self) -> impl Iterator<Item = (usize, &T)> {
        let first = self.each.iter().map(|shard| &shard.0).enumerate();
        let chunks = self.more.get().into_iter().flat_map(|chunks| chunks.iter().enumerate());
        let more = chunks.flat_map(|(k, chunk)| {
            let from = self.each.len() << k;
            let shards = chunk.get().into_iter().flat_map(|shards| shards.iter().enumerate());
            shards.filter_map(move |(at, shard)| Some((from + at, &shard.get()?.0)))
        });
        first.chain(more)
    }
}

impl<T: Described> Shards<T> {
    /// Returns the value of each counter, summed over all shards, in order of declaration.
    pub fn snapshot(&self) -> Vec<Entry> {
        let mut out: Vec<Entry> = Vec::new();
        for (i, shard) in self.iter().enumerate() {
            let mut at = 0;
            shard.visit(&mut |prefix, field, sentence, value| {
                if i == 0 {
                    out.push(Entry { name: format!("{prefix}.{field}"), sentence, value });
                } else {
                    out[at].value += value;
                }
                at += 1;
            });
        }
        out
    }
}

/// A value that is initialized once: the type of the standard library.
#[cfg(not(loom))]
mod once {
    pub(super) type Once<T> = std::sync::OnceLock<T>;
}

/// Under loom, the flag and the lock that publish the value are types of loom, with the orderings
/// of [`std::sync::OnceLock`].
#[cfg(loom)]
mod once {
    use loom::sync::Mutex;
    use loom::sync::atomic::{AtomicBool, Ordering};
    use std::sync::{OnceLock, PoisonError};

    #[derive(Debug)]
    pub(super) struct Once<T> {
        made: AtomicBool,
        making: Mutex<()>,
        value: OnceLock<T>,
    }

    impl<T> Default for Once<T> {
        fn default() -> Self {
            Once { made: AtomicBool::new(false), making: Mutex::new(()), value: OnceLock::new() }
        }
    }

    impl<T> Once<T> {
        pub(super) fn get(&self) -> Option<&T> {
            if self.made.load(Ordering::Acquire) { self.value.get() } else { None }
        }

        pub(super) fn get_or_init(&self, make: impl FnOnce() -> T) -> &T {
            if let Some(value) = self.get() {
                return value;
            }
            let _making = self.making.lock().unwrap_or_else(PoisonError::into_inner);
            let value = self.value.get_or_init(make);
            self.made.store(true, Ordering::Release);
            value
        }
    }
}
