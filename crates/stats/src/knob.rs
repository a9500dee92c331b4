//! Knobs: named choices that may change while the program runs, each declared once.
//!
//! All are plain numbers (switches are 0 and 1); a read is one relaxed load.

use std::sync::atomic::{AtomicI64, Ordering};

/// What is known about a knob besides its value.
#[derive(Clone, Copy, Debug)]
pub struct KnobInfo {
    /// The dotted name.
    pub name: &'static str,
    /// The sentence.
    pub sentence: &'static str,
    /// The least value.
    pub min: i64,
    /// The greatest value.
    pub max: i64,
    /// The value at the start.
    pub default: i64,
}

/// A knob's value is out of its range.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct OutOfRange {
    /// The least value.
    pub min: i64,
    /// The greatest value.
    pub max: i64,
}

/// One knob's value.
#[derive(Debug)]
pub struct Knob(AtomicI64);

impl Knob {
    /// With `value`.
    pub const fn new(value: i64) -> Knob {
        Knob(AtomicI64::new(value))
    }

    /// The value.
    #[inline(always)]
    pub fn get(&self) -> i64 {
        self.0.load(Ordering::Relaxed)
    }

    /// Is it not 0?
    #[inline(always)]
    pub fn on(&self) -> bool {
        self.get() != 0
    }

    /// Sets it, unchecked: see `set` of the set that it belongs to.
    pub fn set(&self, value: i64) {
        self.0.store(value, Ordering::Relaxed);
    }
}

/// A set of knobs, whoever's it is.
pub trait KnobSet: Send + Sync {
    /// Every knob's description.
    fn infos(&self) -> &'static [KnobInfo];
    /// The value of the knob called `name`.
    fn read(&self, name: &str) -> Option<i64>;
    /// Sets the knob called `name`; `None` if there is none.
    fn write(&self, name: &str, value: i64) -> Option<Result<(), OutOfRange>>;
}

/// Declares a set of knobs: `/// sentence`, `field = "dotted.name", min..=max, default;`.
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
            /// Every knob's description.
            pub const INFO: &'static [$crate::KnobInfo] = &[$( $crate::KnobInfo {
                name: $name,
                sentence: concat!($($sentence),+).trim_ascii(),
                min: $min, max: $max, default: $default,
            } ),+];

            fn cells(&self) -> [&$crate::Knob; $Set::INFO.len()] { [$( &self.$field ),+] }

            /// Sets the knob called `name`; `None` if there is none.
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

            /// Grows whenever a knob is set by name: what was derived from knobs before is stale then.
            #[inline(always)]
            pub fn generation(&self) -> u64 {
                self.generation.load(std::sync::atomic::Ordering::Acquire)
            }

            /// The value of the knob called `name`.
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
