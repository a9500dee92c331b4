//! Runs cargo, and implements the commands that consist of a few calls of cargo.

use anyhow::{Context, bail};
use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode};

/// Returns a cargo command in `root` without flags inherited from the caller, so that builds are
/// reproducible.
pub fn cargo(root: &Path) -> Command {
    let mut cargo = Command::new(std::env::var_os("CARGO").unwrap_or_else(|| OsString::from("cargo")));
    cargo.current_dir(root).env_remove("RUSTFLAGS").env_remove("CARGO_ENCODED_RUSTFLAGS");
    cargo
}

/// Runs `command` and waits for it.
///
/// # Errors
/// Returns an error if the command cannot be started or fails.
pub fn succeed(command: &mut Command) -> anyhow::Result<()> {
    let status = command.status().with_context(|| format!("cannot run {:?}", command.get_program()))?;
    if !status.success() {
        bail!("{command:?} ended with {status}");
    }
    Ok(())
}

/// Returns the target directory that cargo uses in `root`.
pub fn target_dir(root: &Path) -> anyhow::Result<PathBuf> {
    let output = cargo(root)
        .args(["metadata", "--no-deps", "--offline", "--format-version", "1"])
        .output()
        .context("cannot run cargo metadata")?;
    let metadata: serde_json::Value =
        serde_json::from_slice(&output.stdout).context("cargo metadata printed no JSON")?;
    let directory = metadata["target_directory"].as_str().context("cargo metadata has no target directory")?;
    Ok(PathBuf::from(directory))
}

/// Features with which `.ci/run` lints and tests the whole workspace, as (package, feature).
const IN_WORKSPACE: &[(&str, &str)] = &[
    ("linerate", "commands"),
    ("linerate", "dhcp"),
    ("linerate", "files"),
    ("linerate", "full"),
    ("linerate", "quinn"),
    ("linerate", "tokio"),
    ("linerate-socket", "tokio"),
];

/// Tests that are run with one feature alone, as (package, feature, arguments of `cargo test`).
const ALONE: &[(&str, &str, &[&str])] = &[
    ("linerate", "commands", &["--test", "all", "commands::"]),
    ("linerate", "dhcp", &["--test", "all", "by_dhcp"]),
    ("linerate", "files", &["--test", "all", "files::"]),
    ("linerate", "quinn", &["--test", "all", "quinn::"]),
    ("linerate", "tokio", &["--test", "all", "tokio::"]),
];

/// Builds and tests each package of the workspace that has features: with each feature alone, with
/// none, and with all. Default features are not tested alone, since the tests of the workspace run
/// with them. For the same reason, of the features [`IN_WORKSPACE`], those of [`ALONE`] are built
/// alone with some tests, and the others are only linted alone.
///
/// # Errors
/// Returns an error if a build or a test fails.
pub fn features(root: &Path) -> anyhow::Result<ExitCode> {
    let output = cargo(root)
        .args(["metadata", "--no-deps", "--offline", "--format-version", "1"])
        .output()
        .context("cannot run cargo metadata")?;
    let metadata: serde_json::Value =
        serde_json::from_slice(&output.stdout).context("cargo metadata printed no JSON")?;
    for package in metadata["packages"].as_array().context("cargo metadata has no packages")? {
        let (Some(name), Some(features)) = (package["name"].as_str(), package["features"].as_object()) else {
            bail!("cargo metadata has a package without name or features");
        };
        if features.is_empty() {
            continue;
        }
        let default = features.get("default").and_then(|names| names.as_array()).into_iter().flatten();
        let default: Vec<&str> = default.filter_map(|name| name.as_str()).collect();
        let is_tested = |feature: &str| default.contains(&feature) || IN_WORKSPACE.contains(&(name, feature));
        let alone = features.keys().filter(|feature| *feature != "default" && !is_tested(feature));
        let alone: Vec<String> = alone.cloned().collect();
        succeed(cargo(root).args(["clippy", "-p", name, "--no-default-features", "--", "-D", "warnings"]))?;
        // `full` is the sum of others.
        for (_, feature) in IN_WORKSPACE.iter().filter(|(package, of)| *package == name && *of != "full") {
            let with = ["-p", name, "--no-default-features", "--features", feature];
            let is_alone = |(package, tested, _): &&(&str, &str, _)| (*package, *tested) == (name, *feature);
            match ALONE.iter().find(is_alone) {
                // The lints of the workspace look at the same code; a build of it shows the rest.
                Some((.., tests)) => succeed(cargo(root).arg("test").args(with).args(*tests))?,
                None => succeed(cargo(root).arg("clippy").args(with).args(["--", "-D", "warnings"]))?,
            }
        }
        let all = if alone.len() > 1 { alone.join(",") } else { String::new() };
        for chosen in alone.iter().chain(Some(&all)).filter(|chosen| !chosen.is_empty()) {
            let with = ["-p", name, "--no-default-features", "--features", chosen];
            succeed(cargo(root).arg("clippy").args(with).args(["--all-targets", "--", "-D", "warnings"]))?;
            succeed(cargo(root).arg("test").args(with))?;
        }
    }
    Ok(ExitCode::SUCCESS)
}

/// Returns the target triple of this machine.
pub fn host_triple() -> anyhow::Result<String> {
    let output = Command::new("rustc").arg("-vV").output().context("cannot run rustc")?;
    let text = String::from_utf8_lossy(&output.stdout);
    let host = text.lines().find_map(|line| line.strip_prefix("host: "));
    Ok(host.context("rustc -vV prints no host")?.to_owned())
}

/// Runs the loom tests, which execute all interleavings of a test's threads. They test code that
/// threads share: the rings, the workers of dataflow and switches, netisr's workstreams, and the
/// tracking of readers (`Pins`). A separate target directory is used, because `--cfg loom` changes
/// every crate.
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

/// Runs a benchmark group of `linerate-bench`, which compares our stack with others. Builds
/// everything that it needs: the other stacks, and the program `linerate`, which the tests over TAP
/// start.
pub fn bench(root: &Path, args: &[String]) -> anyhow::Result<ExitCode> {
    succeed(cargo(root).args(["build", "--release", "-p", "linerate-cli"]))?;
    succeed(cargo(root).args(["run", "--release", "-p", "linerate-bench", "--"]).args(args))?;
    Ok(ExitCode::SUCCESS)
}
