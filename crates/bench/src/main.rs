//! `cargo xtask bench udp`, `tcp` and `library`: measures this stack and every peer in one run.

use lab::result::Report;
use lab::study::{Options, Progress};
use std::io::IsTerminal;
use std::process::ExitCode;

const USAGE: &str = "usage: linerate-bench udp|tcp|library [--json] [--quick] [--rounds N] [--core N] [--trials FILE]";

/// Benchmark group selected on the command line.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Group {
    Udp,
    Tcp,
    Library,
}

/// Parsed command line.
#[derive(Debug)]
struct Arguments {
    group: Group,
    options: Options,
    json: bool,
    trials: Option<String>,
}

fn main() -> ExitCode {
    lab::child_main_if_requested();
    let words: Vec<String> = std::env::args().skip(1).collect();
    let arguments = match arguments(&words) {
        Ok(arguments) => arguments,
        Err(why) => {
            eprintln!("linerate-bench: {why}\n{USAGE}");
            return ExitCode::from(2);
        }
    };
    match run(&arguments) {
        Ok(()) => ExitCode::SUCCESS,
        Err(why) => {
            eprintln!("linerate-bench: {why:#}");
            ExitCode::FAILURE
        }
    }
}

fn arguments(words: &[String]) -> Result<Arguments, String> {
    let mut words = words.iter();
    let group = match words.next().map(String::as_str) {
        Some("udp") => Group::Udp,
        Some("tcp") => Group::Tcp,
        Some("library") => Group::Library,
        Some(other) => return Err(format!("unknown group '{other}': expected udp, tcp or library")),
        None => return Err("missing group: expected udp, tcp or library".to_owned()),
    };
    let (mut options, mut json, mut trials) = (Options::default(), false, None);
    while let Some(word) = words.next() {
        if word == "--trials" {
            trials = Some(words.next().ok_or("--trials: missing file name")?.clone());
            continue;
        }
        let mut number = |least: u32| {
            let value = words.next().ok_or(format!("{word}: missing number"))?;
            let number = value.parse().ok().filter(|number| *number >= least);
            number.ok_or_else(|| format!("{word} '{value}': must be a number of at least {least}"))
        };
        match word.as_str() {
            "--json" => json = true,
            "--quick" => options.quick = true,
            "--rounds" => options.rounds = Some(number(1)?),
            "--core" => options.core = Some(number(0)? as usize),
            other => return Err(format!("unknown option '{other}'")),
        }
    }
    Ok(Arguments { group, options, json, trials })
}

fn run(arguments: &Arguments) -> anyhow::Result<()> {
    let trials = arguments.trials.as_ref().map(std::fs::File::create).transpose()?;
    let quiet = !std::io::stderr().is_terminal();
    let mut tell = |progress: Progress| {
        if !quiet {
            eprint!("\r\x1b[K{}/{} {}", progress.done, progress.total, progress.what);
        }
    };
    let report = match arguments.group {
        Group::Udp => udp(&arguments.options, &mut tell)?,
        Group::Tcp => tcp(&arguments.options, &mut tell)?,
        Group::Library => library(&arguments.options, &mut tell)?,
    };
    if !quiet {
        eprint!("\r\x1b[K");
    }
    if arguments.json {
        println!("{}", report.to_json()?);
    } else {
        print!("{}", lab::table::render(&report));
    }
    if let Some(mut file) = trials {
        lab::result::write_trials(&mut file, &report.name, &report.samples)?;
    }
    Ok(())
}

fn udp(options: &Options, tell: &mut dyn FnMut(Progress)) -> anyhow::Result<Report> {
    // Pinned first, because building the peers measures their calling methods to choose the
    // fastest.
    let pinned = dispatch::pinned_to_core(options.core())?;
    let (found, mut missing) = linerate_bench::udp_peers();
    drop(pinned);
    let peers = lab::bench::kernel(&mut missing).into_iter().chain(found).collect();
    let mut report = lab::bench::udp_with(options, peers, tell)?;
    report.notes.extend(missing.into_iter().map(|why| format!("missing: {why}")));
    Ok(report)
}

fn tcp(options: &Options, tell: &mut dyn FnMut(Progress)) -> anyhow::Result<Report> {
    let pinned = dispatch::pinned_to_core(options.core())?;
    let peers = linerate_bench::tcp_peers(options);
    drop(pinned);
    lab::bench::tcp_with(options, peers, tell)
}

fn library(options: &Options, tell: &mut dyn FnMut(Progress)) -> anyhow::Result<Report> {
    let notes = [
        "tasks.*: tokio's current-thread runtime; one driver runs both hosts; peers: tokio over the kernel's loopback",
        "library.*: calls of the library; peers (internal): the same calls on socket::Calls, in the same rounds",
        "policy.*: library.* with a policy at the port; peers (off): without, in the same rounds",
    ];
    lab::bench::foreign("bench library", &notes, linerate_bench::library::rows(), options, tell)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn zero_rounds_are_rejected() {
        let with = |rounds: &str| arguments(&["udp", "--rounds", rounds].map(str::to_owned));
        assert_eq!(with("3").ok().and_then(|arguments| arguments.options.rounds), Some(3));
        assert_eq!(with("0").err().as_deref(), Some("--rounds '0': must be a number of at least 1"));
    }

    /// Checks that the commands in README.md and docs/results/README.md parse.
    #[test]
    fn the_pages_commands_parse() {
        for page in [include_str!("../../../README.md"), include_str!("../../../docs/results/README.md")] {
            let shown = page.lines().filter_map(|line| line.strip_prefix("    cargo xtask bench ")?.split("  ").next());
            let shown: Vec<&str> = shown.collect();
            assert!(!shown.is_empty(), "the pattern finds no commands any more");
            for line in shown {
                let words: Vec<String> =
                    line.split_whitespace().take_while(|word| *word != ">").map(str::to_owned).collect();
                assert!(arguments(&words).is_ok(), "{line}: {:?}", arguments(&words));
            }
        }
        assert_eq!(arguments(&["tcp".to_owned()]).unwrap().group, Group::Tcp);
        assert!(arguments(&["sctp".to_owned()]).is_err());
    }
}
