//! Invariants that hold for every byte string. This function is the body of a fuzz target, and the
//! tests run it too.
#![allow(clippy::panic, reason = "a broken invariant is to panic here; built for tests and fuzzing only")]

use crate::request::{REQUEST_MAX, RequestError, parse};

/// Requests of HTTP clients.
///
/// Invariants: no panic; a request that is complete stays the same when more bytes follow; an
/// incomplete request has at most 8 KiB.
pub fn request(data: &[u8]) {
    match parse(data) {
        Ok(None) => assert!(data.len() < REQUEST_MAX),
        Ok(Some(parsed)) => assert_eq!(parse(&[data, b"x"].concat()), Ok(Some(parsed))),
        Err(RequestError::TooLong) => assert!(data.len() >= REQUEST_MAX),
        Err(_) => {}
    }
}
