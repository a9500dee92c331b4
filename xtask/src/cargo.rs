//! Calling cargo: where it puts things, and the two commands that are one call each.

use anyhow::{Context, bail};
use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode};

/// Cargo, in `root`, without flags inherited from the caller: a build is what this program says and nothing else.
pub fn cargo(root: &Path) -> Command {
    let mut cargo = Command::new(std::env::var_os("CARGO").unwrap_or_else(|| OsString::from("cargo")));
    cargo.current_dir(root).env_remove("RUSTFLAGS").env_remove("CARGO_ENCODED_RUSTFLAGS");
    cargo
}

/// Runs `command` to its end.
///
/// # Errors
/// When it cannot be started or does not succeed.
pub fn succeed(command: &mut Command) -> anyhow::Result<()> {
    let status = command.status().with_context(|| format!("cannot run {:?}", command.get_program()))?;
    if !status.success() {
        bail!("{command:?} ended with {status}");
    }
    Ok(())
}

/// The target directory that cargo uses in `root`.
pub fn target_dir(root: &Path) -> anyhow::Result<PathBuf> {
    let output = cargo(root)
        .args(["metadata", "--no-deps", "--offline", "--format-version", "1"])
        .output()
        .context("cannot run cargo metadata")?;
    let metadata: serde_json::Value = serde_json::from_slice(&output.stdout).context("cargo metadata gave no JSON")?;
    let directory = metadata["target_directory"].as_str().context("cargo metadata names no target directory")?;
    Ok(PathBuf::from(directory))
}

/// The machine's own target triple.
pub fn host_triple() -> anyhow::Result<String> {
    let output = Command::new("rustc").arg("-vV").output().context("cannot run rustc")?;
    let text = String::from_utf8_lossy(&output.stdout);
    let host = text.lines().find_map(|line| line.strip_prefix("host: "));
    Ok(host.context("rustc -vV names no host")?.to_owned())
}

/// The rings, the dataflow's lanes, netisr's workstreams, a switch's lanes and the readers' pins under loom, in a target directory of their own: `--cfg loom`
/// changes every crate.
pub fn loom(root: &Path, args: &[String]) -> anyhow::Result<ExitCode> {
    let target = target_dir(root)?.join("loom");
    let mut test = cargo(root);
    test.env("RUSTFLAGS", "--cfg loom").args([
        "test",
        "--profile",
        "loom",
        "-p",
        "linerate-lock",
        "-p",
        "linerate-buf",
        "-p",
        "linerate-dispatch",
        "-p",
        "linerate-node",
    ]);
    succeed(test.args(["--lib", "--target-dir"]).arg(target).arg("loom_").args(args))?;
    Ok(ExitCode::SUCCESS)
}

/// A group of peers beside us. Cargo builds what it needs, peers included; the rows over TAP start the program itself.
pub fn bench(root: &Path, args: &[String]) -> anyhow::Result<ExitCode> {
    succeed(cargo(root).args(["build", "--release", "-p", "linerate"]))?;
    succeed(cargo(root).args(["run", "--release", "-p", "linerate-bench", "--"]).args(args))?;
    Ok(ExitCode::SUCCESS)
}
