#![allow(unsafe_code)] // the reference is the C library's snprintf
use std::ffi::CString;

use proptest::prelude::*;

use super::*;

fn snprintf(format: &str, value: f64) -> String {
    let format = CString::new(format).unwrap();
    let mut buffer = vec![0u8; 2048];
    // SAFETY: the format takes one double, which is passed; the buffer's true size is given.
    let length = unsafe { libc::snprintf(buffer.as_mut_ptr().cast(), buffer.len(), format.as_ptr(), value) };
    String::from_utf8(buffer[..length as usize].to_vec()).unwrap()
}

fn check(value: f64, width: usize, precision: usize) {
    assert_eq!(general(value, precision), snprintf(&format!("%.{precision}g"), value), "{value:?}");
    assert_eq!(general_wide(value, width, precision), snprintf(&format!("%{width}.{precision}g"), value), "{value:?}");
    assert_eq!(scientific(value, precision), snprintf(&format!("%.{precision}e"), value), "{value:?}");
    assert_eq!(g(value), snprintf("%g", value), "{value:?}");
}

#[test]
fn corner_cases() {
    let corners = [0.0, -0.0, 1.0, 9.9999995, 99999.95, 999999.5, 1e5, 1e6, 1e-4, 1e-5, 9.99995e-5, 0.5, 2.5, 0.125];
    let extremes =
        [f64::MAX, f64::MIN, f64::MIN_POSITIVE, 5e-324, f64::INFINITY, f64::NEG_INFINITY, f64::NAN, -f64::NAN];
    for value in corners.into_iter().chain(extremes) {
        for precision in 0..20 {
            check(value, 13, precision);
        }
    }
}

#[test]
fn ministats_columns() {
    assert_eq!(general_wide(238.0476142476168, 13, 8), "    238.04761");
    assert_eq!(g(212.21459), "212.215");
    assert_eq!(general_wide(1e200, 13, 8), "       1e+200");
}

/// Generates integers divided by powers of two, such as halves and quarters: exact ties at some
/// precision.
fn ties() -> impl Strategy<Value = f64> {
    (any::<i32>(), 0i32..20).prop_map(|(n, shift)| f64::from(n) / f64::from(1u32 << shift))
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 4000, failure_persistence: None, ..ProptestConfig::default() })]
    #[test]
    fn as_libc_any_bits(bits: u64, width in 0usize..30, precision in 0usize..25) {
        check(f64::from_bits(bits), width, precision);
    }

    #[test]
    fn as_libc_ties(value in ties(), precision in 0usize..12) {
        check(value, 13, precision);
    }

    #[test]
    fn as_libc_everyday(value in -1e7f64..1e7, precision in 0usize..12) {
        check(value, 13, precision);
    }
}
