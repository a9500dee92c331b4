//! Sysctls: named settings that can change while the program runs, each declared once.
//!
//! All values are integers (switches are 0 and 1); a read is one relaxed load.

use core::sync::atomic::{AtomicI64, Ordering};

/// Description of a sysctl.
#[derive(Clone, Copy, Debug)]
pub struct SysctlInfo {
    /// Dotted name of the sysctl.
    pub name: &'static str,
    /// Description from the declaration.
    pub sentence: &'static str,
    /// Minimum value of the sysctl.
    pub min: i64,
    /// Maximum value of the sysctl.
    pub max: i64,
    /// Default value of the sysctl.
    pub default: i64,
}

/// Error: a value is out of the sysctl's range.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct OutOfRange {
    /// Minimum value of the sysctl.
    pub min: i64,
    /// Maximum value of the sysctl.
    pub max: i64,
}

/// Value of one sysctl.
#[derive(Debug)]
pub struct Sysctl(AtomicI64);

impl Sysctl {
    /// Creates a sysctl with `value`.
    pub const fn new(value: i64) -> Sysctl {
        Sysctl(AtomicI64::new(value))
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

    /// Sets the value without a range check. The method `set` of the struct that
    /// [`sysctls!`](crate::sysctls) generates checks the range.
    pub fn set(&self, value: i64) {
        self.0.store(value, Ordering::Relaxed);
    }
}

/// A set of sysctls. [`sysctls!`](crate::sysctls) generates the implementations.
pub trait SysctlSet: Send + Sync {
    /// Returns the descriptions of all sysctls.
    fn infos(&self) -> &'static [SysctlInfo];
    /// Returns the value of the sysctl `name`; `None` if no sysctl has that name.
    fn read(&self, name: &str) -> Option<i64>;
    /// Sets the sysctl `name`; returns `None` if no sysctl has that name, and an error if the value
    /// is out of range.
    fn write(&self, name: &str, value: i64) -> Option<Result<(), OutOfRange>>;
}

/// Declares a set of sysctls, each as `/// description`, `field = "dotted.name", min..=max,
/// default;`.
#[macro_export]
macro_rules! sysctls {
    ($(#[doc = $about:literal])+ pub struct $Set:ident {
        $( $(#[doc = $sentence:literal])+ $field:ident = $name:literal, $min:literal ..= $max:literal, $default:expr ;)+
    }) => {
        $(#[doc = $about])+
        #[derive(Debug)]
        pub struct $Set {
            $( $(#[doc = $sentence])+ pub $field: $crate::Sysctl, )+
            generation: core::sync::atomic::AtomicU64,
        }

        impl Default for $Set {
            fn default() -> $Set {
                $Set { $( $field: $crate::Sysctl::new($default), )+ generation: core::sync::atomic::AtomicU64::new(0) }
            }
        }

        impl $Set {
            /// Descriptions of all sysctls.
            pub const INFO: &'static [$crate::SysctlInfo] = &[$( $crate::SysctlInfo {
                name: $name,
                sentence: concat!($($sentence),+).trim_ascii(),
                min: $min, max: $max, default: $default,
            } ),+];

            fn cells(&self) -> [&$crate::Sysctl; $Set::INFO.len()] { [$( &self.$field ),+] }

            /// Sets the sysctl `name`; returns `None` if no sysctl has that name, and an error if
            /// the value is out of range.
            pub fn set(&self, name: &str, value: i64) -> Option<Result<(), $crate::OutOfRange>> {
                let (info, cell) = self.find(name)?;
                Some(if (info.min..=info.max).contains(&value) {
                    cell.set(value);
                    self.generation.fetch_add(1, core::sync::atomic::Ordering::Release);
                    Ok(())
                } else {
                    Err($crate::OutOfRange { min: info.min, max: info.max })
                })
            }

            /// Returns a number that grows whenever a sysctl is set by name. If it has changed
            /// since a value was derived from sysctls, that value is stale.
            #[inline(always)]
            pub fn generation(&self) -> u64 {
                self.generation.load(core::sync::atomic::Ordering::Acquire)
            }

            /// Returns the value of the sysctl `name`; `None` if no sysctl has that name.
            pub fn get(&self, name: &str) -> Option<i64> {
                self.find(name).map(|(_, cell)| cell.get())
            }

            fn find(&self, name: &str) -> Option<(&'static $crate::SysctlInfo, &$crate::Sysctl)> {
                $Set::INFO.iter().zip(self.cells()).find(|(info, _)| info.name == name)
            }
        }

        impl $crate::SysctlSet for $Set {
            fn infos(&self) -> &'static [$crate::SysctlInfo] { $Set::INFO }
            fn read(&self, name: &str) -> Option<i64> { self.get(name) }
            fn write(&self, name: &str, value: i64) -> Option<Result<(), $crate::OutOfRange>> { self.set(name, value) }
        }
    };
}
