//! Passes the compiler version, the compiler options and the Git revision to `lab::env` as
//! environment variables, so that every report contains a description of its build.
//!
//! Watches HEAD, its refs and index, and the workspace's crates, so that the `-dirty` suffix of the
//! revision is up to date. Without git or outside a checkout the revision is `unknown`.

use std::env;
use std::path::Path;
use std::process::Command;

fn main() {
    let rustc = env::var("RUSTC").unwrap_or_else(|_| "rustc".into());
    set("LAB_RUSTC", &output(Command::new(rustc).arg("--version")).unwrap_or_else(|| "unknown".into()));
    set("LAB_OPT_LEVEL", &env::var("OPT_LEVEL").unwrap_or_else(|_| "unknown".into()));
    set("LAB_PROFILE", &env::var("PROFILE").unwrap_or_else(|_| "unknown".into()));
    set("LAB_TARGET", &env::var("TARGET").unwrap_or_else(|_| "unknown".into()));
    set("LAB_TARGET_CPU", &target_cpu(&env::var("CARGO_ENCODED_RUSTFLAGS").unwrap_or_default()));
    set("LAB_GIT_REV", &git_rev());
    println!("cargo:rerun-if-changed=build.rs");
    println!("cargo:rerun-if-env-changed=CARGO_ENCODED_RUSTFLAGS");
}

fn set(key: &str, value: &str) {
    println!("cargo:rustc-env={key}={value}");
}

fn output(command: &mut Command) -> Option<String> {
    let done = command.output().ok().filter(|done| done.status.success())?;
    Some(String::from_utf8_lossy(&done.stdout).trim().to_owned())
}

/// Returns the value of the last `-C target-cpu=...` in CARGO_ENCODED_RUSTFLAGS, or `generic`. The
/// flags are separated by 0x1f; `-C` and its value may be one flag or two.
fn target_cpu(flags: &str) -> String {
    let mut named = flags.split('\u{1f}').filter_map(|flag| flag.trim_start_matches("-C").strip_prefix("target-cpu="));
    named.next_back().unwrap_or("generic").to_owned()
}

fn git_rev() -> String {
    let Some(dir) = output(Command::new("git").args(["rev-parse", "--absolute-git-dir"])) else {
        return "unknown".into();
    };
    for name in ["HEAD", "index", "packed-refs", "refs/heads"] {
        let path = Path::new(&dir).join(name);
        if path.exists() {
            println!("cargo:rerun-if-changed={}", path.display());
        }
    }
    println!("cargo:rerun-if-changed=..");
    let rev = output(Command::new("git").args(["rev-parse", "--short=12", "HEAD"])).unwrap_or_else(|| "unborn".into());
    // Only changes to compiled files make the revision dirty, not changes to documents.
    // `lab::source` checks the same files of a source tree.
    let code = [":/crates", ":/xtask", ":/Cargo.toml", ":/Cargo.lock"];
    let changes = output(
        Command::new("git")
            .args(["--no-optional-locks", "status", "--porcelain", "--untracked-files=no", "--"])
            .args(code),
    );
    if changes.is_some_and(|text| !text.is_empty()) { format!("{rev}-dirty") } else { rev }
}
