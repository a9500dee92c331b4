//! What all fuzz targets are: a body from the crate it tests, called with bytes until it panics.
//!
//! The bodies stand in their crates, where the tests run them over the corpus too; a target here is its name.

#[doc(hidden)]
pub use libfuzzer_sys;

/// The whole program of a target: hands each input to `$body`, a `fn(&[u8])`.
#[macro_export]
macro_rules! target {
    ($body:path) => {
        $crate::libfuzzer_sys::fuzz_target!(|data: &[u8]| $body(data));
    };
}
