//! The C interface of a rig, exported by the dynamic library. Each `sendto` is one call of this
//! interface.
//!
//! Contains unsafe code, since the pointers come from the caller of a C interface.
#![allow(unsafe_code)]

use crate::AnyRig;

/// Version of this interface. A library that returns another version is not used.
pub const VERSION: u32 = 1;

/// Returns the version of the interface.
#[unsafe(no_mangle)]
pub extern "C" fn linerate_rig_version() -> u32 {
    VERSION
}

/// Builds a rig from a settings line. Returns null if the line is invalid or memory is short.
///
/// # Safety
/// `line` must point to `len` readable bytes.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn linerate_rig_new(line: *const u8, len: usize) -> *mut AnyRig {
    if line.is_null() {
        return std::ptr::null_mut();
    }
    // SAFETY: guaranteed by the caller.
    let line = unsafe { std::slice::from_raw_parts(line, len) };
    let rig = std::str::from_utf8(line).ok().and_then(|line| line.parse().ok()).and_then(|s| AnyRig::new(&s).ok());
    rig.map_or(std::ptr::null_mut(), |rig| Box::into_raw(Box::new(rig)))
}

/// Makes one `sendto` call. Returns the number of bytes sent, or the negative errno.
///
/// # Safety
/// `rig` must come from [`linerate_rig_new`] and must not be in use by another call; `payload` must
/// point to `len` readable bytes.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn linerate_rig_sendto(rig: *mut AnyRig, payload: *const u8, len: usize) -> isize {
    // SAFETY: guaranteed by the caller.
    let (rig, payload) = unsafe { (&mut *rig, std::slice::from_raw_parts(payload, len)) };
    match rig.sendto(payload) {
        Ok(n) => n as isize,
        Err(errno) => -(errno.raw() as isize),
    }
}

/// Returns the number of frames that reached the sink.
///
/// # Safety
/// `rig` must come from [`linerate_rig_new`] and must not be in use by another call.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn linerate_rig_sunk(rig: *const AnyRig) -> u64 {
    // SAFETY: guaranteed by the caller.
    unsafe { (*rig).sunk().0 }
}

/// Frees a rig.
///
/// # Safety
/// `rig` must come from [`linerate_rig_new`], must not be in use by another call, and must not be
/// used afterwards.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn linerate_rig_free(rig: *mut AnyRig) {
    if !rig.is_null() {
        // SAFETY: guaranteed by the caller; the box was created in `linerate_rig_new`.
        drop(unsafe { Box::from_raw(rig) });
    }
}
