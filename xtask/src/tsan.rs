//! `cargo xtask tsan`: tests code that threads share without locks (rings, readers' pins) under
//! rustc's thread sanitizer, which checks every memory access of a real run.
//!
//! Loom tests all interleavings of a few steps; the sanitizer observes millions of real ones. The
//! sanitizer is an unstable option of rustc, which RUSTC_BOOTSTRAP permits. The standard library is
//! not instrumented, so synchronization inside it is not observed. For this reason, reports about
//! the test harness are excluded by name, tests run one at a time (statics that they share are
//! initialized by the standard library), and code under a mutex is tested only with loom. A run
//! takes a minute.

use crate::cargo::{cargo, host_triple, target_dir};
use anyhow::{Context, bail, ensure};
use std::path::Path;
use std::process::ExitCode;

/// Tests to run, each as a package and a prefix of the test names.
const TESTS: &[(&str, &str)] = &[("linerate-buf", "ring::"), ("linerate-lock", "pins::")];
/// Parts of function names by which a report about the harness, or about the start and end of a
/// thread, is recognized.
const HARNESS: &[&str] = &["test::run_test", "test::event", "std::thread::"];
/// Prefix of the last line of a report, which contains the location.
const REPORT: &str = "SUMMARY: ThreadSanitizer: ";

pub fn command(root: &Path, args: &[String]) -> anyhow::Result<ExitCode> {
    let (host, target) = (host_triple()?, target_dir(root)?.join("tsan"));
    for (package, tests) in TESTS {
        let mut test = cargo(root);
        test.env("RUSTC_BOOTSTRAP", "1")
            .env("RUSTFLAGS", "-Zsanitizer=thread -Cunsafe-allow-abi-mismatch=sanitizer")
            .env("TSAN_OPTIONS", "halt_on_error=0 exitcode=0")
            // With line tables, reports also name inlined functions, which the exclusions need.
            .env("CARGO_PROFILE_TEST_DEBUG", "line-tables-only");
        // With --target, code for the build machine (procedural macros) is not instrumented.
        test.args(["test", "--lib", "-p", package, "--target", &host, "--target-dir"]).arg(&target);
        let output =
            test.args(["--", tests, "--test-threads=1"]).args(args).output().context("cannot run cargo test")?;
        let [out, err] = [output.stdout, output.stderr].map(|text| String::from_utf8_lossy(&text).into_owned());
        print!("{out}");
        ensure!(output.status.success(), "{package}: {}\n{err}", output.status);
        ensure!(!out.contains(" 0 passed"), "{package}: no test matches '{tests}'");
        let races = races(&err);
        if !races.is_empty() {
            eprintln!("{err}");
            bail!("{package}: {}", races.join("\n"));
        }
    }
    println!("tsan: no data race");
    Ok(ExitCode::SUCCESS)
}

/// Returns the reports that are not about the harness.
fn races(err: &str) -> Vec<&str> {
    let reports = err.lines().filter_map(|line| line.strip_prefix(REPORT));
    reports.filter(|report| !HARNESS.iter().any(|name| report.contains(name))).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_reports_about_the_harness_are_ignored() {
        let err = "WARNING: ThreadSanitizer: data race (pid=1)\n  #9 test::run_test\n\
                   SUMMARY: ThreadSanitizer: data race core/src/ptr/mod.rs:1717:9 in read<u64>\n\
                   SUMMARY: ThreadSanitizer: data race sync.rs:2854:18 in <alloc::sync::Arc<std::thread::thread::Inner>>::drop\n\
                   SUMMARY: ThreadSanitizer: data race profiling.rs:29:1 in compiler_copy::<MaybeUninit<test::event::CompletedTest>, 304>\n";
        assert_eq!(races(err), ["data race core/src/ptr/mod.rs:1717:9 in read<u64>"]);
    }
}
