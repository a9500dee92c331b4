//! `cargo xtask ladder`: builds those variants of the stack for `linerate ladder` that need other
//! compiler flags or another form than the program itself.
//!
//! Each variant is a build of `linerate-rung`, either as a dynamic library with a C interface or as
//! a program, with its own profile and compiler flags. The product is copied to
//! `target/rungs/<name>/`, and `linerate ladder` runs it in a separate process. If a variant does
//! not build, the reason is written to `why-not.txt` in its directory, and the other variants are
//! still built.

use crate::cargo::{cargo, host_triple, succeed, target_dir};
use anyhow::{Context, bail};
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode};

/// Type of file that a variant of the stack is built as.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Product {
    Library,
    Program,
}

impl Product {
    fn file(self) -> &'static str {
        match self {
            Product::Library => "liblinerate_rung.so",
            Product::Program => "linerate-rung",
        }
    }
}

/// A combination of build settings for the stack.
struct Variant {
    /// Name of the variant; its product is in `target/rungs/<name>/`.
    name: &'static str,
    product: Product,
    /// Name of the cargo profile in the root Cargo.toml of the repository.
    profile: &'static str,
    /// Compiler flags in addition to the profile.
    rustflags: &'static str,
}

const NOT_PIC: &str = "-C relocation-model=static";

const VARIANTS: &[Variant] = &[
    Variant { name: "baseline", product: Product::Library, profile: "rung", rustflags: "" },
    Variant { name: "native", product: Product::Library, profile: "rung", rustflags: "-C target-cpu=native" },
    Variant { name: "size", product: Product::Library, profile: "rung-size", rustflags: "" },
    Variant { name: "static", product: Product::Program, profile: "rung", rustflags: NOT_PIC },
    Variant { name: "opt3", product: Product::Program, profile: "rung-opt3", rustflags: NOT_PIC },
];

/// The variant that is optimized with the execution profile of its own run (PGO).
const PGO: Variant = Variant { name: "pgo", product: Product::Program, profile: "rung-lto", rustflags: NOT_PIC };
/// Number of `sendto` calls in the run that PGO profiles.
const PROFILED: u32 = 2_000_000;
/// Settings of the test rig in the profiled run, the same as those of the ladder's last steps.
const PROFILED_RIG: &str = "locks=up pool=stack";

/// Builds all variants of the ladder.
pub fn command(root: &Path) -> anyhow::Result<ExitCode> {
    // The ladder always uses this directory, even if cargo uses another target directory.
    let rungs = root.join("target/rungs");
    let work = target_dir(root)?.join("rungs/build");
    let mut failed = 0;
    let pgo = |rungs: &Path| pgo(root, &work, rungs);
    let plain = VARIANTS.iter().map(|variant| (variant.name, build(root, &work, &rungs, variant, variant.rustflags)));
    for (name, built) in plain.chain(std::iter::once((PGO.name, pgo(&rungs)))) {
        let reason = rungs.join(name).join("why-not.txt");
        match built {
            Ok(path) => {
                let _ = std::fs::remove_file(reason);
                println!("{name}: {}", path.display());
            }
            Err(why) => {
                // The PGO variant needs llvm-profdata, which may be missing, so its failure is not
                // counted.
                failed += u32::from(name != PGO.name);
                eprintln!("{name}: not built: {why:#}");
                std::fs::create_dir_all(rungs.join(name))?;
                std::fs::write(&reason, format!("{why:#}\n"))?;
            }
        }
    }
    Ok(if failed == 0 { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

/// Builds a variant in its own target directory, copies the product to `rungs`, and returns its
/// path. In a shared target directory, a build with the same profile and other flags would replace
/// the earlier product.
fn build(root: &Path, work: &Path, rungs: &Path, variant: &Variant, flags: &str) -> anyhow::Result<PathBuf> {
    let work = work.join(variant.name);
    let mut build = cargo(root);
    // With `--target`, the flags apply to the variant, but not to procedural macros.
    let target = host_triple()?;
    // The crate type is set here. If it were set in the package, the library would also be linked
    // when the programs are built, although their code is not position-independent.
    let what: &[&str] = match variant.product {
        Product::Library => &["rustc", "--lib", "--crate-type", "cdylib"],
        Product::Program => &["build", "--bins"],
    };
    build.env("RUSTFLAGS", flags).args(what).args(["-p", "linerate-rung", "--profile", variant.profile]);
    build.args(["--target", &target, "--target-dir"]).arg(&work);
    succeed(&mut build)?;
    let made = work.join(target).join(variant.profile).join(variant.product.file());
    if !made.exists() {
        bail!("cargo did not build {}", made.display());
    }
    let place = rungs.join(variant.name);
    std::fs::create_dir_all(&place).with_context(|| format!("cannot create {}", place.display()))?;
    let kept = place.join(variant.product.file());
    let _ = std::fs::remove_file(&kept); // a running program cannot be overwritten
    std::fs::copy(&made, &kept).with_context(|| format!("cannot copy to {}", kept.display()))?;
    Ok(kept)
}

/// Builds with profile counters, runs the program, and builds again with the merged counts. Returns
/// the path of the second build.
fn pgo(root: &Path, work: &Path, rungs: &Path) -> anyhow::Result<PathBuf> {
    let tool = profdata()?;
    let raw = work.join("pgo-counts");
    let _ = std::fs::remove_dir_all(&raw);
    let counting = Variant { name: "pgo-counting", ..PGO };
    let flags = format!("{NOT_PIC} -C profile-generate={}", raw.display());
    let program = build(root, work, work, &counting, &flags)?;
    succeed(Command::new(program).arg("--profile").arg(PROFILED.to_string()).arg(PROFILED_RIG))?;
    let merged = work.join("pgo.profdata");
    succeed(Command::new(tool).args(["merge", "-o"]).arg(&merged).arg(&raw))?;
    build(root, work, rungs, &PGO, &format!("{NOT_PIC} -C profile-use={}", merged.display()))
}

/// Returns the path of an llvm-profdata of the same LLVM release as the compiler.
fn profdata() -> anyhow::Result<PathBuf> {
    let verbose = output(Command::new("rustc").arg("-vV"))?;
    let wanted = verbose
        .lines()
        .find_map(|line| line.strip_prefix("LLVM version: "))
        .context("rustc -vV prints no LLVM version")?;
    let major = wanted.split('.').next().unwrap_or(wanted);
    let sysroot = output(Command::new("rustc").args(["--print", "target-libdir"]))?;
    let beside = Path::new(sysroot.trim()).with_file_name("bin").join("llvm-profdata");
    let places = [
        beside,
        PathBuf::from(format!("/usr/lib/llvm-{major}/bin/llvm-profdata")),
        PathBuf::from(format!("llvm-profdata-{major}")),
        PathBuf::from("llvm-profdata"),
    ];
    let fits = |place: &&PathBuf| {
        output(Command::new(place).arg("--version")).is_ok_and(|text| text.contains(&format!("LLVM version {major}.")))
    };
    places.iter().find(fits).cloned().with_context(|| {
        let looked: Vec<String> = places.iter().map(|place| place.display().to_string()).collect();
        format!("no llvm-profdata for LLVM {major}, the version of rustc: tried {}", looked.join(", "))
    })
}

fn output(command: &mut Command) -> anyhow::Result<String> {
    let output = command.output().with_context(|| format!("cannot run {}", command.get_program().display()))?;
    if !output.status.success() {
        bail!("{} failed", command.get_program().display());
    }
    Ok(String::from_utf8_lossy(&output.stdout).into_owned())
}
