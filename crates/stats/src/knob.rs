//! Knobs: named settings that can change while the program runs, each declared once.
//!
//! All are plain numbers (switches are 0 and 1); a read is one relaxed load.

use std::sync::atomic::{AtomicI64, Ordering};

/// Description of a knob.
#[derive(Clone, Copy, Debug)]
pub struct KnobInfo {
    /// Dotted name of the knob.
    pub name: &'static str,
    /// Description from the declaration.
    pub sentence: &'static str,
    /// Minimum value of the knob.
    pub min: i64,
    /// Maximum value of the knob.
    pub max: i64,
    /// Default value of the knob.
    pub default: i64,
}

/// Error: a value is out of the knob's range.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct OutOfRange {
    /// Minimum value of the knob.
    pub min: i64,
    /// Maximum value of the knob.
    pub max: i64,
}

/// Value of one knob.
#[derive(Debug)]
pub struct Knob(AtomicI64);

impl Knob {
    /// Creates a knob with `value`.
    pub const fn new(value: i64) -> Knob {
        Knob(AtomicI64::new(value))
    }

    /// Returns the value.
    #[inline(always)]
    pub fn get(&self) -> i64 {
        self.0.load(Ordering::Relaxed)
    }

    /// Returns whether the value is not 0.
    #[inline(always)]
    pub fn on(&self) -> bool {
        self.get() != 0
    }

    /// Sets the value without a range check; see `set` of the knob's set.
    pub fn set(&self, value: i64) {
        self.0.store(value, Ordering::Relaxed);
    }
}

/// A set of knobs of any type declared by [`knobs!`](crate::knobs).
pub trait KnobSet: Send + Sync {
    /// Returns the descriptions of all knobs.
    fn infos(&self) -> &'static [KnobInfo];
    /// Returns the value of the knob `name`.
    fn read(&self, name: &str) -> Option<i64>;
    /// Sets the knob `name`; returns `None` if there is none.
    fn write(&self, name: &str, value: i64) -> Option<Result<(), OutOfRange>>;
}

/// Declares a set of knobs: `/// description`, `field = "dotted.name", min..=max, default;`.
#[macro_export]
macro_rules! knobs {
    ($(#[doc = $about:literal])+ pub struct $Set:ident {
        $( $(#[doc = $sentence:literal])+ $field:ident = $name:literal, $min:literal ..= $max:literal, $default:expr ;)+
    }) => {
        $(#[doc = $about])+
        #[derive(Debug)]
        pub struct $Set {
            $( $(#[doc = $sentence])+ pub $field: $crate::Knob, )+
            generation: std::sync::atomic::AtomicU64,
        }

        impl Default for $Set {
            fn default() -> $Set {
                $Set { $( $field: $crate::Knob::new($default), )+ generation: std::sync::atomic::AtomicU64::new(0) }
            }
        }

        impl $Set {
            /// Descriptions of all knobs.
            pub const INFO: &'static [$crate::KnobInfo] = &[$( $crate::KnobInfo {
                name: $name,
                sentence: concat!($($sentence),+).trim_ascii(),
                min: $min, max: $max, default: $default,
            } ),+];

            fn cells(&self) -> [&$crate::Knob; $Set::INFO.len()] { [$( &self.$field ),+] }

            /// Sets the knob `name`; returns `None` if there is none.
            pub fn set(&self, name: &str, value: i64) -> Option<Result<(), $crate::OutOfRange>> {
                let (info, cell) = self.find(name)?;
                Some(if (info.min..=info.max).contains(&value) {
                    cell.set(value);
                    self.generation.fetch_add(1, std::sync::atomic::Ordering::Release);
                    Ok(())
                } else {
                    Err($crate::OutOfRange { min: info.min, max: info.max })
                })
            }

            /// Returns a count that grows whenever a knob is set by name: values derived from knobs
            /// earlier are then stale.
            #[inline(always)]
            pub fn generation(&self) -> u64 {
                self.generation.load(std::sync::atomic::Ordering::Acquire)
            }

            /// Returns the value of the knob `name`.
            pub fn get(&self, name: &str) -> Option<i64> {
                self.find(name).map(|(_, cell)| cell.get())
            }

            fn find(&self, name: &str) -> Option<(&'static $crate::KnobInfo, &$crate::Knob)> {
                $Set::INFO.iter().zip(self.cells()).find(|(info, _)| info.name == name)
            }
        }

        impl $crate::KnobSet for $Set {
            fn infos(&self) -> &'static [$crate::KnobInfo] { $Set::INFO }
            fn read(&self, name: &str) -> Option<i64> { self.get(name) }
            fn write(&self, name: &str, value: i64) -> Option<Result<(), $crate::OutOfRange>> { self.set(name, value) }
        }
    };
}
