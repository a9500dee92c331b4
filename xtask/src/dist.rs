//! `cargo xtask dist`: builds the program as it is distributed, without symbols, and a file with
//! its symbols and line tables. `linerate profile` and debuggers read that file if it is beside the
//! program. `--static` links the C library statically, for images without one.

use crate::cargo::{cargo, succeed, target_dir};
use anyhow::{Context, bail};
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode};

/// Arguments of `dist`.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Wanted {
    /// Links the C library statically.
    is_static: bool,
    /// Directory for the program; `None` for `target/dist`.
    dir: Option<PathBuf>,
}

impl Wanted {
    /// Parses `[--static] [DIR]`.
    ///
    /// # Errors
    /// Returns an error for other arguments.
    pub fn parse(words: &[String]) -> anyhow::Result<Wanted> {
        let mut wanted = Wanted::default();
        for word in words {
            match word.as_str() {
                "--static" => wanted.is_static = true,
                dir if !dir.starts_with('-') && wanted.dir.is_none() => wanted.dir = Some(dir.into()),
                other => bail!("unknown argument '{other}': expected [--static] [DIR]"),
            }
        }
        Ok(wanted)
    }
}

/// Builds the program and writes `linerate` and `linerate.debug` to a directory. Needs objcopy of
/// binutils, which comes with the linker that rustc uses.
///
/// # Errors
/// The build or objcopy fails, or the directory cannot be created.
pub fn command(root: &Path, wanted: Wanted) -> anyhow::Result<ExitCode> {
    let target = target_dir(root)?;
    let mut build = cargo(root);
    build.args(["build", "--release", "-p", "linerate-cli"]);
    let mut built = target.join("release/linerate");
    if wanted.is_static {
        built = target.join(link_statically(&mut build)?).join("release/linerate");
    }
    succeed(&mut build)?;
    let dir = wanted.dir.unwrap_or_else(|| target.join("dist"));
    std::fs::create_dir_all(&dir).with_context(|| format!("cannot create {}", dir.display()))?;
    let (program, debug) = (dir.join("linerate"), dir.join("linerate.debug"));
    succeed(Command::new("objcopy").arg("--only-keep-debug").args([&built, &debug]))?;
    let link = format!("--add-gnu-debuglink={}", debug.display());
    succeed(Command::new("objcopy").args(["--strip-all", &link]).args([&built, &program]))?;
    for file in [&program, &debug] {
        let bytes = std::fs::metadata(file).with_context(|| format!("cannot read {}", file.display()))?.len();
        println!("{}: {:.1} MB", file.display(), bytes as f64 / 1e6);
    }
    Ok(ExitCode::SUCCESS)
}

/// Makes a build link the C library statically. Returns the directory of its results, relative to
/// the target directory. Build scripts and macros are linked dynamically, since a target is given.
///
/// # Errors
/// rustc does not run.
pub fn link_statically(build: &mut Command) -> anyhow::Result<String> {
    let machine = machine()?;
    build.args(["--target", &machine]).env("RUSTFLAGS", "-C target-feature=+crt-static");
    Ok(machine)
}

/// Returns the target that the compiler builds for by default, as in `x86_64-unknown-linux-gnu`.
fn machine() -> anyhow::Result<String> {
    let output = Command::new("rustc").arg("-vV").output().context("cannot run rustc")?;
    let text = String::from_utf8(output.stdout)?;
    let line = text.lines().find_map(|line| line.strip_prefix("host: "));
    line.map(str::to_string).context("rustc -vV printed no host")
}
