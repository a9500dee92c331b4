//! `cargo xtask fuzz`: libFuzzer on stable Rust.
//!
//! cargo-fuzz measures coverage with a flag that only the nightly toolchain accepts. This command
//! selects LLVM's coverage pass by its name, which the stable toolchain accepts. The fuzz crate
//! links libFuzzer, which needs a C++ compiler. The targets are the `[[bin]]`s of fuzz/Cargo.toml.
//! A run uses a copy of `fuzz/corpus/<target>` and leaves the repository unchanged; `--keep` merges
//! new inputs.

use crate::cargo::{cargo, host_triple, succeed, target_dir};
use anyhow::{Context, bail};
use std::fmt::Write;
use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode, Stdio};
use std::sync::atomic::{AtomicUsize, Ordering};

/// Compiler flags for every crate: edge counters, a table of program counters, and traced
/// comparisons. There is a single codegen unit, so that the pass covers all code.
const RUSTFLAGS: &str = "-Cpasses=sancov-module \
    -Cllvm-args=-sanitizer-coverage-level=4 \
    -Cllvm-args=-sanitizer-coverage-inline-8bit-counters \
    -Cllvm-args=-sanitizer-coverage-pc-table \
    -Cllvm-args=-sanitizer-coverage-trace-compares \
    --cfg fuzzing -Ccodegen-units=1";

/// Time in seconds after which a single input is considered a failure.
const TIMEOUT: u32 = 10;

/// Parsed command line of `fuzz`.
#[derive(Debug, PartialEq, Eq)]
pub struct Wanted {
    seconds: u32,
    /// Seed of libFuzzer's random numbers; `None` for a different seed in each run.
    seed: Option<u32>,
    keep: bool,
    list: bool,
    build: bool,
    targets: Vec<String>,
}

impl Wanted {
    /// Parses the words of the command line.
    ///
    /// # Errors
    /// Returns an error for an unknown option or an invalid number.
    pub fn parse(words: &[String]) -> anyhow::Result<Wanted> {
        let mut wanted =
            Wanted { seconds: 60, seed: None, keep: false, list: false, build: false, targets: Vec::new() };
        let mut words = words.iter();
        while let Some(word) = words.next() {
            match word.as_str() {
                "--seconds" => wanted.seconds = number(word, words.next())?,
                "--seed" => wanted.seed = Some(number(word, words.next())?),
                "--keep" => wanted.keep = true,
                "--list" => wanted.list = true,
                "--build" => wanted.build = true,
                option if option.starts_with('-') => {
                    bail!("unknown option '{option}': expected --seconds, --seed, --keep, --build or --list")
                }
                target => wanted.targets.push(target.to_owned()),
            }
        }
        Ok(wanted)
    }

    /// Returns the selected targets, or all targets if none is selected.
    fn among(&self, known: &[String]) -> anyhow::Result<Vec<String>> {
        if let Some(unknown) = self.targets.iter().find(|target| !known.contains(target)) {
            bail!("unknown fuzz target '{unknown}': expected {}", known.join(", "));
        }
        Ok(if self.targets.is_empty() { known.to_vec() } else { self.targets.clone() })
    }
}

/// Returns the number that follows an option.
fn number(option: &str, word: Option<&String>) -> anyhow::Result<u32> {
    let word = word.with_context(|| format!("{option} needs a number"))?;
    word.parse().with_context(|| format!("{option}: '{word}' is not a number"))
}

