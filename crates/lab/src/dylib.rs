//! The rig (one host that sends into a counting sink) as a dynamic library. The first rungs (steps)
//! of `linerate ladder` use it: built without whole-program optimisation and called through the
//! dynamic linker, as the baseline of the report rump2014 was.
//!
//! This module contains unsafe code: it calls symbols of a loaded library. The library is built
//! from the same source, and its version is checked first. Each child process loads one library:
//! [`serve`] is the main loop of such a child, which executes the commands of `rung::serve`.
#![allow(unsafe_code)]

use crate::child;
use crate::subject::{Reading, measure};
use anyhow::{Context, bail};
use libloading::Library;
use rung::AnyRig;
use rung::serve::PAYLOAD;
use std::path::Path;

/// Kind of the child process; its role is the library's path, a tab, and the settings.
pub(crate) const KIND: &str = "rung";

type New = unsafe extern "C" fn(*const u8, usize) -> *mut AnyRig;
type Sendto = unsafe extern "C" fn(*mut AnyRig, *const u8, usize) -> isize;
type Sunk = unsafe extern "C" fn(*const AnyRig) -> u64;
type Free = unsafe extern "C" fn(*mut AnyRig);

/// A rig accessed through the C interface of a loaded library.
pub(crate) struct LoadedRig {
    rig: *mut AnyRig, // opaque: the layout is private to its library
    sendto: Sendto,
    sunk: Sunk,
    free: Free,
    _library: Library,
}

impl LoadedRig {
    /// Loads the library at `path` and builds a rig from a settings line.
    pub(crate) fn new(path: &Path, settings: &str) -> anyhow::Result<LoadedRig> {
        // SAFETY: loading runs the library's initialisers, which are only those of Rust's standard
        // library.
        let library = unsafe { Library::new(path) }.with_context(|| format!("cannot load {}", path.display()))?;
        // SAFETY: the symbols have these types in this version of the C interface, and are used
        // only while `library` lives.
        unsafe {
            let version = library.get::<unsafe extern "C" fn() -> u32>(b"linerate_rig_version\0")?;
            if version() != rung::face::VERSION {
                bail!(
                    "{}: the library has another version of the rig interface: rebuild it with cargo xtask ladder",
                    path.display()
                );
            }
            let new = *library.get::<New>(b"linerate_rig_new\0")?;
            let sendto = *library.get::<Sendto>(b"linerate_rig_sendto\0")?;
            let sunk = *library.get::<Sunk>(b"linerate_rig_sunk\0")?;
            let free = *library.get::<Free>(b"linerate_rig_free\0")?;
            let rig = new(settings.as_ptr(), settings.len());
            if rig.is_null() {
                bail!("{}: cannot build a rig with the settings '{settings}'", path.display());
            }
            Ok(LoadedRig { rig, sendto, sunk, free, _library: library })
        }
    }

    /// Calls the library's sendto `n` times; returns the number of calls that succeeded.
    pub(crate) fn send(&mut self, n: u64, payload: &[u8]) -> u64 {
        let mut sent = 0;
        for _ in 0..n {
            let payload = std::hint::black_box(payload);
            // SAFETY: `rig` is live and used by this thread alone; the payload is a slice.
            sent += u64::from(unsafe { (self.sendto)(self.rig, payload.as_ptr(), payload.len()) } >= 0);
        }
        sent
    }

    /// Returns the number of frames that reached the sink.
    pub(crate) fn sunk(&self) -> u64 {
        // SAFETY: `rig` is live and used by this thread alone.
        unsafe { (self.sunk)(self.rig) }
    }
}

impl Drop for LoadedRig {
    fn drop(&mut self) {
        // SAFETY: `rig` came from this library's `new` and is not used after.
        unsafe { (self.free)(self.rig) }
    }
}

/// Runs the child: loads the library, then executes commands until the parent closes the socket.
pub(crate) fn serve(role: &str) -> anyhow::Result<()> {
    let begin = || {
        let (path, settings) = role.split_once('\t').context("no tab between path and settings in the child role")?;
        Ok((LoadedRig::new(Path::new(path), settings)?, String::new()))
    };
    let obey = |rig: &mut LoadedRig, order: &str| {
        let calls: u64 = order.strip_prefix("trial ").context("unknown command")?.parse()?;
        let (before, mut sent) = (rig.sunk(), 0);
        let Reading { ticks, wall_ns, cpu_ns, .. } = measure(calls, || sent = rig.send(calls, &PAYLOAD));
        Ok(format!("{sent} {} {ticks} {wall_ns} {cpu_ns}", rig.sunk() - before))
    };
    child::serve(begin, obey).map(drop)
}
