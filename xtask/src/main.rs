//! Development commands: `cargo xtask <command>`.
//!
//! Each command is a short program that uses cargo and git. Users of linerate need none of them.

mod cargo;
mod deb;
mod dist;
mod fuzz;
mod image;
mod ladder;
mod licenses;
mod miri;
mod packetdrill;
mod sim;
mod source;
mod targets;
mod tidy;
mod tsan;

use anyhow::bail;
use std::path::PathBuf;
use std::process::ExitCode;

const USAGE: &str = "\
usage: cargo xtask <command>

  tidy                       check the source rules: crate order, unsafe code, clocks, statics, files, comments
  licenses                   check the licenses of all dependencies of the library and the program
  fuzz [--seconds N] [--seed N] [--keep] [--list] [--build] [target ...]
                             fuzz all targets (or those named) on stable Rust, N seconds each (default 60);
                             --seed repeats the random inputs of an earlier run, --keep merges new inputs
                             into fuzz/corpus, --list lists the targets, --build only builds them
  loom [args]                test rings, workers, netisr queues and readers' pins under all interleavings (loom)
  miri [args]                test the unsafe code of buffers under Miri (needs a nightly toolchain)
  tsan [args]                test lock-free sharing between threads under rustc's thread sanitizer
  features                   lint and test each package with features: with each feature alone, and with all
  targets                    lint the library for AArch64, macOS and a target without an operating system
  sim [--seeds N] [--seed S] simulate a TCP connection over a bad wire, with N seeds (default 20000), or one, traced
  packetdrill --tree DIR [--bin packetdrill] [--flags F] [--ip-version V] [--only TEXT] [--seconds N] [-- args]
                             run the scripts in DIR against linerate-packetdrill, at most N seconds each (default 60)
  dist [--static] [DIR]      build the program in release mode, without symbols, and linerate.debug with them,
                             into DIR (default target/dist); --static: without shared libraries
  deb [--program FILE] [DIR] build a package for Debian into DIR (default target/deb), from FILE instead of a release
                             build if given
  image [--program FILE]     run the content of the image of examples/container/ in a chroot, with FILE and its
                             libraries instead of a static build for development if given
  ladder                     build linerate-rung in each variant that the ladder needs
  bench <group> [args]       build and run linerate-bench in release mode: `cargo xtask bench udp`, `tcp`";

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