pub fn command(root: &Path, wanted: &Wanted) -> anyhow::Result<ExitCode> {
    let manifest = root.join("fuzz/Cargo.toml");
    let text = fs::read_to_string(&manifest).with_context(|| format!("cannot read {}", manifest.display()))?;
    let targets = wanted.among(&known(&text)?)?;
    if wanted.list {
        targets.iter().for_each(|target| println!("{target}"));
        return Ok(ExitCode::SUCCESS);
    }
    let runner = Runner::build(root, &targets)?;
    if wanted.build {
        return Ok(ExitCode::SUCCESS);
    }
    let next = AtomicUsize::new(0);
    // Each target runs in one thread, so one worker per processor is started.
    let work = || -> anyhow::Result<usize> {
        let mut crashed = 0;
        while let Some(target) = targets.get(next.fetch_add(1, Ordering::Relaxed)) {
            let run = runner.run(target, wanted)?;
            print!("{}", run.printed);
            crashed += usize::from(!run.passed);
        }
        Ok(crashed)
    };
    let processors = std::thread::available_parallelism().map_or(1, |number| number.get());
    let crashed = std::thread::scope(|scope| {
        let workers: Vec<_> = (0..processors).map(|_| scope.spawn(work)).collect();
        workers
            .into_iter()
            .map(|worker| worker.join().unwrap_or_else(|_| bail!("a worker panicked")))
            .sum::<anyhow::Result<usize>>()
    })?;
    println!("fuzz: {} passed, {crashed} failed", targets.len() - crashed);
    Ok(if crashed == 0 { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

/// Result of fuzzing one target: whether the target passed, and its report.
struct Ended {
    passed: bool,
    /// Report to print, in whole lines.
    printed: String,
}

/// Returns the targets of a fuzz manifest, in order.
fn known(manifest: &str) -> anyhow::Result<Vec<String>> {
    let manifest: toml::Table = manifest.parse().context("fuzz/Cargo.toml")?;
    let bins = manifest.get("bin").and_then(toml::Value::as_array).into_iter().flatten();
    Ok(bins.filter_map(|bin| Some(bin.get("name")?.as_str()?.to_owned())).collect())
}

/// The built targets, and the directories of a run.
struct Runner {
    binaries: PathBuf,
    corpora: PathBuf,
    work: PathBuf,
}

impl Runner {
    fn build(root: &Path, targets: &[String]) -> anyhow::Result<Runner> {
        let compiler = std::env::var("CXX").unwrap_or_else(|_| "c++".to_owned());
        let found = Command::new(&compiler).arg("--version").stdout(Stdio::null()).stderr(Stdio::null()).status();
        if !found.is_ok_and(|status| status.success()) {
            bail!("fuzzing needs a C++ compiler for libFuzzer, and '{compiler}' does not run; install g++ or set CXX");
        }
        let (work, triple) = (target_dir(root)?.join("fuzz"), host_triple()?);
        let mut build = cargo(root);
        // With --target, the flags apply to our crates but not to build scripts.
        build.env("RUSTFLAGS", RUSTFLAGS).args(["build", "--release", "--manifest-path", "fuzz/Cargo.toml"]);
        build.args(["--target", &triple, "--target-dir"]).arg(&work);
        build.args(targets.iter().flat_map(|target| ["--bin", target]));
        succeed(&mut build)?;
        Ok(Runner { binaries: work.join(triple).join("release"), corpora: root.join("fuzz/corpus"), work })
    }

    /// Runs one fuzz target.
    fn run(&self, target: &str, wanted: &Wanted) -> anyhow::Result<Ended> {
        let kept = self.corpora.join(target);
        let (corpus, artifacts) = (self.work.join("corpus").join(target), self.work.join("artifacts").join(target));
        if corpus.exists() {
            fs::remove_dir_all(&corpus)?;
        }
        fs::create_dir_all(&corpus)?;
        fs::create_dir_all(&artifacts)?;
        let seeds = copy_files(&kept, &corpus)?;
        let log = self.work.join(format!("{target}.log"));
        let mut run = Command::new(self.binaries.join(target));
        run.arg(&corpus).arg(format!("-artifact_prefix={}/", artifacts.display()));
        // With a time of 0, libFuzzer would run without end, but this command runs the corpus only.
        run.arg(if wanted.seconds == 0 { "-runs=0".into() } else { format!("-max_total_time={}", wanted.seconds) });
        run.args([format!("-timeout={TIMEOUT}"), "-rss_limit_mb=2048".into(), "-print_final_stats=1".into()]);
        run.args(wanted.seed.map(|seed| format!("-seed={seed}")));
        run.stdout(Stdio::null())
            .stderr(File::create(&log).with_context(|| format!("cannot write {}", log.display()))?);
        let status = run.status().with_context(|| format!("cannot run {target}"))?;
        let text = String::from_utf8_lossy(&fs::read(&log)?).into_owned();
        let mut printed = String::new();
        if status.success() {
            writeln!(printed, "{target}: {} from {seeds} kept inputs", summary(&text))?;
            if wanted.keep {
                let added = self.merge(target, &corpus, &kept)?;
                writeln!(printed, "{target}: {added} inputs added to {}", kept.display())?;
            }
            return Ok(Ended { passed: true, printed });
        }
        writeln!(printed, "{target}: failed ({status}); log: {}", log.display())?;
        for line in why(&text) {
            writeln!(printed, "    {line}")?;
        }
        if let Some(input) = encoded(&text) {
            writeln!(printed, "  input in Base64: {input}")?;
        }
        for artifact in reproducers(&text) {
            writeln!(printed, "  reproducer: {artifact}")?;
            writeln!(printed, "  run it:     {} {artifact}", self.binaries.join(target).display())?;
        }
        Ok(Ended { passed: false, printed })
    }

    /// Adds inputs with new coverage to the corpus in the repository; returns their number.
    fn merge(&self, target: &str, corpus: &Path, kept: &Path) -> anyhow::Result<usize> {
        fs::create_dir_all(kept)?;
        let before = names(kept)?.len();
        let mut merge = Command::new(self.binaries.join(target));
        merge.arg("-merge=1").arg(kept).arg(corpus).stdout(Stdio::null()).stderr(Stdio::null());
        succeed(&mut merge)?;
        Ok(names(kept)?.len().saturating_sub(before))
    }
}

/// Copies the files of `from` if that directory exists. Returns their number.
fn copy_files(from: &Path, to: &Path) -> anyhow::Result<usize> {
    let names = if from.exists() { names(from)? } else { Vec::new() };
    for name in &names {
        fs::copy(from.join(name), to.join(name)).with_context(|| format!("cannot copy {name}"))?;
    }
    Ok(names.len())
}

/// Returns the names of the files in a directory.
fn names(directory: &Path) -> anyhow::Result<Vec<String>> {
    let mut names = Vec::new();
    for entry in fs::read_dir(directory).with_context(|| format!("cannot list {}", directory.display()))? {
        let entry = entry?;
        if entry.file_type()?.is_file() {
            names.push(entry.file_name().to_string_lossy().into_owned());
        }
    }
    names.sort();
    Ok(names)
}

/// Summarizes libFuzzer's final statistics: number of runs, speed, and coverage.
fn summary(log: &str) -> String {
    let stat = |name: &str| log.lines().find_map(|line| line.strip_prefix(name)).map_or("?", str::trim);
    let reached = log.lines().rev().find_map(|line| line.split("cov: ").nth(1)?.split(' ').next()).unwrap_or("?");
    let (runs, speed) = (stat("stat::number_of_executed_units:"), stat("stat::average_exec_per_sec:"));
    format!("{runs} runs, {speed} per second, {reached} edges reached")
}

/// Returns the lines of a panic and its message. Without a panic, returns the last lines of the
/// log.
fn why(log: &str) -> impl Iterator<Item = &str> {
    let count = log.lines().count();
    let panic = log.lines().position(|line| line.contains("panicked at"));
    let (from, most) = panic.map_or((count.saturating_sub(25), 25), |at| (at, 4));
    log.lines().skip(from).take(most).take_while(|line| !line.starts_with("stack backtrace"))
}

/// Returns the paths of the files that libFuzzer has written, according to its log.
fn reproducers(log: &str) -> impl Iterator<Item = &str> {
    log.lines().filter_map(|line| Some(line.split_once("Test unit written to ")?.1.trim()))
}

/// Returns the failed input in Base64, as libFuzzer prints it; `None` if it is long. It is printed
/// because the file with the input is lost if the machine is temporary, as in CI.
fn encoded(log: &str) -> Option<&str> {
    log.lines().find_map(|line| line.strip_prefix("Base64: ")).filter(|input| input.len() <= 4096)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn wanted(words: &[&str]) -> anyhow::Result<Wanted> {
        Wanted::parse(&words.iter().map(ToString::to_string).collect::<Vec<_>>())
    }

    #[test]
    fn the_command_line_is_parsed() {
        let got = wanted(&["--seconds", "5", "a", "--keep", "b", "--seed", "7"]).unwrap();
        let targets = vec!["a".into(), "b".into()];
        assert_eq!(got, Wanted { seconds: 5, seed: Some(7), keep: true, list: false, build: false, targets });
        assert_eq!(wanted(&["--seconds", "five"]).unwrap_err().to_string(), "--seconds: 'five' is not a number");
        assert_eq!(wanted(&["--seconds"]).unwrap_err().to_string(), "--seconds needs a number");
        assert!(wanted(&["--fast"]).unwrap_err().to_string().contains("unknown option '--fast'"));
    }

    #[test]
    fn targets_come_from_the_manifest_and_unknown_ones_are_refused() {
        let known = known("[[bin]]\nname = \"a\"\n[[bin]]\nname = \"b\"\n").unwrap();
        assert_eq!(wanted(&[]).unwrap().among(&known).unwrap(), ["a", "b"]);
        assert_eq!(wanted(&["b"]).unwrap().among(&known).unwrap(), ["b"]);
        let why = wanted(&["c"]).unwrap().among(&known).unwrap_err().to_string();
        assert_eq!(why, "unknown fuzz target 'c': expected a, b");
    }

    #[test]
    fn the_log_is_summarized() {
        let log = "#2 INITED cov: 10 ft: 11\n#99 NEW cov: 42 ft: 50 corp: 3\nstat::number_of_executed_units: 99\n\
                   stat::average_exec_per_sec:     33\n";
        assert_eq!(summary(log), "99 runs, 33 per second, 42 edges reached");
        assert_eq!(summary(""), "? runs, ? per second, ? edges reached");
    }

    #[test]
    fn a_failure_shows_the_panic_and_the_reproducer() {
        let log = "#1\nthread 'a' panicked at b.rs:1:2:\nmessage\nstack backtrace:\n 0: c\nartifact_prefix='d/'; \
                   Test unit written to d/crash-1\n";
        assert_eq!(why(log).collect::<Vec<_>>(), ["thread 'a' panicked at b.rs:1:2:", "message"]);
        assert_eq!(why("a\nb").collect::<Vec<_>>(), ["a", "b"]);
        assert_eq!(reproducers(log).collect::<Vec<_>>(), ["d/crash-1"]);
        assert_eq!(encoded("a\nBase64: AAE=\n"), Some("AAE="));
        assert_eq!(encoded(&format!("Base64: {}", "A".repeat(5000))), None);
    }
}
