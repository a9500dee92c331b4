//! Counters: numbers that only grow, each with a dotted name and a description.

use alloc::format;
use alloc::string::String;
use alloc::vec::Vec;
use core::sync::atomic::{AtomicU64, Ordering};

/// A number that only grows, written by one thread at a time and readable by all.
///
/// `add` compiles to a load, an add and a store without a lock prefix. (On the development machine
/// an uncontended locked add costs 14 ticks, more than a whole IPv4 header check.) If two threads
/// wrote one counter, increments would be lost, so each thread has its own copy of a set of
/// counters (a shard).
#[derive(Debug, Default)]
pub struct Counter(AtomicU64);

impl Counter {
    /// Adds `n` to the counter.
    #[inline(always)]
    pub fn add(&self, n: u64) {
        self.0.store(self.0.load(Ordering::Relaxed).wrapping_add(n), Ordering::Relaxed);
    }

    /// Adds one to the counter.
    #[inline(always)]
    pub fn bump(&self) {
        self.add(1);
    }

    /// Subtracts `n`, for a gauge: a level, such as the number of frames held, that also falls.
    #[inline(always)]
    pub fn sub(&self, n: u64) {
        self.0.store(self.0.load(Ordering::Relaxed).wrapping_sub(n), Ordering::Relaxed);
    }

    /// Returns the current value.
    #[inline]
    pub fn get(&self) -> u64 {
        self.0.load(Ordering::Relaxed)
    }
}

/// Name, description and value of a counter at the time it was read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Entry {
    /// Dotted name, such as `inet.ip4.in.received`.
    pub name: String,
    /// Description from the declaration.
    pub sentence: &'static str,
    /// Value of the counter.
    pub value: u64,
}

/// A set of counters with names, descriptions and values.
pub trait Described {
    /// Calls `each` with (prefix, field, description, value) of each counter, in order of
    /// declaration.
    fn visit(&self, each: &mut dyn FnMut(&'static str, &'static str, &'static str, u64));
}

/// Returns the counters of `of` with their names and descriptions.
pub fn entries(of: &dyn Described) -> Vec<Entry> {
    let mut all = Vec::new();
    of.visit(&mut |prefix, field, sentence, value| {
        all.push(Entry { name: format!("{prefix}.{field}"), sentence, value });
    });
    all
}

/// Declares a set of counters, and generates its struct, dotted names and descriptions.
///
/// ```
/// # use linerate_stats as stats;
/// stats::counters! {
///     /// IPv4 input.
///     pub struct Ip4In at "inet.ip4.in" {
///         /// Packets received from the link layer.
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

/// Declares a set of plain integers, with names and descriptions as in
/// [`counters!`](crate::counters). One owner increments them; readers get copies.
#[macro_export]
macro_rules! tallies {
    ($(#[doc = $about:literal])+ $vis:vis struct $name:ident at $prefix:literal {
        $( $(#[doc = $sentence:literal])+ $field:ident ),+ $(,)?
    }) => {
        $(#[doc = $about])+
        #[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
        $vis struct $name { $( $(#[doc = $sentence])+ pub $field: u64, )+ }
        impl $name {
            /// Adds the values of `other`, which another owner incremented.
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
