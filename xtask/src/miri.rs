//! `cargo xtask miri`: the unsafe code of `buf` under Miri, which looks at each access to memory.
//!
//! Miri comes with nightly toolchains only, and the house is built with a stable one: where it is not installed the command says
//! so and is content. About a minute.

use crate::cargo::{succeed, target_dir};
use std::path::Path;
use std::process::{Command, ExitCode, Stdio};

/// What Miri cannot do (more memory than there is, huge pages), or only in a quarter of an hour.
const LEFT_OUT: &[&str] = &[
    "an_impossible_size_is_an_error",
    "every_page_size_gives_zeroed_memory",
    "a_million_values_cross_threads",
    "frames_dropped_on_another_thread_come_back", // tests/moves.rs does it with fewer
    "several_threads_share_a_locked_pool",
    "a_card_on_a_thread_of_its_own_keeps_order",
];

pub fn command(root: &Path, args: &[String]) -> anyhow::Result<ExitCode> {
    let installed = nightly().args(["miri", "--version"]).stdout(Stdio::null()).stderr(Stdio::null()).status();
    if !installed.is_ok_and(|status| status.success()) {
        println!("skipped: miri: no nightly toolchain has it (rustup component add miri rust-src --toolchain nightly)");
        return Ok(ExitCode::SUCCESS);
    }
    let mut test = nightly();
    test.current_dir(root).args(["miri", "test", "-p", "linerate-buf", "--lib", "--test", "moves", "--target-dir"]);
    test.arg(target_dir(root)?.join("miri")).arg("--").args(args);
    test.args(LEFT_OUT.iter().flat_map(|name| ["--skip", name]));
    // The property tests ask for a file of failures they had; a few cases are many under Miri.
    test.env("MIRIFLAGS", "-Zmiri-disable-isolation").env("PROPTEST_CASES", "4");
    succeed(&mut test)?;
    Ok(ExitCode::SUCCESS)
}

/// Cargo of the nightly toolchain, without what the stable one that runs this has put into the environment.
fn nightly() -> Command {
    let mut rustup = Command::new("rustup");
    rustup.args(["run", "nightly", "cargo"]);
    for name in ["CARGO", "RUSTC", "RUSTUP_TOOLCHAIN", "RUSTFLAGS", "CARGO_ENCODED_RUSTFLAGS"] {
        rustup.env_remove(name);
    }
    rustup
}
