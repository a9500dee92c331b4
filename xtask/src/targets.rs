//! Lints the library for targets other than this machine. Code that needs Linux or x86 is behind
//! `cfg`; all other code must compile on every target.

use crate::cargo::{cargo, succeed};
use anyhow::Context;
use std::path::Path;
use std::process::{Command, ExitCode};

/// A target, and the cargo arguments that select the packages and features to lint.
struct Target {
    triple: &'static str,
    args: &'static [&'static str],
}

const TARGETS: [Target; 3] = [
    Target { triple: "aarch64-unknown-linux-gnu", args: &["-p", "linerate", "--features", "full"] },
    Target { triple: "aarch64-apple-darwin", args: &["-p", "linerate", "--features", "full"] },
    // A target without an operating system, which has no `std`.
    Target {
        triple: "x86_64-unknown-none",
        args: &["-p", "linerate-wire", "-p", "linerate-tcp", "--no-default-features"],
    },
];

/// Runs clippy for each target whose standard library is installed or can be installed by rustup.
/// Prints a line for each target that is skipped.
///
/// # Errors
/// Returns an error if the code does not compile for a target, or clippy has a warning.
pub fn command(root: &Path) -> anyhow::Result<ExitCode> {
    for Target { triple, args } in &TARGETS {
        if !is_installed(root, triple)? && !install(root, triple) {
            println!("{triple}: not checked: rustup cannot install this target");
            continue;
        }
        succeed(
            cargo(root).args(["clippy", "--quiet", "--target", triple]).args(*args).args(["--", "-D", "warnings"]),
        )?;
        println!("{triple}: ok ({})", args.join(" "));
    }
    Ok(ExitCode::SUCCESS)
}

/// Returns whether the standard library of a target is installed in the toolchain.
fn is_installed(root: &Path, triple: &str) -> anyhow::Result<bool> {
    let mut rustc = Command::new("rustc");
    let output = rustc.current_dir(root).args(["--print", "target-libdir", "--target", triple]).output();
    let output = output.context("cannot run rustc")?;
    let dir = String::from_utf8_lossy(&output.stdout);
    Ok(std::fs::read_dir(dir.trim()).is_ok_and(|mut files| files.next().is_some()))
}

/// Installs the standard library of a target with rustup. Fails after a minute, since there may be
/// no network.
fn install(root: &Path, triple: &str) -> bool {
    let mut rustup = Command::new("timeout");
    rustup.current_dir(root).args(["60", "rustup", "target", "add", triple]);
    rustup.status().is_ok_and(|status| status.success())
}
