//! The developer's commands: `cargo xtask <command>`.
//!
//! Each one is a short program over cargo and git; nothing that a user of linerate needs is here.

mod cargo;
mod fuzz;
mod ladder;
mod source;
mod tidy;

use anyhow::bail;
use std::path::PathBuf;
use std::process::ExitCode;

const USAGE: &str = "\
usage: cargo xtask <command>

  tidy                       check the house rules: members' order, unsafe rooms, clock rooms, files, words
  fuzz [--seconds N] [--keep] [--list] [target ...]
                             fuzz every target (or those named) on stable Rust, N seconds each (default 60);
                             --keep merges what was found into fuzz/corpus, --list names the targets
  loom [args]                the rings under every interleaving that loom can think of
  ladder                     build linerate-rung in each variant that a rung of the ladder needs
  bench <group> [args]       build and run linerate-bench in release: `cargo xtask bench udp`";

fn main() -> ExitCode {
    let words: Vec<String> = std::env::args().skip(1).collect();
    match run(&words) {
        Ok(code) => code,
        Err(why) => {
            eprintln!("xtask: {why:#}");
            ExitCode::FAILURE
        }
    }
}

fn run(words: &[String]) -> anyhow::Result<ExitCode> {
    let Some((command, rest)) = words.split_first() else {
        eprintln!("{USAGE}");
        return Ok(ExitCode::FAILURE);
    };
    let root = root();
    match command.as_str() {
        "tidy" => tidy::command(&root),
        "fuzz" => fuzz::command(&root, rest),
        "loom" => cargo::loom(&root, rest),
        "ladder" => ladder::command(&root),
        "bench" => cargo::bench(&root, rest),
        "help" | "--help" | "-h" => {
            println!("{USAGE}");
            Ok(ExitCode::SUCCESS)
        }
        other => bail!("unknown command '{other}': expected tidy, fuzz, loom, ladder or bench\n{USAGE}"),
    }
}

/// The repository: where this package's directory stands. `cargo run` says where that is now; what was known when this
/// was compiled may be another checkout that shares the target directory.
fn root() -> PathBuf {
    let here = std::env::var_os("CARGO_MANIFEST_DIR").unwrap_or_else(|| env!("CARGO_MANIFEST_DIR").into());
    let mut root = PathBuf::from(here);
    root.pop();
    root
}
