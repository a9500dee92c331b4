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
