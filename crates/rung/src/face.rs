//! The C face of a rig: what the dynamic library exports, one call for each `sendto`.
//!
//! An unsafe room: pointers from the other side of a library boundary.
#![allow(unsafe_code)]

use crate::AnyRig;

/// The version of this face; a library that answers another number is not loaded.
pub const VERSION: u32 = 1;

/// The version of the face.
#[unsafe(no_mangle)]
pub extern "C" fn linerate_rig_version() -> u32 {
    VERSION
}

/// Builds a rig from a settings line; null if the line is wrong or memory is short.
///
/// # Safety
/// `line` points to `len` readable bytes.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn linerate_rig_new(line: *const u8, len: usize) -> *mut AnyRig {
    if line.is_null() {
        return std::ptr::null_mut();
    }
    // SAFETY: the caller's promise.
    let line = unsafe { std::slice::from_raw_parts(line, len) };
    let rig = std::str::from_utf8(line).ok().and_then(|line| line.parse().ok()).and_then(|s| AnyRig::new(&s).ok());
    rig.map_or(std::ptr::null_mut(), |rig| Box::into_raw(Box::new(rig)))
}

/// One `sendto`; the bytes sent, or the errno, negative.
///
/// # Safety
/// `rig` is from [`linerate_rig_new`] and in no other call; `payload` points to `len` readable bytes.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn linerate_rig_sendto(rig: *mut AnyRig, payload: *const u8, len: usize) -> isize {
    // SAFETY: the caller's promise.
    let (rig, payload) = unsafe { (&mut *rig, std::slice::from_raw_parts(payload, len)) };
    match rig.sendto(payload) {
        Ok(n) => n as isize,
        Err(errno) => -(errno.raw() as isize),
    }
}

/// Frames that reached the sink.
///
/// # Safety
/// `rig` is from [`linerate_rig_new`] and in no other call.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn linerate_rig_sunk(rig: *const AnyRig) -> u64 {
    // SAFETY: the caller's promise.
    unsafe { (*rig).sunk().0 }
}

/// Ends a rig.
///
/// # Safety
/// `rig` is from [`linerate_rig_new`], in no other call, and not used after.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn linerate_rig_free(rig: *mut AnyRig) {
    if !rig.is_null() {
        // SAFETY: the caller's promise: the box was made in `linerate_rig_new`.
        drop(unsafe { Box::from_raw(rig) });
    }
}
