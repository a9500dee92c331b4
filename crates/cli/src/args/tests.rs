//! Every command line that a page, an example or a help text shows is one that the parser takes.

use super::*;
use clap::CommandFactory;
use std::path::Path;

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

fn read(path: &str) -> String {
    std::fs::read_to_string(root().join(path)).unwrap_or_else(|why| panic!("{path}: {why}"))
}

/// The words of a `linerate` command in a line of shell, the program's name first; `None` if there is none.
fn command(line: &str) -> Option<Vec<&str>> {
    let mut words = line.split_whitespace().skip_while(|word| word.contains('=') && !word.starts_with("--"));
    let rest: Vec<&str> = match words.next()? {
        "linerate" => words.collect(),
        "cargo" if words.next() == Some("run") => words.skip_while(|word| *word != "--").skip(1).collect(),
        _ => return None,
    };
    let is_end = |word: &&str| matches!(*word, "|" | "&" | "&&" | ">") || word.starts_with(['#', '(']);
    let end = rest.iter().position(is_end).unwrap_or(rest.len());
    Some(std::iter::once("linerate").chain(rest[..end].iter().copied()).collect())
}

/// Parses the commands among `lines`; says how many there were.
#[track_caller]
fn all_parse<'a>(place: &str, lines: impl Iterator<Item = &'a str>) -> usize {
    let mut found = 0;
    for words in lines.filter_map(command) {
        // A row of commands: each by itself.
        for words in words.split(|word| *word == "+") {
            let program = (words.first() != Some(&"linerate")).then_some("linerate");
            let words: Vec<&str> = program.into_iter().chain(words.iter().copied()).collect();
            if let Err(why) = Cli::try_parse_from(&words) {
                panic!("{place}: {words:?}\n{why}");
            }
        }
        found += 1;
    }
    found
}

#[test]
fn the_pages_commands_parse() {
    let code = |page| {
        let text = read(page);
        all_parse(page, text.lines().filter_map(|line| line.strip_prefix("    ")))
    };
    assert!(code("README.md") >= 4, "the pattern finds no commands any more");
    assert!(code("docs/results/README.md") >= 1, "the pattern finds no commands any more");
    assert!(code("docs/extcap.md") >= 1, "the pattern finds no commands any more");
    assert!(code("examples/pipes/README.md") >= 4, "the pattern finds no commands any more");
}

#[test]
fn the_topologies_commands_parse() {
    let mut found = 0;
    for entry in std::fs::read_dir(root().join("topo")).unwrap() {
        let path = entry.unwrap().path();
        let text = std::fs::read_to_string(&path).unwrap();
        found += all_parse(&path.display().to_string(), text.lines().filter_map(|line| line.strip_prefix("#   ")));
    }
    assert!(found >= 3, "the pattern finds no commands any more");
}

#[test]
fn the_helps_examples_parse() {
    let mut found = 0;
    for command in Cli::command().get_subcommands() {
        let after = command.get_after_help().map(ToString::to_string).unwrap_or_default();
        found += all_parse(command.get_name(), after.lines().filter_map(|line| line.strip_prefix("  ")));
    }
    assert!(found >= 6, "the pattern finds no commands any more");
}

/// `linerate WORD` in running text names a command.
#[test]
fn commands_named_in_pages_exist() {
    let cli = Cli::command();
    let mut found = 0;
    for page in [
        "README.md",
        "ARCHITECTURE.md",
        "CHANGELOG.md",
        "VOCABULARY.md",
        "docs/results/README.md",
        "docs/extcap.md",
        "examples/pipes/README.md",
    ] {
        for quoted in read(page).split('`').skip(1).step_by(2) {
            let Some(word) = quoted.strip_prefix("linerate ").and_then(|rest| rest.split_whitespace().next()) else {
                continue;
            };
            assert!(cli.find_subcommand(word).is_some(), "{page}: `{quoted}`");
            found += 1;
        }
    }
    assert!(found >= 8, "the pattern finds no commands any more");
}

#[test]
fn no_rounds_at_all_are_refused() {
    for words in ["livelock", "bench bridge", "gate --baseline x.json", "repro netisr2005"] {
        let with =
            |rounds| Cli::try_parse_from(["linerate"].into_iter().chain(words.split(' ')).chain(["--rounds", rounds]));
        assert!(with("1").is_ok(), "{words}");
        let why = with("0").unwrap_err().to_string();
        assert!(why.contains("'0' for '--rounds <N>': 0 is not in 1.."), "{why}");
    }
}

#[test]
fn a_command_is_found_in_a_line() {
    assert_eq!(command("A=/b linerate ctl -j ip route | jq ."), Some(vec!["linerate", "ctl", "-j", "ip", "route"]));
    assert_eq!(command("cargo run --release -- repro x"), Some(vec!["linerate", "repro", "x"]));
    assert_eq!(command("linerate up f   (as root)"), Some(vec!["linerate", "up", "f"]));
    assert_eq!((command("cargo test --workspace"), command("ping 10.0.0.2")), (None, None));
}

/// Every help fits a terminal of 80 columns, which is also the width where standard output is none.
#[test]
fn every_help_fits_80_columns() {
    let mut program = Cli::command();
    program.build();
    let mut commands = vec![program];
    while let Some(mut command) = commands.pop() {
        commands.extend(command.get_subcommands().cloned());
        for help in [command.render_help(), command.render_long_help()] {
            let help = help.to_string();
            let wide = help.lines().find(|line| line.chars().count() > 80);
            assert_eq!(wide, None, "{}", command.get_name());
        }
    }
}