/// A parsed command line.
#[derive(Debug)]
enum Task<'a> {
    Tidy,
    Licenses,
    Fuzz(fuzz::Wanted),
    Loom(&'a [String]),
    Miri(&'a [String]),
    Tsan(&'a [String]),
    Features,
    Targets,
    Sim(sim::Wanted),
    Packetdrill(packetdrill::Wanted),
    Dist(dist::Wanted),
    Deb(deb::Wanted),
    Image(image::Wanted),
    Ladder,
    Bench(&'a [String]),
    Help,
}

impl Task<'_> {
    fn parse(words: &[String]) -> anyhow::Result<Task<'_>> {
        let Some((command, rest)) = words.split_first() else { bail!("missing command\n{USAGE}") };
        Ok(match command.as_str() {
            "tidy" => Task::Tidy,
            "licenses" => Task::Licenses,
            "fuzz" => Task::Fuzz(fuzz::Wanted::parse(rest)?),
            "loom" => Task::Loom(rest),
            "miri" => Task::Miri(rest),
            "tsan" => Task::Tsan(rest),
            "features" => Task::Features,
            "targets" => Task::Targets,
            "sim" => Task::Sim(sim::Wanted::parse(rest)?),
            "packetdrill" => Task::Packetdrill(packetdrill::Wanted::parse(rest)?),
            "dist" => Task::Dist(dist::Wanted::parse(rest)?),
            "deb" => Task::Deb(deb::Wanted::parse(rest)?),
            "image" => Task::Image(image::Wanted::parse(rest)?),
            "ladder" => Task::Ladder,
            "bench" if rest.is_empty() => bail!("bench needs a group: udp or tcp"),
            "bench" => Task::Bench(rest),
            "help" | "--help" | "-h" => Task::Help,
            other => bail!(
                "unknown command '{other}': expected tidy, licenses, fuzz, loom, miri, tsan, features, targets, sim, packetdrill, dist, deb, image, ladder or bench\n{USAGE}"
            ),
        })
    }
}

fn run(words: &[String]) -> anyhow::Result<ExitCode> {
    let root = root();
    match Task::parse(words)? {
        Task::Tidy => tidy::command(&root),
        Task::Licenses => licenses::command(&root),
        Task::Fuzz(wanted) => fuzz::command(&root, &wanted),
        Task::Loom(args) => cargo::loom(&root, args),
        Task::Miri(args) => miri::command(&root, args),
        Task::Tsan(args) => tsan::command(&root, args),
        Task::Features => cargo::features(&root),
        Task::Targets => targets::command(&root),
        Task::Sim(wanted) => sim::command(&root, wanted),
        Task::Packetdrill(wanted) => packetdrill::command(&root, &wanted),
        Task::Dist(wanted) => dist::command(&root, wanted),
        Task::Deb(wanted) => deb::command(&root, wanted),
        Task::Image(wanted) => image::command(&root, &wanted),
        Task::Ladder => ladder::command(&root),
        Task::Bench(args) => cargo::bench(&root, args),
        Task::Help => {
            println!("{USAGE}");
            Ok(ExitCode::SUCCESS)
        }
    }
}

/// Returns the root of the repository, which is the parent of this package's directory. The
/// environment of `cargo run` has priority, because the path at compile time may be that of another
/// checkout that shares the target directory.
fn root() -> PathBuf {
    let here = std::env::var_os("CARGO_MANIFEST_DIR").unwrap_or_else(|| env!("CARGO_MANIFEST_DIR").into());
    let mut root = PathBuf::from(here);
    root.pop();
    root
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Every `cargo xtask ...` in the pages, in a code block or in inline code, parses.
    #[test]
    fn commands_in_documents_parse() {
        let mut found = 0;
        for page in ["README.md", "ARCHITECTURE.md", "CHANGELOG.md", "docs/results/README.md"] {
            let text = std::fs::read_to_string(root().join(page)).unwrap();
            // In a code block, two spaces start the explanation.
            let code = text.lines().filter_map(|line| line.strip_prefix("    ")?.split("  ").next());
            for shown in code.chain(text.split('`').skip(1).step_by(2)) {
                let Some(rest) = shown.trim().strip_prefix("cargo xtask ") else { continue };
                let words = rest.split_whitespace().take_while(|word| *word != ">").map(str::to_owned);
                let words: Vec<String> = words.collect();
                assert!(Task::parse(&words).is_ok(), "{page}: {shown}: {:?}", Task::parse(&words));
                found += 1;
            }
        }
        assert!(found >= 8, "the pattern finds no commands any more");
    }

    #[test]
    fn dist_takes_at_most_one_directory() {
        let parse = |words: &[&str]| {
            let words: Vec<String> = words.iter().map(|word| (*word).to_owned()).collect();
            Task::parse(&words).map(|task| format!("{task:?}")).map_err(|why| why.to_string())
        };
        assert_eq!(parse(&["dist"]).as_deref(), Ok("Dist(Wanted { is_static: false, dir: None })"));
        assert_eq!(
            parse(&["dist", "--static", "out"]).as_deref(),
            Ok("Dist(Wanted { is_static: true, dir: Some(\"out\") })")
        );
        assert_eq!(
            parse(&["dist", "--profile"]).unwrap_err(),
            "unknown argument '--profile': expected [--static] [DIR]"
        );
        assert!(parse(&["dist", "a", "b"]).is_err());
    }
}
