//! `cargo xtask miri`: runs the unsafe code of `buf` under Miri, which checks every memory access.
//!
//! Miri exists for nightly toolchains only, whereas this project uses a stable one. If Miri is not
//! installed, the command prints a message and succeeds. A run takes about a minute.

use crate::cargo::{succeed, target_dir};
use std::path::Path;
use std::process::{Command, ExitCode, Stdio};

/// Tests that Miri cannot run (too much memory, huge pages), or for which it needs a quarter of an
/// hour.
const LEFT_OUT: &[&str] = &[
    "an_impossible_size_is_an_error",
    "every_page_size_gives_zeroed_memory",
    "a_million_values_cross_threads",
    "frames_dropped_on_another_thread_come_back", // tests/moves.rs covers this with fewer frames
    "several_threads_share_a_locked_pool",
    "a_card_on_a_thread_of_its_own_keeps_order",
];

pub fn command(root: &Path, args: &[String]) -> anyhow::Result<ExitCode> {
    let installed = nightly().args(["miri", "--version"]).stdout(Stdio::null()).stderr(Stdio::null()).status();
    if !installed.is_ok_and(|status| status.success()) {
        println!("skipped: miri is not installed (rustup component add miri rust-src --toolchain nightly)");
        return Ok(ExitCode::SUCCESS);
    }
    let mut test = nightly();
    test.current_dir(root).args(["miri", "test", "-p", "linerate-buf", "--lib", "--test", "moves", "--target-dir"]);
    test.arg(target_dir(root)?.join("miri")).arg("--").args(args);
    test.args(LEFT_OUT.iter().flat_map(|name| ["--skip", name]));
    // Property tests read a file of earlier failures, which isolation would prevent. The number of
    // cases is small, since Miri is slow.
    test.env("MIRIFLAGS", "-Zmiri-disable-isolation").env("PROPTEST_CASES", "4");
    succeed(&mut test)?;
    Ok(ExitCode::SUCCESS)
}

/// Returns a cargo command of the nightly toolchain, without the environment variables of the
/// stable toolchain that runs this program.
fn nightly() -> Command {
    let mut rustup = Command::new("rustup");
    rustup.args(["run", "nightly", "cargo"]);
    for name in ["CARGO", "RUSTC", "RUSTUP_TOOLCHAIN", "RUSTFLAGS", "CARGO_ENCODED_RUSTFLAGS"] {
        rustup.env_remove(name);
    }
    rustup
}
