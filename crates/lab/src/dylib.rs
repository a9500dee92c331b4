//! The rig as a dynamic library: the ladder's first rungs, built without whole-program optimisation and called through
//! the dynamic linker as the report's baseline was.
//!
//! An unsafe room: symbols of a loaded library are called. The library is ours, built from the same source by
//! `cargo xtask ladder`; its version is asked before anything else.
#![allow(unsafe_code)]

use anyhow::{Context, bail};
use libloading::Library;
use rung::AnyRig;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

type New = unsafe extern "C" fn(*const u8, usize) -> *mut AnyRig;
type Sendto = unsafe extern "C" fn(*mut AnyRig, *const u8, usize) -> isize;
type Sunk = unsafe extern "C" fn(*const AnyRig) -> u64;
type Free = unsafe extern "C" fn(*mut AnyRig);

/// A rig behind a library's face.
pub(crate) struct LoadedRig {
    rig: *mut AnyRig, // never looked into from this side: only its own library knows its layout
    sendto: Sendto,
    sunk: Sunk,
    free: Free,
    _library: Library,
}

impl LoadedRig {
    /// Loads the library at `path` and builds a rig from a settings line.
    pub(crate) fn new(path: &Path, settings: &str) -> anyhow::Result<LoadedRig> {
        // SAFETY: loading runs the library's initialisers: ours has none but the standard library's.
        let library = unsafe { Library::new(path) }.with_context(|| format!("cannot load {}", path.display()))?;
        // SAFETY: the symbols have these types in the face of this version, and are used only while `library` lives.
        unsafe {
            let version = library.get::<unsafe extern "C" fn() -> u32>(b"linerate_rig_version\0")?;
            if version() != rung::face::VERSION {
                bail!("{}: built from another version: run cargo xtask ladder", path.display());
            }
            let new = *library.get::<New>(b"linerate_rig_new\0")?;
            let sendto = *library.get::<Sendto>(b"linerate_rig_sendto\0")?;
            let sunk = *library.get::<Sunk>(b"linerate_rig_sunk\0")?;
            let free = *library.get::<Free>(b"linerate_rig_free\0")?;
            let rig = new(settings.as_ptr(), settings.len());
            if rig.is_null() {
                bail!("{}: no rig for '{settings}'", path.display());
            }
            Ok(LoadedRig { rig, sendto, sunk, free, _library: library })
        }
    }

    /// `n` calls of sendto, each through the library's face; says how many went well.
    pub(crate) fn send(&mut self, n: u64, payload: &[u8]) -> u64 {
        let mut sent = 0;
        for _ in 0..n {
            let payload = std::hint::black_box(payload);
            // SAFETY: `rig` is live and used by this thread alone; the payload is a slice.
            sent += u64::from(unsafe { (self.sendto)(self.rig, payload.as_ptr(), payload.len()) } >= 0);
        }
        sent
    }

    /// Frames that reached the sink.
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

/// The workspace this program was built from, if it is still there.
fn workspace() -> Option<PathBuf> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    root.join("Cargo.toml").is_file().then(|| root.canonicalize().ok())?
}

/// Where `cargo xtask ladder` puts the library of `variant`.
fn place(variant: &str) -> Option<PathBuf> {
    Some(workspace()?.join("target/rungs").join(variant).join("liblinerate_rung.so"))
}

/// Builds the libraries with cargo. What is up to date costs a second.
pub(crate) fn build() -> anyhow::Result<()> {
    let root = workspace().context("the source this program was built from is gone: the build rungs need it")?;
    let cargo = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    let output = Command::new(cargo)
        .args(["run", "--quiet", "--package", "xtask", "--", "ladder"])
        .current_dir(root)
        .stdin(Stdio::null())
        .output()
        .context("cannot run cargo")?;
    if !output.status.success() {
        let text = String::from_utf8_lossy(&output.stderr);
        bail!("cargo xtask ladder failed: {}", text.lines().last().unwrap_or("no message"));
    }
    Ok(())
}

/// The library of `variant`.
pub(crate) fn library(variant: &str) -> anyhow::Result<PathBuf> {
    let path = place(variant).context("the source this program was built from is gone")?;
    if path.is_file() { Ok(path) } else { bail!("{} is missing: run cargo xtask ladder", path.display()) }
}
