#![allow(unsafe_code)] // the reference is the C library's strtod and strtol
use std::ffi::CString;

use proptest::prelude::*;

use super::*;

fn check(text: &str) {
    let c = CString::new(text).unwrap();
    let mut end = std::ptr::null_mut();
    // SAFETY: `c` is terminated, `end` is a local variable; the returned pointer points into `c`.
    let (value, used) = unsafe {
        let value = libc::strtod(c.as_ptr(), &mut end);
        (value, end.offset_from(c.as_ptr()) as usize)
    };
    let ours = strtod(text.as_bytes());
    assert_eq!((ours.0.to_bits(), ours.1), (value.to_bits(), used), "strtod of {text:?}: {} against {value}", ours.0);
    // SAFETY: as for strtod.
    let (value, used) = unsafe {
        let value = libc::strtol(c.as_ptr(), &mut end, 10);
        (value, end.offset_from(c.as_ptr()) as usize)
    };
    assert_eq!(strtol(text.as_bytes()), (value, used), "strtol of {text:?}");
}

#[test]
fn corner_cases() {
    let words = "inf -INF infinity infinit nan nan(12_a) nan(a-) -nan . .e5 5. .5 -.5e1 1e 1e+ 1e+5x 0x 0x. 0x.8 0x1p3 \
                 0x1p 0x1.8p-1074 0x1p-1075 0x1.0000000000001p-1075 0x1p-2000 0x1p1024 0x1.fffffffffffff8p1023 \
                 0x1.00000000000008 0x1.00000000000018 0x1.000000000000080000001 0x123456789abcdef123456789p-7 \
                 1e400 1e-400 4.9e-324 1e99999999999999999999 9223372036854775807 9223372036854775808 \
                 -9223372036854775809 0x1p99999999999999999999 0x00000000000000000000000000001.8 +-5 --5 + - # 0";
    for word in words.split_whitespace() {
        check(word);
    }
    for text in ["", " ", " \t\n\x0b\x0c\r7 ", "1e 5", "1e\t5", "- 5", "0x1p 4"] {
        check(text);
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 4000, failure_persistence: None, ..ProptestConfig::default() })]
    #[test]
    fn as_libc_number_soup(text in "[ +-]{0,2}[0-9a-fxXpP.eE+-]{0,24}") {
        check(&text);
    }

    #[test]
    fn as_libc_hexadecimal(text in "-?0x[0-9a-f]{0,20}\\.[0-9a-f]{1,20}p-?1?[0-9]{1,3}") {
        check(&text);
    }

    #[test]
    fn as_libc_decimal(text in "-?[0-9]{1,30}\\.[0-9]{0,30}e-?[0-9]{1,3}") {
        check(&text);
    }
}
