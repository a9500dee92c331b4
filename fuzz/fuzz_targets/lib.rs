//! Macro that defines a fuzz target: libFuzzer calls its function with bytes until it panics.
//!
//! The function of a target is in the crate that it tests, whose tests also run it on the corpus.
//! A file in this directory only gives the target its name.

#[doc(hidden)]
pub use libfuzzer_sys;

/// Defines the program of a target, which passes each input to `$body`, a `fn(&[u8])`.
#[macro_export]
macro_rules! target {
    ($body:path) => {
        $crate::libfuzzer_sys::fuzz_target!(|data: &[u8]| $body(data));
    };
}
