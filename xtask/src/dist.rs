//! `cargo xtask dist`: builds the program as it is distributed, without symbols, and a file with
//! its symbols and line tables. `linerate profile` and debuggers read that file if it is beside the
//! program.

use crate::cargo::{cargo, succeed, target_dir};
use anyhow::Context;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode};

/// Builds the program and writes `linerate` and `linerate.debug` to `dir`, by default
/// `target/dist`. Needs objcopy of binutils, which comes with the linker that rustc uses.
///
/// # Errors
/// The build or objcopy fails, or the directory cannot be created.
pub fn command(root: &Path, dir: Option<&str>) -> anyhow::Result<ExitCode> {
    succeed(cargo(root).args(["build", "--release", "-p", "linerate-cli"]))?;
    let target = target_dir(root)?;
    let dir = dir.map_or_else(|| target.join("dist"), PathBuf::from);
    std::fs::create_dir_all(&dir).with_context(|| format!("cannot create {}", dir.display()))?;
    let (built, program, debug) = (target.join("release/linerate"), dir.join("linerate"), dir.join("linerate.debug"));
    succeed(Command::new("objcopy").arg("--only-keep-debug").args([&built, &debug]))?;
    let link = format!("--add-gnu-debuglink={}", debug.display());
    succeed(Command::new("objcopy").args(["--strip-all", &link]).args([&built, &program]))?;
    for file in [&program, &debug] {
        let bytes = std::fs::metadata(file).with_context(|| format!("cannot read {}", file.display()))?.len();
        println!("{}: {:.1} MB", file.display(), bytes as f64 / 1e6);
    }
    Ok(ExitCode::SUCCESS)
}
