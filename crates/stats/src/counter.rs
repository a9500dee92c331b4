//! Counters: a number that only grows, with a name and a sentence.

use std::sync::atomic::{AtomicU64, Ordering};

/// A number that only grows, written by one thread at a time and readable by all.
///
/// `add` is a load, an add and a store without a lock prefix (an uncontended locked add costs 14 ticks here, more
/// than a whole IPv4 header check); two threads that share one lose counts, so each thread has its own shard.
#[derive(Debug, Default)]
pub struct Counter(AtomicU64);

impl Counter {
    /// Adds `n`.
    #[inline(always)]
    pub fn add(&self, n: u64) {
        self.0.store(self.0.load(Ordering::Relaxed).wrapping_add(n), Ordering::Relaxed);
    }

    /// Adds one.
    #[inline(always)]
    pub fn bump(&self) {
        self.add(1);
    }

    /// Takes `n` back: for a gauge kept in the same cell (a level that also falls).
    #[inline(always)]
    pub fn sub(&self, n: u64) {
        self.0.store(self.0.load(Ordering::Relaxed).wrapping_sub(n), Ordering::Relaxed);
    }

    /// The value now.
    #[inline]
    pub fn get(&self) -> u64 {
        self.0.load(Ordering::Relaxed)
    }
}

/// One counter, read: dotted name, sentence, value.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Entry {
    /// The dotted name, `inet.ip4.in.received`.
    pub name: String,
    /// The sentence from the declaration.
    pub sentence: &'static str,
    /// The value.
    pub value: u64,
}

/// A set of counters that can tell its names, sentences and values.
pub trait Described {
    /// Calls `each` with (prefix, field, sentence, value), in order of declaration.
    fn visit(&self, each: &mut dyn FnMut(&'static str, &'static str, &'static str, u64));
}

/// A set of counters per writer, each on cache lines of its own.
#[derive(Debug)]
pub struct Shards<T> {
    /// That of a writer who is the only one: apart, so that no index is checked for it.
    sole: Box<Shard<T>>,
    /// Those of several writers, none if there is one.
    each: Box<[Shard<T>]>,
}

#[derive(Debug, Default)]
#[repr(align(128))] // two lines: adjacent-line prefetch makes pairs of lines share their fate
struct Shard<T>(T);

impl<T: Default> Shards<T> {
    /// One shard per writer; `writers` is rounded up to a power of two.
    pub fn new(writers: usize) -> Shards<T> {
        let several = if writers > 1 { writers.next_power_of_two() } else { 0 };
        Shards { sole: Box::default(), each: (0..several).map(|_| Shard::default()).collect() }
    }
}

impl<T> Shards<T> {
    /// The shard of writer `index`. Writers beyond the declared number share; they are refused where they enter.
    #[inline(always)]
    pub fn at(&self, index: usize) -> &T {
        &self.each.get(index & self.each.len().wrapping_sub(1)).unwrap_or(&self.sole).0
    }

    /// The shard of a writer who is the only one.
    #[inline(always)]
    pub fn sole(&self) -> &T {
        &self.sole.0
    }

    /// All shards.
    pub fn iter(&self) -> impl Iterator<Item = &T> {
        let sole = self.each.is_empty().then_some(&*self.sole);
        sole.into_iter().chain(&self.each).map(|shard| &shard.0)
    }
}

impl<T: Described> Shards<T> {
    /// Sums the shards into named entries, in order of declaration.
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

/// Declares a set of counters: struct, dotted names and sentences from one place.
///
/// ```
/// # use linerate_stats as stats;
/// stats::counters! {
///     /// IPv4 input.
///     pub struct Ip4In at "inet.ip4.in" {
///         /// Packets handed up by the link layer.
///         received,
///     }
/// }
/// let shards = stats::Shards::<Ip4In>::new(1);
/// shards.at(0).received.bump();
/// assert_eq!(shards.snapshot()[0].name, "inet.ip4.in.received");
/// ```
#[macro_export]
macro_rules! counters {
    ($(#[doc = $about:literal])+ $vis:vis struct $name:ident at $prefix:literal {
        $( $(#[doc = $sentence:literal])+ $field:ident ),+ $(,)?
    }) => {
        $(#[doc = $about])+
        #[derive(Debug, Default)]
        $vis struct $name { $( $(#[doc = $sentence])+ pub $field: $crate::Counter, )+ }
        impl $crate::Described for $name {
            fn visit(&self, each: &mut dyn FnMut(&'static str, &'static str, &'static str, u64)) {
                $( each($prefix, stringify!($field), concat!($($sentence),+).trim_ascii(), self.$field.get()); )+
            }
        }
    };
}

/// Declares a set of plain numbers that one owner counts up and copies out, named and told as by [`counters!`](crate::counters).
#[macro_export]
macro_rules! tallies {
    ($(#[doc = $about:literal])+ $vis:vis struct $name:ident at $prefix:literal {
        $( $(#[doc = $sentence:literal])+ $field:ident ),+ $(,)?
    }) => {
        $(#[doc = $about])+
        #[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
        $vis struct $name { $( $(#[doc = $sentence])+ pub $field: u64, )+ }
        impl $name {
            /// Adds what another owner counted.
            $vis fn add(&mut self, other: &Self) {
                $( self.$field += other.$field; )+
            }
        }
        impl $crate::Described for $name {
            fn visit(&self, each: &mut dyn FnMut(&'static str, &'static str, &'static str, u64)) {
                $( each($prefix, stringify!($field), concat!($($sentence),+).trim_ascii(), self.$field); )+
            }
        }
    };
}
