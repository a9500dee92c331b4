//! `cargo xtask ladder`: the rungs that need another build.
//!
//! Each variant is `linerate-rung`, a dynamic library with a C face, built by other means; `linerate ladder` opens it and
//! merges the row in. A variant that does not build is reported, and its row says so: the others go on.

use crate::cargo::{cargo, target_dir};
use anyhow::{Context, bail};
use std::path::Path;
use std::process::ExitCode;

/// One way to build the stack.
struct Variant {
    /// The directory it is found in: `target/rungs/<name>/`.
    name: &'static str,
    /// The profile of the root Cargo.toml.
    profile: &'static str,
    /// What the compiler is told beside the profile.
    rustflags: &'static str,
    /// What is different, in a sentence.
    about: &'static str,
}

const VARIANTS: &[Variant] = &[
    Variant {
        name: "baseline",
        profile: "rung",
        rustflags: "",
        about: "as a distribution would build it: opt-level 2, no LTO, any x86-64",
    },
    Variant {
        name: "native",
        profile: "rung",
        rustflags: "-C target-cpu=native",
        about: "the same for this processor",
    },
];

/// The library's file name.
const LIBRARY: &str = "liblinerate_rung.so";

pub fn command(root: &Path) -> anyhow::Result<ExitCode> {
    // Where the ladder looks for them, whatever cargo's target directory is.
    let rungs = root.join("target/rungs");
    let work = target_dir(root)?.join("rungs/build");
    let mut failed = 0;
    for variant in VARIANTS {
        match build(root, &work, &rungs, variant) {
            Ok(path) => println!("{}: {path} ({})", variant.name, variant.about),
            Err(why) => {
                failed += 1;
                eprintln!("{}: not built: {why:#}", variant.name);
            }
        }
    }
    Ok(if failed == 0 { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

/// A target directory each: the same profile under other flags would push the first one's files out.
fn build(root: &Path, work: &Path, rungs: &Path, variant: &Variant) -> anyhow::Result<String> {
    let work = work.join(variant.name);
    let mut build = cargo(root);
    build.env("RUSTFLAGS", variant.rustflags);
    build.args(["build", "-p", "linerate-rung", "--profile", variant.profile, "--target-dir"]).arg(&work);
    crate::cargo::succeed(&mut build)?;
    let made = work.join(variant.profile).join(LIBRARY);
    if !made.exists() {
        bail!("{} is missing: crates/rung must be a cdylib", made.display());
    }
    let place = rungs.join(variant.name);
    std::fs::create_dir_all(&place).with_context(|| format!("cannot make {}", place.display()))?;
    let kept = place.join(LIBRARY);
    std::fs::copy(&made, &kept).with_context(|| format!("cannot copy to {}", kept.display()))?;
    Ok(kept.display().to_string())
}
